"""Synthetic pairs are the translator's own translations, with their origins, also after stopping and resuming."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

from tests.data.corpora import settings as data_settings
from tests.data.corpora import write
from tests.factories import small_model, tokenizer_settings
from tests.links import needs_links
from tests.processes import posix_only, shell_words
from tests.training.small import DIGITS, ENGLISH
from transformer import Translator
from transformer.cli.app import parse
from transformer.cli.pairs import check_prefix, show_counts
from transformer.config import UsageError
from transformer.data.config import SPLITS, DataSettings
from transformer.data.splitting import with_splits
from transformer.data.tokenizer import train_tokenizer
from transformer.inference.settings import SearchSettings
from transformer.run import Run

# An untrained model repeats itself.
LOOSE = ("--filters", "empty", "--filters", "duplicate", "--filters", "held_out")
SEARCH = ("--max-length", "6", "--device", "cpu", "--precision", "float32", "--cache", "cache")
GREEDY = SearchSettings(method="greedy", max_length=6)
FILES = ("de", "en", "origin", "dropped.tsv")
NUMBERS = {"train": range(17, 4000, 23), "validation": range(18, 4000, 97), "test": range(19, 29)}


def read_out(numbers: range, words: list[str]) -> list[str]:
    return [" ".join(words[int(digit)] for digit in str(number)) for number in numbers]


def make_run(folder: Path, corpus: DataSettings) -> None:
    """The files of a run that augment needs: an untrained translator, and the settings of its corpus."""
    folder.mkdir()
    Run(folder).write_settings({"data": asdict(corpus)})
    torch.manual_seed(3)
    tokenizer = train_tokenizer([*DIGITS, *ENGLISH] * 9, tokenizer_settings("word", 120))
    size = len(tokenizer)
    network = small_model(source_vocab_size=size, target_vocab_size=size)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(6)  # so that the translations differ
    Translator(network, (tokenizer, tokenizer), ("de", "en")).save(folder / "translator.safetensors")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> DataSettings:
    """Numbers, read out digit by digit."""
    home = tmp_path_factory.mktemp("home")
    for split, numbers in NUMBERS.items():
        for language, words in (("de", DIGITS), ("en", ENGLISH)):
            write(home, f"{split}.{language}", read_out(numbers, words))
    return data_settings(home, max_length=40, **{split: str(home / split) for split in SPLITS})


@pytest.fixture(scope="module")
def home(corpus: DataSettings) -> Path:
    """A run, and a text that also has sentences of its validation and test."""
    home = Path(str(corpus.directory))
    make_run(home / "run", corpus)
    new = read_out(range(4000, 4260), DIGITS)
    held_out = [line for split in ("validation", "test") for line in read_out(NUMBERS[split], DIGITS)]
    write(home, "text.de", [*new, *new[:10], "", *held_out])
    return home


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def run(*typed: str) -> None:
    parse(["augment", *typed])()


def augment(output: str, *more: str, text: str = "text.de", method: str = "greedy") -> None:
    given = ("--checkpoint", "run", "--input", text, "--output", output, "--method", method)
    run(*given, *SEARCH, *(() if "--filters" in more else LOOSE), *more)


def lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def left(prefix: str) -> dict[str, bytes]:
    return {path.name.removeprefix(prefix): path.read_bytes() for path in Path().glob(f"{prefix}.*")}


@pytest.fixture(scope="module")
def whole(home: Path) -> dict[str, bytes]:
    """The files of an augmentation without a stop, by the end of their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        augment("whole", text=f"{home}/text.de")
        assert len({*lines("whole.en")}) > 100
        return left("whole")


def test_lines_and_origins_are_those_of_the_translator(whole: dict[str, bytes]) -> None:
    assert whole.keys() == {f".{name}" for name in FILES}
    text, translator = lines("text.de"), Translator.load("run")
    origins = [line.split("\t") for line in lines("whole.origin")]
    assert [text[int(number) - 1] for _, number, *_ in origins] == lines("whole.de")
    assert translator.translate(lines("whole.de"), GREEDY) == lines("whole.en")
    assert {(file, *rest) for file, _, *rest in origins} == {("text.de", "en", "run/translator.safetensors", "greedy")}
    dropped = [line.split("\t") for line in lines("whole.dropped.tsv")]
    assert dropped[0] == ["line", "filter", "de", "en"]
    assert sorted(int(number) for number, *_ in [*dropped[1:], *(o[1:] for o in origins)]) == list(
        range(1, len(text) + 1)
    )
    assert [text[int(number) - 1] for number, *_ in dropped[1:]] == [row[2] for row in dropped[1:]]


def test_no_sentence_of_validation_or_test_becomes_a_pair(whole: dict[str, bytes]) -> None:
    for language in ("de", "en"):
        held_out = {*lines(f"validation.{language}"), *lines(f"test.{language}")}
        assert held_out.isdisjoint(lines(f"whole.{language}"))
    reasons = [line.split("\t")[1] for line in lines("whole.dropped.tsv")]
    assert reasons.count("held_out") >= len(lines("validation.de")) + len(lines("test.de"))
    assert reasons.count("duplicate") == 10
    assert reasons.count("empty") >= 1


@posix_only
def test_a_tab_in_a_name_or_a_text_adds_no_column() -> None:
    Path("a\tb.de").write_text("eins\tzwei\n" * 2, encoding="utf-8")
    augment("tab", "--filters", "duplicate", text="a\tb.de")
    assert lines("tab.origin") == ["a\\tb.de\t1\ten\trun/translator.safetensors\tgreedy"]
    assert lines("tab.dropped.tsv")[1:] == ["2\tduplicate\teins zwei\t"]


def test_sampled_translations_are_drawn_by_the_lines_number(whole: dict[str, bytes]) -> None:
    augment("sampled", "--top-k", "3", method="sampling")
    numbers = [int(line.split("\t")[1]) for line in lines("sampled.origin")]
    search = SearchSettings(method="sampling", top_k=3, max_length=6)
    [alone] = Translator.load("run").n_best([lines("sampled.de")[7]], search, line_numbers=[numbers[7]])
    assert alone[0].text == lines("sampled.en")[7]
    assert lines("sampled.en") != lines("whole.en")


def test_an_ensemble_translates_and_is_named(whole: dict[str, bytes]) -> None:
    Path("copy.safetensors").write_bytes(Path("run/translator.safetensors").read_bytes())
    augment("ensemble", "--checkpoint", "copy.safetensors")  # with itself: the same probabilities
    assert left("ensemble")[".en"] == whole[".en"]
    home = Path.cwd().name
    models = {line.split("\t")[3] for line in lines("ensemble.origin")}
    assert models == {f"run/translator.safetensors + {home}/copy.safetensors"}


@contextlib.contextmanager
def after_the_first_lines(prefix: str, act: Callable[[], object]) -> Iterator[None]:
    """Acts at each step of a search that comes after translations are on the disk."""

    def hook(*_: Any) -> None:
        partial = Path(f"{prefix}.partial")
        if partial.exists() and partial.stat().st_size:
            act()

    handle = register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def stop() -> None:
    raise KeyboardInterrupt


def test_a_stopped_augmentation_that_is_resumed_is_the_whole_one(
    whole: dict[str, bytes], corpus: DataSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    with after_the_first_lines("half", stop), pytest.raises(KeyboardInterrupt):
        augment("half")
    assert "256 lines are kept in half.partial: --resume continues" in capsys.readouterr().err
    kept = left("half")
    assert kept.keys() == {".partial", ".partial.json"}
    with pytest.raises(UsageError, match=r"half\.partial is a stopped translation"):
        augment("half")
    with pytest.raises(UsageError, match=r"half\.partial was made with method greedy"):
        augment("half", "--resume", method="beam")
    with pytest.raises(UsageError, match=r"half\.partial was made with filters \[empty,duplicate,held_out\]"):
        augment("half", "--resume", "--filters", "empty", "--filters", "copied")
    others = {"test": corpus.validation, "validation": corpus.test, "max_length": 5}
    for key, value in others.items():
        make_run(Path(key), replace(corpus, **{key: value}))
        with pytest.raises(UsageError, match=r"half\.partial was made with another corpus"):
            augment("half", "--resume", "--corpus", key)
    assert left("half") == kept
    for _ in range(2):  # the second time everything is finished
        augment("half", "--resume", "--corpus", "run")
        assert left("half") == whole
    count, total = len(lines("half.de")), len(lines("text.de"))
    assert f"{count:,} of {total:,} lines became pairs: half.de and half.en\n" in capsys.readouterr().out


def test_files_that_could_not_be_written_at_the_end_are_written_when_resumed(whole: dict[str, bytes]) -> None:
    with (
        after_the_first_lines("full", lambda: Path("full.origin").mkdir(exist_ok=True)),
        pytest.raises(OSError, match=r"full\.origin"),
    ):
        augment("full")
    Path("full.origin").rmdir()
    Path("full.de").touch()  # as after a kill between two files
    augment("full", "--resume")
    assert left("full") == whole


def test_a_run_translates_the_training_pairs_that_it_left_out(corpus: DataSettings) -> None:
    part = replace(corpus, fold=[2, 4])
    make_run(Path("fold"), part)
    of_fold = ("--checkpoint", "fold", "--fold", "--method", "greedy", *SEARCH, "--output")
    run(*of_fold, "of_fold", "--filters", "duplicate")
    texts, used = lines("of_fold.de"), [source for source, _ in with_splits(part).read("train")]
    assert len(texts) > 20
    assert sorted([*texts, *used]) == sorted(lines("train.de"))
    make_run(Path("tested"), replace(corpus, test=f"{corpus.directory}/of_fold"))
    with pytest.raises(ValueError, match=rf"no line became a pair: {len(texts)} held_out"):
        run(*of_fold, "none", "--corpus", "tested", "--filters", "held_out")
    make_run(Path("other_fold"), replace(corpus, fold=[1, 4]))
    for other in ("run", "other_fold"):
        with pytest.raises(UsageError, match=r"^--fold translates the training pairs that the run itself left out"):
            run(*of_fold, "y", "--checkpoint", other)


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        ("run/x", [], r"^--output .*x is in the folder of the model, run: give another place"),
        ("run", [], r"^--output .*run is a folder: give the beginning of the files' names: .*run[/\\]pairs"),
        ("new/..", [], r"^--output .* is a folder: give the beginning of the files' names"),
        ("empty.de/x", [], r"^--output .*empty\.de[/\\]x: .*empty\.de is a file, not a folder"),
        ("train", [], r"train\.(de|en) exists already: give another --output PREFIX, or remove it"),
        ("x", ["--fold"], r"^--input.* --fold"),
        ("x", ["--input", "nothing.de"], r"^--input .*nothing\.de: no such file"),
        ("x", ["--input", "empty.de"], r"^--input .*empty\.de is not a file with lines in it"),
        ("x", ["--input", "huge.de"], r"huge\.de line 2 has more than 1,048,576 bytes: this is no sentence"),
        ("x", ["--input", "english.de"], r"looks like en, but the checkpoint translates de → en: give a run of the"),
        ("x", ["--input", "test.en"], r"no line became a pair: 10 held_out"),
        ("x", ["--input", "test.de"], r"no line became a pair: 10 held_out"),
        ("x", ["--source", "en"], r"the checkpoint translates de → en, not from en"),
        ("x", ["--corpus", "french"], r"the corpus is in de and fr: give another --corpus"),
        ("x", ["--corpus", "nowhere"], r"nowhere has no config\.yaml .*--corpus"),
        ("x", ["--filters", "long"], r"^--filters=long is not allowed; .*choose one of empty, too_long"),
        ("x", ["--filters", "empty", "--filters", "empty"], r"^--filters names empty twice"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    home: Path, corpus: DataSettings, output: str, more: list[str], message: str
) -> None:
    write(home, "empty.de", [])
    write(home, "huge.de", ["eins", "eins " * 300_000])
    write(home, "english.de", ["This is the text of the other language, and that was for you."] * 5)
    write(home, "other.de", ["eins"])
    write(home, "other.fr", ["un"])
    if not Path("french").exists():
        french = dict.fromkeys(SPLITS, f"{home}/other")
        make_run(Path("french"), replace(corpus, target_language="fr", **french))
    text = [] if "--input" in more else ["--input", "text.de"]
    before = sorted(path for path in home.rglob("*") if path.name != ".lock")
    with pytest.raises((ValueError, OSError), match=message) as raised:
        run("--checkpoint", "run", "--output", output, "--method", "greedy", *SEARCH, *text, *more)
    assert "\n" not in str(raised.value)
    assert sorted(path for path in home.rglob("*") if path.name != ".lock") == before


def test_a_model_that_is_no_run_needs_a_corpus(whole: dict[str, bytes], tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    model.write_bytes(Path("run/translator.safetensors").read_bytes())
    given = ("--checkpoint", str(model), "--input", "text.de", "--method", "greedy", *SEARCH, *LOOSE)
    with pytest.raises(FileNotFoundError, match="--corpus"):
        run(*given, "--output", "alone")
    run(*given, "--output", "alone", "--corpus", "run")
    assert left("alone")[".en"] == whole[".en"]


@needs_links
def test_pairs_may_lie_beside_a_model_file_that_belongs_to_no_run(tmp_path: Path) -> None:
    folder, model = tmp_path / "folder", tmp_path / "folder" / "model.safetensors"
    folder.mkdir()
    model.touch()
    check_prefix(str(folder / "pairs"), [model])
    (folder / "config.yaml").touch()
    (tmp_path / "link").symlink_to(folder)
    for prefix in (folder / "pairs", tmp_path / "link" / "pairs"):
        with pytest.raises(UsageError, match="is in the folder of the model"):
            check_prefix(str(prefix), [model])


def test_an_export_takes_no_pairs_among_its_files(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    with pytest.raises(UsageError, match="is in the folder of the model"):
        check_prefix(str(tmp_path / "export" / "pairs"), [tmp_path / "export"])


@needs_links
def test_a_prefix_that_is_a_link_is_refused_as_the_names_would_not_begin_with_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="link is a link: give the beginning of the files' names"):
        check_prefix(str(tmp_path / "link"), [])


def test_each_filter_reports_how_many_lines_it_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    show_counts(Counter({None: 3, "empty": 1, "duplicate": 2}), "x", ("de", "en"))
    total, *dropped = capsys.readouterr().out.splitlines()[:3]
    assert total == "3 of 6 lines became pairs: x.de and x.en"
    assert [line.partition(" (")[0] for line in dropped] == ["2 dropped: duplicate", "1 dropped: empty"]


@pytest.mark.parametrize("prefix", ["runs/synthetic", "it's (one)/ü"])
def test_the_printed_settings_for_training_can_be_typed(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_counts(Counter({None: 3}), str(Path(prefix).absolute()), ("de", "en"))
    heading, line = capsys.readouterr().out.splitlines()[-2:]
    assert heading == "Next, with the settings of your training in place of …:"
    assert shell_words(line)[-2:] == ["…", f"data.synthetic=[{Path(prefix)}]"]
