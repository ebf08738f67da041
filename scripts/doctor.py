"""Looks at a corpus before training: `python scripts/doctor.py data=… [output=FILE.json] [fix=FOLDER]`."""

import json
import shlex
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track
from train import NOT_MODEL, absolute_paths

from transformer.cli.launch import CONFIGS, check_output, launch
from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import TokenizerSettings
from transformer.device import MachineSettings
from transformer.doctor.estimate import Plan, estimate, preset_for
from transformer.doctor.examination import Dropped, Examination
from transformer.doctor.fix import check_new, clean_copy
from transformer.doctor.report import plain_cost, plain_findings, show, unknown_shares
from transformer.doctor.text import Line
from transformer.files import atomic_write
from transformer.model import ModelConfig

Plain = dict[str, Any]


def doctor(config: DictConfig) -> None:
    plain: Plain = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    absolute_paths(plain)
    settings = from_dict(DataSettings, plain["data"], "data")
    fix = Path(plain["fix"]).expanduser() if plain["fix"] else None
    if fix:
        check_new(fix)
    if plain["output"]:
        check_output(plain["output"], folder=False)
    settings.fetch()
    examination = Examination(settings, watched)
    pairs = examination.pairs["train"]
    preset = preset_for(pairs)
    chosen = HydraConfig.get().runtime.choices.get("experiment")
    tried = chosen if chosen else preset if (CONFIGS / "experiment" / f"{preset}.yaml").exists() else None
    if tried and not chosen:
        plain = with_experiment(tried)
    advice = f"recommended for {pairs:,} pairs: experiment={preset}"
    if tried != preset:
        advice += f"; tried: {f'experiment={tried}' if tried else 'the settings as given'}"
    data, error = prepared(plain)
    too_long = set(data.split("train").too_long.tolist()) if data else set()
    plan = planned(plain, data) if data else None
    dropped = 0

    def drop(found: Dropped) -> None:
        nonlocal dropped
        dropped += 1
        if copy:
            copy.drop(found)

    def keep(line: Line) -> None:
        if copy:
            copy.write("train", line)

    with clean_copy(fix, settings.languages, list(settings.splits)) if fix else nullcontext() as copy:
        examination.run(too_long, keep, drop)
        if copy:
            for split in settings.splits:
                for line in examination.lines(split) if split != "train" else ():
                    copy.write(split, line)
            if dropped == pairs:
                raise ValueError(f"fix={fix}: every pair of train has a fault: nothing would be left")
    languages = dict(zip(("source_language", "target_language"), settings.languages, strict=True))
    tokenizer: Plain = {"kind": plain["tokenizer"]["kind"]}
    tokenizer |= {"size": len(data.source_tokenizer), "unknown": unknown_shares(data)} if data else {"error": error}
    report: Plain = {
        "corpus": {"name": settings.name, **languages, "pairs": examination.pairs},
        "findings": plain_findings(examination),
        "byte_order_marks": list(map(str, examination.marked)),
        "dropped": dropped,
        "tokenizer": tokenizer,
        "advice": advice,
        "preset": preset,
        "estimate": plain_cost(estimate(plan), int(plain["trainer"].get("max_steps", -1))) if plan else None,
    }
    if plain["output"]:
        atomic_write(Path(plain["output"]), json.dumps(report, indent=2, ensure_ascii=False).encode())
    show(report)
    print(f"\nNext:\n  {next_command(settings, fix, tried, dropped)}")


def watched(lines: Iterable[Line], name: str) -> Iterable[Line]:
    """Progress on stderr; how many lines there are is not known before they were read."""
    return track(lines, name, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def with_experiment(name: str) -> Plain:
    """The settings as typed, with a named experiment beneath them."""
    typed = list(HydraConfig.get().overrides.task)
    config = hydra.compose("doctor", [*typed, f"experiment={name}"])
    plain: Plain = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    absolute_paths(plain)
    return plain


def prepared(plain: Plain) -> tuple[TranslationData | None, str]:
    """The corpus as training would have it, or why it could not be trained on."""
    tokenizer = from_dict(TokenizerSettings, plain["tokenizer"], "tokenizer")
    try:
        data = TranslationData(from_dict(DataSettings, plain["data"], "data"), tokenizer, plain["seed"])
        data.split("train")
        return data, ""
    except ValueError as error:
        return None, str(error)


def planned(plain: Plain, data: TranslationData) -> Plan:
    model = {key: value for key, value in plain["model"].items() if key not in NOT_MODEL}
    model |= {"source_vocab_size": len(data.source_tokenizer), "target_vocab_size": len(data.target_tokenizer)}
    return Plan(
        data.settings,
        data.tokenizer_settings,
        from_dict(ModelConfig, model, "model"),
        from_dict(MachineSettings, plain["machine"], "machine"),
        str(plain["trainer"].get("accelerator", "auto")),
        str(plain["trainer"].get("precision", "32-true")),
        plain["seed"],
    )


def next_command(settings: DataSettings, fix: Path | None, tried: str | None, dropped: int) -> str:
    """What to type next: a cleaned copy, or training."""
    typed = typed_data()
    experiment = [f"experiment={tried}"] if tried and not any(one.startswith("experiment=") for one in typed) else []
    if fix is None:
        script, more = ("doctor", ["fix=CLEANED"]) if dropped else ("train", experiment)
        return " ".join(["python", f"scripts/{script}.py", *map(shlex.quote, [*typed, *more])])
    splits = [f"data.{split}={fix / split}" for split in ("train", "validation", "test")]
    languages = [f"data.source_language={settings.source_language}", f"data.target_language={settings.target_language}"]
    others = [f"data.extra_tests.{split}={fix / split}" for split in settings.extra_tests]
    more = [one for one in typed if not one.lstrip("+").startswith(CORPUS)]
    arguments = ["data=files", *splits, *languages, *others, *more, *experiment]
    return " ".join(["python", "scripts/train.py", *map(shlex.quote, arguments)])


def typed_data() -> list[str]:
    """What was typed, but for what is the doctor's own."""
    return [typed for typed in TYPED if not typed.startswith(("output=", "fix="))]


TYPED = sys.argv[1:]  # before it is brought into Hydra's grammar
# What names the corpus, of which a copy is another.
CORPUS = (
    *("data=", "data.directory=", "data.train=", "data.validation=", "data.test=", "data.extra_tests"),
    *("data.source_language=", "data.target_language="),
)

if __name__ == "__main__":
    launch(doctor, config_name="doctor")
