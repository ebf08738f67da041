"""The content of requests and their limits, without a server."""

import json
import re
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tests.processes import posix_only
from tests.tools.server.client import Wire, in_a_loop
from tests.tools.server.models import english_and_french
from transformer.config import SettingError, UsageError
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM
from transformer.tools.server.api import Api
from transformer.tools.server.app import make_app, plain_page
from transformer.tools.server.batcher import Batcher
from transformer.tools.server.listening import address, example, listen
from transformer.tools.server.requests import read_fields, read_translation_request
from transformer.tools.server.served import ServedDirection
from transformer.tools.server.settings import MAX_KEY_BYTES, ServerSettings, read_key

FORM = "application/x-www-form-urlencoded"


def api(settings: ServerSettings, search: SearchSettings = BEAM) -> Api:
    return Api({}, Batcher(search, None, settings.split_lines, settings.max_waiting), settings, None)


def fields_of(kind: str, body: bytes) -> dict[str, Any]:
    wire = Wire(body, kind=kind)
    fields: dict[str, Any] = in_a_loop(read_fields(Request(wire.scope, wire.receive), ServerSettings()))
    return fields


def part(name: str, value: str) -> str:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        ("Application/JSON ; charset=utf-8", b'{"q": "a", "alternatives": 1}', {"q": "a", "alternatives": 1}),
        (FORM, b"q=a%26b&q=c&source=", {"q": "a&b", "source": ""}),
        ("multipart/form-data; boundary=x", f"{part('q', 'a')}{part('q', 'b')}--x--".encode(), {"q": "a"}),
        ("multipart/form-data; charset=UTF-8; boundary=x", f"{part('q', 'ä')}--x--".encode(), {"q": "ä"}),
    ],
)
def test_the_first_of_several_fields_counts(kind: str, body: bytes, fields: dict[str, Any]) -> None:
    assert fields_of(kind, body) == fields


@pytest.mark.parametrize("body", [b"q=%ff", b"a=b&" * 21, b"q=\xff"])
def test_a_form_that_is_not_utf8_or_has_too_many_fields_is_refused(body: bytes) -> None:
    with pytest.raises(HTTPException, match="the body must be a JSON object or a form"):
        fields_of(FORM, body)


@pytest.mark.parametrize("charset", ["punycode", "IDNA", '"idna"', "latin-1"])
def test_a_form_in_another_encoding_is_refused(charset: str) -> None:
    with pytest.raises(HTTPException, match="in UTF-8"):
        fields_of(f"multipart/form-data; boundary=x; charset={charset}", f"{part('q', 'a')}--x--".encode())


def test_an_empty_choice_in_a_form_is_none() -> None:
    fields = {"q": "a", "source": "de", "target": "en"}
    pairs = [("de", "en")]
    bare = read_translation_request(fields, pairs, 10, 4)
    assert read_translation_request(fields | {"format": "", "alternatives": ""}, pairs, 10, 4) == bare
    assert (bare.format, bare.alternatives) == ("text", 0)


def test_a_request_of_the_allowed_size_fits_into_its_body_however_it_is_encoded() -> None:
    limits, text = ServerSettings(max_characters=10_000), "\U0001f642" * 10_000
    for body in (json.dumps({"q": text, "source": "de"}), urlencode({"q": text, "source": "de"})):
        assert len(body) <= limits.max_bytes


@pytest.mark.long
def test_a_body_that_comes_in_pieces_is_bounded_and_must_come_in_time() -> None:
    app = make_app(api(ServerSettings(max_characters=1, timeout=0.01)))
    for body, status in (([b"a" * 1000] * 4, 400), ([b"a" * 1000] * 5, 413)):
        assert Wire(*body, kind=FORM).ask(app).status == status
    answer = Wire(b"q=a", kind=FORM, ends=False).ask(app)
    assert (answer.status, answer.json) == (408, {"error": "Invalid request: it took too long to arrive"})


def test_a_body_that_nobody_reads_is_not_awaited_for_ever() -> None:
    wire = Wire(*[b""] * 100_000, path="/nothing")
    assert wire.ask(make_app(api(ServerSettings(timeout=0.01)))).status == 404
    assert wire._incoming  # most of it has not arrived yet


def test_a_field_of_a_form_may_be_as_long_as_its_body() -> None:
    text = "a" * (ServerSettings().max_bytes - 200)
    assert fields_of("multipart/form-data; boundary=x", f"{part('q', text)}--x--".encode()) == {"q": text}


def test_a_form_has_no_files() -> None:
    body = part("q", "a").replace('"q"', '"q"; filename="a"') + "--x--"
    answer = Wire(body.encode(), kind="multipart/form-data; boundary=x").ask(make_app(api(ServerSettings())))
    assert (answer.status, answer.json["error"]) == (400, "Too many files. Maximum number of files is 0.")


def test_only_a_beam_has_alternatives() -> None:
    searches = (SearchSettings(beam=3), SearchSettings(method="greedy", beam=3))
    assert [api(ServerSettings(), search).max_alternatives for search in searches] == [2, 0]


def test_the_names_on_a_page_are_no_markup() -> None:
    assert "<i>" not in bytes(plain_page("<i>a</i>", "").body).decode()
    direction = ServedDirection(english_and_french(), Path("run"), "<i>", None, "<i>")
    served = api(ServerSettings())
    served.directions = {("en", "fr"): direction, ("fr", "<i>"): direction}
    for path in ("/", "/page/en-fr"):
        content = Wire(path=path).ask(make_app(served)).content.decode()
        assert "&lt;i&gt;" in content
        assert "<i>" not in content


@pytest.mark.parametrize("content", [b" \n", b"two\nlines\n", b"\xc3\xa9\n", b"k" * (MAX_KEY_BYTES + 1)])
def test_a_key_is_one_line_of_ascii_of_limited_length(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError, match="must have the key on one line: ASCII characters, at most 1,024"):
        read_key(str(tmp_path / "key"))
    (tmp_path / "key").write_bytes(b"k" * (MAX_KEY_BYTES - 1) + b"\n")
    assert read_key(str(tmp_path / "key")) == b"k" * (MAX_KEY_BYTES - 1)


def test_a_file_without_a_name_is_not_taken_for_no_key() -> None:
    assert read_key(None) is None
    with pytest.raises(UsageError, match=r"^--api-key-file : no such file$"):
        read_key("")


@posix_only
def test_a_key_that_cannot_be_read_is_refused_by_its_file(tmp_path: Path) -> None:
    for name, reason in (("nix", "no such file"), (".", "no such file"), ("x" * 300, "File name too long")):
        file = str(tmp_path / name)
        with pytest.raises(UsageError, match=f"^--api-key-file {re.escape(file)}: {reason}$"):
            read_key(file)


@pytest.mark.parametrize(("key", "value"), [("port", 65536), ("device", "nix"), ("timeout", 0.0)])
def test_a_setting_that_no_server_can_have_is_refused_by_its_name(key: str, value: Any) -> None:
    with pytest.raises(SettingError, match=f"^{key}={value} "):
        ServerSettings(**{key: value})


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False), ("::", False)],
)
def test_only_the_hosts_of_this_machine_need_no_key(host: str, is_local: bool) -> None:
    assert ServerSettings(host=host).is_local == is_local


def test_a_host_that_is_no_name_is_refused_and_one_of_ipv6_has_brackets() -> None:
    with pytest.raises(UsageError, match=r"of --host a+ cannot be used: .+; choose another"):
        listen(ServerSettings(host="a" * 64, port=0))
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with listen(ServerSettings(host="::1", port=0)) as listener:
        url = urlsplit(address(listener))
        assert (url.hostname, url.port) == listener.getsockname()[:2]


@posix_only
def test_the_example_is_a_command_that_a_shell_takes_word_for_word(tmp_path: Path) -> None:
    (tmp_path / "my key").write_text("geheim\n", encoding="utf-8")
    command = example("http://[::1]:5000/", ("de", "en;touch $(id) '"), "my key")
    shell = ["sh", "-c", f"curl() {{ printf '%s|' \"$@\"; }}; {command}"]
    words = subprocess.run(shell, cwd=tmp_path, capture_output=True, check=True).stdout.decode().split("|")
    fields = [word for word in words if "=" in word]
    assert fields == ["source=de", "target=en;touch $(id) '", "q=…", "api_key=geheim"]
