"""Scores a trained translator: `python scripts/evaluate.py [checkpoint=RUN] [split=test]`."""

import json
import time
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from transformer import Translator
from transformer.cli.launch import check_output, find_checkpoint, launch
from transformer.config import from_dict
from transformer.data.corpus import DataSettings, read_pairs
from transformer.device import MachineSettings, ServingSettings, configure_torch
from transformer.evaluation import METRICS, score
from transformer.evaluation.metrics import MetricSettings
from transformer.files import atomic_write, sha256
from transformer.inference.search import SearchSettings

# Sentences translated between two moves of the progress bar.
CHUNK = 250
# Settings of a corpus that older runs do not know, as they had them.
SINCE = {"both_directions": False, "license": None, "home": None}


def evaluate(config: DictConfig) -> dict[str, float]:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    started = time.monotonic()
    checkpoint = find_checkpoint(plain["checkpoint"], Path(plain["runs"]))
    search = from_dict(SearchSettings, plain["search"], "search")
    metrics = from_dict(MetricSettings, {"metrics": plain["metrics"]}, "").metrics
    machine = from_dict(MachineSettings, plain["machine"], "machine")
    serving = from_dict(ServingSettings, {key: plain[key] for key in ("device", "precision", "batch_tokens")}, "")
    asked_for = plain["target_language"] or (plain.get("data") or {}).get("target_language")
    # The trials of a sweep must not write over each other's, or the run's own.
    job = HydraConfig.get() if HydraConfig.initialized() else None
    folder = checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent
    output = Path(plain["output"] or (job.runtime.output_dir if job and job.mode == RunMode.MULTIRUN else folder))
    check_output(str(output), folder=True)
    translator = Translator.load(checkpoint, serving.device, serving.precision, asked_for)
    configure_torch(machine, translator.device.type)
    split, sources, references = _texts(plain, folder, translator)
    hypotheses: list[str] = []
    # Some at a time, so that there is progress to see.
    for start in track(range(0, len(sources), CHUNK), f"translating {split}", console=Console(stderr=True)):
        chunk = sources[start : start + CHUNK]
        found = translator.n_best(chunk, search, serving.batch_tokens, lines=range(start + 1, start + 1 + len(chunk)))
        hypotheses += [translations[0].text for translations in found]
    scores = score(hypotheses, references, translator.target_language, metrics)
    atomic_write(output / f"hypotheses.{split}.txt", "".join(f"{text}\n" for text in hypotheses).encode())
    digest = sha256(checkpoint)
    results = {
        split: scores.to_dict(),
        "sentences": len(sources),
        "checkpoint": str(checkpoint),
        "sha256": digest,
        "search": plain["search"],
        "seconds": round(time.monotonic() - started, 1),
    }
    # What this checkpoint gave on other splits stays, as their translations do; the rest is of the last split.
    earlier = _earlier(output / "evaluation.json", digest)
    searches = earlier.pop("searches", {}) | {split: plain["search"]}
    results = earlier | results | {"searches": searches}
    atomic_write(output / "evaluation.json", json.dumps(results, indent=2, ensure_ascii=False).encode())
    for name, value in scores.values.items():
        print(f"{split} {METRICS[name].label} {value:.2f}   {scores.signatures[name]}")
    return dict(scores.values)


def saved_corpus(run: Path) -> dict[str, Any]:
    """The settings of the corpus that a run's own config.yaml names."""
    saved: Any = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"), resolve=True)
    return SINCE | saved["data"]


def _earlier(path: Path, digest: str) -> dict[str, Any]:
    """What stands in `path`, if it is of the checkpoint with this sha256."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    same = isinstance(found, dict) and isinstance(found.get("searches"), dict)
    return found if same and found.get("sha256") == digest else {}


def _texts(plain: dict[str, Any], folder: Path, translator: Translator) -> tuple[str, list[str], list[str]]:
    """The name of what is scored, its sources and its references."""
    if plain["source"] or plain["reference"]:
        if not (plain["source"] and plain["reference"]):
            raise ValueError("source=FILE and reference=FILE go together")
        files = [Path(plain["source"]), Path(plain["reference"])]
        sources, references = zip(*read_pairs(files, *translator.languages), strict=True)
        return _own_name(files[0].stem, "", folder), list(sources), list(references)
    data = plain.get("data")
    asked_for = data is not None
    if data is None:
        if not (folder / "config.yaml").exists():
            raise FileNotFoundError(
                f"{folder} holds no config.yaml that names a corpus: say data=toy, data=multi30k or data=files …, "
                "or source=FILE reference=FILE"
            )
        data = saved_corpus(folder)
    name = plain["split"]
    if plain["target_language"] == data["source_language"]:
        # Back: under a name of its own, as the run's translations are of the same sentences the other way.
        data = data | {"source_language": data["target_language"], "target_language": data["source_language"]}
        name = f"{name}.{plain['target_language']}"
    settings = from_dict(DataSettings, data, "data")
    if settings.languages != translator.languages:
        wanted, able = " → ".join(settings.languages), " → ".join(translator.languages)
        raise ValueError(f"the checkpoint translates {able}, the corpus was asked for {wanted}")
    if asked_for:  # a folder from a stranger must not choose what is fetched
        settings.fetch()
    pairs = list(settings.pairs(plain["split"]))
    name = _own_name(name, settings.digest(plain["split"]), folder, settings.name)
    return name, [source for source, _ in pairs], [target for _, target in pairs]


def _own_name(split: str, digest: str, run: Path, corpus: str = "other") -> str:
    """`split`, unless the run was tested on other files of this name, whose translations must stay."""
    try:
        tested = json.loads((run / "test.json").read_bytes())["corpus"]
    except (OSError, ValueError, KeyError, TypeError):
        return split
    return f"{corpus}.{split}" if tested.get(split, digest) != digest else split


if __name__ == "__main__":
    launch(evaluate, config_name="evaluate")
