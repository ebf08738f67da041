"""A server as clients use it: over HTTP, through LibreTranslate's own client, many at once, and by hand."""

import re
import shutil
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from libretranslatepy import LibreTranslateAPI

from tests.browsers import Chromium, Visit
from tests.processes import posix_only
from tests.scripts.running import refused
from tests.tools.export.pages import READY
from tests.tools.server.client import Serving
from tests.tools.server.malformed import send
from tests.tools.server.models import LINES, english_and_french
from transformer import Translator
from transformer.inference.confidence import with_words
from transformer.inference.translator import BEAM

LONG = "der Hund geht in ein Haus.\n" * 360
GERMAN = ("--checkpoint", "de_en.safetensors")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_libretranslates_client_translates_as_the_translator_does(server: Serving, translator: Translator) -> None:
    client = LibreTranslateAPI(server.url)
    assert [client.translate(text, "de", "en") for text in LINES] == translator.translate(LINES)
    other = english_and_french()
    back = other.in_direction("fr", "en")
    assert client.translate("ein Haus", "en", "fr") == other.translate("ein Haus")
    assert client.translate("ein Haus", "fr", "en") == back.translate("ein Haus")
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
    ]
    assert [one["language"] for one in client.detect("Das ist der Hund und nicht das Haus")] == ["de", "en", "fr"]


def test_a_batch_has_a_translation_and_alternatives_for_each_text(server: Serving, translator: Translator) -> None:
    answer = server.translate(LINES, alternatives=4)
    for text, best, others in zip(LINES, answer["translatedText"], answer["alternatives"], strict=True):
        assert [best, *others] == list(dict.fromkeys(one.text for one in translator.n_best(text)))
    assert server.translate(LINES)["translatedText"] == translator.translate(LINES)
    assert server.translate(["ja"]) == {"translatedText": translator.translate(["ja"])}


def test_a_line_that_has_fewer_alternatives_than_another_stays_at_its_last(
    server: Serving, translator: Translator
) -> None:
    answer = server.translate("Ja. Der Park.\nja", alternatives=4)
    [first] = translator.translate(["Ja. Der Park."], split_lines="sentences")  # one for several sentences
    expected = dict.fromkeys(f"{first}\n{one.text}" for one in translator.n_best("ja"))
    assert [answer["translatedText"], *answer["alternatives"]] == list(expected)


def test_a_request_may_ask_how_sure_the_model_is_of_each_line(server: Serving, translator: Translator) -> None:
    lines = ["ein Haus. 12! Der Park.", "der kleine Hund"]
    best = [found[0] for found in translator.n_best(lines, split_lines="sentences")]
    expected = [
        {
            **{"source": line, "text": one.text, "confidence": pytest.approx(one.confidence)},
            "words": [
                {"text": word.text, "confidence": pytest.approx(word.confidence), "source": word.source}
                for word in one.words or []
            ],
        }
        for line, one in zip(lines, with_words(translator, lines, best), strict=True)
    ]
    page = "".join(f"<p>{line}</p>" for line in lines)
    for text, kind in (("\n".join(lines), "text"), (page, "html")):
        assert server.translate(text, format=kind, confidence=True)["confidence"] == expected
        assert server.translate([text, lines[1]], format=kind, confidence=True)["confidence"] == [
            expected,
            [expected[1]],
        ]
    assert server.translate("ein Haus", target="de", confidence=True)["confidence"] == []
    form = f"q={quote(lines[1])}&source=de&target=en&confidence=true"
    assert server.ask("POST", "/translate", form.encode(), FORM).json["confidence"] == [expected[1]]
    assert "confidence" not in server.translate("ein Haus", confidence=False)


def test_a_request_may_give_the_beginning_of_each_line(server: Serving, translator: Translator) -> None:
    for prefix in ("der Park", "die Sonne sch"):
        expected = translator.translate(["ein Haus", "ja"], replace(BEAM, prefix=prefix))
        assert server.translate("ein Haus\nja", prefix=prefix)["translatedText"] == "\n".join(expected)
    for fields in ({"prefix": "猫"}, {"prefix": 1}, {"prefix": "ja", "format": "html"}):
        assert server.post("/translate", {"q": "ja", "source": "de", "target": "en"} | fields).status == 400


def test_requests_at_once_get_what_they_get_alone(server: Serving, translator: Translator) -> None:
    assert server.at_once(LINES * 4, clients=16) == translator.translate(LINES) * 4


def test_forms_say_the_same_as_json(server: Serving) -> None:
    expected = server.translate("für 100 % & mehr", alternatives=1)
    right = f"q={quote('für 100 % & mehr')}&source=de&target=en&alternatives=1"
    assert server.ask("POST", "/translate", right.encode(), FORM).json == expected
    # curl -d sends the typed text.
    typed = "q=für 100 %25 %26 mehr&source=de&target=en&alternatives=1"
    assert server.ask("POST", "/translate", typed.encode(), FORM).json == expected
    parts = {"q": "für 100 % & mehr", "source": "de", "target": "en", "alternatives": "1"}
    body = "".join(f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{v}\r\n' for key, v in parts.items())
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert server.ask("POST", "/translate", f"{body}--x--".encode(), kind).json == expected


def test_lines_and_tags_stay(server: Serving, translator: Translator) -> None:
    one, other = translator.translate(["ein Haus", "der Park"])
    assert server.translate(" " * 2000)["translatedText"] == " " * 2000
    assert server.translate("ein Haus\n\n  der Park\n")["translatedText"] == f"{one}\n\n  {other}\n"
    page = "<ul><li class='a'>ein Haus</li> <li>der Park &amp;</li></ul>"
    found = server.translate(page, format="html")["translatedText"]
    assert re.fullmatch(r"<ul><li class='a'>[^<>]*</li> <li>[^<>]*</li></ul>", found)


def test_auto_finds_the_language_or_leaves_what_is_in_the_target(server: Serving, translator: Translator) -> None:
    german, english = "Das ist der Hund und nicht das Haus", "This is the dog and that was the house for you"
    answer = server.translate(german, source="auto")
    assert answer["translatedText"] == translator.translate(german)
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 70
    link = '<a href="the/of/and/the/is/it">Das ist der Hund und nicht das Haus</a>'
    answer = server.translate(link, source="auto", format="html")
    assert answer["detectedLanguage"]["language"] == "de", "the words of a tag are no text"
    assert server.translate(english, source="auto")["translatedText"] == english
    assert server.translate(english, source="en", target="en") == {"translatedText": english}
    for texts in ([english, german], [german, english], [german, "1", english]):  # each text separately
        answer = server.translate(texts, source="auto", target="en")
        by_text = {german: translator.translate(german), english: english, "1": "1"}
        assert answer["translatedText"] == [by_text[text] for text in texts]
        languages = [one["language"] for one in answer["detectedLanguage"]]
        assert [languages[texts.index(text)] for text in (german, english)] == ["de", "en"]


@pytest.mark.parametrize(("host", "status"), [("evil.example", 403), ("evil.example:80", 403), ("localhost:1", 200)])
def test_a_page_whose_name_leads_to_this_machine_is_refused(server: Serving, host: str, status: int) -> None:
    request = Request(f"{server.url}health", headers={"Host": host})
    if status == 200:
        assert urlopen(request).status == status
        return
    with pytest.raises(HTTPError) as refusal:
        urlopen(request)
    assert refusal.value.code == status
    assert "--allowed-host" in refusal.value.read().decode()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"q": 3}, "Invalid request: q must be a text or a list of texts"),
        ({"q": ["a", ["b"]]}, "Invalid request: q must be a text or a list of texts"),
        ({"q": "\ud800"}, "Invalid request: half of a surrogate pair stands alone in a text"),
        ({"q": "a" * 2001}, "Invalid request: request (2001) exceeds text limit (2000)"),
        ({"q": [""] * 2001}, "Invalid request: request (2001) exceeds text limit (2000)"),
        ({"source": "xx"}, "xx is not supported"),
        ({"source": "auto", "target": "auto"}, "auto is not supported"),
        ({"target": "\ud800" * 50}, f"{'?' * 40} is not supported"),
        ({"target": "fr"}, "French (fr) is not available as a target language from German (de)"),
        ({"source": "auto", "target": "de"}, "German (de) is not available as a target language"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"format": "html", "q": "<a"}, "Invalid request: HTML that cannot be read in one way only, at character 1"),
        ({"alternatives": 5}, "Invalid request: alternatives exceed the limit (4)"),
        ({"alternatives": -1}, "Invalid request: alternatives must be a whole number from 0"),
        ({"alternatives": True}, "Invalid request: alternatives must be a whole number from 0"),
        ({"confidence": 2}, "Invalid request: confidence must be true or false"),
        ({"confidence": "yes"}, "Invalid request: confidence must be true or false"),
    ],
    ids=str,
)
def test_impossible_translations_are_refused_as_by_libretranslate(
    server: Serving, fields: dict[str, Any], error: str
) -> None:
    answer = server.post("/translate", {"q": "ja", "source": "de", "target": "en"} | fields)
    assert (answer.status, answer.json) == (400, {"error": error})


def test_invalid_requests_are_refused(server: Serving) -> None:
    as_json = {"Content-Type": "application/json"}
    for body, headers in ((b"[]", as_json), (b"[" * 9999, as_json), (b"\xff", FORM), (b"q=a", {})):
        assert server.ask("POST", "/translate", body, headers).status == 400
    assert server.ask("GET", "/translate").status == 405
    assert server.ask("GET", "/etc/passwd").json == {"error": "Not Found"}
    assert server.ask("GET", "/page/de-fr").status == 404
    too_much = b"q=" + b"a" * 30_000
    assert server.ask("POST", "/translate", too_much, FORM).status == 413
    # More than the buffers of a connection hold; the connection is closed after the answer.
    huge, close = b"a" * 16_000_000, FORM | {"Connection": "close"}
    assert server.ask("POST", "/translate", huge, close).status == 413
    for headers, content in ((FORM, too_much), (close, huge)):
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
        assert server.ask("POST", "/translate", body, headers | {"Transfer-Encoding": "chunked"}).status == 413


def test_the_log_has_no_text_of_the_requests(server: Serving) -> None:
    server.translate("жзд geheim", source="de")
    server.post("/translate", {"q": "geheim", "source": "geheim"})
    assert len(server.log().splitlines()) == 5
    assert "geheim" not in server.log()


def test_every_answer_has_headers_that_protect_the_browser(server: Serving) -> None:
    for path in ("/", "/health", "/nothing", "/translate", "/page/de-en"):
        headers = server.ask("GET", path).headers
        assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
        assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
        assert headers["Access-Control-Allow-Origin"] is None
        assert headers["Server"] is None


def test_the_page_of_each_direction_translates_in_a_browser(server: Serving, browser: Chromium) -> None:
    index = server.ask("GET", "/").content.decode()
    assert re.findall('href="([^"]*)"', index) == ["/page/de-en", "/page/en-fr", "/page/fr-en"]
    visit = Visit(browser.tab(), f"{server.url}page/de-en")
    assert visit.page.evaluate(READY) == "ready"
    assert visit.page.evaluate("async () => (await translator.translate('ein Haus')).text")
    assert {url for url in visit.requests if not url.startswith("blob:")} == {f"{server.url}page/de-en"}
    assert visit.errors == []
    visit.close()


@pytest.mark.long
def test_malformed_requests_are_answered_and_harm_nothing(server: Serving) -> None:
    before = server.translate("ein Haus"), server.log()
    answers = send(server, 200, seed=0)
    assert set(answers) > {"200", "400"}
    assert (server.translate("ein Haus"), server.log()) == before


def begin(server: Serving, text: str, **fields: str) -> tuple[threading.Thread, list[Any]]:
    """Sends a long request to a server in which only one may wait, and waits until it is begun: its thread, and the
    list that gets its answer, if there is one."""
    long, answers = {"q": text, "source": "de", "target": "en"} | fields, []

    def ask() -> None:
        with suppress(OSError, HTTPException):
            answers.append(server.post("/translate", long))

    while True:
        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            answer = server.post("/translate", long | {"q": "ja"})
            # The short one is refused while the long one waits. If the long one was refused or is finished: again.
            if answer.status == 429 and thread.is_alive():
                assert answer.headers["Retry-After"] == "1"
                assert answer.json["error"].startswith("Slowdown:")
                return thread, answers
        answers.clear()


@posix_only
def test_a_key_is_required_and_begun_requests_are_finished(folder: Path, translator: Translator) -> None:
    (folder / "key").write_text("geheim\n", encoding="utf-8")
    server = Serving(*GERMAN, "--api-key-file", "key", "--max-waiting", "1", cwd=folder)
    fields = {"q": "ja", "source": "de", "target": "en"}
    for path in ("/translate", "/detect"):
        assert server.post(path, fields).status == 403
        assert server.post(path, fields | {"api_key": "Geheim"}).json == {"error": "Invalid API key"}
        assert server.post(path, fields | {"api_key": ["geheim"]}).status == 403
        assert server.post(path, fields | {"api_key": "\ud800"}).status == 403
    assert LibreTranslateAPI(server.url, "geheim").translate("ja", "de", "en") == translator.translate("ja")
    page = server.ask("GET", "/").content.decode()
    assert "translating needs a key" in page
    assert "weights" not in page
    thread, answers = begin(server, LONG, api_key="geheim")
    server.run.send_signal(signal.SIGTERM)
    done = server.run.wait()
    thread.join()
    [line] = {*translator.translate(LONG.splitlines()[:1])}
    assert (answers[0].status, answers[0].json["translatedText"]) == (200, f"{line}\n" * 360)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (128 + signal.SIGTERM, "stopped by SIGTERM")
    assert "geheim" not in done.stderr + done.stdout


@pytest.mark.long
@posix_only
def test_a_second_signal_ends_at_once(folder: Path) -> None:
    server = Serving(*GERMAN, "--max-waiting", "1", "--max-characters", "1000000", cwd=folder)
    thread, answers = begin(server, LONG * 100)  # longer than the test
    # Not SIGINT, which background jobs of a shell ignore.
    server.run.send_signal(signal.SIGTERM)
    # The port is closed, perhaps during a request: the server is ending because of the first signal.
    with suppress(ConnectionError, HTTPException):
        while True:
            server.ask("GET", "/health")
    server.run.send_signal(signal.SIGTERM)
    done = server.run.wait()
    thread.join()
    assert (done.returncode, done.stderr.splitlines()[-1]) == (143, "stopped at once, by SIGTERM")
    assert answers == []


def test_mistakes_are_reported_in_one_line(folder: Path, server: Serving) -> None:
    taken = refused("serve", *GERMAN, "--port", str(server.port), cwd=folder)
    assert f"--port {server.port} of --host 127.0.0.1 cannot be used" in taken
    shutil.copy(folder / "de_en.safetensors", folder / "copy.safetensors")
    twice = refused("serve", *GERMAN, "--checkpoint", "copy.safetensors", "--port", "0", cwd=folder)
    assert "for each direction" in twice
    assert "--checkpoint nix: no such file" in refused("serve", *GERMAN, "--checkpoint", "nix", cwd=folder)
    assert f"--api-key-file {folder / 'nix'}: no such file" in refused(
        "serve", *GERMAN, "--api-key-file", "nix", cwd=folder
    )
    assert "--device" in refused("serve", *GERMAN, "--device", "nix", cwd=folder)
    assert "--port" in refused("serve", *GERMAN, "--port", "65536", cwd=folder)
