"""shortlist.py learns from the pairs of a run, and translate.py takes what it writes."""

import json
from pathlib import Path

import pytest

import scripts.evaluate as evaluate_script
import scripts.shortlist as shortlist_script
import scripts.translate as translate_script
from tests.reliability.runs import corpus, settings, train
from transformer import Translator
from transformer.cli import CONFIGS
from transformer.cli.arguments import prepare
from transformer.cli.compose import compose
from transformer.cli.output import made_by
from transformer.data.tokenizer import EOS
from transformer.files import sha256
from transformer.inference.shortlist import load_shortlist


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    train(home / "run", settings(corpus(home), trainer__max_steps=6, test=False))
    return home


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def learn(*arguments: str) -> None:
    typed = ("checkpoint=run", "cache=cache", *arguments)
    shortlist_script.make_shortlist(shortlist_script.read(compose("shortlist", *prepare(typed, CONFIGS))))


def translate(*arguments: str) -> None:
    typed = ("checkpoint=run", "text=eins zwei", "device=cpu", "precision=float32", *arguments)
    translate_script.translate(translate_script.read(compose("translate", *prepare(typed, CONFIGS))))


def test_only_a_shortlist_is_written_over(capfd: pytest.CaptureFixture[str]) -> None:
    other = Path("model.safetensors")
    other.write_bytes(Path("run/translator.safetensors").read_bytes())
    for content in (other.read_bytes(), b"mine"):
        other.write_bytes(content)
        with pytest.raises(ValueError, match=r"output=model.safetensors is there, and no shortlist: name another file"):
            learn("output=model.safetensors")
        assert other.read_bytes() == content
    for _ in range(2):
        learn("best=1", "frequent=1", "output=twice.safetensors")


def test_a_model_is_no_shortlist() -> None:
    with pytest.raises(ValueError, match="cannot be used: it is no shortlist"):
        translate("shortlist=run/translator.safetensors")


def test_the_digits_of_a_source_bring_their_translations(capfd: pytest.CaptureFixture[str]) -> None:
    learn("best=1", "frequent=1", "output=short.safetensors")
    said = capfd.readouterr()
    assert said.out == f"{Path('short.safetensors').absolute()}\n"
    next_command = "next: python scripts/translate.py checkpoint=run/translator.safetensors shortlist=short.safetensors"
    assert said.err.splitlines()[-1] == next_command
    translator = Translator.load("run")
    short = load_shortlist(Path("short.safetensors"), translator.tokenizers, translator.languages)
    assert short.frequent == EOS + 1, "the special ids"
    likely = {
        translator.target_tokenizer.piece(int(short.likely[id][0])).strip("▁")
        for id in translator.source_tokenizer.encode("eins zwei drei")
    }
    assert likely == {"one", "two", "three"}
    translate("shortlist=short.safetensors", "search.max_length=6")
    assert capfd.readouterr().out.count("\n") == 1


def test_mistakes_are_told_in_one_line_and_nothing_is_written() -> None:
    for arguments, said in (
        ((), "output is not set: give output=FILE.safetensors"),
        (("output=never.safetensors", "best=0"), "best=0 must be >= 1"),
    ):
        with pytest.raises(ValueError, match=said):
            learn(*arguments)
    with pytest.raises(ValueError, match=r"shortlist=other\.safetensors: no such file"):
        translate("shortlist=other.safetensors")
    assert not Path("never.safetensors").exists()


def test_a_stopped_translation_goes_on_with_the_same_shortlist_only(home: Path) -> None:
    learn("output=first.safetensors")
    settings = {"inference": {"shortlist": "first.safetensors"}}
    before = made_by(settings)
    assert made_by(settings) == before
    learn("best=2", "output=first.safetensors")
    assert made_by(settings) != before


def test_a_score_says_which_shortlist_it_is_of(home: Path) -> None:
    learn("output=scored.safetensors")
    typed = ("checkpoint=run", "device=cpu", "output=scores", "search=greedy", "search.max_length=6", "cache=cache")
    for given in ((), ("shortlist=scored.safetensors",)):
        evaluate_script.evaluate_run(evaluate_script.read(compose("evaluate", *prepare((*typed, *given), CONFIGS))))
        search = json.loads(Path("scores/evaluation.json").read_bytes())["searches"]["test"]
        assert search.get("shortlist") == (sha256(Path("scored.safetensors")) if given else None)
