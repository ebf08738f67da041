"""The start of training, and both directions in one model: learned, stored in the file, chosen by language."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from tests.data.corpora import settings as data_settings
from tests.factories import tokenizer_settings
from tests.reliability.runs import corpus, settings, train
from tests.scripts.running import ok
from tests.training.small import DIGITS, ENGLISH, SETTINGS, module_for, trainer_for
from transformer import Translator
from transformer.data.datamodule import TranslationData
from transformer.data.training_split import build_training_split

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished run of 6 steps, from which others begin, and its settings."""
    folder = tmp_path_factory.mktemp("first")
    plain = settings(corpus(folder), trainer__max_steps=6, test=False)
    train(folder / "run", plain)
    return folder / "run", plain


@pytest.mark.long
def test_one_model_learns_both_directions_and_is_asked_for_either(tmp_path: Path) -> None:
    corpus(tmp_path)
    prefixes = {name: str(tmp_path / name) for name in ("train", "validation", "test")}
    both = data_settings(tmp_path, directions=["de-en", "en-de"], max_length=20, batch_tokens=160, **prefixes)
    data = TranslationData(both, tokenizer_settings("word", 100), seed=1)
    data.training_split = build_training_split(data, 0.0)
    module = module_for(data, replace(SETTINGS, warmup_steps=20))
    trainer_for(tmp_path, max_steps=300, limit_val_batches=0).fit(module, datamodule=data)
    module.translator.save(tmp_path / "x.safetensors")
    german, english = (["neun null zwei eins"], ["nine zero two one"])
    assert Translator.load(tmp_path / "x.safetensors").translate(german) == english
    back = Translator.load(tmp_path / "x.safetensors", target_language="de")
    assert back.languages == ("en", "de")
    assert back.translate(english) == german
    with pytest.raises(ValueError, match=r"translates de → en, en → de, not to fr$"):
        Translator.load(tmp_path / "x.safetensors", target_language="fr")


def test_a_model_of_one_direction_has_no_other(tmp_path: Path) -> None:
    train(tmp_path, settings(corpus(tmp_path), trainer__max_steps=1, test=False))
    with pytest.raises(ValueError, match=r"translates de → en, not to de \(data\.directions=\[de-en,en-de\] would"):
        Translator.load(tmp_path, target_language="de")


@pytest.mark.long
def test_a_repeated_trial_keeps_the_earlier_model_until_its_corpus_is_ready(tmp_path: Path) -> None:
    plain, run = settings(corpus(tmp_path), trainer__max_steps=1, test=False, loggers=["csv"]), tmp_path / "run"
    train(run, plain)
    for name in ("hypotheses.news.txt", "notes.txt"):
        (run / name).write_text("", encoding="utf-8")
    earlier = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    target = tmp_path / "train.en"
    whole = target.read_text(encoding="utf-8")
    target.write_text("".join(whole.splitlines(keepends=True)[:-1]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"train.de has .* lines but"):
        train(run, plain, replace=True)
    target.write_text(whole, encoding="utf-8")
    plain["trainer"]["limit_train_batches"] = 0.001
    with pytest.raises(ValueError, match=r"is less than one"):
        train(run, plain, replace=True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == earlier
    plain["trainer"]["limit_train_batches"] = 1.0
    train(run, plain, replace=True)
    assert not (run / "hypotheses.news.txt").exists()
    assert (run / "notes.txt").exists()


def test_a_pair_with_an_empty_side_is_left_out_where_a_tag_stands_before_the_source(tmp_path: Path) -> None:
    for side, lines in (("de", ["neun null", "", "eins"]), ("en", ["nine zero", "two", ""])):
        (tmp_path / f"x.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    both = data_settings(tmp_path, directions=["de-en", "en-de"])
    words = tokenizer_settings("word", 100)
    data = TranslationData(both, words, seed=1)
    split = data.split("train")
    assert (split.numbers.tolist(), split.empty.tolist()) == ([1], [2, 3])


def test_a_model_of_both_directions_is_scored_in_either(tmp_path: Path) -> None:
    train(tmp_path, settings(corpus(tmp_path), trainer__max_steps=1, data__directions=["de-en", "en-de"]))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    ok("evaluate", str(tmp_path), "--target", "de", "--method", "greedy", cwd=tmp_path)
    assert json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["test.en-de"]["bleu"] >= 0
    assert (tmp_path / "hypotheses.test.en-de.txt").exists()
    assert "that translates de → en and, with `--source` and `--target`, en → de." in card
    assert "`test` is of de → en, the first direction; other splits have their direction in their name." in card


def test_training_begins_with_the_weights_and_tokenizers_of_another_run(
    first: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, plain = first
    # Different words would give another vocabulary, and such a short step has no visible effect.
    (tmp_path / "words.de").write_text("".join(f"{word}\n" for word in DIGITS), encoding="utf-8")
    (tmp_path / "words.en").write_text("".join(f"{word}\n" for word in ENGLISH), encoding="utf-8")
    weights = run / "translator.safetensors"
    begun = plain | {"init_from": str(weights), "data": plain["data"] | {"train": str(tmp_path / "words")}}
    begun["training"] = plain["training"] | {"learning_rate": 1e-12, "weight_decay": 0.0}
    begun["trainer"] = plain["trainer"] | {"max_steps": 1}
    train(tmp_path / "second", begun)
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("model, weights and tokenizers come from") == 1
    with safe_open(weights, "pt") as one, safe_open(tmp_path / "second" / "translator.safetensors", "pt") as other:  # type: ignore[no-untyped-call]
        assert one.keys() == other.keys()
        for name in one.keys():  # noqa: SIM118
            torch.testing.assert_close(other.get_tensor(name), one.get_tensor(name), atol=1e-9, rtol=0)
    begun["model"] = plain["model"] | {"norm": "post"}
    with pytest.raises(
        ValueError, match=r"the model of init_from= has other settings: model\.norm=post \(saved: pre\): leave"
    ):
        train(tmp_path / "third", begun)


@pytest.mark.long
def test_fine_tuning_adds_the_tags_of_further_directions_and_keeps_all_else(
    first: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, plain = first
    for language, words in (("de", DIGITS), ("en", ENGLISH)):
        (tmp_path / f"synthetic.{language}").write_text(" ".join(words[:8]) + "\n", encoding="utf-8")
    begun = plain | {"init_from": str(run), "test": True}
    synthetic = {"synthetic": [str(tmp_path / "synthetic")], "synthetic_tag": True}
    begun["data"] = plain["data"] | synthetic | {"directions": ["de-en", "en-de"]}
    begun["training"] = plain["training"] | {"learning_rate": 1e-12, "weight_decay": 0.0}
    begun["trainer"] = plain["trainer"] | {"max_steps": 1}
    train(tmp_path / "second", begun)
    old, second = Translator.load(run), Translator.load(tmp_path / "second")
    size, tags = len(old.source_tokenizer), ["<2de>", "<2en>", "<bt>"]
    assert [second.source_tokenizer.piece(size + place) for place in range(len(tags))] == tags
    assert second.in_direction("en", "de").source_tokenizer.encode("neun")[0] == size
    for (name, before), (_, after) in zip(old.model.named_parameters(), second.model.named_parameters(), strict=True):
        torch.testing.assert_close(after[: len(before)], before, atol=1e-9, rtol=0, msg=name)
        assert len(after) in (len(before), len(before) + len(tags))
    new = second.model.encoder.embedding.tokens.weight[size:]
    assert (new.std(dim=1) > 0.01).all()  # not empty memory, and not all equal: each is drawn as in a new model


@pytest.mark.long
def test_a_vocabulary_that_cannot_spell_the_corpus_is_reported_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = settings(corpus(tmp_path), trainer__max_steps=1, test=False)
    train(tmp_path / "first", plain)
    assert "unknown to the vocabulary" not in capsys.readouterr().err
    for language, text in (("de", "Привет мир\n"), ("en", "one two\n")):
        (tmp_path / f"other.{language}").write_text(text, encoding="utf-8")
    data = plain["data"] | {"train": str(tmp_path / "other")}
    train(tmp_path / "second", plain | {"init_from": str(tmp_path / "first"), "data": data})
    said = capsys.readouterr().err
    assert f"train: 100% of the tokens in de are unknown to the vocabulary of {tmp_path / 'first'}" in said
    assert "train: 100% of the tokens in en" not in said
    assert "sentences are few" in said
