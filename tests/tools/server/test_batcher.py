"""The batcher gives each request the result that it would get alone, and a fair share of the work."""

import copy
import gc
import json
import queue
import threading
import weakref
from pathlib import Path

import pytest
import torch

import transformer.tools.server.batcher
from tests.tools.server.client import SECONDS, Wire
from tests.tools.server.models import LINES, english_and_french
from transformer import Translator
from transformer.inference.parts import Translation
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM
from transformer.tools.server.api import CLIENT_HAS_GONE, Api
from transformer.tools.server.app import make_app
from transformer.tools.server.batcher import ROUND_TOKENS, Batcher, Job, QueueFullError
from transformer.tools.server.served import ServedDirection
from transformer.tools.server.settings import ServerSettings

MANY = ["der Hund geht in ein Haus."] * 3000


def texts_of(n_best: list[list[Translation]]) -> list[list[str]]:
    return [[hypothesis.text for hypothesis in hypotheses] for hypotheses in n_best]


@pytest.fixture
def batcher() -> Batcher:
    return Batcher(BEAM, 512, "sentences", max_waiting=4)


@pytest.mark.long
def test_a_short_request_does_not_wait_for_the_long_line_of_another(translator: Translator) -> None:
    batcher = Batcher(BEAM, 512, "sentences", max_waiting=4)
    held = batcher.submit(translator, LINES * 10)  # so that the next two are in one round
    long, short = batcher.submit(translator, ["hund" * 2000]), batcher.submit(translator, ["ein Haus"])
    held.result()
    alone = texts_of(translator.n_best(["ein Haus"]))
    assert texts_of(short.result()) == alone
    is_first = not long.done()
    long.cancel()
    assert is_first


@pytest.mark.long
def test_a_line_translated_in_several_rounds_is_that_of_one(translator: Translator) -> None:
    line = "hund" * 1100 + ". " + MANY[0]
    found = Batcher(BEAM, 512, "sentences", max_waiting=9).submit(translator, ["ja", "", line]).result()
    assert sum(len(part.ids) for part in translator.encode([line], [1], "sentences")[0]) > ROUND_TOKENS
    assert texts_of(found) == texts_of(translator.n_best(["ja", "", line], split_lines="sentences"))


@pytest.mark.long
def test_requests_of_several_models_get_what_they_would_get_alone(translator: Translator) -> None:
    batcher, other = Batcher(BEAM, 512, "sentences", max_waiting=100), english_and_french()
    jobs = [(one, LINES[start:]) for start in range(4) for one in (translator, other)]
    futures = [batcher.submit(one, texts) for one, texts in jobs]
    together = [texts_of(future.result()) for future in futures]
    alone = {(one, text): texts_of(one.n_best([text])) for one in (translator, other) for text in LINES}
    for (one, texts), hypotheses in zip(jobs, together, strict=True):
        assert hypotheses == [found for text in texts for found in alone[one, text]]


def test_each_sentence_of_a_line_is_translated_by_itself(translator: Translator) -> None:
    sentences = ["Ja.", "Wir gehen in den Park."]
    [[found]] = Batcher(BEAM, 512, "sentences", max_waiting=9).submit(translator, [" ".join(sentences)]).result()
    assert found.text == " ".join(translator.translate(sentences))


def test_a_part_larger_than_a_round_has_a_round_of_its_own(
    translator: Translator, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer.tools.server.batcher, "ROUND_TOKENS", 1)
    found = batcher.submit(translator, ["ja", "ein Haus"]).result(timeout=SECONDS)
    assert texts_of(found) == texts_of(translator.n_best(["ja", "ein Haus"]))


def test_a_round_is_shared_out_among_all_who_wait(translator: Translator, batcher: Batcher) -> None:
    shares = batcher._share_out([Job(translator, MANY[:200]) for _ in range(3)])
    tokens = [sum(len(part.ids) for part in parts) for _, parts in shares]
    assert len(tokens) == 3
    assert all(0 < count <= ROUND_TOKENS // 3 for count in tokens)


def test_a_round_of_many_requests_is_as_small_as_one_of_few(
    translator: Translator, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer.tools.server.batcher, "ROUND_TOKENS", 1)
    jobs = [Job(translator, LINES) for _ in range(3)]
    assert [job for job, _ in batcher._share_out(jobs)] == jobs[:1]


def test_requests_that_had_a_turn_wait_behind_the_others(
    translator: Translator, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer.tools.server.batcher, "ROUND_TOKENS", 1)  # one request has a turn in a round
    ended: queue.Queue[str] = queue.Queue()
    batcher.submit(translator, MANY[:5])  # so that the next two wait together
    for name, texts in (("long", MANY[:5]), ("short", ["ja"])):
        batcher.submit(translator, texts).add_done_callback(lambda _, name=name: ended.put(name))  # type: ignore[misc]
    assert [ended.get(timeout=SECONDS), ended.get(timeout=SECONDS)] == ["short", "long"]


def test_sampling_draws_what_it_would_draw_alone(translator: Translator) -> None:
    batcher = Batcher(settings := SearchSettings(method="sampling"), 512, "long", max_waiting=100)
    futures = [batcher.submit(translator, LINES) for _ in range(3)]
    together = [texts_of(future.result()) for future in futures]
    assert together == [texts_of(translator.n_best(LINES, settings))] * 3


def test_a_short_request_does_not_wait_for_a_long_one(translator: Translator, batcher: Batcher) -> None:
    long = batcher.submit(translator, MANY)
    short = batcher.submit(translator, ["ein Haus"]).result()
    is_first = not long.done()
    long.cancel()
    assert is_first
    assert texts_of(short) == texts_of(translator.n_best(["ein Haus"]))


def test_abandoned_requests_are_dropped_and_too_many_are_refused(translator: Translator, batcher: Batcher) -> None:
    waiting = [batcher.submit(translator, MANY) for _ in range(4)]
    with pytest.raises(QueueFullError):
        batcher.submit(translator, ["ja"])
    for future in waiting:
        future.cancel()
    assert texts_of(batcher.submit(translator, ["ja"]).result()) == texts_of(translator.n_best(["ja"]))


def test_a_translation_that_takes_too_long_or_whose_client_has_gone_is_given_up(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, slow = threading.Event(), copy.copy(translator)
    monkeypatch.setattr(slow, "encode", lambda *given: go_on.wait() and translator.encode(*given))
    settings = ServerSettings(timeout=0.01)
    batcher = Batcher(BEAM, 512, "sentences", max_waiting=1)
    directions = {slow.languages: ServedDirection(slow, Path("run"), "run", None)}
    app = make_app(Api(directions, batcher, settings, None))
    body = json.dumps({"q": "ein Haus", "source": "de", "target": "en"}).encode()
    answer = Wire(body, kind="application/json").ask(app)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json["error"].startswith("The translation took too long")
    assert Wire(body, kind="application/json", hangs_up=True).ask(app).status == CLIENT_HAS_GONE
    # One may wait, but neither of those.
    found = batcher.submit(translator, ["ja"])
    go_on.set()
    assert texts_of(found.result()) == texts_of(translator.n_best(["ja"]))


def test_an_internal_error_shows_only_its_type(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = copy.copy(translator)
    monkeypatch.setattr(damaged, "encode", lambda texts, *others: {}[texts[0]])
    directions = {damaged.languages: ServedDirection(damaged, Path("run"), "run", None)}
    app = make_app(Api(directions, Batcher(BEAM, 512, "sentences", max_waiting=1), ServerSettings(), None))
    body = json.dumps({"q": "geheim", "source": "de", "target": "en"}).encode()
    answer = Wire(body, kind="application/json").ask(app)
    assert (answer.status, answer.json) == (500, {"error": "Internal server error"})
    assert caplog.messages == ["a request has failed: KeyError"]
    assert caplog.records[0].exc_info is None


def test_requests_that_failed_together_are_retried_one_by_one_with_memory_freed(translator: Translator) -> None:
    broken = copy.deepcopy(translator)
    held: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    still_held = []

    def run_out(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        still_held.append(len(held))
        made = torch.ones(1)
        held.add(made)
        raise torch.OutOfMemoryError("CUDA out of memory")

    broken.model.encoder.register_forward_pre_hook(run_out)
    batcher = Batcher(BEAM, 512, "sentences", max_waiting=5)
    first = batcher.submit(translator, LINES * 10)  # so that the next two are in one round
    two = [batcher.submit(broken, ["ja"]), batcher.submit(broken, ["nein!"])]
    gc.disable()
    try:
        for future in two:
            with pytest.raises(torch.OutOfMemoryError):
                future.result()
    finally:
        gc.enable()
    first.result()
    assert still_held[:2] == [0, 0]


def test_only_the_request_at_fault_fails(translator: Translator) -> None:
    batcher = Batcher(BEAM, 512, "sentences", max_waiting=5)
    damaged = copy.deepcopy(translator)
    tokens = damaged.model.encoder.embedding.tokens
    # The embedding of an id in "nein!" is missing.
    tokens.weight = torch.nn.Parameter(tokens.weight[: max(translator.source_tokenizer.encode("nein!"))])
    held = batcher.submit(translator, LINES * 10)  # so that the next two are in one round, and the last two
    wrong, right = batcher.submit(translator, ["half of a pair: \ud800"]), batcher.submit(translator, ["ja"])
    whole, cut_off = batcher.submit(damaged, ["ja"]), batcher.submit(damaged, ["nein!"])
    with pytest.raises(ValueError, match="surrogate"):
        wrong.result()
    with pytest.raises(IndexError):
        cut_off.result()
    for future in (right, whole):
        assert texts_of(future.result()) == texts_of(translator.n_best(["ja"]))
    assert len(held.result()) == 10 * len(LINES)


def test_only_the_texts_of_a_turn_are_encoded_and_none_for_abandoned_requests(
    translator: Translator, batcher: Batcher
) -> None:
    jobs = [Job(translator, ["a"] * 10_000) for _ in range(4)]
    jobs[0].future.cancel()
    assert [job for job, _ in batcher._share_out(jobs)] == jobs[1:]
    assert not jobs[0].encoded
    assert all(0 < len(job.encoded) < 1000 for job in jobs[1:])
