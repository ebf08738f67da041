"""Scores equal sacrebleu's, also for text in several parts."""

import random
from itertools import pairwise

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from tests.cases import others_long
from transformer.config import from_dict
from transformer.evaluation.corpus_score import CorpusScore
from transformer.evaluation.metrics import METRICS, Metric, MetricSettings, Scores, score, scored_language

random.seed(3)
WORDS = ["das", "Haus", "ist", "klein", ".", "Hund", ",", "läuft", "schnell", "3,5"]
REFERENCES = [" ".join(random.choices(WORDS, k=random.randint(3, 12))) for _ in range(60)]
HYPOTHESES = [
    " ".join(random.choice(WORDS) if random.random() < 0.2 else word for word in reference.split())
    for reference in REFERENCES
]


# Through their public interface, as METRICS builds them.
OF_SACREBLEU = {
    ("bleu", "de"): BLEU(),
    ("chrf", "de"): CHRF(),
    ("ter", "de"): TER(),
    ("bleu", "zh"): BLEU(tokenize="zh"),
    ("ter", "zh"): TER(normalized=True, asian_support=True),
}


@pytest.mark.parametrize(("name", "language"), others_long([*OF_SACREBLEU]))
@pytest.mark.parametrize("parts", [1, 2, 7, 60])
def test_a_score_of_any_split_into_shards_is_sacrebleus_on_the_whole(name: str, language: str, parts: int) -> None:
    shards = [CorpusScore(name, language) for _ in range(parts)]
    for i, (hypothesis, reference) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True)):
        shards[i % parts].update([hypothesis], [reference])
    whole = CorpusScore(name, language)
    whole.update([], [])  # a process without a sentence
    for shard in shards:  # as processes do
        whole.merge_state(shard)
    expected = OF_SACREBLEU[name, language]
    assert whole.compute().item() == expected.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert whole.signature == str(expected.get_signature())


TEXTS = st.lists(st.sampled_from([*WORDS, "", "我是", "a-b", "&"]), max_size=8).map(" ".join)


@settings(max_examples=50)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_a_score_of_any_texts_in_any_portions_is_sacrebleus(pairs: list[tuple[str, str]], cuts: list[int]) -> None:
    hypotheses, references = map(list, zip(*pairs, strict=True))
    assert {name for name, _ in OF_SACREBLEU} == METRICS.keys()
    for (name, language), expected in OF_SACREBLEU.items():
        metric = CorpusScore(name, language)
        for start, end in pairwise(sorted([0, *cuts, len(pairs)])):
            metric.update(hypotheses[start:end], references[start:end])
        assert metric.compute().item() == expected.corpus_score(hypotheses, [references]).score


def test_scores_are_sacrebleus_own_with_signatures() -> None:
    scores = score(HYPOTHESES, REFERENCES, "de", METRICS)
    assert scores["bleu"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert scores["ter"] == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in scores.signatures["bleu"]
    assert "case:mixed" in scores.signatures["bleu"]


def test_the_bleu_tokenizer_follows_the_target_language() -> None:
    assert "tok:zh" in score(["我 喜欢 猫"], ["我 喜欢 狗"], "zh", ["bleu"]).signatures["bleu"]
    with pytest.raises(ValueError, match=r"pip install 'sacrebleu\[ja\]'"):
        score(["猫"], ["犬"], "ja", ["bleu"])


def test_wrong_texts_for_a_metric_are_refused() -> None:
    with pytest.raises(ValueError, match="2 translations cannot be scored against 1 references"):
        score(["a", "b"], ["a"], "en", METRICS)
    with pytest.raises(ValueError, match="0 references"):
        score([], [], "en", METRICS)


def test_a_metric_is_added_by_its_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "chrf++", Metric("chrF++", lambda language: CHRF(word_order=2)))
    chosen = from_dict(MetricSettings, {"metrics": ["chrf++", "bleu"]}, "").metrics
    scores = score(HYPOTHESES, REFERENCES, "de", chosen)
    assert list(scores.values) == ["chrf++", "bleu"]
    assert scores["chrf++"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score


@pytest.mark.parametrize(
    ("metrics", "message"), [([], "choose some of bleu, chrf, ter"), (["blue"], "metrics=blue is not allowed")]
)
def test_no_metric_and_an_unknown_one_are_refused(metrics: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(MetricSettings, {"metrics": metrics}, "")


def test_scores_are_read_as_they_were_written_and_nothing_else_is() -> None:
    scores = score(HYPOTHESES, REFERENCES, "de", METRICS)
    assert Scores.from_dict(scores.to_dict(), "test") == scores
    for changes in ({"bleu": "31"}, {"signatures": {}}, {"signatures": None}, {"other": 1.0}):
        with pytest.raises(ValueError, match=r"^run/test\.json: test: "):
            Scores.from_dict(scores.to_dict() | changes, "run/test.json: test")
    with pytest.raises(ValueError, match=r"^run/test\.json: test must be scores by metric, not \[1\]$"):
        Scores.from_dict([1], "run/test.json: test")


@pytest.mark.parametrize("language", ["zh", "ZH", "zh_Hant", "zh-TW", "yue", "cmn", "zho_Hans"])
def test_chinese_is_cut_into_characters_however_its_code_is_written(language: str) -> None:
    scores = score(["我 是"], ["我是"], language, ["bleu"])
    assert "tok:zh" in scores.signatures["bleu"]


def test_text_without_spaces_is_scored_by_its_characters() -> None:
    pairs = {"zho_Hans": ("我喜欢猫", "我喜欢狗"), "en": ("我 喜 欢 猫", "我 喜 欢 狗")}
    assert [score([text], [other], code, ["ter"])["ter"] for code, (text, other) in pairs.items()] == [25, 25]
    spaced = score(["ฉ ั น ช อ บ แ ม ว"], ["ฉ ั น ช อ บ ห ม า"], "en", ["bleu"])
    for language in ("th", "lao", "km", "mya_Mymr"):
        scores = score(["ฉันชอบแมว"], ["ฉันชอบหมา"], language, ["bleu"])
        assert scores["bleu"] == spaced["bleu"] > 0
        assert "tok:char" in scores.signatures["bleu"]


@pytest.mark.parametrize(
    ("code", "reference", "expected"),
    [
        *(
            ("xx", "我喜欢猫。", "zh"),
            ("en", "我喜欢猫。", "zh"),
            ("xx", "私は猫が好き。", "ja"),
            ("kr", "나는 고양이", "ko"),
        ),
        *(("xx", "ฉันชอบแมว", "th"), ("xx", "ខ្ញុំ", "km"), ("xx", "I like cats.", "xx"), ("de", "LibreOffice 文档", "de")),
        *(("zh", "wo xihuan mao", "zh"), ("ja", "東京", "ja"), ("yue", "我鍾意貓", "yue"), ("xx", "", "xx")),
    ],
)
def test_the_script_of_the_references_decides_where_the_code_does_not(code: str, reference: str, expected: str) -> None:
    assert scored_language(code, [reference]) == expected


def test_chinese_references_of_an_unknown_code_are_scored_as_chinese() -> None:
    texts, references = ["我 喜欢 猫和狗"], ["我喜欢猫和狗"]
    assert score(texts, references, "xx", ["bleu", "ter"]) == score(texts, references, "zh", ["bleu", "ter"])
