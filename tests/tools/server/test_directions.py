"""The served directions of a checkpoint or an export, each with its page or the reason why there is none."""

import re
import shutil
import socket
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from tests.factories import tokenizer_settings
from tests.tools.export.models import TEXTS, VOCAB_SIZE, random_translator
from tests.tools.server.models import english_and_french
from transformer import Translator
from transformer.config import SettingError, UsageError
from transformer.data.directions import Direction
from transformer.data.tokenizer import Tokenizer, train_tokenizer
from transformer.inference.settings import KeepSettings, SearchSettings
from transformer.inference.translator import BEAM
from transformer.machine import MachineSettings
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.server import settings as server_settings
from transformer.tools.server.detection import detect
from transformer.tools.server.listening import listen
from transformer.tools.server.served import ServedDirection, load_directions
from transformer.tools.server.settings import ServerSettings, check_installed


def served(
    checkpoints: list[tuple[str, Path]],
    search: SearchSettings = BEAM,
    keep: KeepSettings = KeepSettings(),
    **changes: Any,
) -> dict[Direction, ServedDirection]:
    machine = MachineSettings(threads=1, matmul_precision="highest")
    return load_directions(checkpoints, ServerSettings(**({"device": "cpu"} | changes)), search, machine, keep)


def test_a_glossary_serves_the_first_direction_and_its_reverse(tmp_path: Path) -> None:
    plain = english_and_french()
    languages = ["en", "fr"]
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", VOCAB_SIZE + 16), languages, placeholders=True)
    model = random_translator(tokenizer).model
    Translator(model, (tokenizer, tokenizer), ("en", "fr"), plain.directions).save(tmp_path / "m.safetensors")
    plain.save(tmp_path / "plain.safetensors")
    (tmp_path / "terms.tsv").write_text("house\tmaison\n", encoding="utf-8")
    keep = KeepSettings(glossary=str(tmp_path / "terms.tsv"), keep="[a-z]+-7")
    found = served([("m", tmp_path / "m.safetensors")], keep=keep)
    there, back = (found[direction].translator for direction in plain.directions)
    for translator, text, term in ((there, "house ab-7", "maison"), (back, "maison ab-7", "house")):
        translation = translator.translate(text, BEAM).lower()
        assert (translation.count(term), translation.count("ab-7")) == (1, 1)
    with pytest.raises(SettingError, match="glossary"):
        served([("plain", tmp_path / "plain.safetensors")], keep=keep)


def test_the_end_of_an_answer_does_not_wait_for_its_beginning_to_be_confirmed() -> None:
    with listen(ServerSettings(port=0)) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.long
def test_an_export_is_served_in_all_its_directions_without_a_page(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the export extra is not installed")
    translator = english_and_french()
    export(translator, ExportSettings("ctranslate2", None, str(tmp_path / "engine")))
    directions = served([("engine", tmp_path / "engine")])
    assert list(directions) == [("en", "fr"), ("fr", "en")]
    for direction, ours in zip(directions.values(), (translator, translator.in_direction("fr", "en")), strict=True):
        once = replace(BEAM, no_repeat=0)  # a second search of that engine may give other results
        assert direction.translator.translate("ein Haus", once) == ours.translate("ein Haus", once)
        assert direction.page is None
        assert direction.why_no_page == "an export has its weights in another program's format"


def test_a_search_that_a_model_cannot_make_is_refused_before_it_is_served(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is more than the model's 32 positions allow"):
        served([("model", folder / "de_en.safetensors")], SearchSettings(min_length=32))
    pytest.importorskip("ctranslate2", reason="the export extra is not installed")
    export(english_and_french(), ExportSettings("ctranslate2", None, str(tmp_path / "engine")))
    with pytest.raises(ValueError, match="--method sampling is not for an export"):
        served([("engine", tmp_path / "engine")], SearchSettings(method="sampling"))
    with pytest.raises(ValueError, match="--precision float32: an export has the precision that it was made with"):
        served([("engine", tmp_path / "engine")], precision="float32")


def test_a_model_is_served_in_the_precision_that_is_asked_for(folder: Path) -> None:
    for asked, precision in ((None, torch.float32), ("bfloat16", torch.bfloat16)):
        [direction] = served([("model", folder / "de_en.safetensors")], page=False, precision=asked).values()
        assert direction.translator.model.output.weight.dtype == precision


@pytest.mark.parametrize(
    ("text", "languages", "likeliest"),
    [
        ("Das ist der Hund und nicht das Haus", ["en", "de"], "de"),
        ("(Das) »ist«, nicht?", ["en", "de"], "de"),
        ("Das ist der Hund und nicht das Haus", ["en-GB", "de-AT"], "de-AT"),
        ("これは日本語の文です。東京に行きました。", ["zh", "ja"], "ja"),
        ("東京都知事選挙の結果", ["zh", "ja"], "ja"),
        ("东京是日本的首都。我喜欢の字", ["ja", "zh"], "zh"),
        ("Demat d'an holl dud, penaos emañ kont?", ["en", "br"], "br"),  # neither script nor words are known
        ("THE MAN IS HERE AND YOU ARE NOT", ["br", "en"], "en"),
        ("Big dogs chase the small cat", ["br", "en"], "en"),  # one word of six
        ("Demat Москва, penaos emañ kont?", ["ru", "br"], "br"),
        ("Привет", ["br", "ru"], "ru"),
        ("Привет", ["de", "ru"], "ru"),
    ],
)
def test_a_language_is_known_by_script_frequent_words_and_kana(text: str, languages: list[str], likeliest: str) -> None:
    found = detect(text, languages)
    assert found[0][0] == likeliest
    assert sum(confidence for _, confidence in found) == pytest.approx(100, abs=0.2)
    assert detect("1・2・3・4・5・6", languages)[0][1] == 0
    assert detect("", languages) == [(one, 0.0) for one in languages]


def test_one_frequent_word_rules_no_language_out() -> None:
    assert detect("und", ["en", "de"]) == [("de", 75.0), ("en", 25.0)]


@pytest.mark.parametrize(("text", "languages"), [("na\u0303o", ["es", "pt"]), ("ﾃｽﾄ", ["zh", "ja"])])
def test_a_letter_written_in_another_way_is_the_same_letter(text: str, languages: list[str]) -> None:
    assert detect(text, languages) == detect(unicodedata.normalize("NFKC", text), languages)
    assert detect(text, languages)[0][0] == languages[1]


def test_with_a_key_the_page_is_only_served_on_request(folder: Path) -> None:
    model = [("model", folder / "de_en.safetensors")]
    for page, key, offered in ((None, None, True), (None, "key", False), (True, "key", True), (False, None, False)):
        [direction] = served(model, page=page, api_key_file=key).values()
        assert ('"name":"model"' in (direction.page or "")) == offered
        assert bool(direction.why_no_page) != offered


def test_a_model_that_no_page_can_show_is_served_with_the_reason(translator: Translator, tmp_path: Path) -> None:
    proto = ModelProto.FromString(translator.source_tokenizer.model)
    proto.normalizer_spec.add_dummy_prefix = False
    tokenizer = Tokenizer(proto.SerializeToString(), "bpe")
    Translator(translator.model, (tokenizer, tokenizer), ("de", "en")).save(tmp_path / "model.safetensors")
    [direction] = served([("model", tmp_path / "model.safetensors")]).values()
    assert direction.page is None
    assert "it handles spaces in a way of its own" in direction.why_no_page


def test_runs_with_one_name_are_distinguished_by_their_paths(folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / parent / "run" / "translator.safetensors" for parent in ("first", "second")]
    for path, name in zip(paths, ("de_en", "en_fr"), strict=True):
        path.parent.mkdir(parents=True)
        shutil.copy(folder / f"{name}.safetensors", path)
    directions = served([("run/translator.safetensors", path) for path in paths], page=False)
    found = {languages: one.checkpoint for languages, one in directions.items()}
    assert found == {("de", "en"): paths[0], ("en", "fr"): paths[1], ("fr", "en"): paths[1]}
    assert [one.test_name for one in directions.values()] == ["test", "test", "test.fr-en"]
    shutil.copy(*paths)
    with pytest.raises(UsageError, match=re.escape(f"two models, {paths[0]} and {paths[1]}: give one")):
        served([("run/translator.safetensors", path) for path in paths], page=False)


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr(server_settings, "PACKAGES", ("a_package_of_nobody",))
    with pytest.raises(UsageError, match=r"a_package_of_nobody is not installed: pip install -e '\.\[serve\]'"):
        check_installed()
