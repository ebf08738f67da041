"""A translator is scored in one way; the corpus to score is read from a run's folder as data, and a hostile folder
cannot choose where results are written."""

import json
import logging
import math
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.cases import others_long
from tests.factories import data_settings
from tests.processes import posix_only
from tests.reliability.children import TOY, in_processes, small_translator
from transformer import Translator
from transformer.cli.app import app, parse
from transformer.config import UsageError
from transformer.data.directions import Direction
from transformer.data.text_files import read_lines
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.evaluation.evaluate import (
    CHUNK,
    Evaluation,
    Origin,
    Texts,
    evaluate,
    read_texts,
    write_evaluation,
)
from transformer.evaluation.metrics import METRICS, score
from transformer.evaluation.settings import EvaluationSettings
from transformer.inference.choosing import Chooser, references_loss
from transformer.inference.settings import ChoiceSettings
from transformer.inference.translator import BEAM
from transformer.model.masks import padding_mask
from transformer.printing import ProgressBar
from transformer.run import Run


def run_in(folder: Path, **changes: Any) -> Path:
    """A run's folder with a corpus of one pair; its test used other files."""
    for language, text in (("de", "Hallo"), ("en", "Hello")):
        (folder / f"x.{language}").write_text(f"{text}\n", encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(folder / "x"))
    Run(folder).write_settings({"data": asdict(data_settings(**files)) | changes})
    (folder / "test.json").write_text(json.dumps({"corpus": {"test": "0" * 64}}), encoding="utf-8")
    return folder


def texts_of(
    run: Path, languages: Direction = ("de", "en"), directions: list[Direction] | None = None, **settings: str
) -> Texts:
    return read_texts(EvaluationSettings(**settings), Run(run), languages, directions or [("de", "en")])  # type: ignore[arg-type]


def write(folder: Path, name: str, reference: str) -> None:
    found = Evaluation(["a"], score(["a"], ["a"], "en", ["chrf"]), None)
    write_evaluation(Run(folder), Texts(name, ["a"], [reference]), found, Origin([Path("x")], "0" * 64, BEAM), 1.0)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small_translator()


# More than one chunk, not sorted by length; the last three have a side that is too long for the model.
PAIRS = [*zip(read_lines(TOY / "train.de"), read_lines(TOY / "train.en"), strict=True)][: CHUNK + 50]
PAIRS += [("", "nothing"), ("nichts", ""), ("ja", "word " * 40)]
GREEDY = replace(BEAM, method="greedy", length_ratio=1.0, length_extra=2)


@pytest.mark.parametrize("method", others_long(["greedy", "beam", "sampling"]))
def test_an_evaluation_in_chunks_has_the_translations_and_the_scores_of_all_at_once(
    translator: Translator, method: str
) -> None:
    search, done = replace(GREEDY, method=method), []
    found = evaluate(translator, PAIRS, search, METRICS, 500, on_progress=lambda *progress: done.append(progress))
    texts, references = map(list, zip(*PAIRS, strict=True))
    assert found.hypotheses == translator.translate(texts, search, 500)
    assert found.scores == score(found.hypotheses, references, "en", METRICS)
    assert found.loss is None
    assert done == [(CHUNK, len(PAIRS)), (len(PAIRS), len(PAIRS))]


def test_the_chosen_hypotheses_are_scored(translator: Translator) -> None:
    chooser = Chooser(translator, ChoiceSettings("mbr", samples=3))
    search = replace(GREEDY, method="sampling")
    found = evaluate(chooser, PAIRS[:20], search, ["chrf"])
    assert found.hypotheses == [best.text for best, *_ in chooser.n_best([text for text, _ in PAIRS[:20]], search)]
    assert found.hypotheses != evaluate(translator, PAIRS[:20], search, ["chrf"]).hypotheses


@pytest.mark.long
def test_the_loss_is_the_cross_entropy_of_the_references(translator: Translator) -> None:
    total, tokens, fitting = 0.0, 0, list[tuple[str, str]]()
    for text, reference in PAIRS:
        source, target = translator.source_tokenizer.encode(text), translator.target_tokenizer.encode(reference)
        if source and target and max(len(source), len(target)) < translator.max_length:
            ids = torch.tensor([[*source, EOS]])
            with torch.inference_mode():
                logits = translator.model(ids, torch.tensor([[BOS, *target]]), padding_mask(ids, PAD))
            total += cross_entropy(logits[0], torch.tensor([*target, EOS]), reduction="sum").item()
            tokens += len(target) + 1
            fitting.append((text, reference))
    found = evaluate(translator, PAIRS, GREEDY, ["bleu"], with_loss=True)
    assert found.loss == pytest.approx(total / tokens, rel=1e-5)
    scored = translator.score(*map(list, zip(*fitting, strict=True)))
    log_probabilities = [value for one in scored for value in one.log_probabilities]
    assert found.perplexity == pytest.approx(math.exp(-sum(log_probabilities) / len(log_probabilities)), rel=1e-4)
    assert evaluate(translator, PAIRS, GREEDY, ["bleu"], 100, with_loss=True).loss == pytest.approx(
        total / tokens, rel=1e-5
    )


def test_a_loss_that_is_no_number_is_not_left_out(translator: Translator) -> None:
    assert math.isnan(evaluate(translator, PAIRS[-3:], GREEDY, ["bleu"], with_loss=True).loss or 0.0)
    spoiled = small_translator()
    with torch.no_grad():
        for weight in spoiled.model.decoder.parameters():
            weight.fill_(math.nan)
    total, tokens = references_loss(spoiled, PAIRS)
    assert math.isnan(total)
    assert tokens == references_loss(translator, PAIRS)[1] > 2 * CHUNK


def evaluate_together(rank: int, folder: Path) -> None:
    """The results of one of two processes."""
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    done: list[tuple[int, int]] = []
    found = evaluate(
        small_translator(), PAIRS, GREEDY, METRICS, with_loss=True, on_progress=lambda *part: done.append(part)
    )
    content = found.hypotheses, found.scores.to_dict(), found.loss, done
    (folder / f"{rank}.json").write_text(json.dumps(content), encoding="utf-8")
    torch.distributed.destroy_process_group()


@pytest.mark.long
@posix_only
def test_two_processes_share_the_work_and_both_know_all_of_it(translator: Translator, tmp_path: Path) -> None:
    assert in_processes(2, evaluate_together, tmp_path) == [0, 0]
    (first, *of_first), (second, *of_second) = (
        json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)
    )
    alone = evaluate(translator, PAIRS, GREEDY, METRICS, with_loss=True)
    assert first == second == alone.hypotheses
    assert of_first == of_second
    assert of_first[0] == alone.scores.to_dict()
    assert of_first[1] == pytest.approx(alone.loss, rel=1e-5)
    half = -(-len(PAIRS) // 2)
    assert of_first[2] == [[half, half]]


def test_an_error_in_a_pipe_stands_alone_without_a_bar_of_progress(
    translator: Translator, capfd: pytest.CaptureFixture[str]
) -> None:
    search = replace(BEAM, min_length=2000, max_length=3000)
    with pytest.raises(ValueError, match="2000 is more than"), ProgressBar("translating") as bar:
        evaluate(translator, [("a", "b")], search, ["bleu"], on_progress=bar.update)
    assert capfd.readouterr() == ("", "")


def test_results_on_other_files_than_the_runs_have_a_name_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = texts_of(run_in(tmp_path, name="mine"))
    assert "are not those that" in caplog.text
    assert texts == ("mine.test", ["Hallo"], ["Hello"])


def test_the_columns_of_a_table_are_swapped_for_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Hello\tby me\tHallo\n", encoding="utf-8")
    table = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    run = run_in(tmp_path, **table, columns=[3, 1])
    back = texts_of(run, ("en", "de"))
    assert (back.sources, back.references) == (["Hello"], ["Hallo"])


@pytest.mark.parametrize("name", ["x/../../victim", "/tmp/x", "..", "\x1b[2J"])
def test_the_name_of_a_corpus_cannot_choose_another_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a file's name"):
        texts_of(run_in(tmp_path, name=name))


@pytest.mark.parametrize("flags", [["--input", "x"], ["--reference", "x"], ["--split", "test", "--input", "x"]])
def test_a_split_or_a_pair_of_files_is_scored(flags: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--reference|--input"):
        parse(["evaluate", *flags])


def test_evaluate_computes_in_float32_if_only_the_device_is_given() -> None:
    _, bound, _ = app.parse_args(["evaluate", "--device", "cpu"], exit_on_error=False)
    bound.apply_defaults()
    assert (bound.arguments["inference"].device, bound.arguments["inference"].precision) == ("cpu", "float32")
    assert bound.arguments["checkpoint"] is None


def test_a_corpus_of_other_languages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="de, en, not for fr → en"):
        texts_of(run_in(tmp_path), ("fr", "en"))


def test_a_file_named_as_something_else_in_the_results_has_another_name_there(tmp_path: Path) -> None:
    run_in(tmp_path)
    for language in ("de", "en"):
        (tmp_path / f"x.{language}").rename(tmp_path / f"sentences.{language}")
    own = {"input": str(tmp_path / "sentences.de"), "reference": str(tmp_path / "sentences.en")}
    back = texts_of(tmp_path, ("en", "de"), [("de", "en"), ("en", "de")], **own)
    assert back.name == "sentences.en-de"
    assert texts_of(tmp_path, **own).name == "other.sentences"


def test_scores_of_other_sentences_by_the_same_name_are_shown_before_they_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for reference in ("a", "a", "b"):
        assert not caplog.text
        write(tmp_path, "own", reference)
    assert "the scores {'chrf': 100.0} of own were for other sentences: replaced" in caplog.text


def test_splits_that_are_evaluated_at_once_are_all_kept(tmp_path: Path) -> None:
    names = [f"split{number}" for number in range(8)]
    together = threading.Barrier(len(names))

    def write_with_others(name: str) -> None:
        together.wait()
        write(tmp_path, name, "a")

    threads = [threading.Thread(target=write_with_others, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["seconds"]) == names
