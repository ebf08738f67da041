"""Word alignments from cross-attention, compared with the weights of one pair by hand, and whole files."""

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.factories import model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import SettingError, from_dict
from transformer.data.tokenizer import Kind, Tokenizer, train_tokenizer
from transformer.inference.alignment_head import AlignmentHead, asked_head, candidates, check_head, default_head
from transformer.inference.model_file import digest
from transformer.inference.settings import AlignmentSettings
from transformer.inference.word_alignment import align, encode_pair, moses_lines
from transformer.tools.pictures.attention_maps import View, read

TOY = Path(__file__).parents[2] / "data" / "toy"
TEXTS = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()
PAIRS = [("Der Hund schläft.", "The dog is asleep."), ("Ja", "Yes, of course!"), ("Wir  essen um acht.", "We eat")]
MIDDLE = AlignmentHead(2, 3, shifted=False)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(3)
    tokenizer = train_tokenizer(TEXTS, tokenizer_settings("bpe", 300))
    changes = {"source_vocab_size": 300, "target_vocab_size": 300, "decoder__layers": 3}
    model = Transformer(from_dict(ModelConfig, model_dict(**changes), "model")).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(4)  # so that the weights of an untrained model differ
    return Translator(model, (tokenizer, tokenizer), ("de", "en"))


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("head", [None, 2])
def test_a_target_word_is_linked_to_the_source_word_its_pieces_look_at(
    translator: Translator, head: int | None, shifted: bool
) -> None:
    source, target = translator.tokenizers
    text, translation = PAIRS[0]
    pieces = [tokenizer.pieces(side) for tokenizer, side in ((source, text), (target, translation))]
    assert max(map(len, pieces)) > 6, "words of several pieces"
    reading = read(translator, text, target.encode(translation))
    starts = [[i for i, piece in enumerate(side) if piece.startswith("▁")] + [len(side)] for side in pieces]
    words = [[range(a, b) for a, b in itertools.pairwise(side)] for side in starts]
    for layer in (1, 2, 3):
        weights, _ = reading.weights(View("cross", layer, head))
        expected = []
        for number, targets in enumerate(words[1]):
            looks = [sum(weights[t + shifted, s].item() for t in targets for s in sources) for sources in words[0]]
            expected.append((looks.index(max(looks)), number))
        assert align(translator, [text], [translation], [AlignmentHead(layer, head, shifted)]) == [[expected]]


def test_the_tag_of_a_source_is_no_word_of_it(translator: Translator) -> None:
    plain = translator.source_tokenizer
    tagged = Tokenizer(plain.with_tags(["en"]).model, "bpe", target_language_tag="en")
    both = Translator(translator.model, (tagged, plain), ("de", "en"))
    [without, with_tag] = [encode_pair(one, *PAIRS[0]) for one in (translator, both)]
    assert without is not None
    assert with_tag is not None
    assert with_tag.source == [*tagged.prefix, *without.source]
    assert with_tag.source_words == [-1, *without.source_words]


def test_the_layer_before_the_last_aligns_where_there_are_three_or_more() -> None:
    configs = [from_dict(ModelConfig, model_dict(decoder__layers=layers), "model") for layers in (1, 2, 3, 4)]
    assert [default_head(config).layer for config in configs] == [1, 2, 2, 3]


def test_the_last_head_of_the_last_layer_is_the_last_that_can_align(translator: Translator) -> None:
    check_head(AlignmentHead(3, 3, shifted=True), translator.model.config)
    for layer, head in ((3, 4), (4, 3)):
        with pytest.raises(ValueError, match="layers 1 to 3, each with heads 1 to 3"):
            check_head(AlignmentHead(layer, head, shifted=True), translator.model.config)


def test_a_batch_aligns_as_its_pairs_do_alone(translator: Translator) -> None:
    heads = candidates(translator.model.config)
    sources, targets = zip(*PAIRS, strict=True)
    together = align(translator, sources, targets, heads)
    assert together == [align(translator, [source], [target], heads)[0] for source, target in PAIRS]
    assert [len(of_head) for of_head in together[0]] == [4] * len(heads)


def test_the_pieces_of_a_translation_align_as_its_text(translator: Translator) -> None:
    for text, translation in PAIRS:
        pieces = translator.target_tokenizer.pieces(translation)
        assert align(translator, [text], [pieces], [MIDDLE]) == align(translator, [text], [translation], [MIDDLE])


def test_a_pair_without_words_or_too_long_has_an_empty_line(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    sources = ["", "Ja", "Der Hund schläft. " * 30]
    translations = [found[0] for found in translator.n_best(sources)]
    caplog.clear()
    lines = list(moses_lines(translator, sources, translations, MIDDLE, 2048, [7, 8, 9]))
    assert lines[0] == lines[2] == "\n"
    assert [link.split("-")[1] for link in lines[1].split()] == [str(i) for i in range(len(lines[1].split()))]
    [record] = caplog.records
    assert "line 9 is not aligned" in record.getMessage()


@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_that_just_fits_the_positions_is_aligned_and_one_longer_is_not(
    translator: Translator, side: int
) -> None:
    positions, encode = translator.model.config.max_length, translator.source_tokenizer.encode
    word = next(word for word in " ".join(TEXTS).split() if len(encode(word)) == 1)
    for tokens in (positions - 1, positions):  # a symbol stands before or after them
        texts = ["Ja", "Ja"]
        texts[side] = " ".join([word] * tokens)
        assert len(encode(texts[side])) == tokens
        assert bool(align(translator, [texts[0]], [texts[1]], [MIDDLE])[0][0]) == (tokens < positions)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_the_pieces_of_a_word_spell_it_in_every_tokenizer(kind: Kind) -> None:
    tokenizer = train_tokenizer(TEXTS, tokenizer_settings(kind, 1500 if kind == "word" else 400))
    for text in [*TEXTS[:50], "Der  ☃ Hund☃", "☃"]:
        pieces = tokenizer.pieces(text)
        indices = tokenizer.word_indices(pieces)
        words = ["".join(p for p, i in zip(pieces, indices, strict=True) if i == n) for n in range(max(indices) + 1)]
        assert [word.replace("▁", "").replace("⁀", "") for word in words] == text.split()
    # Joined unknown words are counted, in any piece.
    assert tokenizer.word_indices(tokenizer.pieces("☃ ☃ („☃“) Der"))[-1] == 3


def test_unknown_words_before_punctuation_are_counted_as_they_are_shown() -> None:
    tokenizer = train_tokenizer(TEXTS, tokenizer_settings("word", 1500))
    for text in ("☃, weil ☃ ☃. Der ☃!", ", Der Hund", ".", "☃", "Der ☃ („☃“)"):
        ids = tokenizer.encode(text)
        words = tokenizer.decode(ids).split()
        assert tokenizer.word_indices([tokenizer.piece(id) for id in ids])[-1] == len(words) - 1
    assert tokenizer.decode(tokenizer.encode("☃, Der")) == "⁇, Der"


@pytest.mark.parametrize(
    ("kind", "pieces", "indices"),
    [
        ("word", ["▁Der", "</s>", "<2de>", "▁Hund"], [0, -1, -1, 1]),
        ("word", ["▁⁀.", "▁Der"], [0, 1]),  # punctuation without a word before it
        ("char", ["▁", "J", "a", "▁"], [0, 0, 0, 0]),  # a space without a word after it
    ],
)
def test_what_an_untrained_model_may_write_is_counted_as_it_is_shown(
    kind: Kind, pieces: list[str], indices: list[int]
) -> None:
    tokenizer = train_tokenizer(TEXTS, tokenizer_settings(kind, 1500)).with_tags(["de"])
    assert tokenizer.word_indices(pieces) == indices
    assert max(indices) == len(tokenizer.decode(tokenizer.ids(pieces)).split()) - 1


def test_the_choice_of_training_stays_with_the_file(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "plain.safetensors")
    assert Translator.load(tmp_path / "plain.safetensors").alignment is None
    translator.alignment = MIDDLE
    translator.save(tmp_path / "chosen.safetensors")
    translator.alignment = None
    assert Translator.load(tmp_path / "chosen.safetensors").alignment == MIDDLE


@pytest.mark.parametrize("wrong", [{"layer": 4}, {"head": 9}, {"head": 0}, {"layer": 1.5}, {"code": "x"}])
def test_a_file_that_names_other_weights_than_it_holds_is_refused(
    translator: Translator, tmp_path: Path, wrong: dict[str, object]
) -> None:
    path = tmp_path / "translator.safetensors"
    translator.save(path)
    with safetensors.safe_open(path, "pt") as file:
        description = json.loads(file.metadata()["translator"])
    description["alignment"] = asdict(MIDDLE) | wrong
    content = safetensors.torch.load(path.read_bytes())
    about = {"translator": json.dumps(description), "sha256": digest(description, content)}
    safetensors.torch.save_file(content, path, about)
    with pytest.raises(ValueError, match=r"is not a usable checkpoint of this program: .*alignment"):
        Translator.load(path)


def test_weights_that_are_not_there_are_refused_by_name(translator: Translator) -> None:
    with pytest.raises(ValueError, match="has layers 1 to 3, each with heads 1 to 3"):
        asked_head(AlignmentSettings(layer=4), translator.model.config, None)
    for head, shifted in ((2, False), (None, True)):
        with pytest.raises(SettingError, match=r"^layer is missing"):
            AlignmentSettings(None, head, shifted)
    config = translator.model.config
    assert asked_head(AlignmentSettings(), config, None) == default_head(config)
    assert asked_head(AlignmentSettings(2, 3), config, None) == MIDDLE
    assert asked_head(AlignmentSettings(), config, MIDDLE) == MIDDLE, "as training finds it"
    blind = from_dict(ModelConfig, model_dict(decoder__cross_attention=None), "model")
    with pytest.raises(ValueError, match="no cross-attention"):
        default_head(blind)
