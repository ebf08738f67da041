"""Back-translation as one command: mistakes are found before the first run, and it ends with scores."""

import json
import re
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import hydra
import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.cases import others_long
from tests.factories import data_settings
from tests.scripts.running import SMALL, TOY, ok, refused, script
from tests.tools.server.models import english_and_french
from transformer.cli.back_translate import (
    Command,
    check_texts,
    check_translator,
    check_typed,
    monolingual_texts,
    plan_stages,
    show_final_scores,
)
from transformer.cli.compose import compose, quoted
from transformer.cli.pipeline import Stage, run_stages
from transformer.cli.train import RUN_KEYS, of_command, read_run_settings
from transformer.config import UsageError
from transformer.data.config import DataSettings
from transformer.data.splitting import corpus_of as corpus_of_run
from transformer.data.splitting import with_splits
from transformer.files import CONFIGS
from transformer.run import Run
from transformer.training.config import RunSettings
from transformer.training.sizing import choose

MONOLINGUAL = f"input={TOY}/compositional.en"
RUN_FILES = ("translator.safetensors", "README.md", "test.json")  # the files of a finished run
PAIR_FILES = ("de", "en", "origin")  # the endings of the files of a finished augmentation


def finish_run(folder: Path, scores: dict[str, dict[str, float]]) -> None:
    folder.mkdir(parents=True)
    for file in RUN_FILES:
        (folder / file).touch()
    (folder / "test.json").write_text(json.dumps(scores), encoding="utf-8")


def finish_pairs(prefix: Path) -> None:
    for ending in PAIR_FILES:
        prefix.with_name(f"{prefix.name}.{ending}").write_text("x\n", encoding="utf-8")


def plan(*typed: str) -> tuple[list[Stage], RunSettings]:
    """The stages, and the settings of the forward run, as the command plans them for these arguments."""
    try:
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            composed = hydra.compose("back_translate", [*typed], return_hydra_config=True)
            HydraConfig.instance().set_config(composed)
            check_typed()
            config = compose(*typed, name="back_translate")
            run = read_run_settings(choose({key: value for key, value in config.items() if key in RUN_KEYS})[0])
            return plan_stages(of_command(config, Command), run)
    finally:
        HydraConfig.instance().cfg = None


def stages_of(*typed: str) -> list[Stage]:
    return plan(*typed)[0]


def settings_of(stage: Stage) -> list[str]:
    """The arguments of a run: its command is `python -m transformer train …`."""
    assert stage.begin[:4] == [sys.executable, "-m", "transformer", "train"]
    return stage.begin[4:]


def corpus_of(stage: Stage) -> DataSettings:
    return data_settings(*[word for word in settings_of(stage) if not word.startswith("hydra.")])


def flags_of(stage: Stage) -> dict[str, str | None]:
    """The flags of an augmentation with their values: its command is `python -m transformer augment …`."""
    assert stage.begin[:4] == [sys.executable, "-m", "transformer", "augment"]
    words = [*stage.begin[4:], "--"]
    return {word: None if after.startswith("--") else after for word, after in pairwise(words) if word.startswith("--")}


@pytest.mark.parametrize(
    ("typed", "message"),
    others_long(
        [
            ("forward='data.synthetic_ratio=0'", "data.synthetic_ratio=0.0 must be > 0"),
            ("reverse='model.heads=7'", "model.encoder.self_attention.heads=7 does not divide"),
            ("forward='trainer.precision=16-true'", "trainer.precision=16-true is not allowed"),
            (
                "forward='model.tied_embeddings=all tokenizer.joint=false'",
                "model.tied_embeddings=all needs one vocabulary",
            ),
            ("finetune='training.averaging.kind=last trainer.limit_val_batches=0'", "training.averaging.kind=last"),
            ("finetune='trainer.max_steps=3 trainer.max_stepz=3'", "trainer.max_stepz: no such setting"),
            ("folds=1", "folds=1 must be >= 2"),
            ("folds=101", "folds=101 must be >= 2 and <= 100"),
            ("folds=true", "folds=true must be a whole number"),
            ("folds=3", "folds is for the training pairs, input for a text: leave one of them out"),
            ("augment='--method gredy'", '.*"gredy".* --method'),
            ("augment='--filters empti'", "--filters.*empti"),
            ("augment='--filtres empty'", ".*--filtres"),
            ("augment='--fold'", "--input.* --fold: give one of them"),
            ('augment="--method \'greedy"', "augment=--method 'greedy: no closing quotation"),
            ("forward='test=false seed'", "seed: write KEY=VALUE"),
            ("output=/${all}", ".*all"),
            ("augment='--output x'", "augment=--output x: --output is set by this command: leave it out"),
            ("reverse='resume=last'", "reverse=resume=last: resume=last is set by this command"),
            ("data.synthetic_tag=true", "data.synthetic_tag= is only for the run on synthetic pairs"),
            ("data.synthetic=[more]", 'data.synthetic= is only for one run: write forward="data.synthetic='),
            ("hydra.run.dir=x", "hydra.run.dir: each stage has its own folder in output=FOLDER"),
            ("resume=last", "resume: the same command continues after a stop"),
        ],
        short=3,
    ),
)
def test_a_mistake_of_any_stage_is_found_before_the_first(typed: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        stages_of(*SMALL, MONOLINGUAL, "output=all", typed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    others_long(
        [
            (["finetune='trainer.max_steps=3 trainer.max_stepz=3'"], "trainer.max_stepz: no such setting"),
            (["input=nothing.en"], "nothing.en must be a file, or the PREFIX of nothing.en.en: there is neither"),
            (
                ["data.directions=[de-en,en-de]"],
                "there is no compositional.en.en; with several data.directions input= is a PREFIX, and PREFIX.LANGUAGE",
            ),
            ([f"input={TOY}/compositional.de"], "compositional.de looks like de, but it must be text in the target"),
            (["output=null"], "output"),
            (["init_from=somewhere"], "somewhere: no such run or model file"),
        ],
        short=4,
    ),
)
def test_a_mistake_is_reported_in_one_line_and_leaves_no_folder(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    common = [*SMALL, f"data.cache={tmp_path}/cache", MONOLINGUAL, "output=all"]
    assert message in refused("back_translate", *common, *arguments, cwd=tmp_path)
    assert not (tmp_path / "all").exists()


@pytest.mark.long
def test_a_sweep_is_refused(tmp_path: Path) -> None:
    done = script("back_translate", "-m", *SMALL, MONOLINGUAL, "output=all", "seed=1,2", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: -m: this command runs no sweep")
    assert not (tmp_path / "all").exists()


def test_finished_stages_are_not_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for run, bleu in (("reverse", 1), ("forward", 2), ("final", 3)):
        scores = {"bleu": bleu, "chrf": 4, "ter": 5, "signatures": {"bleu": "nrefs:1"}}
        finish_run(folder / run, {"test": scores})
    finish_pairs(folder / "synthetic")
    printed = ok("back_translate", *SMALL, f"data.cache={tmp_path}/cache", MONOLINGUAL, "output=all", cwd=tmp_path)
    assert printed.splitlines() == [
        "forward, test: BLEU 2.0   chrF 4.0   TER 5.0",
        "final, test: BLEU 3.0   chrF 4.0   TER 5.0",
    ]
    [reverse, augment, forward, final] = json.loads((folder / "command.json").read_text(encoding="utf-8"))
    assert {"data.source_language=en", "data.target_language=de", f"hydra.run.dir={folder}/reverse"} <= set(reverse)
    assert {f"{folder}/reverse", f"{TOY}/compositional.en", f"{folder}/synthetic"} <= set(augment)
    assert f"data.synthetic=[{folder}/synthetic]" in forward
    assert f"init_from={folder}/forward" in final
    assert corpus_of_run(Run(folder)).languages == ("de", "en")  # for augment's --corpus


@pytest.mark.long
def test_a_stage_is_finished_and_shown_by_its_own_settings(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    for run in ("reverse", "forward", "final"):
        (folder / run).mkdir(parents=True)
        (folder / run / "translator.safetensors").touch()
    for file, content in (("README.md", ""), ("test.json", json.dumps({"test": {"chrf": 4}}))):
        (folder / "forward" / file).write_text(content, encoding="utf-8")
    finish_pairs(folder / "synthetic")
    stages = ["reverse='test=false'", "forward='metrics=[chrf]'", "finetune='trainer.max_steps=3 test=false'"]
    arguments = [*SMALL, f"data.cache={tmp_path}/cache", MONOLINGUAL, "output=all", *stages]
    assert ok("back_translate", *arguments, cwd=tmp_path) == "forward, test: chrF 4.0\n"


def test_all_runs_can_be_set_to_mark_and_repeat_no_pairs() -> None:
    stages = stages_of(*SMALL, MONOLINGUAL, "data.synthetic_tag=False", "data.synthetic_ratio=null")
    assert "data.synthetic_tag=False" in stages[0].begin


def test_scores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    finish_run(tmp_path / "forward", {})
    (tmp_path / "forward" / "test.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="^" + re.escape(f"{tmp_path / 'forward' / 'test.json'} cannot be read: ")):
        show_final_scores(tmp_path, data_settings(*SMALL))


@pytest.mark.long
@pytest.mark.parametrize("name", others_long(["it's $all, {of} [it] = ü", "ü", "a\\'b"]))
def test_the_name_of_a_folder_may_hold_what_hydra_reads(name: str) -> None:
    folder = Path(name).absolute()
    reverse, augment, forward, final = stages_of(*SMALL, MONOLINGUAL, f"output={quoted(name)}")
    assert corpus_of(forward).synthetic == [f"{folder}/synthetic"]
    assert compose(*settings_of(final)[:-1])["init_from"] == f"{folder}/forward"
    assert flags_of(augment)["--output"] == f"{folder}/synthetic"
    for typed in (settings_of(reverse)[-1], reverse.resume[-1]):
        [parsed] = OverridesParser.create().parse_overrides([typed])
        assert parsed.value() == f"{folder}/reverse"


@pytest.mark.long
def test_each_of_several_directions_has_its_own_reverse_run_and_its_own_pairs(tmp_path: Path) -> None:
    folder, text = tmp_path / "all", tmp_path / "text"
    for language in ("de", "en"):
        text.with_name(f"text.{language}").write_text("x\n", encoding="utf-8")
    scores = {"bleu": 2, "chrf": 4, "ter": 5}
    for run in ("reverse.en-de", "reverse.de-en", "forward", "final"):
        finish_run(folder / run, {"test": scores, "test.en-de": scores})
    for direction in ("de-en", "en-de"):
        finish_pairs(folder / f"synthetic.{direction}")
    arguments = ["data.directions=[de-en,en-de]", f"input={text}", "output=all"]
    printed = ok("back_translate", *SMALL, f"data.cache={tmp_path}/cache", *arguments, cwd=tmp_path)
    assert printed.splitlines() == [
        f"{run}, test{direction}: BLEU 2.0   chrF 4.0   TER 5.0"
        for run in ("forward", "final")
        for direction in ("", ".en-de")
    ]
    commands = json.loads((folder / "command.json").read_text(encoding="utf-8"))
    reverse, augment = (set(command) for command in commands[:2])
    assert {"data.source_language=en", "data.target_language=de", "data.directions=[]"} <= reverse
    assert {f"{folder}/reverse.en-de", f"{text}.en", f"{folder}/synthetic.de-en"} <= augment
    assert f"data.synthetic=[{folder}/synthetic]" in commands[4]


@pytest.mark.parametrize(
    ("typed", "reversed_columns"),
    others_long([([], "[2,1]"), (["data.columns=[1,3]"], "[3,1]"), (["data.columns=[2,1]"], "[1,2]")]),
)
def test_the_reverse_run_reads_a_table_from_its_target_to_its_source(typed: list[str], reversed_columns: str) -> None:
    table = ["data=files", "data.pairs=x.tsv", "data.source_language=gd", "data.target_language=rm", *typed]
    stages = stages_of(*table, "input=x")
    assert f"data.columns={reversed_columns}" in stages[0].begin
    assert "data.columns=[2,1]" not in stages[2].begin or typed == ["data.columns=[2,1]"]


@pytest.mark.long
def test_a_test_set_that_is_a_table_is_read_from_target_to_source_too() -> None:
    stages = stages_of(*SMALL, MONOLINGUAL, "+data.extra_tests.news=news.tsv")
    assert "data.columns=[2,1]" in stages[0].begin


@pytest.mark.long
def test_the_pairs_of_the_forward_run_can_be_others_than_its_own() -> None:
    forward = stages_of(*SMALL, MONOLINGUAL, "forward='data.synthetic=[own,more]'")[2]
    assert corpus_of(forward).synthetic == [str(Path(name).absolute()) for name in ("own", "more")]


@pytest.mark.long
def test_no_run_learns_from_the_test_of_another_when_three_languages_are_cut(tmp_path: Path) -> None:
    # The same French sentence is in lines n and n + 200: only in a cut of three languages are they in one split.
    for language, count in (("de", 400), ("en", 400), ("fr", 200)):
        words = ["".join("abcdefghij"[int(digit)] for digit in str(n % count)) for n in range(400)]
        (tmp_path / f"all.{language}").write_text("".join(f"{language} {word}\n" for word in words), encoding="utf-8")
    cache = quoted(f"{tmp_path}/it's a cache")
    typed = [f"data.pairs={tmp_path}/all", "data.directions=[en-de,en-fr]", "data.split=[0.1,0.2]"]
    stages = stages_of("data=files", *typed, f"data.cache={cache}", "output=all", f"input={tmp_path}/text")
    corpora = [with_splits(corpus_of(stages[index])) for index in (0, 2, -2)]
    assert [corpus.all_languages for corpus in corpora] == [["de", "en"], ["fr", "en"], ["en", "de", "fr"]]
    train, test = (
        {pair[corpus.all_languages.index("en")] for corpus in corpora for pair in corpus.read(split)}
        for split in ("train", "test")
    )
    assert test
    assert not train & test


@pytest.mark.long
def test_with_folds_each_part_of_the_pairs_has_runs_that_have_not_seen_it() -> None:
    stages = stages_of(*SMALL, "data.directions=[de-en,en-de]", "output=all", "folds=2", "data.cache=else/where")
    names = ["reverse.fold1.en-de", "augment.fold1.de-en", "reverse.fold1.de-en", "augment.fold1.en-de"]
    assert [stage.name for stage in stages[:4]] == names
    assert len(stages) == 10
    folder = Path("all").absolute()
    for part, (run, augment) in ((1, stages[:2]), (2, stages[4:6])):
        assert f"data.fold=[{part},2]" in run.begin
        assert flags_of(augment) == {
            "--checkpoint": f"{folder}/reverse.fold{part}.en-de",
            "--fold": None,
            "--corpus": str(folder),
            "--cache": str(Path("else/where").absolute()),
            "--output": f"{folder}/synthetic.fold{part}.de-en",
        }
    assert corpus_of(stages[8]).synthetic == [f"{folder}/synthetic.fold1", f"{folder}/synthetic.fold2"]


@pytest.mark.long
def test_a_model_of_all_directions_takes_the_place_of_the_reverse_runs(tmp_path: Path) -> None:
    typed = [*SMALL, "data.directions=[de-en,en-de]", f"init_from={tmp_path}"]
    stages = stages_of(*typed, "output=all", "input=text")
    for init_from in (f"init_from={tmp_path}", f"reverse='init_from={tmp_path}'"):
        with pytest.raises(UsageError, match="folds= needs runs that have not seen a part of the pairs"):
            stages_of(*SMALL, init_from, "output=all", "folds=2")
    assert [stage.name for stage in stages] == ["augment.de-en", "augment.en-de", "forward", "final"]
    folder, flags = Path("all").absolute(), flags_of(stages[0])
    assert (flags["--checkpoint"], flags["--input"]) == (str(tmp_path), str(Path("text.en").absolute()))
    assert (flags["--source"], flags["--target"]) == ("en", "de")
    begins = [[word for word in stage.begin if word.startswith("init_from=")] for stage in stages[2:]]
    assert begins == [[f"init_from={tmp_path}"], [f"init_from={folder}/forward"]]


@pytest.mark.long
def test_a_model_that_cannot_translate_all_texts_is_refused_before_the_first_stage(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    english_and_french().save(path)
    check_translator(str(path), data_settings(*SMALL, "data.directions=[fr-en,en-fr]"))
    with pytest.raises(UsageError, match=r"must translate en → de: the checkpoint translates en → fr, fr → en, not"):
        check_translator(str(path), data_settings(*SMALL, "data.directions=[fr-en,de-en]"))


def test_a_corpus_without_a_folder_has_no_text_unless_one_is_named(tmp_path: Path) -> None:
    languages = ["data.source_language=de", "data.target_language=en"]
    message = refused("back_translate", "data=files", "data.pairs=x.tsv", *languages, cwd=tmp_path)
    assert "input is not set: give input=FILE, text in the target language, or folds=3 for the pairs" in message


def test_an_empty_text_and_a_missing_one_have_different_messages(tmp_path: Path) -> None:
    (tmp_path / "text.en").touch()
    with pytest.raises(UsageError, match=r"text\.en is empty: it must have a sentence on each line$"):
        check_texts(data_settings(*SMALL), str(tmp_path / "text.en"))
    missing = re.escape(f"input is not set, and the corpus has no {tmp_path / 'monolingual.en'}: give input=FILE")
    with pytest.raises(UsageError, match=f"^{missing}$"):
        check_texts(data_settings(*SMALL, f"data.directory={tmp_path}"), None)


def test_the_text_of_a_single_direction_is_a_file_or_has_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "text.en").touch()
    for given in ("text", "text.en"):
        assert monolingual_texts(data_settings(*SMALL), str(tmp_path / given)) == {("de", "en"): tmp_path / "text.en"}


def test_settings_may_change_until_their_stage_has_begun(tmp_path: Path) -> None:
    def stage(name: str, setting: str) -> Stage:
        begun, finished = (tmp_path / f"{name}.{mark}" for mark in ("begun", "finished"))
        code = f"from pathlib import Path; Path({str(finished)!r}).touch(); raise SystemExit({setting!r} == 'wrong')"
        command = [sys.executable, "-c", code if setting != "wrong" else "raise SystemExit(1)", setting]
        return Stage(name, command, command, begun, [finished])

    def run(stages: list[Stage], folder: Path) -> None:
        run_stages(stages, folder, lambda: None)

    with pytest.raises(ChildProcessError, match="one has failed"):
        run([stage("one", "wrong"), stage("two", "wrong")], tmp_path)
    with pytest.raises(ChildProcessError, match="two has failed"):
        run([stage("one", "right"), stage("two", "wrong")], tmp_path)
    with pytest.raises(UsageError, match=r"has other settings: .* \(one: before .*right, now .*other\)"):
        run([stage("one", "other"), stage("two", "right")], tmp_path)
    (tmp_path / "two.begun").touch()
    with pytest.raises(UsageError, match=r"has other settings: .* \(two: before .*wrong, now .*right\)"):
        run([stage("one", "right"), stage("two", "right")], tmp_path)
    (tmp_path / "two.begun").unlink()
    run([stage("one", "right"), stage("two", "right")], tmp_path)
    assert (tmp_path / "two.finished").exists()


@pytest.mark.parametrize(
    "missing", others_long([*(f"synthetic.{ending}" for ending in PAIR_FILES), "reverse/translator.safetensors"])
)
def test_a_stage_of_which_a_file_is_gone_is_not_finished(tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "all"
    finish_run(folder / "reverse", {})
    finish_pairs(folder / "synthetic")
    (folder / missing).unlink()
    stages = stages_of(*SMALL, MONOLINGUAL, f"output={folder}")
    finished = [stage.name for stage in stages if stage.is_finished()]
    assert finished == ["augment" if missing.startswith("reverse") else "reverse"]
    with pytest.raises(UsageError, match=rf"{missing} is missing beside .*: restore it, or remove all files of this"):
        run_stages(stages, folder, lambda: None)


@pytest.mark.long
def test_pairs_are_finished_once_their_partial_file_is_gone(tmp_path: Path) -> None:
    finish_pairs(tmp_path / "synthetic")
    for ending in ("partial.json", "partial"):
        (tmp_path / f"synthetic.{ending}").touch()
    [augment] = [stage for stage in stages_of(*SMALL, MONOLINGUAL, f"output={tmp_path}") if stage.name == "augment"]
    assert not augment.is_finished()
    (tmp_path / "synthetic.partial").unlink()  # killed before the other one is removed
    assert augment.is_finished()


@pytest.mark.long
def test_a_stage_that_was_begun_goes_on_from_what_it_has_left(tmp_path: Path) -> None:
    reverse, augment, *_ = stages_of(*SMALL, MONOLINGUAL, f"output={tmp_path}")
    assert reverse.started == tmp_path / "reverse" / "checkpoints" / "last.ckpt"
    assert reverse.resume == [*reverse.begin[:4], f"resume={tmp_path}/reverse"]
    assert augment.started == tmp_path / "synthetic.partial"
    assert augment.resume == [*augment.begin, "--resume"]


@pytest.mark.long
def test_configs_of_ones_own_are_handed_on_to_all_runs(tmp_path: Path) -> None:
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "my_own.yaml").write_text("# @package _global_\nseed: 7\n", encoding="utf-8")
    for run in ("reverse", "forward", "final"):
        finish_run(tmp_path / "all" / run, {})
    finish_pairs(tmp_path / "all" / "synthetic")
    ok("back_translate", *SMALL, MONOLINGUAL, "output=all", "experiment=my_own", "-cd", "mine", cwd=tmp_path)
    commands = json.loads((tmp_path / "all" / "command.json").read_text(encoding="utf-8"))
    runs = [command for command in commands if "train" in command]
    assert len(runs) == 3
    assert all(f"--config-dir={tmp_path}/mine" in command and "experiment=my_own" in command for command in runs)


@pytest.mark.long
def test_pairs_are_filtered_by_the_corpus_of_the_run_that_checks_them(tmp_path: Path) -> None:
    news, texts = quoted(f"{tmp_path}/its news"), tmp_path / "text"
    several = [*SMALL, "data.directions=[de-en,en-de,fr-en]", "data.split=[0.1,0.2]", f"input={texts}"]
    several += ["data.fold=[2,5]", "data.max_length=39", f"output={tmp_path}/all"]
    stages, forward_run = plan(*several, f'forward="+data.extra_tests.news={news}"')
    Run(tmp_path / "all").write_settings(asdict(forward_run))
    for augment in (stages[1], stages[3]):
        assert flags_of(augment)["--corpus"] == f"{tmp_path}/all"
    filters_by, checks = corpus_of_run(Run(tmp_path / "all")), corpus_of(stages[-2])
    names = ("directions", "train", "validation", "test", "extra_tests", "split", "max_length", "fold", "cache")
    for name in names:
        assert getattr(filters_by, name) == getattr(checks, name), name
    assert filters_by.extra_tests == {"news": f"{tmp_path}/its news"}


@pytest.mark.long
def test_all_stages_run_one_after_another_and_continue_where_they_stopped(tmp_path: Path) -> None:
    """In a folder whose name needs quotes. No test sentence is in a synthetic pair."""
    for language in ("de", "en"):
        test, text = (
            (TOY / f"{split}.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
            for split in ("test", "compositional")
        )
        (tmp_path / f"few.{language}").write_text("".join(test[:60]), encoding="utf-8")
        (tmp_path / f"text.{language}").write_text("".join([*text[:20], test[7]]), encoding="utf-8")
    few = [f"data.{split}={tmp_path}/few" for split in ("validation", "test")]
    few += ["trainer.max_steps=4", "search=greedy", "search.max_length=9", "loggers=[]", "metrics=[bleu]"]
    few += ["output='it is all = ü'", f"data.cache={tmp_path}/cache", f"input={tmp_path}/text"]
    stages = [
        "finetune='trainer.max_steps=2'",
        "augment='--method sampling --max-length 9 --filters held_out'",
    ]
    folder = tmp_path / "it is all = ü"
    failed = script(
        "back_translate", *SMALL, *few, *stages, "forward='model.positions=learned model.max_length=5'", cwd=tmp_path
    )
    assert failed.returncode == 1
    assert "error: forward has failed" in failed.stderr
    assert (folder / "synthetic.origin").read_text(encoding="utf-8").count("\n") == 20
    done = script("back_translate", *SMALL, *few, *stages, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "reverse: already finished\naugment: already finished\nforward …" in done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()[-2:]] == ["forward, test", "final, test"]
    assert corpus_of_run(Run(folder / "forward")).synthetic == [f"{folder}/synthetic"]
    assert corpus_of_run(Run(folder / "final")).synthetic == []
