"""Scores are sacrebleu's, in whatever parts the text comes."""

import random

import pytest
import sacrebleu

from transformer.evaluation import CorpusBLEU, score

random.seed(3)
WORDS = ["das", "Haus", "ist", "klein", ".", "Hund", ",", "läuft", "schnell", "3,5"]
REFERENCES = [" ".join(random.choices(WORDS, k=random.randint(3, 12))) for _ in range(60)]
HYPOTHESES = [
    " ".join(random.choice(WORDS) if random.random() < 0.2 else word for word in reference.split())
    for reference in REFERENCES
]


@pytest.mark.parametrize("parts", [1, 2, 7, 60])
def test_bleu_of_any_split_into_shards_is_sacrebleus_on_the_whole(parts: int) -> None:
    metrics = [CorpusBLEU("de") for _ in range(parts)]
    for i, (hypothesis, reference) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True)):
        metrics[i % parts].update([hypothesis], [reference])
    whole = CorpusBLEU("de")
    for metric in metrics:  # as processes do: the states are summed
        whole.statistics += metric.statistics
        whole._update_count += 1
    assert whole.compute().item() == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score


def test_scores_are_sacrebleus_own_with_signatures() -> None:
    scores = score(HYPOTHESES, REFERENCES, "de")
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert scores.ter == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in scores.signatures["bleu"]
    assert "case:mixed" in scores.signatures["bleu"]


def test_the_bleu_tokeniser_follows_the_target_language() -> None:
    assert "tok:zh" in score(["我 喜欢 猫"], ["我 喜欢 狗"], "zh").signatures["bleu"]
    with pytest.raises(ValueError, match=r"pip install 'sacrebleu\[ja\]'"):
        score(["猫"], ["犬"], "ja")


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(ValueError, match="2 translations cannot be scored against 1 references"):
        score(["a", "b"], ["a"], "en")
    with pytest.raises(ValueError, match="0 references"):
        score([], [], "en")
