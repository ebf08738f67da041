"""The commands: --help shows every flag with its sentence, a wrong value is named as its flag, and text stays text."""

import ast
import dataclasses
import inspect
import io
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.factories import composed
from tests.reliability.children import small_translator
from tests.scripts.running import PROJECT, Run
from transformer import Translator
from transformer.cli.app import COMMANDS, HYDRA_COMMANDS, app, flag, parse
from transformer.config import UsageError, flatten
from transformer.inference.settings import SearchSettings

FLAG_COMMANDS = [name for name in COMMANDS if name not in HYDRA_COMMANDS]
# Arguments that a command requires, and settings that are only allowed together.
NEEDED = {
    "explain": ["ja"],
    "export": ["page", "--output", "x.html"],
    "augment": ["--output", "x", "--input", "y"],
    "compare": ["x", "y"],
}


def settings_of(command: str) -> Iterator[tuple[type, str, Any]]:
    """The dataclass, the name and the type of each setting that a command has as a flag."""
    hints = typing.get_type_hints(app[command].default_command, include_extras=True)
    for cls in (typing.get_args(hint)[0] for hint in hints.values() if typing.get_origin(hint) is typing.Annotated):
        if dataclasses.is_dataclass(cls):
            yield from ((cls, name, hint) for name, hint in typing.get_type_hints(cls, include_extras=True).items())


def sentence(cls: type, name: str) -> str:
    """The sentence below a field in the code."""
    declared = next(parent for parent in cls.__mro__ if name in vars(parent).get("__annotations__", {}))
    [body] = ast.parse(textwrap.dedent(inspect.getsource(declared))).body
    assert isinstance(body, ast.ClassDef)
    place = next(i for i, node in enumerate(body.body) if isinstance(node, ast.AnnAssign) and node.target.id == name)  # type: ignore[union-attr]
    return " ".join(ast.literal_eval(body.body[place + 1].value).split())  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", FLAG_COMMANDS)
def test_help_shows_every_flag_with_its_sentence(command: str) -> None:
    shown = io.StringIO()
    app.help_print([command], console=Console(file=shown, width=1000))
    rows = {words[0]: " ".join(words) for line in shown.getvalue().splitlines() if (words := line.strip("│* ").split())}
    for cls, name, _ in settings_of(command):
        assert sentence(cls, name) in rows[flag(name)]
    for parameter in inspect.signature(app[command].default_command).parameters.values():
        if parameter.annotation in (str, str | None):
            assert rows.keys() & {flag(parameter.name), parameter.name.upper()}


@pytest.mark.parametrize("command", HYDRA_COMMANDS)
def test_help_of_a_training_shows_every_setting_and_choice(command: str, tmp_path: Path) -> None:
    name = command.replace("-", "_")
    done = Run(str(PROJECT / "scripts" / f"{name}.py"), "--help", cwd=tmp_path).wait()
    assert (done.returncode, done.stderr) == (0, "")
    keys = {line.strip().partition(":")[0] for line in done.stdout.splitlines()}
    for key, _ in flatten(composed(name=name)):
        assert {*key.split(".")} <= keys
    if command == "train":
        for path in (PROJECT / "configs").glob("*/*.yaml"):
            assert path.stem in done.stdout
    assert not [*tmp_path.iterdir()]


def test_help_lists_all_commands_with_their_first_line(tmp_path: Path) -> None:
    done = Run("-m", "transformer", "--help", cwd=tmp_path, environment={"COLUMNS": "1000"}).wait()
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        first = inspect.getdoc(app[command].default_command)
        assert first is not None
        [row] = [line for line in done.stdout.splitlines() if line.strip("│ ").startswith(f"{command} ")]
        assert first.splitlines()[0] in row


def wrong_values(hint: Any) -> list[str]:
    """Wrong values for a setting of this type, as they are typed."""
    if typing.get_origin(hint) is typing.Literal:
        return ["nix"]
    if typing.get_origin(hint) is typing.Annotated:
        kind, *said = typing.get_args(hint)
        bounds = [bound.split() for bound in said if isinstance(bound, str)]
        beyond = [str(int(float(limit)) + (1 if "<" in sign else -1)) for sign, limit in bounds]
        is_choice = any(isinstance(one, typing.Mapping) for one in said)
        return [*wrong_values(kind), *beyond, *(["nix"] if is_choice else [])]
    if hint in (int, float):
        return ["nix"]
    return [value for part in typing.get_args(hint) for value in wrong_values(part)]


def test_a_wrong_value_is_named_as_its_flag() -> None:
    tried: set[tuple[type, str]] = set()
    for command in FLAG_COMMANDS:
        typed = [command, *NEEDED.get(command, [])]
        parse(typed)
        for cls, name, hint in settings_of(command):
            for value in wrong_values(hint) if (cls, name) not in tried else []:
                with pytest.raises(UsageError, match=rf"^(?=[^\n]*{flag(name)}\b)[^\n]*$"):
                    parse([*typed, f"{flag(name)}={value}"])
            tried.add((cls, name))
    assert len(tried) > 50


@pytest.mark.parametrize("command", ["translate", "doctor"])
def test_a_setting_as_train_takes_it_is_refused_with_its_flag(command: str) -> None:
    for _, name, _ in settings_of(command):
        with pytest.raises(UsageError, match=rf"^{name}=5: .*{flag(name)} 5$"):
            parse([command, *NEEDED.get(command, []), f"{name}=5"])


@pytest.mark.parametrize("typed", [["a=b"], ["beams=5 is text"], ["--", "beam=5 is text"], ["--", "--beam"]])
def test_other_words_with_an_equals_sign_and_words_after_two_dashes_are_text(
    typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_translator().save(Path("model.safetensors"))
    fast = ["--method", "greedy", "--max-length", "9", "--device", "cpu", "--precision", "float32"]
    parse(["translate", "--checkpoint", "model.safetensors", *fast, *typed])()
    greedy = SearchSettings("greedy", max_length=9)
    [expected] = Translator.load(Path("model.safetensors")).translate([typed[-1]], greedy)
    assert capfdbinary.readouterr().out.decode() == f"{expected}\n"


def test_after_the_command_line_is_read_a_wrong_setting_is_still_named_as_its_flag(tmp_path: Path) -> None:
    for typed, named in (
        (["augment", "--output", "x"], "--input"),
        (["augment", "--output", "x", "--fold", "--input", "y"], "--input"),
        (["translate", "--output", "x", "--resume", "--alignments", "y", "ja"], "--resume"),
        (["evaluate", "x", "--reference", str(tmp_path)], "--input"),
    ):
        with pytest.raises(UsageError, match=f"^{named}"):
            parse(typed)()
