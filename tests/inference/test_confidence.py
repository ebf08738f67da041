"""Confidence: the model's own probabilities, computed in another way, and the words that they belong to."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from benchmarks.confidence import auroc, worst_quarter
from tests.tools.export.models import TEXTS, random_translator, small_tokenizer, teach_to_repeat
from transformer import Translator
from transformer.data.tokenizer import BOS, EOS, Tokenizer
from transformer.inference.alignment_head import AlignmentHead, default_head
from transformer.inference.confidence import with_words
from transformer.inference.ensemble import Ensemble
from transformer.inference.parts import Translation
from transformer.inference.settings import SearchSettings
from transformer.inference.word_alignment import align

GREEDY = SearchSettings(method="greedy")


@pytest.fixture(scope="module")
def translator() -> Translator:
    translator = random_translator(small_tokenizer())
    teach_to_repeat(translator, steps=60)
    return translator


def best(translator: Translator, texts: list[str], search: SearchSettings = GREEDY) -> list[Translation]:
    return [hypotheses[0] for hypotheses in translator.n_best(texts, search, split_lines="sentences")]


def by_hand(translator: Translator, text: str, translation: Translation) -> list[tuple[str, float]]:
    """The words (▁ begins one), with the geometric mean of their pieces' probabilities by the plain model."""
    source, target = translator.tokenizers
    ids = target.ids(translation.pieces)
    with torch.no_grad():
        logits = translator.model(torch.tensor([[*source.encode(text), EOS]]), torch.tensor([[BOS, *ids]]))
    probabilities = [row[id].item() for row, id in zip(logits[0].softmax(dim=-1), ids, strict=False)]
    starts = [place for place, piece in enumerate(translation.pieces) if piece.startswith("▁")] + [len(ids)]
    words = [range(start, end) for start, end in itertools.pairwise(starts)]
    return [
        (
            "".join(translation.pieces[place] for place in word).removeprefix("▁"),
            math.prod(probabilities[place] for place in word) ** (1 / len(word)),
        )
        for word in words
    ]


def test_a_word_has_the_geometric_mean_of_what_the_model_gives_its_pieces(translator: Translator) -> None:
    texts = ["der kleine Hund läuft schnell", "wir gehen in den Park"]
    found = with_words(translator, texts, best(translator, texts))
    assert any(len(one.pieces) > len(one.words or []) > 1 for one in found), "words of several pieces"
    for text, one in zip(texts, found, strict=True):
        expected = by_hand(translator, text, one)
        assert [word.text for word in one.words or []] == one.text.split() == [word for word, _ in expected]
        assert [word.confidence for word in one.words or []] == pytest.approx(
            [value for _, value in expected], rel=1e-4
        )


def test_the_source_of_a_word_is_that_of_the_alignment(translator: Translator) -> None:
    translations = best(translator, TEXTS)
    for head in (None, AlignmentHead(1, 2, shifted=True)):
        taken = head or default_head(translator.model.config)
        links = align(translator, TEXTS, [one.pieces for one in translations], [taken])
        for one, [of_head] in zip(with_words(translator, TEXTS, translations, head), links, strict=True):
            assert [(word.source, place) for place, word in enumerate(one.words or [])] == of_head


def test_the_confidence_of_a_translation_is_one_by_the_perplexity_that_score_gives(translator: Translator) -> None:
    pairs = [(text, one) for text, one in zip(TEXTS, best(translator, TEXTS), strict=True) if one.text]
    # A text usually has the pieces that the search found.
    same = [(text, one) for text, one in pairs if translator.target_tokenizer.pieces(one.text) == one.pieces]
    assert len(same) > len(pairs) / 2
    scored = translator.score([text for text, _ in same], [one.text for _, one in same])
    assert [one.confidence for _, one in same] == pytest.approx([1 / one.perplexity for one in scored], rel=1e-4)


def test_each_part_of_a_line_has_the_words_that_it_has_alone(translator: Translator) -> None:
    sentences = ["Der Park.", "12 + 3!", "Wir gehen in den Park."]
    line = " ".join(sentences)
    [together] = with_words(translator, [line], best(translator, [line]))
    alone = with_words(translator, sentences, best(translator, sentences))
    words = [word for one in alone for word in one.words or []]
    assert together.text == " ".join(one.text for one in alone)
    assert [word.text for word in together.words or []] == [word.text for word in words]
    assert [word.confidence for word in together.words or []] == pytest.approx([word.confidence for word in words])
    offsets = [offset for one, offset in zip(alone, (0, 2, 5), strict=True) for _ in one.words or []]
    sources = [word.source + offset for word, offset in zip(words, offsets, strict=True) if word.source is not None]
    assert [word.source for word in together.words or []] == sources
    assert alone[1].words == [("12", 1.0, 0), ("+", 1.0, 1), ("3!", 1.0, 2)]
    tokens = [len(one.pieces) + 1 for one in alone]
    logs = [count * math.log(one.confidence) for one, count in zip(alone, tokens, strict=True)]
    assert together.confidence == pytest.approx(math.exp(sum(logs) / sum(tokens)))


def test_copied_text_has_confidence_1_and_only_its_own_words(translator: Translator) -> None:
    [empty, kept] = with_words(translator, ["", "12:30 !"], best(translator, ["", "12:30 !"]))
    assert (empty.confidence, empty.words) == (1.0, [])
    assert (kept.confidence, kept.words) == (1.0, [("12:30", 1.0, 0), ("!", 1.0, 1)])
    silent = Translation("", -0.7, -0.7, [], source_ids=translator.source_tokenizer.encode("ja"))
    [one] = with_words(translator, ["ja"], [silent])
    assert (one.confidence, one.words) == (pytest.approx(math.exp(-0.7)), [])


def test_source_words_that_cannot_be_counted_are_unknown(translator: Translator) -> None:
    text = "der Hund。Ja"  # a word of the line that continues in the next part
    [one] = with_words(translator, [text], best(translator, [text]))
    assert len(one.parts) == 2
    assert one.words
    assert {word.source for word in one.words} == {None}
    assert all(0 < word.confidence < 1 for word in one.words)


def test_unknown_words_of_a_source_are_counted_as_they_are_written(translator: Translator) -> None:
    [one] = with_words(translator, ["☃ der ☃☃ Hund"], best(translator, ["☃ der ☃☃ Hund"]))
    assert {word.source for word in one.words or []} <= {0, 1, 2, 3}


def test_the_tag_of_a_source_is_no_word_of_it(translator: Translator) -> None:
    plain = translator.source_tokenizer
    tagged = Tokenizer(plain.with_tags(["en"]).model, "bpe", target_language_tag="en")
    network = random_translator(tagged).model
    both = Translator(network, (tagged, tagged), ("de", "en"))
    translations = best(both, ["der Hund"])
    [[links]] = align(both, ["der Hund"], [translations[0].pieces], [default_head(network.config)])
    [one] = with_words(both, ["der Hund"], translations)
    assert [(word.source, place) for place, word in enumerate(one.words or [])] == links


def test_models_together_are_as_sure_as_the_mean_of_their_probabilities(translator: Translator) -> None:
    members = [translator, Translator(random_translator(small_tokenizer()).model, translator.tokenizers, ("de", "en"))]
    together, text = Ensemble(members), "der kleine Hund läuft schnell"
    [one] = with_words(together, [text], best(together, [text]))
    # As in `by_hand`, for words of one piece.
    single = [place for place, word in enumerate(one.text.split()) if f"▁{word}" in one.pieces]
    alone = [by_hand(member, text, one) for member in members]
    means = [sum(words[place][1] for words in alone) / 2 for place in single]
    assert [(one.words or [])[place].confidence for place in single] == pytest.approx(means, rel=1e-4)
    assert one.confidence == pytest.approx(math.exp(one.log_probability / (len(one.pieces) + 1)))


def test_a_model_without_cross_attention_names_no_source() -> None:
    blind = random_translator(small_tokenizer(), decoder__cross_attention=None)
    [one] = with_words(blind, ["der Hund"], best(blind, ["der Hund"], replace(GREEDY, min_length=3, max_length=9)))
    assert one.words
    assert {word.source for word in one.words} == {None}


def test_the_auroc_is_the_share_of_pairs_that_are_in_the_right_order() -> None:
    torch.manual_seed(1)
    for values in (torch.rand(40), torch.randint(5, (40,)).float()):  # without and with ties
        confidences, is_bad = values.tolist(), (torch.rand(40) < 0.3).tolist()
        pairs = [
            (bad > good) * 0.0 + (bad == good) * 0.5 + (bad < good) * 1.0
            for bad in itertools.compress(confidences, is_bad)
            for good in itertools.compress(confidences, [not bad for bad in is_bad])
        ]
        assert auroc(confidences, is_bad) == pytest.approx(sum(pairs) / len(pairs))
    assert math.isnan(auroc([0.5, 0.6], [False, False]))


def test_the_worst_quarter_holds_no_score_that_others_have_too() -> None:
    assert worst_quarter([4, 1, 3, 2, 5, 6, 7, 8]) == [False, True, False, True] + [False] * 4
    assert worst_quarter([100, 20, 100, 100, 100]) == [False, True, False, False, False]
