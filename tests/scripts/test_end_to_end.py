"""The commands as a user runs them: train, evaluate, translate, resume, several processes, sweeps, mistakes."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.cases import others_long
from tests.scripts.running import SMALL, TOY, Run, ok, refused, script
from transformer import Translator
from transformer.cli.compose import compose
from transformer.cli.train import of_run, shape
from transformer.inference.settings import SearchSettings
from transformer.model.config import read_model
from transformer.run import Run as RunFolder

# A model of twelve steps does not end its sentences.
GREEDY = ["--method", "greedy", "--max-length", "8"]
LIMITS = ["--length-ratio", "1", "--length-extra", "5"]  # the limits of a tested run of SMALL
SENTENCES = 61  # for validation and test: odd, so that two processes get unequal shares


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small test set and its alignments."""
    folder = tmp_path_factory.mktemp("home")
    for ending in ("de", "en", "alignments"):
        lines = (TOY / f"test.{ending}").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"few.{ending}").write_text("".join(lines[:SENTENCES]), encoding="utf-8")
    return folder


def small(home: Path) -> list[str]:
    """Arguments of a small run."""
    return [*SMALL, f"data.validation={home}/few", f"data.test={home}/few", f"data.cache={home}/cache"]


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    """A run of 12 steps, stopped after 6, resumed, and tested once at the end."""
    few = ["trainer.max_steps=6", "training.validate_every=4", "trainer.limit_val_batches=1", "test=false"]
    ok("train", *small(home), *few, "hydra.run.dir=run", cwd=home)
    ok("train", "resume=run", "trainer.max_steps=12", "test=true", cwd=home)
    return home / "run"


def test_a_run_leaves_a_whole_folder(run: Path) -> None:
    for name in (
        "config.yaml checkpoints/last.ckpt checkpoints/best.ckpt translator.safetensors metrics.csv curves.png "
        "tensorboard attention/encoder.png attention/decoder.png attention/cross.png hypotheses.test.txt test.json"
    ).split():
        assert (run / name).exists(), name
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best.ckpt", "last.ckpt"]
    results = json.loads((run / "test.json").read_text(encoding="utf-8"))
    assert {"test", "versions", "corpus", "revision", "seconds"} <= results.keys()
    assert 0 <= results["test"]["bleu"] <= 100
    assert "tok:13a" in results["test"]["signatures"]["bleu"]
    assert len((run / "hypotheses.test.txt").read_text(encoding="utf-8").split("\n")) == SENTENCES + 1


def test_a_file_of_pairs_is_all_that_a_run_needs(tmp_path: Path) -> None:
    sides = [
        (TOY / f"validation.{language}").read_text(encoding="utf-8").splitlines()[:400] for language in ("de", "en")
    ]
    (tmp_path / "my.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(*sides, strict=True)), encoding="utf-8")
    few = ["trainer.max_steps=3", "search=greedy", "search.max_length=8", "validation_search.max_length=8"]
    trained = script("train", "data.pairs=my.tsv", *few, "hydra.run.dir=runs/a", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    [typed] = re.findall(r"^chosen: (.*)$", trained.stderr, re.MULTILINE)
    as_typed = of_run(compose(f"data.pairs={tmp_path}/my.tsv", *few, *typed.split()))
    saved = RunFolder(tmp_path / "runs" / "a").settings
    assert saved["training"] == as_typed["training"]
    assert saved["tokenizer"] == as_typed["tokenizer"]
    assert saved["model"] == shape(read_model(as_typed["model"]))
    assert (saved["data"]["batch_tokens"], saved["trainer"]["max_steps"]) == (as_typed["data"]["batch_tokens"], 3)
    ok("train", "resume=last", "trainer.max_steps=4", "test=false", cwd=tmp_path)
    assert RunFolder(tmp_path / "runs" / "a").settings["training"] == saved["training"]
    assert Translator.load(tmp_path / "runs" / "a").model.config.dim == as_typed["model"]["dim"]


def test_a_resumed_run_goes_on_in_its_folder_and_keeps_its_history(run: Path) -> None:
    last = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["progress"]["step"] == 12
    with (run / "metrics.csv").open() as file:
        validated = [int(row["step"]) for row in csv.DictReader(file) if row["validation/bleu"]]
    assert validated == [4, 6, 8, 12]  # the first part ended after 6 steps
    assert len(list(run.parent.glob("run*"))) == 1


def test_evaluate_repeats_the_score_of_the_run(run: Path) -> None:
    home = run.parent
    printed = ok("evaluate", "run", "--output", "scored", "--alignments", "few.alignments", *LIMITS, cwd=home)
    results = json.loads((home / "scored" / "evaluation.json").read_text(encoding="utf-8"))
    assert results["test"]["bleu"] == json.loads((run / "test.json").read_text(encoding="utf-8"))["test"]["bleu"]
    assert printed.startswith(f"test BLEU {results['test']['bleu']:.2f}   nrefs:1|case:mixed")
    chosen = Translator.load(run).alignment
    assert [line for line in printed.splitlines() if f"{chosen}   (chosen)" in line and "alignment error rate" in line]
    assert (home / "scored" / "hypotheses.test.txt").read_text(encoding="utf-8") == (
        run / "hypotheses.test.txt"
    ).read_text(encoding="utf-8")
    for side in ("de", "en"):
        (home / f"own.{side}").write_text(
            (TOY / f"test.{side}").read_text(encoding="utf-8")[:300].rpartition("\n")[0] + "\n", encoding="utf-8"
        )
    own = ["--input", "own.de", "--reference", "own.de"]
    ok("evaluate", "--checkpoint", "run", *own, "--output", "own", *LIMITS, cwd=home)
    assert (home / "own" / "hypotheses.own.txt").exists()
    few = [*own, "--output", "scored", *GREEDY]
    ok("evaluate", "run", *few, cwd=home)
    both = json.loads((home / "scored" / "evaluation.json").read_text(encoding="utf-8"))
    assert both["test"] == results["test"]
    assert {split: search["length_penalty"] for split, search in both["searches"].items()} == {"test": 2.5, "own": 2.5}
    assert {split: search["method"] for split, search in both["searches"].items()} == {"test": "beam", "own": "greedy"}
    # A file with the name of a split of the run does not replace the files of the run.
    for side in ("de", "en"):
        (home / f"test.{side}").write_text((home / f"own.{side}").read_text(encoding="utf-8"), encoding="utf-8")
    before = (run / "hypotheses.test.txt").read_bytes()
    ok("evaluate", "run", "--input", "test.de", "--reference", "test.de", *GREEDY, cwd=home)
    assert (run / "hypotheses.test.txt").read_bytes() == before
    assert (run / "hypotheses.other.test.txt").exists()
    # Scores of another checkpoint are kept separate.
    ok("evaluate", "run/checkpoints/last.ckpt", *few, cwd=home)
    assert "test" not in json.loads((home / "scored" / "evaluation.json").read_text(encoding="utf-8"))


def test_the_hubs_reader_finds_the_scores_in_the_card_of_a_run_and_its_export(run: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the dev extra is not installed")
    ok("export", "huggingface", "--checkpoint", "run", "--output", "hub", cwd=run.parent)
    results = json.loads((run / "test.json").read_text(encoding="utf-8"))["test"]
    for folder, library in ((run, None), (run.parent / "hub", "transformers")):
        card = hub.ModelCard.load(folder / "README.md")
        assert (card.data.language, card.data.pipeline_tag, card.data.license) == (["de", "en"], "translation", "other")
        assert card.data.library_name == library
        scores = {one.metric_type: one for one in card.data.eval_results if one.dataset_split == "test"}
        for metric, signature in results["signatures"].items():
            assert scores[metric].metric_value == pytest.approx(results[metric], abs=0.005)
            assert scores[metric].metric_args == {"signature": signature}
        assert ("AutoModelForSeq2SeqLM" in card.text) == (library == "transformers")
        assert "## Scores" in card.text


def test_an_export_does_not_replace_the_model_that_it_is_made_of(run: Path) -> None:
    before = (run / "translator.safetensors").read_bytes()
    for checkpoint in ("run", "run/translator.safetensors", "run/checkpoints/last.ckpt"):
        arguments = ("--checkpoint", checkpoint, "--output", "run/translator.safetensors")
        assert "which must stay unchanged" in refused("export", "safetensors", *arguments, cwd=run.parent)
    assert (run / "translator.safetensors").read_bytes() == before


def test_a_checkpoint_alone_translates_by_script_and_by_python(run: Path, tmp_path: Path) -> None:
    lines = ["Der Hund schläft.", "", "Wir essen um halb acht.", "x" * 20]
    text = "".join(f"{line}\n" for line in lines)
    outputs = []
    for name in ("translator.safetensors", "checkpoints/best.ckpt"):
        alone = tmp_path / Path(name).stem
        alone.mkdir()
        shutil.copy(run / name, alone)
        translate = ["translate", "--checkpoint", Path(name).name, *GREEDY]
        printed = ok(*translate, cwd=alone, given=text)
        assert printed.endswith("\n")
        outputs.append(printed.split("\n")[:-1])
        assert [path.name for path in alone.iterdir()] == [Path(name).name]
        (alone / "in.txt").write_text(text, encoding="utf-8")
        files = ["--input", "in.txt", "--output", "out=ä.txt", "--alignments", "links=ä.txt"]
        assert ok(*translate, *files, cwd=alone) == ""
        assert (alone / "out=ä.txt").read_text(encoding="utf-8") == printed
        links = (alone / "links=ä.txt").read_text(encoding="utf-8").split("\n")[:-1]
        assert [len(of_line.split()) for of_line in links] == [len(line.split()) for line in outputs[-1]]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 4
    assert outputs[0][1] == ""
    python = Translator.load(run)
    assert python.translate(["Der Hund schläft."])[0] == python.n_best(["Der Hund schläft."])[0][0].text


def test_a_warning_of_a_line_names_its_file(run: Path) -> None:
    (run.parent / "in.de").write_text("Der Hund schläft. Wir essen.\nDer 你.\n", encoding="utf-8")
    (run.parent / "in.en").write_text("a\nb\n", encoding="utf-8")
    own = ["--checkpoint", "run", "--input", "in.de", *LIMITS]
    scoring = script("evaluate", *own, "--reference", "in.en", "--output", "own", cwd=run.parent).stderr
    assert "in.de line 2: not in the model's vocabulary: 你\n" in scoring
    warnings = script("translate", *own, cwd=run.parent).stderr
    assert "in.de line 2: not in the model's vocabulary: 你\n" in warnings
    assert "in.de line 1 has 2 sentences, translated as one" in warnings


@pytest.mark.long
def test_several_checkpoints_translate_together(run: Path) -> None:
    home, sentence = run.parent, ["Der Hund schläft.", *LIMITS]
    best = ["--checkpoint", "run", "--checkpoint", "run/checkpoints/best.ckpt"]
    assert ok("translate", *sentence, *best, cwd=home) == ok("translate", *sentence, *best[:2], cwd=home)
    several = ["run", "run/checkpoints/last.ckpt"]
    assert "give --output FOLDER" in refused("evaluate", *several, cwd=home)
    assert "--checkpoint nowhere: no such file" in refused("translate", *best, "--checkpoint", "nowhere", cwd=home)
    (home / "own.de").write_text("Der Hund schläft.\nWir essen.\n", encoding="utf-8")
    own = ["--input", "own.de", "--reference", "own.de", "--output", "several"]
    ok("evaluate", *several, *own, *LIMITS, cwd=home)
    results = json.loads((home / "several" / "evaluation.json").read_text(encoding="utf-8"))
    assert results["checkpoint"] == "run/translator.safetensors run/checkpoints/last.ckpt"
    assert len(results["sha256"].split()) == 2


def test_texts_are_taken_literally_and_hypotheses_come_with_scores(run: Path) -> None:
    text = 'beam=Hallo, 2 = zwei! <b>ä</b> "${x}" null --beam'
    arguments = ["--checkpoint", "run", "--n-best", "5", "--max-length", "8", "--", text]
    rows = [line.split("\t") for line in ok("translate", *arguments, cwd=run.parent).splitlines()]
    assert len(rows) == 5
    assert {number for number, *_ in rows} == {"1"}
    scores = [float(score) for _, score, *_ in rows]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("positions", "processes"), others_long([("learned", 1), ("sinusoidal", 2), ("sinusoidal", 1), ("learned", 2)])
)
def test_a_run_is_trained_evaluated_and_loaded(home: Path, positions: str, processes: int) -> None:
    """With 8 heads, on one process and on two that share one folder and score every sentence once."""
    several = ["trainer=ddp", "trainer.accelerator=cpu"] if processes == 2 else ["trainer=cpu"]
    name = f"{positions}{processes}"
    few = ["trainer.max_steps=3", f"model.positions={positions}", "model.heads=8"]
    few += ["search=greedy", "search.max_length=8", *several, f"hydra.run.dir={name}"]
    if positions == "sinusoidal":  # as `translator train`, and a process starts the other one in the same way
        trained = Run("-m", "transformer", "train", *small(home), *few, cwd=home).wait()
        assert trained.returncode == 0, trained.stderr
        printed = trained.stdout
    else:
        printed = ok("train", *small(home), *few, cwd=home)
    assert printed.count("test: BLEU") == 1
    assert (home / name / "config.yaml").exists()
    assert not (home / "runs").exists(), "all processes write into one folder"
    hypotheses = (home / name / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines()
    assert len(hypotheses) == SENTENCES
    ok("evaluate", name, *GREEDY, "--output", f"{name}_again", cwd=home)
    assert (home / f"{name}_again" / "hypotheses.test.txt").read_text(encoding="utf-8").splitlines() == hypotheses
    translator = Translator.load(home / name)
    attentions = translator.model.config.encoder.self_attention, translator.model.config.decoder.cross_attention
    assert [one.heads for one in attentions if one] == [8, 8]
    assert translator.model.config.positions == positions
    sources = (home / "few.de").read_text(encoding="utf-8").splitlines()
    assert translator.translate(sources, SearchSettings("greedy", max_length=8)) == hypotheses


@pytest.mark.long
def test_a_sweep_of_train_ends_in_a_table_of_its_scores(home: Path) -> None:
    few = ["search=greedy", "trainer.max_steps=2", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1"]
    arguments = [*small(home), *few, "hydra.sweep.dir=sweep", "loggers=[csv]"]
    # The trial that fails does not end the sweep and is in its table.
    done = script("train", "-m", *arguments, "model.heads=4,5", "seed=1,2", cwd=home)
    assert done.returncode not in (0, None)
    with (home / "sweep" / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["trial"], row["model.heads"], row["seed"]) for row in rows] == [
        (str(number), heads, seed) for number, (heads, seed) in enumerate((h, s) for h in "45" for s in "12")
    ]
    for row in rows[:2]:
        tested = json.loads((home / "sweep" / row["trial"] / "test.json").read_text(encoding="utf-8"))["test"]
        assert float(row["test/bleu"]) == tested["bleu"]
        assert row["error"] == ""
    assert all("heads=5 does not divide" in row["error"] for row in rows[2:])
    with (home / "sweep" / "summary.csv").open(encoding="utf-8") as file:
        [summary] = csv.DictReader(file)
    assert (summary["model.heads"], summary["seeds"]) == ("4", "2")
    assert "test/bleu" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    others_long(
        [
            (["model.heads=5"], "heads=5 does not divide"),
            (["model.heads=eight"], "model.heads=eight must be a whole number"),
            (["model.hed=3"], "model.hed"),
            (["training.label_smoothing=null"], "training.label_smoothing=null must be a number"),
            (["model.positions=absolute"], "choose one of sinusoidal, learned, rotary"),
            (
                ["model.positions=learned", "model.max_length=12"],
                "model.max_length=12 is less than the longest sentence",
            ),
            (["data.train=nowhere"], "nowhere.de.gz"),
            (["data.extra_tests=news"], "data.extra_tests"),
            (["data.synthetic=[nowhere]"], "nowhere.en, as augment.py writes them"),
            (["resume=nowhere"], "resume=nowhere"),
            (["hydra.run.dir=/proc/run"], "/proc/run"),
            (["trainer.max_stepz=3"], "trainer.max_steps"),
            (["trainer.fast_dev_run=true"], "trainer.fast_dev_run: no such setting"),
            (["training.learning_rate=-1"], "training.learning_rate=-1.0 must be > 0"),
            (["trainer.max_steps=many"], "trainer.max_steps=many must be a whole number"),
            (["trainer.max_steps=0"], "trainer.max_steps=0 is not allowed"),
            (["trainer.precision=fp16"], "trainer.precision=fp16 is not allowed; choose one of auto, 32-true"),
            (
                ["trainer.strategy=ddp_fork", "trainer.devices=2"],
                "trainer.strategy=ddp_fork is not allowed",
            ),
            (
                ["search.min_length=12", "model.max_length=12"],
                "search.min_length=12 is more than model.max_length=12 allows",
            ),
            (["tokenizer.joint=false"], "model.tied_embeddings=all needs one vocabulary for both languages"),
            (
                ["training.initial_embeddings=cooccurrence", "model.tied_embeddings=target"],
                "training.initial_embeddings=cooccurrence makes one matrix for both languages",
            ),
            (["init_from=multi30k_both"], "train it first, with experiment=multi30k_both"),
            (["--beam", "5"], "search.beam=VALUE"),
            (["experiment=none"], "multi30k_both"),
        ],
        short=12,
    ),
)
def test_a_mistake_is_reported_in_one_line_before_any_work(
    home: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    settings = [] if "resume" in arguments[0] else small(home)
    done = script("train", *settings, *arguments, cwd=tmp_path)
    *announced, error = done.stderr.splitlines()
    assert (done.returncode, done.stdout, error[:7]) == (2, "", "error: ")
    assert said in error
    # Errors that only reading the corpus shows come after the line with the folder of the run.
    assert not announced or (len(announced) == 1 and announced[0].startswith("the run: "))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    others_long(
        [
            (["resume=run", "training.learning_rate=-1"], "training.learning_rate=-1.0 must be > 0"),
            (["resume=run", "data.train=nowhere"], "nowhere.de.gz"),
            ([*SMALL, "hydra.run.dir=run"], "run has a run: "),
            ([*SMALL, "hydra.run.dir=run/attention/.."], "run has a run: "),
            (
                [*SMALL, "hydra.run.dir=other", "trainer.limit_test_batches=0"],
                "trainer.limit_test_batches=0 is not allowed",
            ),
            ([*SMALL, "hydra.run.dir=other", "model.heads=5"], "heads=5 does not divide"),
        ],
        short=3,
    ),
)
def test_a_mistake_removes_nothing_from_a_run(run: Path, arguments: list[str], said: str) -> None:
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = script("train", *arguments, cwd=run.parent)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == kept
    assert not (run.parent / "other").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    others_long(
        [
            (["translate", "ja", "--checkpoint", "run", "--input", "run/config.yaml"], "--input, not both"),
            (["translate", "--checkpoint", "run", "--input", "nowhere"], "nowhere: no such file"),
            (["translate", "ja", "--output", "run/translator.safetensors"], "--output"),
            (["translate", "ja", "--output", "x", "--alignments", "run/checkpoints/last.ckpt"], "--alignments"),
            (["doctor", "--output", "run/config.yaml"], "run/config.yaml must end in .json"),
            (["translate", "--checkpoint", "run", "--input", "run"], "run is a folder: give a file in it"),
            (["translate", "ja", "--output", "run"], "run is a folder: give a file in it"),
            (["translate", "ja", "--checkpoint", "run", "--method", "sampling", "--n-best", "3"], "--n-best 3"),
            (
                ["translate", "ja", "--method", "sampling", "--choose", "mbr", "--samples", "4", "--n-best", "5"],
                "--samples 5",
            ),
            (["evaluate", "run", "--output", "run/test.json"], "run/test.json is a file: give a folder"),
            (
                ["evaluate", "run", "--input", "few.de", "--reference", "few.de", "--split", "validation"],
                "--split",
            ),
            (["compare", "run", "run", "--output", "run/test.json"], "run/test.json is a file: give a folder"),
            (
                ["export", "safetensors", "--checkpoint", "run", "--output", "run/test.json/x.safetensors"],
                "run/test.json is a file, not a folder",
            ),
        ],
        short=7,
    ),
)
def test_an_impossible_place_for_results_is_named_before_the_work(run: Path, command: list[str], said: str) -> None:
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert said in refused(*command, cwd=run.parent)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == kept


def test_a_setting_of_another_command_is_refused(tmp_path: Path) -> None:
    assert "--warmup-steps" in refused("translate", "ja", "--warmup-steps", "3", cwd=tmp_path)
    assert "--beam 5" in refused("translate", "ja", "beam=5", cwd=tmp_path)


def test_a_file_is_no_folder_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert "file" in refused("train", "hydra.run.dir=file", cwd=tmp_path)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_mistakes_about_checkpoints_are_reported_in_one_line(run: Path) -> None:
    home = run.parent
    assert "nowhere" in refused("translate", "ja", "--checkpoint", "nowhere", cwd=home)
    whole = (run / "checkpoints" / "best.ckpt").read_bytes()
    (home / "cut.ckpt").write_bytes(whole[: len(whole) // 2])
    assert "cut.ckpt is not a usable checkpoint" in refused("translate", "ja", "--checkpoint", "cut.ckpt", cwd=home)
    said = refused("evaluate", "run", "--source", "en", "--target", "de", "--output", "x", cwd=home)
    both = "data.directions=[de-en,en-de] would have trained both directions"
    assert f"the checkpoint translates de → en, not from en to de ({both})" in said
    files = ["--input", "nowhere.de", "--reference", "nowhere.en"]
    assert "nowhere.de: no such file" in refused("evaluate", "run", *files, cwd=home)
    said = refused("translate", "x", "--checkpoint", "run", "--source", "fr", cwd=home)
    assert said.endswith("the checkpoint translates de → en, not from fr")
    done = script("translate", "--checkpoint", "run", "--method", "greedy", cwd=home, given=b"ja\n\xff\n")
    assert done.returncode == 2
    assert "stdin line 2 is not UTF-8" in done.stderr
