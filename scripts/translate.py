"""Translates: `python scripts/translate.py [checkpoint=RUN] [text=… | input=FILE output=FILE]`, or stdin to stdout."""

import contextlib
import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from omegaconf import DictConfig, OmegaConf

from transformer import Translator
from transformer.cli.launch import check_output, find_checkpoint, launch
from transformer.config import from_dict
from transformer.data.corpus import read_lines
from transformer.device import MachineSettings, ServingSettings, available_threads, configure_torch
from transformer.export.formats import load as load_export
from transformer.files import atomic_file
from transformer.inference.search import SearchSettings

# Lines translated together: enough to fill batches, few enough that a pipe sees its output soon.
CHUNK = 256


def translate(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    search = from_dict(SearchSettings, plain["search"], "search")
    if plain["long_lines"] not in ("split", "refuse"):
        raise ValueError(f"long_lines={plain['long_lines']} is not allowed; choose one of split, refuse")
    if type(plain["n_best"]) is not int or not 1 <= plain["n_best"] <= (search.beam if search.method == "beam" else 1):
        most = f"from 1 to search.beam={search.beam}" if search.method == "beam" else f"1 with search={search.method}"
        raise ValueError(f"n_best={plain['n_best']} must be {most}")
    if plain["text"] is not None and plain["input"] is not None:
        raise ValueError("text= and input= are two texts to translate: give one of them")
    if plain["input"] is not None and not Path(plain["input"]).exists():
        raise ValueError(f"input={plain['input']}: no such file")
    if plain["output"] is not None:
        check_output(plain["output"], folder=False)
    machine = from_dict(MachineSettings, plain["machine"], "machine")
    serving = from_dict(ServingSettings, {key: plain[key] for key in ("device", "precision", "batch_tokens")}, "")
    checkpoint = find_checkpoint(plain["checkpoint"], Path(plain["runs"]), exports=True)
    if checkpoint.is_dir():
        if serving.precision != "float32":
            raise ValueError(f"precision={plain['precision']}: that of an export was chosen when it was made")
        translator = load_export(checkpoint, serving.device, machine.threads or available_threads())
    else:
        translator = Translator.load(checkpoint, serving.device, serving.precision, plain["target_language"])
    configure_torch(machine, translator.device.type)
    for side, own in (("source", translator.source_language), ("target", translator.target_language)):
        if plain[f"{side}_language"] not in (None, own):
            raise ValueError(f"the checkpoint's {side} language is {own}, not {plain[f'{side}_language']}")
    prompt = plain["text"] is None and plain["input"] is None and sys.stdin.isatty()
    with _output(plain["output"]) as output:
        lines = _lines(plain, prompt)
        done = 0
        while chunk := list(islice(lines, 1 if prompt else CHUNK)):
            numbers = range(done + 1, done + 1 + len(chunk))
            found = translator.n_best(chunk, search, serving.batch_tokens, plain["long_lines"], numbers)
            for number, hypotheses in zip(numbers, found, strict=True):
                for hypothesis in hypotheses[: plain["n_best"]]:
                    about = f"{number}\t{hypothesis.score:.4f}\t" if plain["n_best"] > 1 else ""
                    output.write(f"{about}{hypothesis.text}\n")
            output.flush()
            done += len(chunk)


def _lines(plain: dict[str, Any], prompt: bool) -> Iterator[str]:
    if plain["text"] is not None:
        # A line break within the text is a space: one text, one line.
        yield " ".join(plain["text"].split("\n"))
    elif plain["input"] is not None:
        yield from read_lines(Path(plain["input"]))
    elif prompt:
        print("Type a sentence, Enter translates it; Ctrl-D ends.", file=sys.stderr)
        yield from _prompted()
    else:
        yield from _stdin(sys.stdin.buffer)


def _prompted() -> Iterator[str]:
    with contextlib.suppress(EOFError):
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            yield input()


def _stdin(stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"stdin line {number} is not UTF-8") from error


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """stdout, or a file that appears when all of it is written."""
    if path is None:
        # Whatever the locale says, text goes out as UTF-8.
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with atomic_file(Path(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()  # or it would close the file before it has its name


if __name__ == "__main__":
    launch(translate, config_name="translate")
