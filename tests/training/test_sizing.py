"""Settings that are chosen by the size of a corpus; typed settings win."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import composed, data_settings
from transformer.cli.compose import compose
from transformer.cli.train import choose_for_corpus, of_run, read_run_settings
from transformer.config import flatten
from transformer.data.datamodule import TranslationData
from transformer.model.config import read_model
from transformer.printing import shell_word
from transformer.training.config import check_settings
from transformer.training.sizing import COVERAGE, CURVE, PAIRS, CorpusSize, as_typed, choose, measure

OWN = ("data.pairs=x.tsv",)
# The tried presets by size (docs/choose.md).
ONES = {"training.schedule": "cosine", "training.averaging.kind": "exponential", "model.heads": 4, "model.norm": "pre"}
TRIED: dict[int, dict[str, Any]] = {
    2_000: ONES
    | {"tokenizer.vocabulary_size": 1000, "model.dim": 128, "model.encoder.layers": 2, "model.decoder.layers": 2}
    | {"model.feed_forward.dim": 512, "model.dropout": 0.3, "data.batch_tokens": 1024, "training.learning_rate": 2e-3}
    | {"training.warmup_steps": 300, "training.validate_every": 250, "training.bpe_dropout": 0.1}
    | {"trainer.max_steps": 2000},
    10_000: ONES
    | {"tokenizer.vocabulary_size": 4000, "model.dim": 256, "model.encoder.layers": 3, "model.decoder.layers": 3}
    | {"model.feed_forward.dim": 1024, "model.dropout": 0.3, "data.batch_tokens": 2048, "training.learning_rate": 2e-3}
    | {"training.warmup_steps": 400, "training.validate_every": 250, "training.bpe_dropout": 0.1}
    | {"trainer.max_steps": 2500},
    50_000: ONES
    | {"tokenizer.vocabulary_size": 8000, "model.dim": 256, "model.encoder.layers": 3, "model.decoder.layers": 3}
    | {"model.feed_forward.dim": 1024, "model.dropout": 0.2, "data.batch_tokens": 2048}
    | {"training.learning_rate": 1.5e-3, "training.warmup_steps": 500, "training.validate_every": 1000}
    | {"training.bpe_dropout": 0.0, "trainer.max_steps": 10_000},
    200_000: ONES
    | {"tokenizer.vocabulary_size": 10_000, "model.dim": 512, "model.encoder.layers": 6, "model.decoder.layers": 6}
    | {"model.feed_forward.dim": 1024, "model.dropout": 0.3, "data.batch_tokens": 8192}
    | {"training.learning_rate": 7e-4, "training.warmup_steps": 4000, "training.validate_every": 1000}
    | {"training.bpe_dropout": 0.0, "trainer.max_steps": 40_000, "training.schedule": "inverse_square_root"},
}


def chosen(size: CorpusSize, *typed: str, on_cpu: bool = False) -> dict[str, Any]:
    """All settings of a run on the user's own corpus, by their full names."""
    return dict(flatten(choose(of_run(composed(*OWN, *typed)), size, on_cpu)[0]))


@pytest.mark.parametrize("pairs", PAIRS)
def test_the_points_of_the_curve_are_what_was_tried(pairs: int) -> None:
    found = chosen(CorpusSize(pairs))
    assert {name: found[name] for name in TRIED[pairs]} == TRIED[pairs]


@given(st.integers(1, 10_000_000), st.floats(1, 100), st.integers(1, 20_000), st.booleans())
def test_between_the_points_every_setting_is_between_theirs_and_can_be_trained_with(
    pairs: int, words: float, characters: int, on_cpu: bool
) -> None:
    size = CorpusSize(pairs, words, characters)
    plain, values = choose(of_run(composed(*OWN)), size, on_cpu)
    for name, (_, points) in CURVE.items():
        if name != "tokenizer.vocabulary_size":
            assert min(points) <= values[name] <= max(points), name
    assert values["tokenizer.vocabulary_size"] > 2 * characters - 51  # a merge for each character, rounded
    check_settings(read_run_settings(plain), read_model(plain["model"]))


def test_more_pairs_and_longer_ones_have_no_fewer_pieces_and_no_narrower_model() -> None:
    growing = [chosen(CorpusSize(round(1000 * 1.3**power))) for power in range(24)]
    for name in ("tokenizer.vocabulary_size", "model.dim", "model.encoder.layers", "data.batch_tokens"):
        values = [one[name] for one in growing]
        assert values == sorted(values), name
    assert chosen(CorpusSize(10_000, words=24.0)) == chosen(CorpusSize(20_000))


def test_a_cpu_gets_no_larger_model_than_it_can_train() -> None:
    assert chosen(CorpusSize(10**6), on_cpu=True) == chosen(CorpusSize(50_000))
    assert chosen(CorpusSize(2_000), on_cpu=True) == chosen(CorpusSize(2_000))


@pytest.mark.parametrize(
    "typed",
    [
        *("tokenizer.vocabulary_size=321", "tokenizer.character_coverage=0.5", "model.dim=96", "model.layers=5"),
        *("model.feed_forward.dim=100", "model.dropout=0.45", "data.batch_tokens=777", "training.learning_rate=0.5"),
        *("training.warmup_steps=7", "training.bpe_dropout=0.25", "training.validate_every=9", "trainer.max_steps=3"),
        *("training.schedule=inverse_square_root", "training.averaging.kind=last", "model.encoder.layers=4"),
    ],
)
def test_a_setting_that_is_typed_wins_and_changes_no_other(typed: str) -> None:
    key, _, given_value = typed.partition("=")
    before, after = chosen(CorpusSize(10_000)), chosen(CorpusSize(10_000), typed)
    assert str(after[key]) == given_value
    of_layers = ["model.encoder.layers", "model.decoder.layers"] if key == "model.layers" else []
    assert {name for name in after if before[name] != after[name]} == {key, *of_layers}


def test_a_choice_of_a_group_that_is_typed_wins() -> None:
    found = chosen(CorpusSize(200_000), "model=small", "tokenizer=char", "training=standard")
    assert (found["model.dim"], found["model.encoder.layers"], found["model.dropout"]) == (256, 3, 0.2)
    assert (found["tokenizer.vocabulary_size"], found["training.learning_rate"]) == (1000, 3e-3)
    assert (found["data.batch_tokens"], found["trainer.max_steps"]) == (8192, 40_000)


def test_typed_and_chosen_settings_can_be_trained_together() -> None:
    for typed in ("model.heads=6", "tokenizer=char", "tokenizer=word", "trainer.limit_val_batches=0", "model.heads=5"):
        plain, _ = choose(of_run(composed(*OWN, typed)))
        check_settings(read_run_settings(plain), read_model(plain["model"]))
    assert chosen(CorpusSize(10_000), "trainer.max_epochs=3")["trainer.max_steps"] is None
    assert chosen(CorpusSize(200_000), "trainer.max_time='00:01:00:00'")["training.schedule"] == "cosine"


def test_a_model_to_begin_with_brings_its_size_and_tokenizer() -> None:
    _, values = choose(of_run(composed(*OWN, "init_from=x")))
    assert "model.dropout" in values
    assert not [name for name in values if name.startswith("tokenizer.") or name in ("model.dim", "model.layers")]
    assert values["training.bpe_dropout"] == 0  # for every tokenizer


@pytest.mark.parametrize("typed", [(), ("data=toy",), ("experiment=toy_little",), ("experiment=multi30k_cpu",)])
def test_where_nothing_is_null_nothing_is_chosen(typed: tuple[str, ...]) -> None:
    plain = of_run(composed(*typed))
    assert choose(plain) == (plain, {})


def test_a_file_of_pairs_is_a_corpus_of_ones_own_unless_another_is_typed() -> None:
    assert compose(*OWN) == compose("data=files", *OWN)
    assert compose("data=tatoeba", "data.pairs=fra.txt")["data"]["name"] == "tatoeba"
    with pytest.raises(ValueError, match="choose data=files"):
        read_run_settings(of_run(compose("experiment=toy_little", *OWN)))


def corpus(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def test_training_pairs_are_counted_with_their_words_and_characters(tmp_path: Path) -> None:
    letters = "abcdefghij"
    words = ["".join(letters[int(digit)] for digit in str(number)) for number in range(100, 1100)]
    path = corpus(tmp_path, [(f"{word} x {word} y", f"{word} z") for word in words])
    data = data_settings(pairs=str(path), cache=str(tmp_path / "cache"), split=[0.1, 0.2])
    size = measure(data)
    assert 600 < size.pairs < 800
    assert size == CorpusSize(size.pairs, 3.0, len({*letters, *"xyz "}))
    both = data_settings(pairs=str(path), cache=data.cache, split=[0.1, 0.2], directions=["de-en", "en-de"])
    assert measure(both) == size


def test_a_vocabulary_has_room_for_the_characters_of_chinese_and_for_merges(tmp_path: Path) -> None:
    characters = [chr(0x4E00 + number) for number in range(2600)]
    lines = ["".join(characters[(7 * line + 13 * place) % 2600] for place in range(8)) for line in range(2000)]
    path = corpus(tmp_path, [(line, f"{line[:2]} sentence") for line in lines])
    typed = [f"data.pairs={shell_word(str(path))}", f"data.cache={tmp_path}/cache"]
    languages = ["data.source_language=zh", "data.target_language=en"]
    plain, values = choose_for_corpus(of_run(compose(*typed, *languages)))
    size = measure(read_run_settings(plain).data)
    assert 2600 * COVERAGE < size.characters < 2700
    assert size.words == pytest.approx((1 + 8 / 1.6 + 2 + 2 / 1.6) / 2, abs=0.01)
    assert values["tokenizer.character_coverage"] == size.coverage == COVERAGE
    assert values["tokenizer.vocabulary_size"] >= 2 * size.characters - 50
    run = read_run_settings(plain)
    data = TranslationData(run.data, run.tokenizer, run.seed)
    assert len(data.source_tokenizer) == values["tokenizer.vocabulary_size"] or "gives no more" in "".join(data.notes)
    assert data.source_tokenizer.writes(lines[0])


def test_chosen_settings_are_printed_as_they_can_be_typed() -> None:
    plain, values = choose(of_run(composed(*OWN)), CorpusSize(7_000))
    assert of_run(compose(*OWN, *as_typed(values).split())) == plain
    assert all(math.isfinite(number) for number in values.values() if isinstance(number, float))
