"""Alignment error rate, the statistical aligner, and the choice of the attention weights for alignment."""

from pathlib import Path

import pytest
import torch

from tests.factories import model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.aligner import word_alignments
from transformer.data.tokenizer import train_tokenizer
from transformer.evaluation.alignment_error import (
    Gold,
    best_head,
    error_rate,
    error_rates,
    read_gold,
)
from transformer.inference.alignment_head import AlignmentHead

TOY = Path(__file__).parents[2] / "data" / "toy"
SIDES = [(TOY / f"validation.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
PAIRS = list(zip(*SIDES, strict=True))


def test_the_error_rate_is_that_of_its_formula() -> None:
    gold = [Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}), Gold({(0, 0)}, {(0, 0)})]
    # A has 4 links, S 3; A ∩ S is {0-0, 1-1} and A ∩ P {0-0, 1-1, 2-1}.
    assert error_rate([[(0, 0), (1, 1), (2, 1)], [(5, 0)]], gold) == pytest.approx(100 * (1 - (2 + 3) / (4 + 3)))
    assert error_rate([[(0, 0), (1, 1)], [(0, 0)]], gold) == 0
    assert error_rate([[], []], gold) == 100


def test_the_statistical_aligner_finds_most_links_of_the_grammar() -> None:
    gold = read_gold(TOY / "validation.alignments", PAIRS)
    assert error_rate(word_alignments(PAIRS), gold) < 22
    diagonal = [[(min(j, len(de.split()) - 1), j) for j in range(len(en.split()))] for de, en in PAIRS]
    assert error_rate(diagonal, gold) > 45


def copying() -> Translator:
    """A model whose second layer only looks at the source token that equals its input token."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(SIDES[0], tokenizer_settings("bpe", 400))
    changes = {"source_vocab_size": 400, "target_vocab_size": 400, "tied_embeddings": "all", "positions": "none"}
    model = Transformer(from_dict(ModelConfig, model_dict(decoder__layers=2, **changes), "model"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layers" in name and "norm" not in name:
                weight.zero_()
        attention = model.decoder.layers[1].cross_attention
        for projection in (attention.query, attention.key):
            projection.weight.copy_(10 * torch.eye(24))
    return Translator(model.eval(), (tokenizer, tokenizer), ("de", "de"))


def test_the_weights_that_follow_the_words_are_chosen() -> None:
    translator, pairs = copying(), [(text, text) for text in SIDES[0]]
    chosen = best_head(translator, pairs[:30], pairs[30:200])
    assert chosen == AlignmentHead(2, None, shifted=True)
    gold = [Gold(links, links) for links in ({(i, i) for i in range(len(text.split()))} for text, _ in pairs[:30])]
    rates = error_rates(translator, pairs[:30], gold)
    assert rates[chosen] == min(rates.values()) < 10
    assert rates[AlignmentHead(1, None, shifted=True)] > 50


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0-0\n", r"has 1 lines, the corpus 2 pairs"),
        ("0-0\n0-0 x\n", r"line 2: x is no link"),
        ("1-1\n0-1\n", r"line 2: 0-1 names a word that the pair does not have"),
        ("1-1\n1-0\n", r"line 2: 1-0 names a word that the pair does not have"),
    ],
)
def test_a_gold_file_of_other_pairs_is_reported_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "gold").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        read_gold(tmp_path / "gold", [("a b", "x y"), ("c", "z")])


def test_a_link_that_is_given_twice_is_sure_if_one_of_them_is(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0 0p0 1p1\n0p0 0-0\n", encoding="utf-8")
    first, second = read_gold(tmp_path / "gold", [("a b", "x y"), ("c", "z")])
    assert first == ({(0, 0)}, {(0, 0), (1, 1)})
    assert second == ({(0, 0)}, {(0, 0)})
