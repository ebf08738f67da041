"""A shortlist against plain loops, and a search among its ids against one among all, the others without probability."""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from tests.factories import data_settings, small_model, tokenizer_settings
from transformer import Translator
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, train_tokenizer
from transformer.inference import shortlist
from transformer.inference.ensemble import Ensemble, load_ensemble
from transformer.inference.shortlist import Shortlist, ShortlistSettings, learn_shortlist, load_shortlist, training_ids
from transformer.inference.translator import BEAM

TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "ja", "wir gehen in den Park, weil die Sonne scheint"]
VOCABULARY, LANGUAGES = 400, ("de", "en")
SEARCH = replace(BEAM, min_length=4, max_length=12)
PAIRS = [([4, 5], [6, 7]), ([4], [6]), ([5, 5, 8], [7, 9]), ([10, 4, 5, 8, 4], [6])]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(
        [f"{text} {number}" for number in range(300) for text in TEXTS], tokenizer_settings("bpe", VOCABULARY)
    )


def untrained(tokenizer: Tokenizer, seed: int = 1) -> Translator:
    torch.manual_seed(seed)
    model = small_model(
        source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY, max_length=64, tied_embeddings="none"
    ).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)  # so that an untrained model prefers something
    return Translator(model, (tokenizer, tokenizer), LANGUAGES)


def drawn(frequent: int = 20) -> Shortlist:
    others = 4 + torch.randperm(VOCABULARY - 4)
    return Shortlist(torch.randint(4, VOCABULARY, (VOCABULARY, 2)), torch.cat([torch.arange(4), others]), frequent)


def test_a_batch_may_use_what_its_words_and_every_sentence_may() -> None:
    short, source = drawn(), torch.tensor([[17, 300, EOS], [5, EOS, 0]])
    ids = short.ids(source)
    assert ids is not None
    wanted = {*short.by_frequency[:20].tolist(), *short.likely[source].flatten().tolist()}
    assert wanted <= set(ids.tolist())
    assert ids.tolist() == sorted(set(ids.tolist()))
    assert len(ids) == 128, "a round number"
    assert ids[:4].tolist() == [0, 1, 2, 3]


def test_most_of_the_vocabulary_is_no_shortlist() -> None:
    assert drawn(frequent=150).ids(torch.tensor([[17, EOS]])) is None


def test_the_ids_of_a_shortlist_have_the_probabilities_left_to_them(tokenizer: Tokenizer) -> None:
    translator, source = untrained(tokenizer), torch.tensor([[*tokenizer.encode(TEXTS[1]), EOS]])
    ids = drawn().ids(source)
    assert ids is not None
    with torch.inference_mode():
        scores, _ = translator.log_probabilities(torch.tensor([BOS]), translator.init_state(source, ids))
        of_all, _ = translator.log_probabilities(torch.tensor([BOS]), translator.init_state(source))
        torch.testing.assert_close(scores, of_all[:, ids].log_softmax(dim=-1))


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_a_search_with_a_shortlist_is_one_where_all_else_is_impossible(
    tokenizer: Tokenizer, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, search = untrained(tokenizer), replace(SEARCH, method=method)
    # One batch of them all, whose ids are those that are kept: of several threads each has its own.
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    free = translator.n_best(TEXTS, search)
    translator.shortlist = short = drawn()
    found = translator.n_best(TEXTS, search)
    assert [row[0].pieces for row in found] != [row[0].pieces for row in free]
    kept = short.ids(torch.tensor([[*chain(*map(tokenizer.encode, TEXTS)), EOS, PAD]]))
    left_out = torch.ones(VOCABULARY, dtype=torch.bool)
    left_out[kept] = False

    class Masked(Translator):
        def log_probabilities(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
            scores, state = super().log_probabilities(ids, state)
            return scores.masked_fill(left_out, -torch.inf).log_softmax(dim=-1).clamp_min(-1e9), state

    masked = Masked(translator.model, translator.tokenizers, LANGUAGES)
    for row, expected in zip(found, masked.n_best(TEXTS, search), strict=True):
        assert [one.pieces for one in row] == [one.pieces for one in expected]
        assert [one.score for one in row] == pytest.approx([one.score for one in expected], abs=1e-4)


def test_the_members_of_an_ensemble_share_a_shortlist(tokenizer: Tokenizer) -> None:
    alone, twice = untrained(tokenizer), Ensemble([untrained(tokenizer), untrained(tokenizer)])
    alone.shortlist = twice.shortlist = drawn()
    assert twice.translate(TEXTS, SEARCH) == alone.translate(TEXTS, SEARCH)


@pytest.mark.long
def test_the_file_of_a_shortlist_is_taken_for_several_models(tokenizer: Tokenizer, tmp_path: Path) -> None:
    untrained(tokenizer).save(model := tmp_path / "model.safetensors")
    drawn().save(path := tmp_path / "short.safetensors", (tokenizer, tokenizer), LANGUAGES)
    translator = load_ensemble([model, model], shortlist=str(path))
    assert translator.shortlist is not None
    assert translator.shortlist.frequent == 20


def test_another_direction_does_without_a_shortlist(tokenizer: Tokenizer) -> None:
    translator = untrained(tokenizer)
    translator.directions, translator.shortlist = (("de", "en"), ("en", "de")), drawn()
    assert translator.in_direction("en").shortlist is None
    assert translator.shortlist is not None


def test_a_shortlist_is_learned_from_the_pairs_that_training_takes(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(f"ein Haus\ta house\n\ta dog\nja\t\nja {'ja ' * 50}\tyes\n", encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    learned = train_tokenizer(
        [f"{text} {number}" for number in range(300) for text in TEXTS], tokenizer_settings("bpe", VOCABULARY), ["en"]
    )
    tagged = Tokenizer(learned.model, "bpe", target_language_tag="en")
    pairs = training_ids((tagged, learned), data_settings(max_length=20, columns=[1, 2], **files))
    assert pairs == [(tagged.encode("ein Haus"), learned.encode("a house"))]


def test_of_a_large_corpus_pairs_at_equal_distances_are_counted(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlist, "MAX_COUNTED", 2)
    (tmp_path / "x.tsv").write_text("".join(f"{number}\t{number}\n" for number in range(5)), encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    pairs = training_ids((tokenizer, tokenizer), data_settings(max_length=20, **files))
    assert [tokenizer.decode(source) for source, _ in pairs] == ["0", "3"]


def test_a_source_brings_nothing_that_it_has_never_stood_beside(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("ja\tein Haus\nja ja\tein Hund\n", encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    both = tokenizer, tokenizer
    learned = learn_shortlist(both, data_settings(max_length=20, **files), ShortlistSettings(50, 1))
    beside = {*tokenizer.encode("ein Haus"), *tokenizer.encode("ein Hund"), EOS}
    assert all(set(learned.likely[id].tolist()) == beside for id in tokenizer.encode("ja"))
    assert set(learned.likely[tokenizer.encode("Park")].flatten().tolist()) == {EOS}


def test_no_shortlist_is_learned_where_no_pair_can_be_taken(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("\ta dog\nja\t\n", encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    with pytest.raises(ValueError, match=r"no training pair has 1 to 20 tokens a side: raise data"):
        learn_shortlist((tokenizer, tokenizer), data_settings(max_length=20, **files), ShortlistSettings(2, 3))


def test_a_file_gives_the_shortlist_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    short = drawn()
    short.save(tmp_path / "short.safetensors", (tokenizer, tokenizer), LANGUAGES)
    read = load_shortlist(tmp_path / "short.safetensors", (tokenizer, tokenizer), LANGUAGES)
    assert torch.equal(read.likely, short.likely)
    assert torch.equal(read.by_frequency, short.by_frequency)
    assert read.frequent == short.frequent


@pytest.mark.parametrize(
    ("tensors", "about", "said"),
    [
        ({"likely": torch.full((VOCABULARY, 1), VOCABULARY)}, {}, "its ids are not those of the vocabularies"),
        ({"likely": torch.zeros(5, 1)}, {}, "it is not made for as many ids"),
        ({"likely": torch.zeros(VOCABULARY, 0)}, {}, "its tensor likely is empty"),
        ({"likely": torch.zeros(VOCABULARY, 1001)}, {}, "it is not made for as many ids"),
        ({"by_frequency": torch.zeros(VOCABULARY)}, {}, "it does not hold every id once"),
        ({"by_frequency": torch.arange(VOCABULARY).flip(0)}, {}, "its first ids are not the special ones"),
        ({}, {"frequent": 1}, "its first ids are not the special ones"),
        ({}, {"frequent": "many"}, "frequent"),
        ({}, {"format": "another"}, "its format is 'another'"),
        ({}, {"vocabularies": ["bpe 0", "bpe 0"]}, "made with other tokenizers"),
        ({}, {"target_language": "fr"}, "it is for de → fr, and the translation is de → en"),
    ],
)
def test_a_file_that_was_altered_is_refused_in_one_line(
    tokenizer: Tokenizer, tmp_path: Path, tensors: dict[str, torch.Tensor], about: dict[str, object], said: str
) -> None:
    path = tmp_path / "short.safetensors"
    drawn().save(path, (tokenizer, tokenizer), LANGUAGES)
    with safetensors.safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
        description = json.loads(file.metadata()["shortlist"]) | about
    content = safetensors.torch.load(path.read_bytes()) | {name: tensor.int() for name, tensor in tensors.items()}
    safetensors.torch.save_file(content, path, {"shortlist": json.dumps(description)})
    with pytest.raises(ValueError, match=said) as caught:
        load_shortlist(path, (tokenizer, tokenizer), LANGUAGES)
    assert str(caught.value).startswith(f"shortlist={path} cannot be used: ")


def test_a_file_that_is_no_shortlist_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"no safetensors")
    with pytest.raises(ValueError, match="cannot be used: truncated or no safetensors file"):
        load_shortlist(tmp_path / "short", (tokenizer, tokenizer), LANGUAGES)
    with pytest.raises(FileNotFoundError, match=r"no shortlist at .*: python scripts/shortlist.py makes one"):
        load_shortlist(tmp_path / "none", (tokenizer, tokenizer), LANGUAGES)
