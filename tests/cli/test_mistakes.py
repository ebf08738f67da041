"""A mistake on the command line is found before any work and told in one line that names the key and the remedy."""

import argparse
import itertools
import re
import runpy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.errors import OverrideParseException
from hydra.main import get_args_parser
from omegaconf import DictConfig

from tests.cases import others_long
from tests.cli.project import refusal
from tests.factories import composed
from transformer.cli import CONFIGS, PROJECT
from transformer.cli.arguments import prepare
from transformer.cli.compose import check_groups, check_words, compose_all, read_settings
from transformer.cli.hydra_errors import SYNONYMS, Settings, explain_error
from transformer.cli.launch import refuse
from transformer.cli.runs import check_init_from, check_new_run
from transformer.cli.settings import augment_settings, run_settings, translate_settings
from transformer.cli.sweeps import check_trials, trials_to_check
from transformer.config import UsageError, from_dict
from transformer.data.printable import shell_word
from transformer.inference.settings import TranslateSettings
from transformer.training.config import TrainerSettings


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model.hed=3", "model.hed: no such setting; did you mean model.heads? --cfg job shows all"),
        ("heads=3", "heads: no such setting; did you mean model.heads or model.encoder.heads?"),
        ("batch_size=32", "batch_size: no such setting; did you mean data.batch_tokens?"),
        ("experimnt=wide", "did you mean experiment?"),
        ("modle.x=3", "did you mean model?"),
        ("model.zzz.heads=3", "did you mean model.heads or model.encoder.heads?"),
        ("~nix", "nix: no such setting; known are cost, data"),
        ("hydra/launcher=nix", "hydra/launcher=nix: hydra/launcher is one of basic"),
        ("model.encoder.x.y.z=3", "known are model.encoder.heads, model.encoder.layers;"),
        ("experiment.x=3", "experiment.x: choose experiment=NAME first; --help shows which there are"),
        ("model@a=small", "model@a: no choice of this script; its choices are data, experiment, model, trainer"),
        (
            "data.sha256.train.de=a",
            "data.sha256.train.de: names of files have dots: write 'data.sha256={train.de: SHA256}'",
        ),
        ("zzz=3", "zzz: no such setting; known are cost, data, debug, experiment, hydra.run.dir, model, name"),
        ("data=foo", "data=foo: data is one of files, toy"),
        ("data=[toy,foo]", "data=foo: data is one of files, toy"),
        ("data=3", "data=3: leave this out, or choose one of files, toy"),
        ("data=-1.5e3", "data=-1.5e3: leave this out, or choose one of files, toy"),
        ("data=[toy,1_000]", "data=[toy,1_000]: leave this out, or choose one of files, toy"),
        ("trainer={max_stepz: 3}", "trainer is a section; set one of trainer.max_steps, trainer.max_epochs"),
        ("model.heads=[1", "model.heads=[1: Hydra cannot read this"),
        ("+x=[1", "x=[1: Hydra cannot read this"),
        ("metrics=[a (b)]", """put each text with special characters into quotes: metrics="['A','B']"""),
        (
            "data.extra_tests={a: b!}",
            """put each text with special characters into quotes: data.extra_tests="{NAME:'A'}\"""",
        ),
        ("trainer.max_steps=“30”", "trainer.max_steps=“30”: Hydra cannot read typographic quotes"),
        ("=5", "=5: a setting needs a name: write KEY=VALUE"),
        ("model.heads.x=3", "model.heads is a value"),
        ("model.größe=3", "model.größe: the name of a setting has letters from a to z"),
        (".=3", ".: the name of a setting has letters from a to z"),
        ("model.heads=2,4", "several values need -m"),
        ("data=files", "data.train is not set: give data.train=VALUE"),
        ("model.dim=${nix}", "model.dim: Interpolation key 'nix' not found"),
        ("hydra.nix=3", "hydra.nix"),
        ("data.file=a", "data.file: no such setting; known are data."),  # no file of a log of Hydra's
        ("model.gates=3", "model.gates: a setting of model=gated: write that too"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(project: Path, argument: str, message: str) -> None:
    assert message in refusal(project, argument)


def refused_by(check: Callable[[DictConfig], None], name: str, *typed: str) -> str:
    """What a check of the composed configuration says of a command line."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3", job_name=name):
        config = hydra.compose(name, prepare(typed, CONFIGS), return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        try:
            check(config)
        except ValueError as error:
            return str(error)
        finally:
            HydraConfig.instance().cfg = None
    return ""


@pytest.mark.long
def test_a_word_where_a_preset_has_no_text_is_refused_without_torch() -> None:
    for typed, message in (
        ("seed=x", "seed=x must be a whole number"),
        ("test=maybe", "test=maybe must be true or false"),
        ("metrics=bleu", "metrics=bleu must be a list, as metrics=[A,B]"),
        ("model.heads=x", "model.heads=x must be a whole number"),
        ("trainer.devices=auto", "trainer.devices=auto must be a whole number"),
    ):
        assert refused_by(check_words, "train", "seed=3", typed) == message
    several = refused_by(check_words, "translate", "batch_tokens=many", "n_best=x")
    assert several == "n_best=x must be a whole number"
    # What another may read as a word: a path, a text, a choice, a time.
    words = ("name=x", "trainer=cpu", "trainer.strategy=fsdp", "trainer.max_time=long")
    assert refused_by(check_words, "train", *words) == ""
    assert refused_by(check_words, "translate", "text=x", "resume=true") == ""


def test_a_word_is_checked_beside_a_preset_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 7\n", encoding="utf-8")
    own = f"hydra.searchpath=[file://{tmp_path}]"
    assert refused_by(check_words, "train", own, "experiment=mine", "seed=x") == "seed=x must be a whole number"


@pytest.mark.long
def test_a_preset_that_gives_a_value_for_a_group_is_told_how_to_choose(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    own = f"hydra.searchpath=[file://{tmp_path}]"
    for name, choice, group in (
        ("data", "multi30k", "data"),
        ("data", "null", "data"),
        ("validation_search", "beam", "search@validation_search"),
    ):
        (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{name}: {choice}\n", encoding="utf-8")
        line = refused_by(check_groups, "train", own, "experiment=mine")
        assert line.startswith(f"a preset has {name}: {choice} where the settings of {name} belong; write KEY: VALUE")
        assert line.endswith(f'in its defaults list "- override /{group}: CHOICE"')
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [override /data: multi30k]\n", encoding="utf-8"
    )
    assert refused_by(check_groups, "train", own, "experiment=mine") == ""


def test_an_error_names_a_setting_as_it_was_typed(project: Path) -> None:
    def read(settings: dict[str, Any]) -> None:
        raise ValueError(
            f"model.encoder.heads={settings['model']['encoder']['heads']} and model.dim do not go together"
        )

    config = compose_all("train", ["model.heads=3"], project / "configs")
    with pytest.raises(UsageError, match=r"^model\.heads=3 and model\.dim do not go together$"):
        read_settings(read, config)


def test_a_setting_of_how_texts_are_translated_is_named_as_it_is_typed() -> None:
    config = compose_all("translate", ["batch_tokens=0"])
    with pytest.raises(UsageError, match=r"^batch_tokens=0 must be >= 1 "):
        read_settings(lambda settings: from_dict(TranslateSettings, translate_settings(settings), ""), config)


def test_a_file_that_is_missing_is_named_with_its_setting_and_the_remedy() -> None:
    given = composed(name="translate")
    for change, message in (
        ({"input": "nix"}, "^input=nix: no such file$"),
        ({"alignments": "/"}, "^alignments=/ is a folder: name a file in it$"),
    ):
        with pytest.raises(UsageError, match=message):
            translate_settings(given | change)
    with pytest.raises(UsageError, match=r"^output is not set: give output=PREFIX of the pairs' files$"):
        augment_settings(composed(name="augment"))
    for typed, resume in (("true", True), ("false", False), ("x", "x")):
        assert translate_settings(given | {"resume": typed})["resume"] == resume


def test_a_setting_is_proposed_only_to_a_script_that_has_its_section(project: Path) -> None:
    assert "no such setting; did you mean trainer.devices?" in refusal(project, "gpus=2")
    assert "gpus: no such setting; known are checkpoint, debug" in refusal(project, "gpus=2", name="translate")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--heads", "8"], "--heads: settings have no dashes: write model.heads=8; --help shows the options"),
        (["seed=2", "--heads=8"], "--heads=8: settings have no dashes: write model.heads=8;"),
        (["--heads", "seed=2"], "--heads: settings have no dashes: write model.heads=VALUE;"),
        (["--max-epochs"], "--max-epochs: settings have no dashes: write trainer.max_epochs=VALUE;"),
        (["--model.encoder.heads=2"], "--model.encoder.heads=2: settings have no dashes: write model.encoder.heads=2;"),
        (["--foo", "1"], "--foo: settings have no dashes: write KEY=1;"),
        (["-resume=last"], "-resume=last: settings have no dashes: write resume=last;"),
        (["-i", "FILE"], "-i: settings have no dashes: write KEY=FILE; --help shows the options"),
        (["-m seed=1,2"], "-m seed=1,2: settings have no dashes: write seed=1,2; --help shows the options"),
        (["--experiment=wide"], "--experiment=wide: settings have no dashes: write experiment=wide"),
        (["--multi", "--heads=8"], "--heads=8: settings have no dashes: write model.heads=8;"),
        (["-h=yes"], "argument --help/-h: ignored explicit argument 'yes'; --help shows the options"),
    ],
)
def test_a_setting_with_dashes_is_explained(
    project: Path, monkeypatch: pytest.MonkeyPatch, typed: list[str], message: str
) -> None:
    monkeypatch.setattr(argparse.ArgumentParser, "error", refuse)  # as a script does
    with pytest.raises(argparse.ArgumentError) as caught:
        get_args_parser().parse_args(prepare(typed, project / "configs"))
    assert explain_error(caught.value, typed, "train", project / "configs").startswith(message)


def test_a_file_of_pairs_that_is_given_as_an_option_has_two_settings(project: Path, tmp_path: Path) -> None:
    (path := tmp_path / "my.tsv").write_text("eins\tone\n", encoding="utf-8")
    explained = Settings("train", project / "configs").with_dashes(["--data", str(path)])
    assert explained.startswith(f"--data: settings have no dashes: write data=files data.pairs={path};")


def test_a_word_alone_is_no_setting(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    both, text = shell_word("[a,b]"), shell_word("Guten Tag")
    for typed, name, line in (
        (["a"], "translate", "a: a path needs the name of its setting: write checkpoint=a"),
        (["text=x", "a", "b"], "translate", f"a: a path needs the name of its setting: write checkpoint={both}"),
        (["Guten", "Tag"], "translate", f"Guten: a text needs its name and quotes: write text={text}"),
        (["text=Guten", "Tag"], "translate", f"Tag: a text needs its name and quotes: write text={text}"),
        ([""], "translate", "(empty): no '=' in it: write KEY=VALUE"),
    ):
        assert refusal(project, *typed, name=name).startswith(line)
    assert refusal(PROJECT, "nix").startswith("nix: no '=' in it: write KEY=VALUE")


def test_a_file_of_pairs_alone_is_told_its_two_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.tsv").touch()
    Path("toy").touch()
    assert refusal(PROJECT, "my.tsv").endswith("write data=files data.pairs=my.tsv")
    assert refusal(PROJECT, "data=my.tsv").endswith(": data=files data.pairs=my.tsv")
    assert refusal(PROJECT, "my.tsv", name="translate").startswith("my.tsv is a table: write its column into a file")
    assert refusal(PROJECT, "toy", "my.tsv", name="evaluate").startswith("my.tsv is a table: write its column into a")
    assert refusal(PROJECT, "toy", name="translate").endswith("write input=toy")
    assert refusal(PROJECT, "toy", "toy", name="evaluate").endswith("write source=toy reference=toy")
    assert "data is one of files" in refusal(PROJECT, "data=nix.tsv")
    assert prepare(["data=toy"], CONFIGS) == ["data=toy"]


def test_the_input_of_other_programs_has_a_name_in_translate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argparse.ArgumentParser, "error", refuse)  # as a script does
    with pytest.raises(argparse.ArgumentError) as caught:
        get_args_parser().parse_args(["-i", "my.de"])
    said = explain_error(caught.value, ["-i", "my.de"], "translate", CONFIGS)
    assert said == "-i: settings have no dashes: write input=my.de; --help shows the options"


def test_the_words_of_other_programs_are_known_to_the_scripts_that_have_the_setting() -> None:
    train, translate = Settings("train", CONFIGS), Settings("translate", CONFIGS)
    for word, setting in SYNONYMS.items():
        script = translate if setting in ("checkpoint", "input", "output") else train
        assert script.unknown(word, is_choice=False).startswith(f"{word}: no such setting; did you mean {setting}")
    assert "did you mean checkpoint?" in translate.unknown("model", is_choice=True)
    assert translate.unknown("lr", is_choice=False).startswith("lr: no such setting; known are")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("nix/foo", "experiment/mine.yaml: its defaults list names experiment/nix/foo, which is not there: write"),
        ("model: small", "experiment/mine.yaml: its defaults list names experiment/model/small, which is not there:"),
        ("override model: small", "experiment/mine.yaml: its defaults list names experiment/model@model, which is not"),
        ("override /nix: a", 'write "- override /GROUP: CHOICE"; the groups are data, experiment, model, trainer'),
        ("override /model: big", "model=big: model is one of gated, small"),
        ("/model: small", 'model is chosen twice: in the defaults list of a preset write "- override /model: CHOICE"'),
        ("/trainer: ddp", "trainer is chosen twice: in the defaults list of a preset write "),
    ],
)
def test_a_wrong_entry_in_the_defaults_list_of_a_preset_is_told_with_its_remedy(
    project: Path, tmp_path: Path, entry: str, message: str
) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        f"# @package _global_\ndefaults:\n  - {entry}\n", encoding="utf-8"
    )
    assert message in refusal(project, f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine")


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        (
            "defaults:\n  - override /model: small\n",
            'experiment/mine.yaml: its first line must be "# @package _global_"',
        ),
        (
            "# @package _global_\ndefaults: {a: 1}\n",
            "Invalid defaults list in 'experiment/mine', defaults must be a list",
        ),
        (
            "# @package _global_\nmodel:\n\tdim: 2\n",
            "line 3: found character '\\t' that cannot start any token:",
        ),
        ("# @package _global_\nmodel: [2]\n", "experiment/mine.yaml: a list stands where settings belong: write KEY:"),
    ],
)
def test_a_preset_that_cannot_be_read_is_told_with_its_remedy(
    project: Path, tmp_path: Path, preset: str, message: str
) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(preset, encoding="utf-8")
    assert message in refusal(project, f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine")


def test_a_setting_that_only_a_preset_can_have_is_told_as_one_that_is_typed() -> None:
    for key, message in (
        ("max_steps", "max_steps: no such setting; did you mean trainer.max_steps?"),
        ("experiment", 'experiment=NAME: the first line of its file must be "# @package _global_"'),
        (
            "data.pairs",
            'data.pairs: YAML has no dots in its keys: write "data:" and below it, indented, "pairs: VALUE"',
        ),
    ):
        error = ValueError(f"unknown setting {key}: allowed: seed, data")
        assert explain_error(error, [], "train", CONFIGS).startswith(message)


def test_a_config_that_is_not_there_is_named(project: Path) -> None:
    own = "experiment=nix: experiment is one of wide; your own is FOLDER/experiment/nix.yaml, with --config-dir=FOLDER"
    assert refusal(project, "experiment=nix") == own
    said = refusal(project, name="nix")
    assert said.startswith("Cannot find primary config 'nix'.")
    assert said.endswith("A preset of your own is chosen by experiment=NAME")


def test_what_a_resolver_of_ours_has_found_is_told_in_its_words(project: Path) -> None:
    told = refusal(project, "model.dim=${run_folder:null,runs,a}")
    assert told == "only a job that Hydra has started has a folder"


def test_the_trials_of_a_sweep_do_not_write_over_each_others_output(project: Path, tmp_path: Path) -> None:
    for output in ("out.txt", "x_${debug}"):
        line = refusal(project, "-m", "debug=false,true", f"output={output}", name="translate")
        assert line.startswith(f"output={output}: a path is taken as it is typed, and each trial would write over")
        assert line.endswith(": give one command for each value, with its own output=")
    with pytest.raises(UsageError, match=r"^alignments=x: .* each trial would write over this: "):
        check_trials(["alignments=x", "n_best=1,2"], "translate", CONFIGS, lambda settings: None)
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match=r"each trial would write over this: "):
        check_trials(
            [f"output={tmp_path / 'there'}", "split=test,validation"], "compare", CONFIGS, lambda settings: None
        )
    evaluations = [f"runs={tmp_path}", "output=x", "split=test,validation"]
    check_trials(evaluations, "evaluate", CONFIGS, lambda settings: None)
    for shared in ("output=null", "output=/dev/stdout"):
        check_trials(["debug=false,true", shared], "translate", project / "configs", lambda settings: None)


def test_each_value_of_a_sweep_is_checked(project: Path) -> None:
    assert "model=big" in refusal(project, "-m", "model=small,big")
    assert "data.train is not set" in refusal(project, "-m", "data=toy,files", "model.heads=1,2")
    assert "several" not in refusal(project, "-m", "model.heads=1,2", "model.nix=1")


@pytest.mark.parametrize(
    ("swept", "together", "apart"),
    others_long(
        [
            (
                "training.compile=null,aot_eager",
                "training.dropout_warmup_steps=0",
                "training.dropout_warmup_steps=0,100",
            ),
            ("tokenizer=unigram,word", "training.bpe_dropout=0", "training.bpe_dropout=0,0.1"),
            ("data.directions=[],[de-en,en-de]", "tokenizer.joint=true", "tokenizer.joint=true,false"),
            ("training.averaging.kind=none,last", "trainer.limit_val_batches=1", "trainer.limit_val_batches=1,0"),
        ]
    ),
)
def test_values_of_a_sweep_that_do_not_go_together_are_found_before_its_first_trial(
    tmp_path: Path, swept: str, together: str, apart: str
) -> None:
    read = runpy.run_path(str(PROJECT / "scripts" / "train.py"))["read"]
    given = ["trainer=cpu", "model.tied_embeddings=target", f"hydra.sweep.dir={tmp_path}", swept]
    with pytest.raises(ValueError, match=re.escape(apart.partition("=")[0])):
        check_trials([*given, apart], "train", CONFIGS, read)
    check_trials([*given, together], "train", CONFIGS, read)


def test_of_a_sweep_with_very_many_trials_each_value_is_checked_once() -> None:
    choices = [[f"{key}={value}" for value in range(10)] for key in "abc"]
    numbered = list(trials_to_check(choices))
    trials = [tuple(trial) for _, trial in numbered]
    assert len(trials) == len(set(trials)) == 1 + 3 * 9
    assert {value for trial in trials for value in trial} == {value for values in choices for value in values}
    in_order = list(itertools.product(*choices))  # as Hydra's sweeper numbers them
    assert [in_order[number] for number, _ in numbered] == trials


@pytest.mark.long
def test_what_only_the_folder_of_a_trial_shows_is_told_before_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(config: dict[str, Any]) -> None:
        check_new_run()
        check_init_from(run_settings(config)["init_from"])

    monkeypatch.chdir(tmp_path)
    swept = ["hydra.sweep.dir=sweep", "model.heads=2,4", "seed=1,2,3"]
    check_trials(swept, "train", CONFIGS, read)
    assert not any(tmp_path.iterdir())
    model = Path("sweep/4/checkpoints/last.ckpt")
    model.parent.mkdir(parents=True)
    model.touch()
    check_trials(swept, "train", CONFIGS, read)
    with pytest.raises(UsageError, match=r"init_from=.*sweep.4 lies in the folder of a trial, which begins anew"):
        check_trials([*swept, "init_from=sweep/4"], "train", CONFIGS, read)
    Path("sweep/5").mkdir()
    Path("sweep/5/README.md").touch()
    with pytest.raises(
        UsageError, match=r"README.md does not belong to a run .* choose a new folder, hydra.sweep.dir="
    ):
        check_trials(swept, "train", CONFIGS, read)


@pytest.mark.parametrize(
    "argument",
    others_long(
        [
            *("trainer=ddp", "trainer.devices=2", "trainer.strategy=ddp", "trainer=cpu,ddp"),
            *("trainer.num_nodes=2", "trainer.devices=0", "trainer.devices=-1"),
        ]
    ),
)
def test_a_sweep_over_several_processes_is_refused(project: Path, argument: str) -> None:
    assert "use trainer=cpu or trainer=gpu with trainer.devices=1" in refusal(project, "-m", argument)
    check_trials(["trainer.devices=1", "seed=1,2"], "train", project / "configs", lambda settings: None)


@pytest.mark.parametrize("more", [["-m"], ["--multirun"], ["--multi"], ["hydra.run.dir=x"]])
def test_resuming_is_for_one_run_in_its_own_folder(project: Path, more: list[str]) -> None:
    assert "leave out -m and hydra.run.dir" in refusal(project, "resume=last", *more)
    prepare(["resume=null", *more], project / "configs")


def test_a_name_that_the_trainer_has_not_is_told_with_those_that_it_has() -> None:
    line = refusal(PROJECT, "trainer.max_epocs=3")
    assert line.startswith("trainer.max_epocs: no such setting; did you mean trainer.max_epochs or trainer.max_steps")
    line = refusal(PROJECT, "trainer.callbacks=[]")
    assert line.startswith("trainer.callbacks: no such setting; known are ")
    assert set(re.findall(r"trainer\.(\w+)", line)) - {"callbacks"} == {field.name for field in fields(TrainerSettings)}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        *((f"max_steps={value}", "must be a whole number") for value in ("2.5", "1e3", "null", "true", "many")),
        ("max_epochs=-2", "must be >= -1"),
        ("accumulate_grad_batches=0", "must be >= 1"),
        ("gradient_clip_val=[1]", "must be a number"),
        ("gradient_clip_val=-1.0", "must be >= 0"),
        ("deterministic=warn", "must be true or false"),
        ("log_every_n_steps=0", "must be >= 1"),
        ("max_time=60", "must be text"),
        ("max_time=01:10:00", "must be DD:HH:MM:SS"),
        *((f"limit_{part}_batches=1.5", "must be a whole number of batches") for part in ("train", "val", "test")),
        *(
            (f"strategy={value}", "is not allowed; choose one of auto, ddp")
            for value in ("fsdp", "DDP", "ddp_spawn", "deepspeed_stage_2")
        ),
        *(
            (f"precision={value}", "is not allowed; choose one of auto, 32-true, bf16-mixed, 16-mixed")
            for value in ("bf16-true", "16-true", "64")
        ),
    ],
)
def test_a_value_that_is_typed_for_the_trainer_is_refused_as_it_was_typed(typed: str, message: str) -> None:
    given = composed(f"trainer.{typed}")["trainer"]
    shown = typed.replace("1e3", "1000.0")
    with pytest.raises(ValueError, match=rf"^trainer\.{re.escape(shown)} {re.escape(message)}"):
        from_dict(TrainerSettings, given, "trainer")


def test_values_that_are_typed_for_the_trainer_arrive() -> None:
    typed = ("max_time=00:00:10:00", "max_steps=-1", "limit_val_batches=3", "limit_test_batches=0.5")
    read = from_dict(TrainerSettings, composed(*(f"trainer.{one}" for one in typed))["trainer"], "trainer")
    assert (read.max_seconds, read.max_steps, read.limit_val_batches, read.limit_test_batches) == (600, -1, 3, 0.5)


def test_the_value_of_an_option_is_not_taken_for_a_word_alone(tmp_path: Path) -> None:
    for option in (["--cfg", "job"], ["--config-dir", str(tmp_path)]):
        with pytest.raises(OverrideParseException) as caught:
            compose_all("translate", ["n_best=[1"])
        said = explain_error(caught.value, [*option, "n_best=[1"], "translate", CONFIGS)
        assert said.startswith("n_best=[1: Hydra cannot read this")
