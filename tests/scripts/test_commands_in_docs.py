"""Every command in README and docs is parsed as by the scripts, without running it."""

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob

from benchmarks.tables import RESULTS, read
from transformer.cli.app import parse
from transformer.cli.compose import compose
from transformer.cli.train import RUN_KEYS, of_run, read_run_settings
from transformer.config import UsageError
from transformer.training.sizing import choose

PROJECT = Path(__file__).parents[2]
# The recipes of CONTRIBUTING.md add settings that do not exist here; tests/test_contributing.py tests them.
PATTERNS = ("README*.md", "CHANGELOG.md", "docs/*.md", "data/*/README.md", "docs/demo.py")
TEXTS = [path for pattern in PATTERNS for path in PROJECT.glob(pattern)]
NAMES = sorted(path.stem for path in PROJECT.glob("scripts/*.py"))
COMMAND = re.compile(rf"(?:^|[ (])(?:python |torchrun .*)?(?:scripts/)?({'|'.join(NAMES)})\.py +([^;]+)")
# A preset that docs/training.md explains how to write, and arguments that only Hydra takes.
NOT_CHECKED = {"experiment=chinese", "--config-dir=my", "-m"}
# The folder of the benchmarks' recipes, without Hydra's command line.
RECIPES = {"--config-dir=benchmarks/recipes": f"hydra.searchpath=[file://{PROJECT}/benchmarks/recipes]"}
# The arguments of each stage of back_translate beside its own settings.
STAGES = {
    "reverse": ["train"],
    "augment": ["augment", "--checkpoint", "RUN", "--input", "TEXT", "--output", "PREFIX"],
    "forward": ["train", "data.synthetic=[PREFIX]"],
    "finetune": ["train"],
}


def lines(path: Path) -> list[str]:
    """The lines of code blocks, and the code within other text."""
    text = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.MULTILINE)  # commands of the last release
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    whole = "".join(block for language, block in blocks if language in ("", "bash")).replace("\\\n", " ").splitlines()
    found = [line for line in whole if not line.startswith("#")] + [" ".join(span.split()) for span in spans]
    return [line for line in found if "$(" not in line]


def words(rest: str) -> list[str]:
    """The arguments, with values for placeholders and for variables of the shell."""
    known = re.sub(r'"\$\{\w+\[@\]\}"', "", rest).replace('"…"', "text")
    known = re.sub(r"\$\w+", "1", re.sub(r"(?<!\S)…(?!\S)", "", known)).replace("…", "x")
    before_shell = takewhile(lambda word: not re.match(r"[|&<>]", word), shlex.split(known, comments=True))
    return [RECIPES.get(word, word) for word in before_shell if word not in NOT_CHECKED]


# The name of a command that repeats a measurement of a page.
REPEATS = [
    (f"{subject.stem}.json", record["command"])
    for subject in sorted(RESULTS.glob("*.json"))
    for record in read(subject.stem)
    if record["current"] and record["command"]
]
FOUND = [
    (page, name, words(rest))
    for page, line in [*((path.name, line) for path in TEXTS for line in lines(path)), *REPEATS]
    for name, rest in COMMAND.findall(line)
]
# `export.py page` names a command.
COMMANDS = [one for one in FOUND if one[2] and not (one[1] == "export" and len(one[2]) == 1)]


def once(override: str) -> str:
    """The first value of a sweep."""
    [parsed] = OverridesParser.create().parse_overrides([override])
    if not parsed.is_sweep_override() or isinstance(parsed.value(), Glob):
        return override if not parsed.is_sweep_override() else "seed=1"
    return f"{parsed.get_key_element()}={next(parsed.sweep_string_iterator())}"


def check(name: str, arguments: list[str]) -> None:
    """Raises UsageError for arguments that the command does not take."""
    if name not in ("train", "back_translate"):
        parse([name, *arguments])
        arguments = [word for word in arguments if name == "doctor" and "=" in word]
        name = "train"
    elif {"--cfg", "-sc", "--help"} & {*arguments}:
        return
    composed = compose(*map(once, arguments), name=name)
    if name == "back_translate":
        for stage, (command, *given) in STAGES.items():
            check(command, [*given, *shlex.split(composed[stage])])
        composed = {key: value for key, value in composed.items() if key in RUN_KEYS}
    read_run_settings(choose(of_run(composed))[0])


def test_every_script_is_shown_in_use() -> None:
    assert {name for _, name, _ in COMMANDS} == {*NAMES}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_commands_in_the_docs_are_those_that_the_script_takes(name: str) -> None:
    for page, command, arguments in COMMANDS:
        if command == name:
            try:
                check(name, arguments)
            except ValueError as error:
                pytest.fail(f"{page}: {name}.py {shlex.join(arguments)}: {error}")


@pytest.mark.parametrize(
    "command",
    [
        *("train model.hed=3", "train experiment=nix", "train model.heads=2,4 search.beam=0", "translate --bean 3"),
        *("export page --otput a.html", "doctor dat=toy", "evaluate checkpoint=RUN", "compare A B --metric bleu"),
        *("back_translate input='a b' forward='\"data.sinthetic=[a]\"'", "back_translate augment='\"--topk 3\"'"),
    ],
)
def test_wrong_commands_in_the_docs_are_found(command: str) -> None:
    name, *arguments = shlex.split(command)
    with pytest.raises(UsageError):
        check(name, arguments)
