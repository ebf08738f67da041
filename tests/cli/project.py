"""A small project whose scripts share the command line: little settings, no training."""

from pathlib import Path

from transformer.cli.arguments import is_sweep, prepare
from transformer.cli.compose import as_dict, compose_all
from transformer.cli.hydra_errors import explain_error
from transformer.cli.sweeps import check_trials

CONFIGS = {
    "train.yaml": """
        defaults: [command_line, data: toy, model: small, trainer: cpu, experiment: null, _self_]
        debug: false
        runs: ${project:runs}
        resume: null
        name: null
        text: null
        cost: 1
        seed: 0
        hydra:
          run: {dir: "${run_folder:${resume},${runs},${name}}"}
          sweep: {dir: "${runs}/sweep", subdir: "${hydra:job.num}"}
        """,
    "translate.yaml": """
        defaults: [command_line, _self_]
        debug: false
        text: null
        checkpoint: null
        output: null
        """,
    "command_line.yaml": (Path(__file__).parents[2] / "configs" / "command_line.yaml").read_text(encoding="utf-8"),
    "data/toy.yaml": "{directory: null, train: null, size: 3}",
    "data/files.yaml": "{directory: null, train: '???', size: 3}",
    "model/small.yaml": "{dim: 8, heads: 4, encoder: {layers: 2, heads: '${model.heads}'}}",
    "model/gated.yaml": "{dim: 8, heads: 4, gates: 2, encoder: {layers: 2, heads: '${model.heads}'}}",
    "trainer/cpu.yaml": "{max_steps: 9, max_epochs: -1, devices: 1, num_nodes: 1, strategy: auto}",
    "trainer/ddp.yaml": "{max_steps: 9, max_epochs: -1, devices: 2, num_nodes: 1, strategy: ddp}",
    "experiment/wide.yaml": "# @package _global_\nmodel: {dim: 16}",
}

SCRIPT = """
import os, sys, time
from pathlib import Path
from transformer.cli.launch import launch

def read(config):
    if config.get("model", {}).get("heads") == 11:
        raise ValueError("model.heads=11 is refused")
    return config

def train(config):
    import logging
    from transformer.cli.runs import output_folder
    logging.getLogger("train").info("a log line")
    print(repr(config.get("text")))
    name = config.get("name")
    if name == "value":
        raise ValueError("the file\\n  is bad")
    if name == "log":
        logging.getLogger("train").info("\\x1b[2J")
    if name == "arrow":
        print("→")
    if name == "gone":
        output_folder().rmdir()
        output_folder().touch()
    if name == "key":
        raise KeyError("lost")
    if name == "swallowed":
        try:
            os.kill(os.getpid(), 15)
        except BaseException:
            raise ValueError("the file is damaged")
    if name == "slow":
        print("started", file=sys.stderr, flush=True)
        time.sleep(600)
    if name == "much":
        print("started", file=sys.stderr, flush=True)
        while True:
            print("a line of a long translation")
    if config.get("cost") == 9:
        os.kill(os.getpid(), 9)
    if "model" not in config:
        return None
    if config["model"]["heads"] == 13:
        raise RuntimeError("13 heads")
    (output_folder() / "checkpoints").mkdir(exist_ok=True)
    (output_folder() / "checkpoints" / "last.ckpt").write_text(str(config["resume"]), encoding="utf-8")
    return {"bleu": config["model"]["heads"] / 3 + config["seed"], "loss": 0.5}

if __name__ == "__main__":
    launch(read, train, Path(sys.argv[0]).stem, Path(__file__).parent / "configs")
"""


def make_project(folder: Path) -> Path:
    for name, text in CONFIGS.items():
        path = folder / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        path.write_text("\n".join(line[indent:] for line in lines), encoding="utf-8")
    for name in ("train", "translate"):
        (folder / f"{name}.py").write_text(SCRIPT, encoding="utf-8")
    return folder


def compose(project: Path, *arguments: str, name: str = "train") -> dict:  # type: ignore[type-arg]
    """Compose in this process what a script would get."""
    prepared = [word for word in prepare(arguments, project / "configs") if not word.startswith("-")]
    return as_dict(compose_all(name, prepared, project / "configs"))


def refusal(project: Path, *arguments: str, name: str = "train") -> str:
    """Return the line with which a script would refuse its arguments, without starting one."""
    configs = project / "configs"
    try:
        prepared = prepare(arguments, configs)
        if is_sweep(arguments):
            check_trials(prepared, name, configs, lambda settings: None)
        else:
            assert not any(word.startswith("-") for word in prepared), "an option is for Hydra's own parser"
            compose(project, *arguments, name=name)
    except Exception as error:
        line = explain_error(error, arguments, name, configs)
        assert "\n" not in line
        return line
    raise AssertionError(f"{arguments} was accepted")
