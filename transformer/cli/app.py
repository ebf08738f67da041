"""`translator COMMAND …`: the commands. cyclopts reads their flags from functions and dataclasses.

A command is a function in the file of its name. Modules that are slow to import are imported within it, so that
`--help` and a wrong flag are answered at once. The exit status is 2 for a mistake of the user, 1 for any other failure,
and 128 + its number for a signal; each is reported on one line on stderr.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Annotated, TypeVar

from cyclopts import App, CycloptsError, Parameter

from transformer import __version__
from transformer.cli.errors import configure_output, status_of
from transformer.config import SettingError, UsageError
from transformer.inference.settings import (
    AlignmentSettings,
    ChoiceSettings,
    InferenceSettings,
    KeepSettings,
    SearchSettings,
)
from transformer.machine import MachineSettings

T = TypeVar("T")
# The fields of a dataclass as flags, without a prefix; those of translators have their own groups in --help.
Flags = Annotated[T, Parameter(name="*")]
SearchFlags = Annotated[SearchSettings, Parameter(name="*", group="Search")]
KeepFlags = Annotated[KeepSettings, Parameter(name="*", group="What stays")]
ChoiceFlags = Annotated[ChoiceSettings, Parameter(name="*", group="Choice among the hypotheses")]
AlignmentFlags = Annotated[AlignmentSettings, Parameter(name="*", group="Weights for --alignments")]
InferenceFlags = Annotated[InferenceSettings, Parameter(name="*", group="Device")]
MachineFlags = Annotated[MachineSettings, Parameter(name="*", group="Device")]
# These commands compose their settings with Hydra, which reads the command line of its process.
HYDRA_COMMANDS = ("train", "back-translate")
COMMANDS = (
    *("train", "evaluate", "translate", "explain", "compare", "export", "serve"),
    *("doctor", "augment", "back-translate"),
)

app = App(
    name="translator",
    help="Trains, evaluates and uses encoder-decoder Transformers for translation. --debug shows where an error arose.",
    version=f"transformer-translator {__version__}",
    default_parameter=Parameter(negative=()),
    help_format="markdown",
)
for command in COMMANDS:
    module = command.replace("-", "_")
    app.command(f"transformer.cli.{module}:{module}", name=command)


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def flags_of(tokens: Sequence[str]) -> set[str]:
    """The flags of the command in these tokens."""
    if not tokens or tokens[0] not in COMMANDS:
        return set()
    return {name for argument in app[tokens[0]].assemble_argument_collection() for name in argument.names}


@contextmanager
def naming_flags(known: set[str]) -> Iterator[None]:
    """If a wrong setting has a flag, the error names the flag."""
    try:
        yield
    except SettingError as error:
        if flag(error.key) not in known:
            raise
        raise UsageError(f"{flag(error.key)}{error.problem}") from error


def parse(tokens: Sequence[str]) -> Callable[[], object]:
    """A function that does the work of a command line. Raises UsageError that names a wrong flag; also for `beam=5`
    (the form of train's settings) if there is a flag --beam."""
    known = flags_of(tokens)
    for token in takewhile(lambda token: token != "--", tokens):
        name, is_setting, value = token.partition("=")
        if is_setting and flag(name) in known:
            raise UsageError(f"{token}: this command has flags: {flag(name)} {value}")
    try:
        with naming_flags(known):
            command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(str(error)) from error

    def work() -> None:
        with naming_flags(known):
            command(*bound.args, **bound.kwargs)

    return work


def run(tokens: Sequence[str]) -> int:
    """Runs a command and returns the exit status; a failure is printed on one line."""
    before = list(takewhile(lambda token: token != "--", tokens))
    debug = "--debug" in before  # for every command, at any place
    tokens = [token for token in before if token != "--debug"] + list(tokens[len(before) :])
    configure_output()
    gc.set_threshold(100_000)  # searching imported modules for garbage takes a fifth of the start time
    if not tokens or tokens[0] not in COMMANDS:
        for command in COMMANDS:
            app[command]  # imports it, because --help shows the first line of each
    return status_of(lambda: parse(tokens)(), lambda: debug)


def main(*command: str) -> None:
    """`translator`, or with a `command` one of the scripts."""
    tokens = [*command, *sys.argv[1:]]
    if tokens[:1] and tokens[0] in HYDRA_COMMANDS:
        module = f"transformer.cli.{tokens[0].replace('-', '_')}"
        command_line = [sys.executable, "-m", module, *tokens[1:]]
        if sys.platform == "win32":  # where the caller would not wait for the new process
            sys.exit(subprocess.call(command_line))
        os.execv(sys.executable, command_line)
    sys.exit(run(tokens))
