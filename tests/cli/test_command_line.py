"""The shared command line: texts arrive as typed, mistakes cost a line, runs resume, sweeps show a table."""

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))

from transformer.cli import launch as command_line  # noqa: E402
from transformer.cli.errors import describe  # noqa: E402
from transformer.cli.launch import UsageError, find_checkpoint, newest_run, prepare, quote, settled  # noqa: E402

CONFIGS = {
    "train.yaml": """
        defaults: [data: toy, model: small, trainer: cpu, experiment: null, _self_]
        debug: false
        runs: ${project:runs}
        resume: null
        name: null
        text: null
        cost: 1
        folder: ${hydra:runtime.output_dir}
        hydra:
          run: {dir: "${runs}/${now:%H-%M-%S}"}
          sweep: {dir: "${runs}/sweep", subdir: "${hydra.job.num}"}
        """,
    "translate.yaml": """
        debug: false
        text: null
        checkpoint: null
        hydra:
          run: {dir: .}
          output_subdir: null
        """,
    "data/toy.yaml": "{directory: null, train: null, size: 3}",
    "data/files.yaml": "{directory: null, train: '???', size: 3}",
    "model/small.yaml": "{dim: 8, heads: 4, encoder: {layers: 2, heads: '${model.heads}'}}",
    "trainer/cpu.yaml": "{max_epochs: 1, devices: 1, strategy: auto}",
    "trainer/ddp.yaml": "{max_epochs: 1, devices: 2, strategy: ddp}",
    "experiment/wide.yaml": "# @package _global_\nmodel: {dim: 16}",
}

SCRIPT = f"""
import os, sys, time
from pathlib import Path
sys.path.insert(0, {str(SCRIPTS)!r})
from transformer.cli.launch import launch

def train(config):
    import logging
    logging.getLogger("train").info("a log line")
    print(repr(config.get("text")))
    if config.get("name") == "value":
        raise ValueError("the file\\n  is bad")
    if config.get("name") == "key":
        raise KeyError("lost")
    if config.get("name") == "slow":
        print("started", flush=True)
        time.sleep(20)
    if config.get("cost") == 9:
        os.kill(os.getpid(), 9)
    if config.get("name") == "much":
        for _ in range(100_000):
            print("a line of a long translation")
    if "model" in config and config.model.heads == 13:
        raise RuntimeError("13 heads")
    if "folder" in config:
        (Path(config.folder) / "checkpoints").mkdir(exist_ok=True)
        (Path(config.folder) / "checkpoints" / "last.ckpt").write_text(str(config.resume))
        return {{"bleu": config.model.heads / 3 + config.get("seed", 0), "loss": 0.5}}

def train_elsewhere(config):
    import train as script
    from hydra.core.hydra_config import HydraConfig
    from transformer.cli.sweeps import run_trial
    run_trial(script.train, config, HydraConfig.instance().cfg, config.debug)

if __name__ == "__main__":
    launch(train, Path(sys.argv[0]).stem, Path(__file__).parent / "configs", train_elsewhere)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a project = ä")
    for name, text in CONFIGS.items():
        path = folder / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        path.write_text("\n".join(line[indent:] for line in lines), encoding="utf-8")
    for name in ("train", "translate"):
        (folder / f"{name}.py").write_text(SCRIPT, encoding="utf-8")
    return folder


def run(project: Path, script: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(project / f"{script}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=30, **options)  # type: ignore[call-overload, no-any-return]


def compose(project: Path, *arguments: str, name: str = "train") -> DictConfig:
    """Compose in this process what a script would get."""
    import hydra

    prepared = [argument for argument in prepare(arguments) if argument != "-m"]
    with hydra.initialize_config_dir(str(project / "configs"), version_base="1.3"):
        return hydra.compose(name, prepared)


def usage_error(project: Path, *arguments: str) -> str:
    """Give the line that a script would end with before its work starts."""
    try:
        prepared = prepare(arguments)
        overrides = [argument for argument in prepared if argument != "-m"]
        command_line.check(overrides, "train", project / "configs", multirun="-m" in prepared)
    except Exception as error:
        line = describe(error)
        assert "\n" not in line
        return line
    pytest.fail(f"{arguments} was accepted")


# What is typed arrives.

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TRICKY = st.text("\\${}'\",=?#[]() \n\tä:~+x", max_size=10)


@settings(max_examples=150, deadline=None)
@given(TEXTS | TRICKY)
@example("???")
def test_any_text_arrives_as_typed_and_survives_a_sweep_and_a_saved_file(text: str) -> None:
    parser = OverridesParser.create()
    override = parser.parse_override(prepare([f"text={text}"])[0])
    again = parser.parse_override(f"text={override.get_value_element_as_str()}")  # what Hydra's sweeper does
    for value in (override.value(), again.value()):
        assert not override.is_sweep_override()
        config = OmegaConf.create({"text": None})
        OmegaConf.update(config, "text", value)
        assert config.text == text
        if "\x85" not in text:  # PyYAML writes this line break and reads a space
            assert OmegaConf.create(OmegaConf.to_yaml(config)).text == text
        assert OmegaConf.to_container(config, resolve=True) == {"text": text}


@pytest.mark.parametrize(
    "text",
    [
        "Hallo, 2 = zwei! <b>ä</b>",
        "1",
        "null",
        "",
        "???",
        "${x}",
        "\\${x}",
        'it\'s "so"',
        "a\nb",
        "[1,2",
        "'q'",
        "#",
    ],
)
def test_a_text_arrives_through_hydra(project: Path, text: str) -> None:
    for prefix in ("", "+", "++"):
        assert compose(project, f"{prefix}text={text}", name="translate" if prefix else "train").text == text


def test_a_text_of_many_words_is_read_quickly(project: Path) -> None:
    start = time.perf_counter()
    assert compose(project, "text=" + "viele, viele Worte " * 200).text == "viele, viele Worte " * 200
    assert time.perf_counter() - start < 5


def test_a_script_prints_only_its_result_to_stdout_and_leaves_no_folder(project: Path, tmp_path: Path) -> None:
    text = 'Hallo, 2 = "zwei"!\n${x} \\'
    done = run(project, "translate", f"text={text}", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{text!r}\n", "a log line\n")
    assert not list(tmp_path.iterdir())


def test_a_run_folder_may_have_any_name(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a=b, 'c' ü"
    assert run(project, "train", f"hydra.run.dir={folder}").returncode == 0
    assert (folder / "checkpoints" / "last.ckpt").exists()


def test_an_interpolation_in_the_run_folder_stays_hydras() -> None:
    assert prepare(["hydra.run.dir=runs/${now:%Y}"])[0] == "hydra.run.dir='runs/${now:%Y}'"
    assert prepare(["hydra.run.dir='a b'"])[0] == "hydra.run.dir='a b'"


def test_a_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(command_line.UsageError, match="text is not UTF-8 text"):
        command_line.prepare(["text=ja \udcff"])


def test_options_may_stand_between_overrides() -> None:
    assert prepare(["a=1", "-m", "b=2"])[:2] == ["a=1", "b=2"]
    assert prepare(["a=1", "-m", "b=2"])[-1] == "-m"


def test_of_a_key_given_twice_the_later_counts(project: Path) -> None:
    config = compose(project, "data=files", "text=a", "data=toy", "text=b")
    assert (config.data.train, config.text) == (None, "b")


def test_the_children_of_lightning_get_the_parents_arguments_once_prepared(tmp_path: Path) -> None:
    folder = tmp_path / 'x "y" ${z}'
    parent = prepare(["text='${x}'", "resume=last"])
    added = [f'hydra.run.dir="{folder}"', "hydra.job.name=train_ddp_process_1", "hydra.output_subdir=null"]
    child = prepare([*parent, *added], resumable=True)
    assert child == [*parent, f"hydra.run.dir={quote(str(folder))}", *added[1:]]


# The Trainer's arguments.


def test_every_argument_of_the_trainer_can_be_given(project: Path) -> None:
    config = compose(project, "trainer.max_steps=5", "trainer.max_epochs=3", "trainer.limit_val_batches=0.5")
    assert (config.trainer.max_steps, config.trainer.max_epochs, config.trainer.limit_val_batches) == (
        5,
        3,
        0.5,
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("trainer.max_epocs=1", "trainer.max_epocs: no such setting; did you mean trainer.max_epochs"),
        ("+trainer.max_epocs=1", "did you mean trainer.max_epochs"),
        ("trainer.zzz=1", "lightning.ai"),
        ("trainer.logger=false", "loggers=[csv,tensorboard]"),
        ("++trainer.callbacks=[]", "trainer.callbacks is built by"),
        ("trainer.default_root_dir=x", "hydra.run.dir=PATH"),
        ("trainer.use_distributed_sampler=true", "always false"),
        ("trainer.plugins=[]", "trainer.plugins is"),
    ],
)
def test_an_argument_that_the_trainer_does_not_have_or_that_is_ours_is_refused(
    project: Path, argument: str, message: str
) -> None:
    assert message in usage_error(project, argument)


# Mistakes cost one line.


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model.hed=3", "model.hed: no such setting; did you mean model.heads?"),
        ("heads=3", "heads: no such setting; did you mean model.heads"),
        ("experimnt=wide", "did you mean experiment?"),
        ("zzz=3", "zzz: no such setting; known are cost, data"),
        ("data=foo", "data=foo: data is one of files, toy"),
        ("data=null", "data=null: data is one of files, toy"),
        ("model.heads", "model.heads: no '=' in it: write KEY=VALUE"),
        ("", "no '=' in it"),
        ("model.heads=[1", "model.heads=[1: Hydra cannot read this"),
        (
            "model.encoder=3",
            "model.encoder is a section; set one of model.encoder.layers, model.encoder.heads",
        ),
        ("model.encoder=null", "model.encoder is a section"),
        ("model.heads.x=3", "model.heads is a value"),
        ("model.heads=2,4", "several values need -m"),
        ("data=files", "data.train is not set: give data.train=VALUE"),
        ("model.dim=${nix}", "model.dim: Interpolation key 'nix' not found"),
        ("hydra.nix=3", "hydra.nix"),
        ("--foo", "unrecognized arguments: --foo"),
    ],
)
def test_a_mistake_is_found_before_any_work_and_named_with_its_remedy(
    project: Path, argument: str, message: str
) -> None:
    assert message in usage_error(project, argument)


def test_each_value_of_a_sweep_is_checked(project: Path) -> None:
    assert "model=big" in usage_error(project, "-m", "model=small,big")
    assert "data.train is not set" in usage_error(project, "-m", "data=toy,files", "model.heads=1,2")
    assert "several" not in usage_error(project, "-m", "model.heads=1,2", "model.nix=1")


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp_cpu_offload", "deepspeed_stage_2"])
def test_strategies_that_cut_the_weights_into_parts_are_refused(project: Path, strategy: str) -> None:
    assert "use trainer=ddp" in usage_error(project, f"trainer.strategy={strategy}")


@pytest.mark.parametrize("argument", ["trainer=ddp", "trainer.devices=2", "trainer=cpu,ddp"])
def test_a_sweep_over_several_processes_is_refused(project: Path, argument: str) -> None:
    assert "use trainer=cpu or trainer=gpu with trainer.devices=1" in usage_error(project, "-m", argument)


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (
            ["model.hed=3"],
            2,
            "error: model.hed: no such setting; did you mean model.heads? --cfg job shows all",
        ),
        (["name=value"], 1, "error: the file is bad"),
        (["name=key"], 1, "error: KeyError: 'lost' (debug=true shows where)"),
        (["model.heads=13"], 1, "error: 13 heads (debug=true shows where)"),
        (
            ["resume=last"],
            2,
            "error: no run with checkpoints/last.ckpt in {runs}: train one, or name another",
        ),
        (["-m", "--cfg", "job"], 1, "error: Only one of --run, --multirun"),
    ],
)
def test_an_error_is_one_line_on_stderr(
    project: Path, tmp_path: Path, arguments: list[str], status: int, line: str
) -> None:
    done = run(project, "train", f"runs={tmp_path}", *arguments)
    lines = done.stderr.removeprefix("a log line\n").splitlines()
    assert done.returncode == status
    assert len(lines) == 1
    assert lines[0].startswith(line.replace("{runs}", str(tmp_path)))


def test_debug_shows_where_an_error_came_from(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", f"runs={tmp_path}", "name=key", "debug=true")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "in train\n" in done.stderr
    assert done.stderr.endswith("error: KeyError: 'lost' (debug=true shows where)\n")


def test_a_child_process_names_its_rank(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", f"runs={tmp_path}", "name=value", env={**os.environ, "LOCAL_RANK": "1"})
    assert done.stderr.endswith("[rank 1] error: the file is bad\n")


def test_ctrl_c_stops_quietly(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(project / "train.py"), f"runs={tmp_path}", "name=slow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "started" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "a log line\nstopped\n")


def test_a_reader_that_has_gone_is_no_error(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(project / "train.py"), f"runs={tmp_path}", "name=much"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "a log line\n"
    assert process.returncode == 141


def test_the_configuration_can_be_shown(project: Path) -> None:
    done = run(project, "train", "--cfg", "job", "text=a, b")
    assert done.returncode == 0
    assert OmegaConf.create(done.stdout).text == "a, b"


# Runs resume.


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three stopped runs; the trial of a sweep is the newest."""
    for age, name in enumerate(["sweep/0", "later", "early"]):
        folder = tmp_path / "runs" / name
        for path in (folder / "checkpoints" / "last.ckpt", folder / ".hydra" / "overrides.yaml"):
            path.parent.mkdir(parents=True)
            path.write_text("", encoding="utf-8")
            os.utime(path, (1e9 - age, 1e9 - age))
        OmegaConf.save({"hydra": {"runtime": {"cwd": "/start"}}}, folder / ".hydra" / "hydra.yaml")
        saved = [
            "data=files",
            "data.train='a = \\${b}'",
            "model.heads=8",
            "++trainer.max_steps=5",
            "resume='old'",
        ]
        OmegaConf.save(OmegaConf.create(saved), folder / ".hydra" / "overrides.yaml")
    return tmp_path / "runs"


def test_the_newest_run_may_be_a_trial_of_a_sweep(runs: Path) -> None:
    assert newest_run(runs) == runs / "sweep" / "0"
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")
    assert newest_run(runs) == runs / "early"


def test_a_checkpoint_is_a_file_or_the_best_of_a_run_or_of_the_newest(runs: Path, tmp_path: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoint(str(last), runs) == find_checkpoint(str(runs / "early"), runs) == last
    assert find_checkpoint(None, runs) == runs / "sweep" / "0" / "checkpoints" / "last.ckpt"
    for better in ("checkpoints/best.ckpt", "translator.safetensors"):
        (runs / "early" / better).write_text("")
        assert find_checkpoint(str(runs / "early"), runs) == runs / "early" / better
    assert find_checkpoint(None, runs) == runs / "early" / "translator.safetensors"
    for value, message in (("nix", "no such file"), (str(tmp_path), "has none of"), (None, "no run with")):
        with pytest.raises(FileNotFoundError, match=message):
            find_checkpoint(value, tmp_path / "empty")


def test_a_resumed_run_has_its_saved_settings_with_new_ones_on_top(project: Path, runs: Path) -> None:
    run_folder, checkpoint = runs / "later", runs / "later" / "checkpoints" / "last.ckpt"
    for place in (run_folder, checkpoint, os.path.relpath(run_folder)):
        prepared = prepare([f"resume={place}", "model.heads=2", "data=toy"], resumable=True)
        assert f"hydra.run.dir='{run_folder}'" in prepared
        config = compose_prepared(project, prepared)
        assert (config.model.heads, config.data.train) == (2, "/start/a = ${b}")
        assert (config.trainer.max_steps, config.resume) == (5, str(checkpoint))


def compose_prepared(project: Path, prepared: list[str]) -> DictConfig:
    import hydra

    with hydra.initialize_config_dir(str(project / "configs"), version_base="1.3"):
        return hydra.compose("train", prepared)


def test_settings_that_another_process_is_writing_anew_are_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "overrides.yaml"
    path.touch()
    writing = threading.Timer(0.2, path.write_text, ["[a=1]"])
    writing.start()
    assert settled(path) == b"[a=1]"


def test_what_cannot_be_resumed_is_refused_in_one_line(runs: Path) -> None:
    bare = runs / "bare" / "checkpoints" / "last.ckpt"
    bare.parent.mkdir(parents=True)
    bare.write_text("")
    for arguments, message in (
        (["resume=nix"], "resume=nix: no .*nix; give a run's folder"),
        ([f"resume={runs}"], "no .*last.ckpt; give a run's folder"),
        ([f"resume={bare}"], "no run's folder"),
        (["resume=last", "-m"], "leave out -m"),
        (["resume=last", "hydra.run.dir=x"], "hydra.run.dir"),
    ):
        with pytest.raises(UsageError, match=message):
            prepare(arguments, resumable=True, runs=runs)


def test_a_run_folder_from_a_stranger_cannot_bring_code(runs: Path) -> None:
    for line in ("hydra.callbacks.x._target_=os.system", "+trainer.callbacks=[]", "+a={_target_: os.system}"):
        OmegaConf.save(OmegaConf.create([line]), runs / "later" / ".hydra" / "overrides.yaml")
        with pytest.raises(UsageError, match="altered"):
            prepare([f"resume={runs / 'later'}"], resumable=True)


def test_a_stopped_run_goes_on_in_its_own_folder(project: Path, tmp_path: Path) -> None:
    assert run(project, "train", f"runs={tmp_path}", "text=a, 'b'", cwd=tmp_path).returncode == 0
    done = run(project, "train", f"runs={tmp_path}", "resume=last", "model.heads=2")
    assert (done.returncode, done.stdout) == (0, repr("a, 'b'") + "\n")
    (folder,) = tmp_path.iterdir()
    assert (folder / "checkpoints" / "last.ckpt").read_text() == str(folder / "checkpoints" / "last.ckpt")
    again = run(project, "train", f"resume={folder}")
    assert (again.returncode, again.stdout) == (0, done.stdout)


# Sweeps end in a table.


def test_a_sweep_ends_in_a_table_with_its_failed_trials(project: Path, tmp_path: Path) -> None:
    long = "a text, with a comma" + " and more" * 20
    done = run(project, "train", "-m", f"runs={tmp_path}", f"text={long}", "model.heads=2,13", "cost=1,2")
    assert done.returncode == 1
    assert done.stderr.count("error: 13 heads (debug=true shows where)") == 2
    assert "Traceback" not in done.stderr
    assert done.stdout.count(repr(long)) == 4
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0] == ["0", "2", "1", "0.6667", "0.5"]
    assert rows[3] == ["3", "13", "2", "13", "heads", "(debug=true", "shows", "where)"]
    with (tmp_path / "sweep" / "sweep.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["model.heads"] for row in table] == ["2", "2", "13", "13"]
    assert float(table[0]["bleu"]) == 2 / 3
    again = run(project, "train", "-m", f"runs={tmp_path}", "model.heads=3")
    assert again.returncode == 0, "the failed trials of an earlier sweep in the folder do not count"


def test_seeds_of_a_setting_end_in_mean_and_spread_and_a_picture(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", f"runs={tmp_path}", "model.heads=3,6", "+seed=1,2,4")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "sweep" / "summary.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    # 1 + 1, 1 + 2, 1 + 4: mean 10/3, variance (16/9 + 1/9 + 25/9) / 2.
    first = {"model.heads": "3", "seeds": "3", "bleu": "3.333 ± 1.53", "loss": "0.5 ± 0", "gain in bleu": ""}
    assert table[0] == first
    assert table[1]["bleu"] == "4.333 ± 1.53"
    assert table[1]["gain in bleu"] == "+1 ± 3.46, within the spread"
    assert "within the spread: " in done.stdout
    assert "3.333 ± 1.53" in done.stdout
    assert (tmp_path / "sweep" / "sweep.png").stat().st_size > 5_000


def test_a_launcher_of_hydras_takes_trials_to_processes_of_its_own(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", "hydra/launcher=submitit_local", f"runs={tmp_path}", "model.heads=2,13")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0] == ["0", "2", "0.6667", "0.5"]
    assert rows[1] == ["1", "13", "13", "heads", "(debug=true", "shows", "where)"]
    assert "Traceback" not in done.stderr


def test_a_trial_whose_process_dies_ends_no_other_trial(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", f"runs={tmp_path}", "cost=9,1", "model.heads=3")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0][:2] == ["0", "9"]
    assert "the process of this trial ended with SIGKILL" in done.stdout
    assert rows[1][:3] == ["1", "1", "1"]
    assert "Traceback" not in done.stderr


def test_a_folder_of_the_checkout_can_be_interpolated() -> None:
    assert OmegaConf.create({"runs": "${project:runs}"}).runs == str(SCRIPTS.parent / "runs")
