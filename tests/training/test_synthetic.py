"""Synthetic pairs beside the real ones: with the set ratio, tagged, without test sentences, and mentioned in the
card."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.runs import assert_equal_runs, corpus, crash, last, settings, train, trouble
from tests.training.small import DIGITS, ENGLISH
from transformer.config import from_dict
from transformer.data.datamodule import TranslationData
from transformer.data.synthetic import origins
from transformer.data.tokenizer import EOS, PAD, Tokenizer
from transformer.data.training_split import JoinedSplit, build_training_split
from transformer.training.card import synthetic_pairs
from transformer.training.config import RunSettings
from transformer.training.train import prepare_data

NUMBERS = range(5000, 5060)


def spoken(number: int, words: list[str]) -> str:
    return " ".join(words[int(digit)] for digit in str(number))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Real pairs, and 40 and 20 synthetic ones in the files one.de, two.de …"""
    corpus(tmp_path)
    for name, numbers in (("one", NUMBERS[:40]), ("two", NUMBERS[40:])):
        for language, words in (("de", DIGITS), ("en", ENGLISH)):
            (tmp_path / f"{name}.{language}").write_text(
                "".join(f"{spoken(n, words)}\n" for n in numbers), encoding="utf-8"
            )
    origins = "".join(f"text.en\t{number}\tde\treverse/translator.safetensors\tbeam\n" for number in range(1, 41))
    (tmp_path / "one.origin").write_text(origins, encoding="utf-8")
    return tmp_path


def plain(folder: Path, **changes: Any) -> dict[str, Any]:
    return settings(folder, **{"data__synthetic": [str(folder / "one"), str(folder / "two")]} | changes)


def prepared(folder: Path, **changes: Any) -> TranslationData:
    rest = {key: value for key, value in plain(folder, **changes).items() if key != "model"}
    return prepare_data(from_dict(RunSettings, rest, ""), None)


def texts(data: TranslationData, epoch: int) -> list[tuple[list[str], str, str]]:
    """The tags, sources and targets of all training pairs of an epoch."""
    loader, tokenizer = data.loader("train"), data.source_tokenizer
    loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
    tags = [id for id in range(4, len(tokenizer)) if tokenizer.piece(id) in ("<2de>", "<2en>", "<bt>")]
    served = []
    for batch in loader:
        for sides in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            source, target = ([id for id in side if id not in (PAD, EOS)] for side in sides)
            text = [tokenizer.decode([id for id in side if id not in tags]) for side in (source, target)]
            served.append(([tokenizer.piece(id) for id in source if id in tags], text[0], text[1]))
    return served


REAL = Counter(spoken(number, ENGLISH) for number in range(17, 4000, 23))
SYNTHETIC = Counter(spoken(number, ENGLISH) for number in NUMBERS)


def test_without_a_ratio_every_pair_comes_once_an_epoch(folder: Path) -> None:
    data = prepared(folder)
    for epoch in (0, 1):
        assert Counter(target for _, _, target in texts(data, epoch)) == REAL + SYNTHETIC


@pytest.mark.parametrize("ratio", [0.25, 0.5])
def test_a_ratio_gives_the_synthetic_pairs_for_each_real_one_others_each_epoch(folder: Path, ratio: float) -> None:
    data = prepared(folder, data__synthetic_ratio=ratio)
    epochs = [Counter(target for _, _, target in texts(data, epoch)) for epoch in range(4)]
    share = round(ratio * REAL.total())
    assert [epoch.total() - REAL.total() for epoch in epochs] == 4 * [share]
    assert all(epoch & REAL == REAL for epoch in epochs)
    used = sum((epoch - REAL for epoch in epochs), Counter[str]())
    assert max(used.values()) - min(used[target] for target in SYNTHETIC) <= 1  # no pair twice before all others came
    assert epochs[0] != epochs[1]
    assert epochs[0] == Counter(target for _, _, target in texts(prepared(folder, data__synthetic_ratio=ratio), 0))


@pytest.mark.parametrize("changes", [{}, {"data__directions": ["de-en", "en-de"]}, {"training__bpe_dropout": 0.3}])
def test_the_tag_stands_before_the_sources_of_synthetic_pairs_alone(folder: Path, changes: dict[str, Any]) -> None:
    if "training__bpe_dropout" in changes:
        changes = changes | {"tokenizer__kind": "bpe", "tokenizer__vocabulary_size": 60}
    data = prepared(folder, data__synthetic_tag=True, **changes)
    both = len(data.settings.directions) > 1
    for tags, source, target in texts(data, 0):
        is_synthetic = {source, target} & SYNTHETIC.keys() != set()
        direction = ["<2en>" if target in REAL + SYNTHETIC else "<2de>"] if both else []
        assert tags == direction + (["<bt>"] if is_synthetic else [])
    assert len(texts(data, 0)) == (1 + both) * (REAL + SYNTHETIC).total()


def test_pairs_that_name_their_direction_are_served_in_it_alone(folder: Path) -> None:
    for name, direction in (("one", "de-en"), ("two", "en-de")):
        for path in folder.glob(f"{name}.*"):
            path.rename(folder / path.name.replace(name, f"both.{direction}"))
    data = prepared(folder, data__synthetic=[str(folder / "both")], data__directions=["de-en", "en-de"])
    served = Counter(target for _, _, target in texts(data, 0))
    real = REAL + Counter(spoken(number, DIGITS) for number in range(17, 4000, 23))
    synthetic = [spoken(n, ENGLISH) for n in NUMBERS[:40]] + [spoken(n, DIGITS) for n in NUMBERS[40:]]
    assert served == real + Counter(synthetic)
    of_pairs = origins(data.settings.in_direction(("de", "en")))
    assert of_pairs == {"`de` by `reverse/translator.safetensors` (beam), from `text.en`": 40}


def test_the_card_counts_pairs_that_two_directions_share_once(folder: Path) -> None:
    both = {"data__directions": ["de-en", "en-de"]}
    assert "trained on 60 pairs" in synthetic_pairs(prepared(folder, **both))
    for direction in both["data__directions"]:
        for path in folder.glob("one.??"):
            shutil.copy(path, folder / path.name.replace("one", f"own.{direction}"))
    said = synthetic_pairs(prepared(folder, data__synthetic=[str(folder / "own")], **both))
    assert "trained on 80 pairs" in said
    assert "| origin not stated | 80 |" in said


def test_without_synthetic_pairs_training_is_served_its_plain_pairs_without_a_tag(folder: Path) -> None:
    data = prepared(folder, data__synthetic=[])
    assert build_training_split(data, 0.0) is data.split("train")
    assert Tokenizer(data.source_tokenizer.model, "word", is_synthetic=True).prefix == []
    assert isinstance(prepared(folder).examples("train"), JoinedSplit)


@pytest.mark.parametrize(("side", "split", "line"), [("de", "validation", 4), ("en", "test", 1)])
def test_a_sentence_of_validation_or_test_is_refused(folder: Path, side: str, split: str, line: int) -> None:
    held_out = (folder / f"{split}.{side}").read_text(encoding="utf-8").splitlines()[line - 1]
    for language in ("de", "en"):
        with (folder / f"one.{language}").open("a") as file:
            file.write(f"{held_out.upper().replace(' ', ', ') if language == side else 'xxx'}\n")
    with pytest.raises(ValueError, match=rf"one\.{side} line 41 is a sentence of {split} \(line {line}\): its score"):
        prepared(folder)


def test_wrong_settings_are_refused_before_training(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"data\.synthetic=.*nothing: it needs .*nothing\.de and"):
        prepared(folder, data__synthetic=[str(folder / "nothing")])
    with pytest.raises(ValueError, match=r"data\.synthetic_tag and data\.synthetic_ratio are for data\.synthetic"):
        from_dict(type(prepared(folder).settings), settings(folder, data__synthetic_ratio=2.0)["data"], "data")
    (folder / "two.en").write_text("one more line\n" * 21, encoding="utf-8")
    with pytest.raises(ValueError, match=r"two\.de has 20 lines but .*two\.en has 21"):
        prepared(folder)


@pytest.mark.long
def test_a_run_is_resumed_exactly_and_its_card_says_what_was_synthetic(folder: Path) -> None:
    chosen = plain(folder, data__synthetic_ratio=0.25, data__synthetic_tag=True, trainer__max_steps=14)
    train(folder / "whole", chosen)
    with pytest.raises(RuntimeError, match="a crash"), trouble(14, crash):
        train(folder / "crashed", chosen)
    with pytest.raises(ValueError, match=r"the files of synthetic are not those"):
        train(
            folder / "crashed",
            chosen | {"data": chosen["data"] | {"synthetic": [str(folder / "one")]}},
            last(folder / "crashed"),
        )
    train(folder / "crashed", chosen, last(folder / "crashed"))
    assert_equal_runs(folder / "crashed", folder / "whole")
    card = (folder / "whole" / "README.md").read_text(encoding="utf-8")
    assert "it was also trained on 60 pairs with one side written by a model (0.25 for each real pair):" in card
    assert "| `de` by `reverse/translator.safetensors` (beam), from `text.en` | 40 |" in card
    assert "| origin not stated | 20 |" in card

    # First synthetic pairs, then only the real ones.
    real = settings(folder, trainer__max_steps=2, init_from=str(folder / "whole"))
    train(folder / "tuned", real)
    card = (folder / "tuned" / "README.md").read_text(encoding="utf-8")
    assert "That model was also trained on synthetic pairs: its own card says on which." in card
