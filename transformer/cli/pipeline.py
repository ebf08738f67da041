"""Runs commands one after another, each in its own process; repeats only those that are not finished."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from transformer.config import UsageError
from transformer.files import write_json
from transformer.printing import say, shell_path
from transformer.run import Run
from transformer.signals import Interrupted, SignalHandler

COMMAND = "command.json"  # the commands of a folder


class SignalRelay(SignalHandler):
    """A context that passes each signal on to a command, once, even if it comes before the command has started."""

    def __init__(self) -> None:
        super().__init__()
        self.command: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._waiting.append(number)
        self.hand_on()

    def hand_on(self) -> None:
        while self.command and self._waiting:
            self.command.send_signal(self._waiting.pop(0))


@dataclass(frozen=True)
class Stage:
    """A step of a pipeline: the command that begins it, and the one that resumes it if the file `started` exists.

    It is finished if all `files` exist, and also `started` is gone, if that is removed at the end.
    """

    name: str
    begin: list[str]
    resume: list[str]
    started: Path
    files: Sequence[Path]
    is_started_removed: bool = False

    def is_finished(self) -> bool:
        return all(file.exists() for file in self.files) and not (self.is_started_removed and self.started.exists())

    def has_begun(self) -> bool:
        return self.started.exists() or any(file.exists() for file in self.files)

    def check_files(self) -> None:
        """UsageError if some files of the stage are missing and it cannot be resumed."""
        missing = [file for file in self.files if not file.exists()]
        if missing and self.has_begun() and not self.started.exists():
            left = next(file for file in self.files if file.exists())
            raise UsageError(
                f"{self.name}: {shell_path(missing[0])} is missing beside {shell_path(left)}: restore it, or "
                "remove all files of this stage to repeat it"
            )

    def run(self) -> None:
        """Runs the command, and passes signals on so that it can save. Raises ChildProcessError if it fails."""
        command, relay = self.resume if self.started.exists() else self.begin, SignalRelay()
        # In its own group of processes, because otherwise Ctrl-C in a terminal would come twice.
        with relay, subprocess.Popen(command, start_new_session=True) as process:
            relay.command = process
            relay.hand_on()
            process.wait()
        if relay.received is not None:
            raise Interrupted(relay.received)
        if process.returncode or not self.is_finished():
            raise ChildProcessError(f"{self.name} has failed: correct the error, then repeat the command to continue")


def _check_command(kept: Path, stages: Sequence[Stage]) -> None:
    """Raises UsageError if a stage was begun with other settings. Stages that have not begun may change."""
    if not kept.exists() or not any(stage.has_begun() for stage in stages):
        return
    try:
        before = json.loads(kept.read_bytes())
    except (ValueError, RecursionError):
        before = None
    differing = ""
    # If the file has another form, somebody has changed it.
    if isinstance(before, list) and len(before) == len(stages) and all(isinstance(old, list) for old in before):
        # Without the first word, which is the path of Python.
        both = [(stage, old[1:], stage.begin[1:]) for stage, old in zip(stages, before, strict=True)]
        if not (begun := [(stage, old, new) for stage, old, new in both if old != new and stage.has_begun()]):
            return
        stage, old, new = begun[0]
        was, now = ([word for word in one if word not in other] for one, other in ((old, new), (new, old)))
        differing = f" ({stage.name}: before {' '.join(was) or 'nothing'}, now {' '.join(now) or 'nothing'})"
    raise UsageError(f"{shell_path(kept)} has other settings: repeat these, or give another output=FOLDER{differing}")


def run_stages(stages: Sequence[Stage], folder: Path, prepare: Callable[[], None]) -> None:
    """Runs the stages that are not finished, after `prepare`. OSError if another process runs them, UsageError if the
    folder was begun by another command."""
    kept = folder / COMMAND
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with Run(folder).lock():
            _check_command(kept, stages)
            for stage in stages:
                stage.check_files()
            write_json(kept, [stage.begin for stage in stages])
            prepare()
            for stage in stages:
                if stage.is_finished():
                    say(f"{stage.name}: already finished")
                else:
                    say(f"{stage.name} …")
                    stage.run()
    except Interrupted as stopped:
        stopped.advice = "the same command continues from here"
        raise
