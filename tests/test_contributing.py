"""The recipes of CONTRIBUTING.md are followed in a copy of the project, and each command is run."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.scripts.running import Run

PROJECT = Path(__file__).parents[1]
RECIPES = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
APPEND = re.compile(r"Append to `([^`]+)`:\n+```(?:python|yaml)\n(.*?)```", re.DOTALL)
INSERT = re.compile(r"In `([^`]+)`, below `([^`]+)`, add:\n+```yaml\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```bash\npython scripts/train\.py ([^\n]*)\n```")
# Two steps of a small model: this shows whether a recipe works, not its quality.
SMALL = (
    *("model.dim=24", "model.heads=2", "model.layers=1", "model.feed_forward.dim=32", "tokenizer.vocabulary_size=300"),
    *("trainer.max_steps=2", "training.validate_every=2", "trainer.limit_val_batches=1"),
    *("trainer.limit_test_batches=1", "training.samples=0"),
    *("trainer=cpu", "data.batch_tokens=400", "search=greedy", "loggers=[csv]"),
    *("search.length_extra=3", "validation_search.length_extra=3"),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after following every recipe."""
    place = tmp_path_factory.mktemp("project")
    for folder in ("transformer", "configs", "scripts", "data"):
        shutil.copytree(PROJECT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path, code in APPEND.findall(RECIPES):
        with (place / path).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{code}" if (place / path).stat().st_size else code)
    for path, above, lines in INSERT.findall(RECIPES):
        content = (place / path).read_text(encoding="utf-8").splitlines(keepends=True)
        [number] = [i for i, line in enumerate(content) if line.strip().startswith(above)]
        (place / path).write_text("".join([*content[: number + 1], lines, *content[number + 1 :]]), encoding="utf-8")
    return place


def merged(commands: list[list[str]]) -> list[list[str]]:
    """The arguments of several commands in as few runs as possible: no run has two values for one setting."""
    runs: list[dict[str, str]] = []
    for command in commands:
        settings = dict(argument.split("=", 1) for argument in command)
        for run in runs:
            if not run.keys() & settings.keys():
                run.update(settings)
                break
        else:
            runs.append(settings)
    return [[f"{key}={value}" for key, value in run.items()] for run in runs]


RUNS = merged([shlex.split(command) for command in COMMAND.findall(RECIPES)])


def test_there_is_a_recipe_for_every_place_to_extend() -> None:
    paths = {path for path, *_ in [*APPEND.findall(RECIPES), *INSERT.findall(RECIPES)]}
    model, training = "transformer/model", "transformer/training"
    expected = {f"{model}/positions.py", f"{model}/scores.py", f"{training}/regularization.py", f"{training}/optim.py"}
    assert expected | {"transformer/evaluation/metrics.py"} <= paths
    assert any(path.startswith("configs/data/") for path in paths)
    assert len(COMMAND.findall(RECIPES)) >= 7


@pytest.mark.long
@pytest.mark.parametrize("arguments", RUNS, ids=" ".join)
def test_the_commands_of_the_recipes_train(copy: Path, tmp_path: Path, arguments: list[str]) -> None:
    places = [f"data.cache={tmp_path}/cache", f"hydra.run.dir={tmp_path}/run"]
    done = Run(str(copy / "scripts" / "train.py"), *SMALL, *places, *arguments, cwd=copy, project=copy).wait()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "translator.safetensors").exists()
