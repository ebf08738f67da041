"""Minimum Bayes risk and reranking: the hypotheses have the order of the formula, computed separately."""

import copy
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF

from tests.cases import others_long
from tests.factories import model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import BOS, EOS, train_tokenizer
from transformer.evaluation.metrics import METRICS
from transformer.inference.choosing import Chooser, pair_log_probabilities
from transformer.inference.parts import EMPTY, Translation
from transformer.inference.settings import ChoiceSettings, Defaults, InferenceSettings
from transformer.inference.translator import BEAM

TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "", "wir gehen in den Park, weil die Sonne scheint"]
SEARCH = replace(BEAM, length_ratio=1.0, length_extra=3)
SAMPLING = replace(SEARCH, method="sampling")
SCORE = ChoiceSettings()
MBR = ChoiceSettings("mbr", samples=6)


def untrained(seed: int, *directions: tuple[str, str]) -> Translator:
    torch.manual_seed(seed)
    tags = sorted({target for _, target in directions}) if len(directions) > 1 else []
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 60), tags)
    config = from_dict(ModelConfig, model_dict(source_vocab_size=60, target_vocab_size=60, max_length=40), "model")
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output.weight.mul_(2)  # so that an untrained model has preferences
    return Translator(model, (tokenizer, tokenizer), directions[0], directions)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained(1, ("de", "en"))


@pytest.fixture(scope="module")
def reverse() -> Translator:
    return untrained(2, ("en", "de"))


@pytest.mark.long
def test_by_score_the_hypotheses_are_those_of_the_search(translator: Translator) -> None:
    assert Chooser(translator, SCORE).n_best(TEXTS, SEARCH) == translator.n_best(TEXTS, SEARCH)
    assert Chooser(translator, SCORE).n_best(TEXTS, SAMPLING) == translator.n_best(TEXTS, SAMPLING)


@pytest.mark.long
def test_no_draw_of_one_seed_is_one_of_the_next(translator: Translator) -> None:
    chooser = Chooser(translator, MBR)
    drawn = [{one.text for one in chooser.n_best(TEXTS[-1:], replace(SAMPLING, seed=seed))[0]} for seed in (1, 2, 3)]
    assert len(set.union(*drawn)) == sum(map(len, drawn)) == 3 * MBR.samples


def test_reranking_counts_a_hypothesis_that_was_drawn_twice_once(translator: Translator, reverse: Translator) -> None:
    settings = replace(SCORE, choose="rerank", reverse="x", samples=6)
    for hypotheses in Chooser(translator, settings, reverse).n_best(TEXTS, replace(SAMPLING, top_k=1)):
        assert len(hypotheses) == 1


@pytest.mark.parametrize(("name", "metric"), others_long([("chrf", CHRF()), ("bleu", BLEU(effective_order=True))]))
def test_minimum_bayes_risk_takes_the_hypothesis_most_like_the_others(
    translator: Translator, name: str, metric: CHRF | BLEU
) -> None:
    chooser = Chooser(translator, replace(MBR, similarity=name))
    drawn = [translator.n_best(TEXTS, replace(SAMPLING, seed=6 * SAMPLING.seed + draw)) for draw in range(6)]
    sampled = [[hypotheses[0] for hypotheses in of_text] for of_text in zip(*drawn, strict=True)]
    assert len({one.text for one in sampled[1]}) > 3
    for search, pool in ((SEARCH, translator.n_best(TEXTS, SEARCH)), (SAMPLING, sampled)):
        for chosen, hypotheses in zip(chooser.n_best(TEXTS, search), pool, strict=True):
            is_sampled = search is SAMPLING
            shares = [1.0 if is_sampled else math.exp(one.log_probability) for one in hypotheses]
            assert {one.text for one in chosen} == {one.text for one in hypotheses}
            gains = [
                sum(
                    share * metric.sentence_score(one.text, [other.text]).score
                    for other, share in zip(hypotheses, shares, strict=True)
                )
                for one in chosen
            ]
            assert gains == pytest.approx(sorted(gains, reverse=True))


def by_consensus(chooser: Chooser, *hypotheses: tuple[str, float]) -> list[tuple[str, float]]:
    """Sampled texts with their scores, in the order of the choice."""
    drawn = [Translation(text, score, score, text.split()) for text, score in hypotheses]
    return [(one.text, one.score) for one in chooser._by_consensus(drawn, drawn=True)]


def test_a_hypothesis_drawn_twice_counts_twice_with_its_better_score(translator: Translator) -> None:
    first, second, third = ("aaaa", -3.0), ("aaaa", -2.0), ("zzzz", -1.0)
    for order in itertools.permutations([first, second, third]):
        assert by_consensus(Chooser(translator, MBR), *order) == [second, third]


def test_the_likelier_of_two_equally_similar_hypotheses_comes_first(translator: Translator) -> None:
    for order in itertools.permutations([("aaaa", -3.0), ("kkkk", -2.0), ("zzzz", -1.0)]):
        assert [score for _, score in by_consensus(Chooser(translator, MBR), *order)] == [-1.0, -2.0, -3.0]


def test_the_metric_splits_words_as_the_target_language_does() -> None:
    chooser = Chooser(untrained(1, ("de", "zh")), replace(MBR, similarity="bleu"))
    found = by_consensus(chooser, ("完全不同的另一句话", -1.0), ("我喜欢这只小狗", -2.0), ("我喜欢这只大狗", -3.0))
    assert found[-1][1] == -1.0


def test_the_bleu_that_scores_a_corpus_stays_as_it_is(translator: Translator) -> None:
    by_consensus(Chooser(translator, replace(MBR, similarity="bleu")), ("ja", -1.0), ("nein", -2.0))
    bleu = METRICS["bleu"].build("en")
    assert isinstance(bleu, BLEU)
    assert not bleu.effective_order


def test_the_log_probability_of_a_pair_is_that_of_its_tokens_one_by_one(translator: Translator) -> None:
    pairs, expected = [(TEXTS[0], "ja"), (TEXTS[3], TEXTS[1]), ("Hund", TEXTS[3])], []
    for source, target in pairs:
        ids = [BOS, *translator.target_tokenizer.encode(target), EOS]
        total = 0.0
        with torch.inference_mode():
            state = translator.init_state(torch.tensor([[*translator.source_tokenizer.encode(source), EOS]]))
            for id, following in itertools.pairwise(ids):
                scores, state = translator.log_probabilities(torch.tensor([id]), state)
                total += scores[0, following].item()
        expected.append(total)
    assert pair_log_probabilities(translator, pairs) == pytest.approx(expected, abs=1e-4)
    assert pair_log_probabilities(translator, pairs, batch_tokens=1) == pytest.approx(expected, abs=1e-4)
    assert pair_log_probabilities(translator, [("", "ja"), ("ja", ""), ("ja " * 50, "ja")]) == [-math.inf] * 3
    scored = translator.score(*map(list, zip(*pairs, strict=True)))
    assert [one.log_probability for one in scored] == pytest.approx(expected, abs=1e-4)
    for one, (source, target), total in zip(scored, pairs, expected, strict=True):
        assert one.pieces == [
            translator.target_tokenizer.piece(id) for id in (*translator.target_tokenizer.encode(target), EOS)
        ]
        assert one.perplexity == pytest.approx(math.exp(-total / len(one.pieces)), rel=1e-4)
        assert translator.score(source, target).log_probabilities == pytest.approx(one.log_probabilities, abs=1e-4)
    with pytest.raises(ValueError, match=r"^pair 2 has an empty side, or one of more than \d+ tokens$"):
        translator.score(["ja", "ja"], ["ja", ""])
    with pytest.raises(TypeError, match="must be two texts, or two lists of texts"):
        translator.score("ja", ["nein"])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"^there are 1 sources and 2 targets"):
        translator.score(["ja"], ["ja", "nein"])


def test_an_empty_text_has_no_probability_with_the_tag_of_a_language_either() -> None:
    both = untrained(2, ("en", "de"), ("de", "en"))
    assert both.source_tokenizer.prefix
    empty, other = pair_log_probabilities(both, [("", "ja"), ("Hund", "ja")])
    assert empty == -math.inf < other


def test_a_pair_has_a_probability_as_long_as_each_side_fits_with_its_end_symbol(translator: Translator) -> None:
    texts = ["e" * count for count in range(30, 45)]
    lengths = [len(translator.source_tokenizer.encode(text)) for text in texts]
    assert {translator.max_length - 1, translator.max_length} <= {*lengths}
    for pairs in ([(text, "ja") for text in texts], [("ja", text) for text in texts]):
        found = pair_log_probabilities(translator, pairs)
        assert [math.isfinite(one) for one in found] == [length < translator.max_length for length in lengths]


@pytest.mark.long
def test_the_best_draw_of_a_text_in_parts_is_taken_with_one_notice(
    translator: Translator, reverse: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(SCORE, choose="rerank", reverse="x", samples=6)
    [found] = Chooser(translator, settings, reverse).n_best([" ".join(TEXTS * 4)], SAMPLING)
    scores = [one.score for one in found]
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    assert len([message for message in caplog.messages if "translated in" in message]) == 1


@pytest.mark.parametrize(("weight", "penalty"), [(0.5, 1.0), (3.0, 1.0), (0.5, 1.8)])
def test_reranking_adds_the_score_of_the_reverse_model(
    translator: Translator, reverse: Translator, weight: float, penalty: float
) -> None:
    settings, search = (
        replace(SCORE, choose="rerank", reverse="x", reverse_weight=weight),
        replace(SEARCH, length_penalty=penalty),
    )
    chosen = Chooser(translator, settings, reverse).n_best(TEXTS, search)
    assert chosen[2] == [EMPTY]
    for text, after, before in zip(TEXTS, chosen, translator.n_best(TEXTS, search), strict=True):
        channel = [pair_log_probabilities(reverse, [(one.text, text)])[0] for one in before]
        totals = [
            (one.log_probability + weight * back) / (len(one.pieces) + 1) ** penalty
            for one, back in zip(before, channel, strict=True)
        ]
        order = sorted(range(len(before)), key=lambda index: -totals[index])
        assert after == [before[index] for index in order]


@pytest.mark.long
def test_without_a_length_penalty_in_the_search_the_models_own_reranks(
    translator: Translator, reverse: Translator
) -> None:
    settings, own = replace(SCORE, choose="rerank", reverse="x", samples=6), copy.copy(translator)
    own.defaults = Defaults(length_penalty=-3.0)
    unsaid, said, other = (
        Chooser(model, settings, reverse).n_best(TEXTS, replace(SAMPLING, length_penalty=penalty, no_repeat=0))[-1]
        for model, penalty in ((own, None), (translator, -3.0), (translator, reverse.defaults.length_penalty))
    )
    assert unsaid == said
    assert unsaid[0].pieces != other[0].pieces  # sampled texts differ in length


@pytest.mark.parametrize("directions", [[("en", "de")], [("de", "en"), ("en", "de")]], ids=["one", "both"])
def test_a_reverse_run_is_asked_for_the_other_direction(
    translator: Translator, reverse: Translator, directions: list[tuple[str, str]], tmp_path: Path
) -> None:
    saved = Translator(reverse.model, reverse.tokenizers, directions[0], directions)
    saved.save(tmp_path / "reverse.safetensors")
    settings = replace(SCORE, choose="rerank", reverse=str(tmp_path / "reverse.safetensors"))
    loaded = Chooser.load(translator, settings, InferenceSettings("cpu", "float32", 2048))
    chosen = Chooser(translator, settings, saved.in_direction("en", "de")).n_best(TEXTS, SEARCH)
    assert loaded.n_best(TEXTS, SEARCH) == chosen != translator.n_best(TEXTS, SEARCH)
    rounded = Chooser.load(translator, settings, InferenceSettings("cpu", "bfloat16", 2048)).reverse
    assert rounded is not None
    assert rounded.model.output.weight.dtype == torch.bfloat16


def test_a_reverse_run_of_other_languages_is_named(translator: Translator, reverse: Translator, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    Translator(reverse.model, reverse.tokenizers, ("fr", "en")).save(path)
    said = f"--reverse {path}: the checkpoint translates fr → en, not from en to de"
    with pytest.raises(ValueError, match=re.escape(said)):
        Chooser.load(
            translator,
            replace(SCORE, choose="rerank", reverse=str(path)),
            InferenceSettings("cpu", "float32", 2048),
        )


@pytest.mark.parametrize(("key", "value"), [("samples", 1), ("reverse_weight", 0.0)])
def test_a_choice_among_one_hypothesis_or_without_a_method_is_refused(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{key}={value}\b.* must be "):
        replace(SCORE, **{key: value})


def test_a_translation_by_two_models_names_both() -> None:
    assert SCORE.models == MBR.models == []
    assert replace(SCORE, choose="rerank", reverse="x").models == [Path("x").absolute()]


def test_an_impossible_choice_is_reported(translator: Translator, reverse: Translator) -> None:
    with pytest.raises(ValueError, match="choose=rerank and reverse"):
        replace(SCORE, choose="rerank")
    with pytest.raises(ValueError, match="choose=rerank and reverse"):
        replace(SCORE, reverse="x")
    for search in (replace(BEAM, method="greedy"), replace(BEAM, beam=1)):
        with pytest.raises(ValueError, match="choose=mbr needs several hypotheses"):
            MBR.check(search)
        SCORE.check(search)
    MBR.check(replace(SAMPLING, beam=1))  # sampling has no beam
    MBR.check(replace(BEAM, beam=2))
    with pytest.raises(ValueError, match=r"--reverse .*x translates de → en: it must be the reverse of de → en"):
        Chooser(translator, replace(SCORE, choose="rerank", reverse="x"), translator)
