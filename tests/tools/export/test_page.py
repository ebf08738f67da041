"""The page that translates, in browsers: its tokenizer compared with SentencePiece; sentences and model with ours."""

import os
import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases import others_long
from tests.factories import tokenizer_settings
from tests.tools.export.models import Build, random_translator
from tests.tools.export.pages import Open
from transformer import Translator
from transformer.data.text_files import read_lines
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, train_tokenizer
from transformer.inference.long_text import ABBREVIATIONS, split_sentences
from transformer.inference.settings import Defaults, SearchSettings
from transformer.model.attention import AttentionRecord
from transformer.model.config import POSITIONS as ALL_POSITIONS
from transformer.model.config import SCORES as ALL_SCORES
from transformer.model.config import ModelConfig
from transformer.model.positions import NoPositions
from transformer.tools.hub.vocabulary import parse
from transformer.tools.page.export import ACTIVATIONS, POSITIONS, SCORES, check, rounded

PROJECT = Path(__file__).parents[3]
TOY, RUNTIME = PROJECT / "data" / "toy", PROJECT / "transformer" / "tools" / "page" / "html" / "runtime"
# The number of strings for each tokenizer; PAGE_STRINGS=10000 for a thorough run.
STRINGS = int(os.environ.get("PAGE_STRINGS", "200"))


def random_texts(count: int) -> list[str]:
    """Sentences, and strings of letters with accents beside them, CJK, emoji, controls, spaces, any code points."""
    draw = random.Random(1)
    sentences = [line for split in ("validation.de", "validation.en") for line in read_lines(TOY / split)]

    def letters(*ranges: tuple[int, int]) -> str:
        return "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(draw.randint(1, 8)))

    kinds: list[Callable[[], str]] = [
        lambda: draw.choice(sentences),
        lambda: unicodedata.normalize("NFD", draw.choice(sentences)),
        lambda: "".join(draw.choice("aeouÀéß") + draw.choice(["\u0301", "\u0308\u0323", ""]) for _ in range(4)),
        lambda: letters((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0xFF00, 0xFFEF)),
        lambda: draw.choice(["👩\u200d🔬", "👍🏽🎉", "🇩🇪", "🏳️\u200d🌈"]),
        lambda: letters((0, 0x20), (0x7F, 0xA0)),
        lambda: draw.choice("elmnorst") * draw.randint(3, 7),  # several equally good segmentations
        lambda: draw.choice([" ", "  ", "\u3000", "\u00a0\t", "\ufeff", "\u200b", "▁", "⁀", "\u2028", "\r\n"]),
        lambda: draw.choice(["<2en>", "<s>", "</s>", "<unk>", "<0x41>", "</script>", "don't!?", "½ № ﬁ Ω"]),
        lambda: letters((0x20, 0xD7FF), (0xE000, 0x10FFFF), (0xA0, 0x2FFF)),
    ]
    texts = ["".join(draw.choice(kinds)() for _ in range(draw.randint(1, 5))) for _ in range(count)]
    # The letters depend on the version of Unicode.
    return ["".join(letter for letter in text if unicodedata.category(letter) != "Cn") for text in texts]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [*random_texts(STRINGS), "a ▁ ▁"]


@pytest.mark.parametrize(
    ("kind", "fallback", "normalization"),
    others_long(
        [
            *((kind, False, "nfc") for kind in ("bpe", "unigram", "word", "char")),
            *(
                ("bpe", True, "identity"),
                ("unigram", True, "nfkc"),
                ("word", True, "identity"),
                ("char", True, "nmt_nfkc"),
            ),
        ],
        short=2,
    ),
)
def test_ids_and_texts_are_those_of_sentencepiece(
    open_page: Open, texts: list[str], kind: str, fallback: bool, normalization: str
) -> None:
    sentences = [line for split in ("train.de", "train.en") for line in islice(read_lines(TOY / split), 300)]
    settings = tokenizer_settings(kind, 600, byte_fallback=fallback, normalization=normalization)
    tokenizer = train_tokenizer([*sentences, "你好世界", "żółć Ω 🎉"], settings, ("de", "en"))
    if fallback and kind != "unigram":  # for unigram, versions of SentencePiece count such a piece differently
        model = parse(tokenizer.model)
        for piece in model.pieces[300:400]:  # as in tokenizers of others: these are found before all other pieces
            piece.type = piece.USER_DEFINED
        tokenizer = Tokenizer(model.SerializeToString(), tokenizer.kind)
    opened = open_page(random_translator(tokenizer))
    draw, size = random.Random(1), len(tokenizer)
    ids = [[draw.randrange(size) for _ in range(draw.randint(0, 12))] for _ in texts]
    # Bytes that spell their own notation, also around a symbol that is not text.
    ids += [*tokenizer.encode_all(texts), [*tokenizer.ids(["<0xC3>"]), PAD, *tokenizer.ids(["<0xA9>"])]]
    found = opened.ask("([texts, ids]) => window.translator.tokenize({texts, ids})", texts, ids)
    tagged = Tokenizer(tokenizer.model, tokenizer.kind, "en")
    for text, expected, one in zip(texts, tagged.encode_all(texts), found["ids"], strict=True):
        assert one == (expected if text.strip() and len(expected) > 1 else []), repr(text)
    assert found["texts"] == [tokenizer.decode(one) for one in ids]


def test_the_defaults_of_a_search_are_those_of_ours() -> None:
    [defaults] = re.findall(r"DEFAULTS = \{(.*?)\};", (RUNTIME / "search.js").read_text(encoding="utf-8"), re.DOTALL)
    numbers = {name: float(value) for name, value in re.findall(r"(\w+): ([\d.]+)", defaults)}
    ours = asdict(SearchSettings().with_defaults(Defaults()))
    assert numbers == {name: value for name, value in ours.items() if isinstance(value, int | float)}


def texts_of_sentences(count: int) -> list[str]:
    """Words, numbers and abbreviations, with the marks, quotes and spaces that may end a sentence."""
    draw = random.Random(2)
    words = [
        "",
        *"Er sie ÄRA z Dr usw 3 21 1990 ٣ ²² ª _ 今日 हाँ 𝒳 𐐷".split(),
        *("🎉" * count + "b" for count in (9, 19, 20)),
    ]
    marks, closing = [*"......!?…؟۔।։።။។。！？,"], ["", "", *"\"'”’»)]」』）", "?)"]
    spaces = ["", " ", " ", " ", " ", "  ", "\n", "\u00a0", "\u3000", "\x1c", "\x85", "\ufeff"]
    parts = (words, spaces, words, ["", "", "", "\n"], marks, closing, spaces)
    return ["".join(draw.choice(part) for _ in range(draw.randint(1, 6)) for part in parts) for _ in range(count)]


@pytest.mark.long
def test_the_sentences_of_a_text_are_those_that_the_server_finds(
    open_page: Open, build: Build, texts: list[str]
) -> None:
    abbreviated = [f"Hier {word}. Da {word}! {word}." for word in sorted(ABBREVIATIONS)]
    every = [*texts_of_sentences(20 * STRINGS), *abbreviated, *texts, "", " ", "a. " * 1000 + "B"]
    found = open_page(build()).ask("([texts]) => window.translator.split({ texts })", every)
    assert found == [split_sentences(text) for text in every]


ATTENTIONS = ("encoder__self_attention", "decoder__self_attention", "decoder__cross_attention")


def in_all_attentions(**settings: object) -> dict[str, object]:
    return {f"{attention}__{key}": value for attention in ATTENTIONS for key, value in settings.items()}


VARIANTS: dict[str, dict[str, object]] = {
    "as the presets": {},
    "learned, post, gelu, dot": {
        "positions": "learned",
        "norm": "post",
        "feed_forward__activation": "gelu",
        **in_all_attentions(score="dot"),
    },
    "rotary, swiglu, bilinear, nothing tied, no biases": {
        "positions": "rotary",
        "feed_forward__activation": "swiglu",
        "tied_embeddings": "none",
        **in_all_attentions(score="bilinear", bias=False),
    },
    "alibi, additive, target tied, heads of a width of their own": {
        "positions": "alibi",
        "tied_embeddings": "target",
        **in_all_attentions(score="additive", head_dim=6, value_dim=5),
    },
    "no positions, concat, other heads": {
        "positions": "none",
        "encoder__self_attention__heads": 4,
        "decoder__cross_attention__heads": 2,
        **in_all_attentions(score="concat"),
    },
    "rotary concat, post, silu, output bias": {
        "positions": "rotary",
        "norm": "post",
        "feed_forward__activation": "silu",
        "output_bias": True,
        **in_all_attentions(score="concat"),
    },
    "no cross-attention": {"decoder__cross_attention": None},
}
SOURCE, TARGET = [5, 9, 20, 33, 7, 41, 12, EOS], [8, 15, 16, 23, 42, 4]


def test_the_page_runs_every_model_that_can_be_trained(build: Build) -> None:
    assert set(POSITIONS) == set(ALL_POSITIONS)
    assert set(SCORES) == set(ALL_SCORES)
    used = [build(**changes).model.config for changes in VARIANTS.values()]
    assert {config.positions for config in used} == set(POSITIONS)
    assert {attention.score for config in used for attention in config.attentions().values()} == set(SCORES)
    assert {config.feed_forward.activation for config in used} == set(ACTIVATIONS)
    # A new setting of a model must be known to model.js.
    settings = "source_vocab_size target_vocab_size dim positions max_length norm tied_embeddings output_bias dropout"
    assert {field.name for field in fields(ModelConfig)} == {*settings.split(), "feed_forward", "encoder", "decoder"}


def test_a_model_with_a_part_that_the_page_lacks_is_refused_by_its_setting(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ALL_POSITIONS, "binary", NoPositions)
    with pytest.raises(ValueError, match=r"^model\.positions=binary cannot be exported to a page: it supports sinus"):
        check(build(positions="binary"))


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda model: setattr(model.normalizer_spec, "remove_extra_whitespaces", False),
        lambda model: setattr(model.normalizer_spec, "add_dummy_prefix", False),
        lambda model: setattr(model.normalizer_spec, "escape_whitespaces", False),
        lambda model: setattr(model.trainer_spec, "treat_whitespace_as_suffix", True),
        lambda model: setattr(model.pieces[-1], "piece", "a▁b"),
    ],
)
def test_a_tokenizer_that_handles_spaces_otherwise_is_refused(build: Build, otherwise: Callable[[Any], None]) -> None:
    translator = build()
    model = parse(translator.source_tokenizer.model)
    otherwise(model)
    other = Tokenizer(model.SerializeToString(), "bpe")
    with pytest.raises(ValueError, match=r"^this tokenizer cannot be exported to a page: it handles spaces"):
        check(Translator(translator.model, (other, other), ("de", "en")))


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda model: setattr(model.pieces[-1], "type", model.pieces[-1].UNUSED),
        lambda model: setattr(
            model.denormalizer_spec, "precompiled_charsmap", model.normalizer_spec.precompiled_charsmap
        ),
        lambda model: setattr(model.trainer_spec, "unk_surface", "?"),
    ],
)
def test_a_tokenizer_that_would_translate_otherwise_on_a_page_is_refused(
    build: Build, otherwise: Callable[[Any], None]
) -> None:
    translator = build()
    model = parse(translator.source_tokenizer.model)
    otherwise(model)
    other = Tokenizer(model.SerializeToString(), "bpe")
    with pytest.raises(ValueError, match=r"^this tokenizer cannot be exported to a page: it has unused merges"):
        check(Translator(translator.model, (translator.source_tokenizer, other), ("de", "en")))


@pytest.mark.parametrize(
    ("variant", "precision"),
    others_long([("as the presets", "float16"), *((name, "int8") for name in VARIANTS)], short=4),
)
def test_logits_and_attention_are_those_of_pytorch_with_the_same_weights(
    open_page: Open, build: Build, variant: str, precision: str
) -> None:
    translator = build(**VARIANTS[variant])
    found = open_page(translator, precision).ask(
        """([source, target]) => window.translator.read({source, target}).then(({logits, attention}) => (
          { logits: logits.map(row => [...row]), attention: Object.fromEntries(Object.entries(attention).map(
            ([name, layers]) => [name, layers.map(heads => heads.map(head => head.map(row => [...row])))])) }))""",
        SOURCE,
        TARGET,
    )
    model, record = rounded(translator, precision).model, AttentionRecord([], [], [])
    with torch.no_grad():
        memory = model.encode(torch.tensor([SOURCE]), record=record)
        logits = model.decode(torch.tensor([[BOS, *TARGET]]), memory, record=record)
    torch.testing.assert_close(torch.tensor(found["logits"]), logits[0], atol=1e-4, rtol=0)
    for name, layers in record._asdict().items():
        assert len(found["attention"][name]) == len(layers)
        for weights, expected in zip(found["attention"][name], layers, strict=True):
            torch.testing.assert_close(torch.tensor(weights), expected[0], atol=1e-5, rtol=0)
