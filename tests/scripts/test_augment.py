"""Synthetic pairs are the translator's own translations, with their origins; stopped and resumed they are the same."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scripts.augment as augment_script
from tests.links import needs_links
from tests.processes import posix_only, shell_words
from tests.reliability.runs import corpus, settings, train
from tests.training.small import DIGITS
from transformer import Translator
from transformer.cli import CONFIGS
from transformer.cli.arguments import prepare
from transformer.cli.compose import compose
from transformer.cli.pairs import check_prefix, show_counts
from transformer.config import UsageError, from_dict
from transformer.data.corpus import DataSettings
from transformer.data.splitting import with_splits
from transformer.inference import translator
from transformer.inference.search import SearchSettings

# A model that has hardly learned anything says the same again and again.
LOOSE = "filters=[empty,duplicate,held_out]"
SEARCH = ["search.max_length=6", "device=cpu", "precision=float32"]
GREEDY = SearchSettings(method="greedy", max_length=6)
FOLD = [
    "checkpoint=fold",
    "fold=true",
    "output=of_fold",
    "search=greedy",
    *SEARCH,
    "cache=cache",
    "filters=[duplicate]",
]
OTHER = [f"data.{split}=other" for split in ("train", "validation", "test")]
FILES = ("de", "en", "origin", "dropped.tsv")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has hardly learned anything, and text with sentences of its validation and test among the others."""
    home = tmp_path_factory.mktemp("home")
    train(home / "run", settings(corpus(home), trainer__max_steps=6, test=False))
    numbers = [*range(4000, 4260), *range(4000, 4010)]
    lines = [" ".join(DIGITS[int(digit)] for digit in str(number)) for number in numbers]
    held_out = [(home / f"{split}.de").read_text(encoding="utf-8") for split in ("validation", "test")]
    (home / "text.de").write_text("".join(f"{line}\n" for line in lines) + "\n" + "".join(held_out), encoding="utf-8")
    return home


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def augment(*arguments: str) -> None:
    typed = ("checkpoint=run", "input=text.de", "search=greedy", LOOSE, *SEARCH, "cache=cache", *arguments)
    augment_script.augment(augment_script.read(compose("augment", *prepare(typed, CONFIGS))))


def lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def left(prefix: str) -> dict[str, bytes]:
    return {path.name.removeprefix(prefix): path.read_bytes() for path in Path().glob(f"{prefix}.*")}


@pytest.fixture(scope="module")
def whole(home: Path) -> dict[str, bytes]:
    """The files of an augmentation that was not stopped, by what follows the prefix."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        augment("output=whole", f"input={home}/text.de")
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
    augment("output=tab", "input=a\tb.de", "filters=[duplicate]")
    assert lines("tab.origin") == ["a\\tb.de\t1\ten\trun/translator.safetensors\tgreedy"]
    assert lines("tab.dropped.tsv")[1:] == ["2\tduplicate\teins zwei\t"]


def test_sampled_translations_are_drawn_by_the_lines_number(whole: dict[str, bytes]) -> None:
    augment("search=sampling", "search.top_k=3", "output=sampled")
    numbers = [int(line.split("\t")[1]) for line in lines("sampled.origin")]
    search = SearchSettings(method="sampling", top_k=3, max_length=6)
    [alone] = Translator.load("run").n_best([lines("sampled.de")[7]], search, line_numbers=[numbers[7]])
    assert alone[0].text == lines("sampled.en")[7]
    assert lines("sampled.en") != lines("whole.en")


@contextlib.contextmanager
def before_each_step(act: Callable[[], object]) -> Iterator[None]:
    logits = translator.Translator.logits

    def act_and_step(*args: Any) -> Any:
        act()
        return logits(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator.Translator, "logits", act_and_step)
        yield


def stopped(prefix: str) -> None:
    """Stops an augmentation as soon as its first lines are on the disk."""

    def stop() -> None:
        if Path(f"{prefix}.partial").stat().st_size:
            raise KeyboardInterrupt

    with before_each_step(stop), pytest.raises(KeyboardInterrupt):
        augment(f"output={prefix}")


def test_a_stopped_augmentation_that_is_resumed_is_the_whole_one(
    whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    stopped("half")
    assert "256 lines are kept in half.partial: resume=true continues" in capsys.readouterr().err
    assert left("half").keys() == {".partial", ".partial.json"}
    with pytest.raises(UsageError, match=r"half\.partial holds a stopped translation"):
        augment("output=half")
    with pytest.raises(UsageError, match=r"half\.partial was made with search\.method=greedy"):
        augment("output=half", "resume=true", "search=beam")
    with pytest.raises(UsageError, match=r"half\.partial was made with filters=\[empty,duplicate,held_out\]$"):
        augment("output=half", "resume=true", "filters=[empty,copied]")
    own = ["data=files", "data.train=train", "data.validation=validation"]
    with pytest.raises(UsageError, match=r"half\.partial was made with another corpus: name it by data="):
        augment("output=half", "resume=true", *own, "data.test=validation")
    with pytest.raises(UsageError, match=r"half\.partial was made with another corpus: name it by data="):
        augment("output=half", "resume=true", *own, "data.test=test", "data.validation=test")
    with pytest.raises(UsageError, match=r"half\.partial was made with data\.max_length=40"):
        augment("output=half", "resume=true", *own, "data.test=test", "data.max_length=5")
    augment("output=half", "resume=true")
    assert left("half") == whole
    count, total = len(lines("half.de")), len(lines("text.de"))
    assert f"{count:,} of {total:,} lines became pairs: half.de and half.en\n" in capsys.readouterr().out


def test_files_that_could_not_be_written_at_the_end_are_written_when_resumed(whole: dict[str, bytes]) -> None:
    with (
        before_each_step(lambda: Path("full.origin").mkdir(exist_ok=True)),
        pytest.raises(OSError, match=r"full\.origin"),
    ):
        augment("output=full")
    Path("full.origin").rmdir()
    Path("full.de").touch()  # as a process leaves it that is killed between two files
    augment("output=full", "resume=true")
    assert left("full") == whole


@pytest.mark.long
def test_a_run_translates_the_training_pairs_that_it_left_out(home: Path) -> None:
    plain = settings(home, trainer__max_steps=2, test=False, data__fold=[2, 4])
    train(home / "fold", plain)
    augment_script.augment(augment_script.read(compose("augment", *prepare(FOLD, CONFIGS))))
    texts, all_texts = lines("of_fold.de"), lines("train.de")
    used = with_splits(from_dict(DataSettings, plain["data"], "data")).read("train")
    assert len(texts) > 20
    assert sorted([*texts, *(source for source, _ in used)]) == sorted(all_texts)
    files = [f"data.{split}={home / split}" for split in ("train", "validation")]
    whole = ["data=files", *files, f"data.test={home / 'of_fold'}", "output=none", "filters=[held_out]"]
    with pytest.raises(ValueError, match=rf"no line became a pair: {len(texts)} held_out"):
        augment_script.augment(augment_script.read(compose("augment", *prepare([*FOLD, *whole], CONFIGS))))
    with pytest.raises(ValueError, match=r"fold=true translates the training pairs that the run itself left out"):
        augment_script.read(compose("augment", *prepare([*FOLD, "checkpoint=run", "output=y"], CONFIGS)))
    with pytest.raises(ValueError, match=r"give input=FILE, the text to translate, or fold=true: one of them"):
        augment("output=x", "fold=true")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["output=run/x"], r"output=run/x is in the folder of the model, run: name another place"),
        (["output=run"], r"output=run is a folder: give what the files' names begin with, as run[/\\]synthetic"),
        (["output=new/"], r"output=new/ is a folder: give what the files' names begin with, as new[/\\]synthetic"),
        (["output=new/.."], r"output=new/\.\. is a folder: give what the files' names begin with"),
        (["output=empty.de/x"], r"output=empty\.de[/\\]x: .*empty\.de is a file, not a folder"),
        (["output=train"], r"train\.(de|en) is there already: give another output=PREFIX, or remove it"),
        (["output=x", "input=nothing.de"], r"input=nothing\.de is no file with lines in it"),
        (["output=x", "input=empty.de"], r"input=empty\.de is no file with lines in it"),
        (["output=x", "input=huge.de"], r"huge\.de line 2 has more than 1,048,576 bytes: no sentence has"),
        (["output=x", "input=test.en"], r"no line became a pair: 10 held_out"),
        (["output=x", "input=english.de"], r"looks like en, but the checkpoint translates de → en: name a run of the"),
        (["output=x", "input=test.de"], r"no line became a pair: 10 held_out"),
        (["output=x", "resume=true"], r"resume=true: there is no x\.partial to continue"),
        (
            ["output=x", "source_language=en"],
            r"the checkpoint translates de → en, not from en \(data\.directions",
        ),
        (["output=x", "data=files", *OTHER, "data.target_language=fr"], r"the corpus is in de and fr"),
        (["output=x", "filters=[long]"], r"filters=long is not allowed; choose one of empty, too_long"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(home: Path, arguments: list[str], message: str) -> None:
    (home / "empty.de").write_text("", encoding="utf-8")
    (home / "huge.de").write_text("eins\n" + "eins " * 300_000, encoding="utf-8")
    (home / "english.de").write_text(
        "This is the text of the other language, and that was for you.\n" * 5, encoding="utf-8"
    )
    for language in ("de", "fr"):
        (home / f"other.{language}").write_text("eins\n", encoding="utf-8")
    before = sorted(path for path in home.rglob("*") if path.name != ".lock")
    with pytest.raises((ValueError, OSError), match=message) as raised:
        augment(*arguments)
    assert "\n" not in str(raised.value)
    assert sorted(path for path in home.rglob("*") if path.name != ".lock") == before


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
    with pytest.raises(UsageError, match="link is a link: give what the files' names begin with"):
        check_prefix(str(tmp_path / "link"), [])


def test_of_each_filter_it_is_said_how_many_lines_it_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    show_counts(Counter({None: 3, "empty": 1, "duplicate": 2}), "x", ("de", "en"))
    total, *dropped = capsys.readouterr().out.splitlines()[:3]
    assert total == "3 of 6 lines became pairs: x.de and x.en"
    assert [line.partition(" (")[0] for line in dropped] == ["2 dropped: duplicate", "1 dropped: empty"]


@pytest.mark.parametrize("prefix", ["runs/synthetic", "it's ${all}, {of} (it)/ü"])
def test_what_is_printed_for_training_can_be_typed(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_counts(Counter({None: 3}), prefix, ("de", "en"))
    heading, line = capsys.readouterr().out.splitlines()[-2:]
    assert heading == "Next, with the settings of your training in place of …:"
    command = shell_words(line)
    assert command[:3] == ["python", "scripts/train.py", "…"]
    assert compose("train", *prepare(command[3:], CONFIGS))["data"]["synthetic"] == [prefix]
