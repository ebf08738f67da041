"""The page of a run with snapshots: what it shows at each step is what Python finds with that snapshot's weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.browsers import Chromium, Firefox
from tests.scripts.running import ok
from tests.tools.page.models import SEARCH, TEXTS, untrained
from tests.tools.page.opened import Opened, without_errors
from transformer import Translator
from transformer.files import atomic_write
from transformer.run import Run
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.page.explanation import explain
from transformer.tools.page.export import build, rounded, with_current_program
from transformer.tools.page.history import MAX_POINTS, read_history

LOG = """epoch,step,train/loss,validation/bleu,validation/loss
0,2,6.5,,
0,4,,1.5,6.25
0,4,5.5,,
1,6,4.5,,
1,8,,31.5,4.25
2,12,,31.0,4.5
"""
SEARCHED = {"method": "beam", "beam": SEARCH.beam, "length_ratio": 1.0, "length_extra": 3}


def snapshot_of(translator: Translator, seed: int) -> Translator:
    """The same translator with other weights."""
    other = untrained(TEXTS)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return Translator(other.model, translator.tokenizers, translator.languages)


@pytest.fixture(scope="module")
def run(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose best validation was after 8 steps, with a later snapshot too."""
    run = Run(tmp_path_factory.mktemp("run"))
    for step in (0, 4, 10):
        snapshot_of(translator, step).save(run.snapshot(step))
    translator.save(run.translator)
    atomic_write(run.metrics_log, LOG.encode())
    run.write_settings({"training": {"choose_by": "auto"}})
    return run


@pytest.fixture(scope="module")
def live_path(run: Run, translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(build(translator, "int8", TEXTS[1], history=read_history(run, translator)), encoding="utf-8")
    return path


def test_the_history_ends_at_the_model_that_the_run_leaves(run: Run, translator: Translator) -> None:
    history = read_history(run, translator)
    assert list(history.snapshots) == [0, 4]
    assert history.finished == 8
    assert history.curves == {
        "training": [(2, 5.5), (4, 5.5), (6, 5.5)],  # their mean: they are few
        "validation": [(4, 6.25), (8, 4.25), (12, 4.5)],
        "bleu": [(4, 1.5), (8, 31.5), (12, 31.0)],
    }
    for step, model in history.snapshots.items():
        expected = dict(snapshot_of(translator, step).model.named_parameters())
        assert all(torch.equal(weight, expected[name]) for name, weight in model.named_parameters())


def test_a_long_log_keeps_its_last_point(run: Run, translator: Translator, tmp_path: Path) -> None:
    long = Run(tmp_path)
    snapshot_of(translator, 0).save(long.snapshot(0))
    rows = [f"{step},{step / 7}" for step in range(1, 1000)]
    atomic_write(long.metrics_log, "\n".join(["step,validation/loss", *rows, "1000,nan", ""]).encode())
    long.write_settings({})
    history = read_history(long, translator)
    assert history.finished is None
    points = history.curves["validation"]
    assert len(points) <= MAX_POINTS
    assert points[-1] == (999, round(999 / 7, 4))
    assert points == sorted(points)


def test_a_run_without_snapshots_has_the_page_of_its_model_alone(run: Run, translator: Translator) -> None:
    assert "snapshot-0" not in build(translator, "int8")
    assert "snapshot-0" in build(translator, "int8", history=read_history(run, translator))


def test_a_snapshot_of_another_model_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"0\.safetensors is of another model than the one to export: --no-snapshots"):
        read_history(run, untrained(TEXTS, decoder__layers=2))


def test_a_page_with_snapshots_keeps_them_under_the_program_of_today(live_path: Path) -> None:
    html = live_path.read_text(encoding="utf-8")
    assert with_current_program(html) == html


@pytest.mark.long
def test_the_command_takes_the_snapshots_or_leaves_them_out(run: Run, tmp_path: Path) -> None:
    for flags, count in (((), 2), (("--no-snapshots",), 0)):
        ok("export", "page", "--checkpoint", str(run.folder), "--output", "page.html", *flags, cwd=tmp_path)
        assert (tmp_path / "page.html").read_text(encoding="utf-8").count('id="snapshot-') == count


# From here on in a browser.


def ask(page: Any, text: str, **options: Any) -> dict[str, Any]:
    return page.evaluate(
        """async ([text, options]) => {
          const { translation, target, steps, attention } = await translator.explain(text, options);
          return { translation, target, steps, cross: attention.cross };
        }""",
        [text, options],
    )


def assert_same(found: dict[str, Any], translator: Translator, text: str) -> None:
    """What the page found is what Python finds with the page's weights."""
    expected = explain(rounded(translator, "int8"), text, SEARCH)
    assert (found["translation"], found["target"]) == (expected["translation"], expected["target"])
    for step, ours in zip(found["steps"], expected["steps"], strict=True):
        assert step["probability"] == pytest.approx(ours["probability"], abs=2e-5)
        assert [piece for piece, *_ in step["next_best"]] == [piece for piece, *_ in ours["next_best"]]
        assert [piece for piece, _ in step["layers"]] == [piece for piece, _ in ours["layers"]]
    cross, weights = torch.tensor(found["cross"]), torch.tensor(expected["attention"]["cross"])
    assert (cross - weights).abs().max() <= 1  # thousandths


def test_at_each_step_the_page_finds_what_python_finds_with_its_weights(live: Opened, translator: Translator) -> None:
    at = {None: translator} | {step: snapshot_of(translator, step) for step in (0, 4)}
    translations = set()
    for step in (0, 4, None, 0):
        live.page.evaluate("step => translator.goTo(step)", step)
        found = ask(live.page, TEXTS[3], **SEARCHED)
        assert_same(found, at[step], TEXTS[3])
        translations.add(found["translation"])
    assert len(translations) == 3


@pytest.mark.long
def test_firefox_finds_the_same(firefox: Firefox, live_path: Path, translator: Translator) -> None:
    firefox.open(live_path)
    firefox.evaluate("async () => { while (!window.translator) await new Promise(done => setTimeout(done, 20)); }")
    firefox.evaluate("() => { window.translator.goTo(4); }")
    assert_same(ask(firefox, TEXTS[3], **SEARCHED), snapshot_of(translator, 4), TEXTS[3])


@pytest.fixture
def told(live: Opened) -> Callable[[int], list[str]]:
    """What stands beside the slider once it is moved so many places from its end, with the keyboard."""

    def moved(presses: int) -> list[str]:
        live.page.locator("#trained").focus()
        for _ in range(presses):
            live.page.keyboard.press("ArrowLeft")
        return [live.page.locator(f"#trained-{name}").inner_text() for name in ("step", "log")]

    return moved


def test_the_slider_names_its_step_and_what_was_logged_by_then(live: Opened, told: Callable[[int], list[str]]) -> None:
    best = ["the finished model: step 8, which did best on validation"]
    assert told(0) == [*best, "Training loss 5.50 (mean around step 6). Validation at step 8: loss 4.25, BLEU 31.5."]
    assert told(1) == [
        "after step 4",
        "Training loss 5.50 (mean around step 4). Validation at step 4: loss 6.25, BLEU 1.5.",
    ]
    assert told(1) == ["step 0: before training", ""]
    assert live.page.locator("#trained").get_attribute("aria-valuetext") == "step 0: before training"
    assert live.page.locator("#curves .marked").count() == 1


def test_the_translation_and_the_attention_are_those_of_the_step_of_the_slider(
    live: Opened, translator: Translator
) -> None:
    finished = live.page.locator("#target-text").inner_text()
    live.page.locator("#trained").fill("0")
    found = ask(live.page, TEXTS[1])
    live.page.wait_for_function(
        "text => document.querySelector('#target-text').innerText === text", arg=found["translation"]
    )
    assert found["translation"] != finished
    live.page.locator("#target .piece").nth(2).hover()
    row = torch.tensor([head[1] for layer in found["cross"] for head in layer]).float().mean(0).div(1000).tolist()
    assert live.shares("source") == pytest.approx(row, abs=1e-6)


def test_a_page_without_snapshots_has_no_slider(browser: Chromium, translator: Translator, tmp_path: Path) -> None:
    export(translator, ExportSettings("page", None, str(tmp_path / "page.html"), TEXTS[0]))
    with without_errors(browser, tmp_path / "page.html", width=1100) as opened:
        assert not opened.page.locator("#training").is_visible()
