"""docs/mistakes.md: each of its tests passes with the real code and fails with the mistake."""

import re
from pathlib import Path
from typing import Any

import pytest

from docs.mistakes import run
from docs.mistakes.zoo import MISTAKES
from tests.cases import others_long
from tests.factories import SMALL_MODEL
from tests.pages import DOCS

PAGE = (DOCS / "mistakes.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(MISTAKES, re.split(r"^## \d+\. ", PAGE, flags=re.MULTILINE)[1:], strict=True))
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
SESSION, LEARNED_BY_HEART, *_ = PYTHON.findall(PAGE)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that exist at the start of the page's tests."""
    names: dict[str, Any] = {"CACHE": str(tmp_path_factory.mktemp("cache"))}
    exec(SESSION, names)
    return names


@pytest.mark.long
def test_a_batch_is_learned_by_heart_unless_the_labels_are_not_shifted(session: dict[str, Any]) -> None:
    exec(LEARNED_BY_HEART, dict(session))
    with MISTAKES["labels_not_shifted"].made(), pytest.raises(AssertionError):
        exec(LEARNED_BY_HEART, dict(session))


@pytest.mark.parametrize("name", others_long(MISTAKES, short=5))
def test_the_test_of_a_mistake_passes_without_it_and_fails_with_it(name: str, session: dict[str, Any]) -> None:
    [check] = PYTHON.findall(SECTIONS[name])
    exec(check, dict(session))
    with MISTAKES[name].made(), pytest.raises(AssertionError):
        exec(check, dict(session))
    exec(check, dict(session))  # the mistake is removed again


def test_the_page_has_a_section_and_pictures_for_every_mistake_in_order() -> None:
    pictures = {path.name for path in (DOCS / "images" / "mistakes").iterdir()}
    for (name, mistake), section in zip(MISTAKES.items(), SECTIONS.values(), strict=True):
        assert section.startswith(f"{mistake.title}\n")
        assert f"<!-- measured: {name} -->\n|" in section
        assert f"{name}.png" in pictures
    shown = set(re.findall(r"\(images/mistakes/([\w.]+)\)", PAGE))
    assert shown == pictures


@pytest.mark.long
def test_the_command_trains_a_mistake_once_and_compares_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("de", "en"):
        lines = (DOCS.parent / "data" / "toy" / f"test.{side}").read_text(encoding="utf-8").splitlines()
        (tmp_path / f"some.{side}").write_text("\n".join(lines[:200]), encoding="utf-8")
        (tmp_path / f"few.{side}").write_text("\n".join(lines[:5]), encoding="utf-8")
    corpus = [f"data.{split}={tmp_path}/few" for split in ("validation", "test")]
    tiny = [*SMALL_MODEL, "tokenizer.vocabulary_size=300", "data.batch_tokens=200", "machine.matmul_precision=highest"]
    steps = ["trainer.max_steps=2", "training.validate_every=2", "trainer.log_every_n_steps=1"]
    overrides = [*corpus, f"data.train={tmp_path}/some", f"data.cache={tmp_path}/cache", *tiny, *steps]

    run.main(["labels_not_shifted"], overrides, tmp_path / "runs")
    output = capsys.readouterr()
    assert "| predictions that repeat the input token |" in output.out
    assert "== labels_not_shifted" in output.err
    assert (tmp_path / "runs" / "labels_not_shifted" / "labels_not_shifted_attention.png").stat().st_size > 5_000

    run.train("labels_not_shifted", tmp_path / "runs" / "labels_not_shifted", overrides, again=False)
    assert capsys.readouterr().err == ""


def test_a_name_that_is_no_mistake_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["no_mask"])
    assert "no mistake is called no_mask: choose from no_causal_mask," in capsys.readouterr().err
