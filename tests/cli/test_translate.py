"""`translate`: its flags fit together, its files do not overwrite each other, and a stopped translation can be
resumed."""

import json
from pathlib import Path

import pytest
import torch

from tests.data.corpora import TOY
from tests.factories import small_model, tokenizer_settings
from tests.links import needs_links
from transformer import Translator
from transformer.cli.app import parse
from transformer.cli.lines import CHUNK
from transformer.config import UsageError
from transformer.data.tokenizer import train_tokenizer
from transformer.inference.confidence import with_words
from transformer.inference.settings import SearchSettings

FAST = ["--device", "cpu", "--precision", "float32", "--method", "greedy", "--max-length", "4"]


def translate(*tokens: str) -> None:
    parse(["translate", *tokens])()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained translator."""
    torch.manual_seed(3)
    lines = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()
    tokenizer = train_tokenizer(lines, tokenizer_settings("bpe", 300))
    path = tmp_path_factory.mktemp("model") / "translator.safetensors"
    network = small_model(source_vocab_size=300, target_vocab_size=300)
    Translator(network, (tokenizer, tokenizer), ("de", "en")).save(path)
    return path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("eins\nzwei\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--method greedy --n-best 2", "^--n-best 2: .* finds 1 for a line; give --method beam$"),
        ("--method sampling --n-best 2", "^--n-best 2: .* finds 1 for a line; give --method beam$"),
        ("--beam 1 --n-best 2", "^--n-best 2: .* finds 1 for a line; give --beam 2$"),
        ("--n-best 6 --alignments a", "^--n-best 6: .* finds 5 for a line; give --beam 6$"),
        (
            "--choose mbr --method sampling --samples 3 --n-best 4",
            "^--n-best 4: .* finds 3 for a line; give --samples 4$",
        ),
        ("--choose mbr --method greedy", "choose.*several hypotheses"),
        ("--choose rerank", "^--choose"),
        ("--reverse x", "^--choose"),
        ("ja --input x", "--input"),
        ("--head 1", "^--layer"),
        ("--shifted", "^--layer"),
        ("--resume --output y --alignments a", "^--resume"),
        ("--split-lines sentences --alignments a", "^--alignments"),
        ("--output ./a --alignments a", "^--output and --alignments are the same file"),
        ("--input x --alignments ./x", "^--input and --alignments are the same file"),
        ("--input x --output ./x", "^--input and --output are the same file"),
        ("--output nowhere/x.ckpt", "^--output"),
        ("--alignments x/y", "^--alignments"),
    ],
)
def test_flags_that_do_not_go_together_are_refused_by_name_before_the_work(
    typed: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        translate("--checkpoint", "nowhere", *typed.split())
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert Path("x").read_text(encoding="utf-8") == "eins\nzwei\n"


@needs_links
def test_a_text_is_not_written_over_through_a_link(model: Path) -> None:
    Path("link").symlink_to("x")
    with pytest.raises(UsageError, match=r"^--input and --output are the same file"):
        translate("--checkpoint", str(model), "--input", "x", "--output", "link")
    assert Path("x").read_text(encoding="utf-8") == "eins\nzwei\n"


@pytest.mark.parametrize("text", ["Der Hund schläft.", "", "-5 Grad", "--beam", "a\nb"])
def test_a_text_is_translated_as_the_library_does(
    model: Path, text: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    translate("--checkpoint", str(model), *FAST, "--", text)
    [expected] = Translator.load(model).translate([text.replace("\n", " ")], SearchSettings("greedy", max_length=4))
    assert capfdbinary.readouterr().out.decode() == f"{expected}\n"


def test_placeholders_and_prefixes_work_as_in_the_library(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    torch.manual_seed(3)
    lines = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()
    tokenizer = train_tokenizer(lines, tokenizer_settings("bpe", 300), placeholders=True)
    network = small_model(source_vocab_size=300, target_vocab_size=300)
    Translator(network, (tokenizer, tokenizer), ("de", "en")).save(tmp_path / "kept.safetensors")
    (tmp_path / "terms").write_text("der Hund\thound\n", encoding="utf-8")
    text, short = "Der Hund (SW-7) kostet 1.250 €.", SearchSettings("greedy", max_length=9, prefix="Die")
    flags = ["--keep", r"SW-\d", "--glossary", "terms", "--prefix", "Die", "--method", "greedy", "--max-length", "9"]
    translate("--checkpoint", "kept.safetensors", *flags, text)
    translator = Translator.load("kept.safetensors").keeping(keep=r"SW-\d", glossary={"der Hund": "hound"})
    found = capfdbinary.readouterr().out.decode()
    assert found == f"{translator.translate(text, short)}\n"
    assert found.startswith("Die")
    assert [found.count(kept) for kept in ("SW-7", "hound", "1.250")] == [1, 1, 1]


def test_objects_hold_the_confidence_of_sentences_and_words(
    model: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    texts, translator = ["Der Hund schläft. Ja.", "12", "", "Ja"], Translator.load(model)
    Path("x").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for flags, search in (
        (FAST, SearchSettings("greedy", max_length=4)),
        (["--beam", "3", "--n-best", "2"], SearchSettings(beam=3)),
    ):
        asked = ["--checkpoint", str(model), *flags, "--input", "x", "--split-lines", "sentences"]
        translate(*asked, "--format", "json")
        rows = [json.loads(line) for line in capfdbinary.readouterr().out.decode().splitlines()]
        for text, row, found in zip(
            texts, rows, translator.n_best(texts, search, split_lines="sentences"), strict=True
        ):
            found = with_words(translator, [text] * len(found[:2]), found[:2])
            assert [one["text"] for one in row["translations"]] == [one.text for one in found]
            for written, one in zip(row["translations"], found, strict=True):
                assert written["confidence"] == pytest.approx(one.confidence)
                assert [word["source"] for word in written["words"]] == [word.source for word in one.words or []]
                assert [word["text"] for word in written["words"]] == [word.text for word in one.words or []]
                sure = [word.confidence for word in one.words or []]
                assert [word["confidence"] for word in written["words"]] == pytest.approx(sure)
    translate(*asked)
    columns = [line.split("\t") for line in capfdbinary.readouterr().out.decode().splitlines()]
    written = [(row["line"], one["score"], one["confidence"]) for row in rows for one in row["translations"]]
    assert [(int(line), float(score), float(sure)) for line, score, sure, _ in columns] == [
        (line, pytest.approx(score, abs=6e-5), pytest.approx(sure, abs=6e-5)) for line, score, sure in written
    ]


def test_translations_and_alignments_are_written_to_two_files(
    model: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    translate("--checkpoint", str(model), *FAST, "--input", "x")
    alone = capfdbinary.readouterr().out
    translate("--checkpoint", str(model), *FAST, "--input", "x", "--alignments", "a", "--output", "y")
    assert Path("y").read_bytes() == alone
    assert len(Path("a").read_text(encoding="utf-8").splitlines()) == 2


def test_a_stopped_translation_goes_on_with_the_same_settings_only(model: Path) -> None:
    lines = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()[: CHUNK + 9]
    Path("x").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    asked = ["--checkpoint", str(model), *FAST, "--input", "x", "--split-lines", "never", "--output"]
    translate(*asked, "whole")
    too_long = [*lines[:-1], "Haus " * 99]
    Path("x").write_text("".join(f"{line}\n" for line in too_long), encoding="utf-8")
    with pytest.raises(ValueError, match=f"line {len(lines)}"):
        translate(*asked, "y")
    assert not Path("y").exists()
    kept = {path: path.read_bytes() for path in Path().glob("y.partial*")}
    assert len(kept) == 2
    for changed in (["--min-length", "1"], ["--source", "de"], ["--batch-tokens", "9"], ["--attention", "math"]):
        with pytest.raises(UsageError, match=f"^--resume: .* was made with {changed[0].strip('-').replace('-', '_')}"):
            translate(*asked, "y", "--resume", *changed)
    with pytest.raises(UsageError, match=r"^y\.partial is a stopped translation: --resume"):
        translate(*asked, "y")
    with pytest.raises(UsageError, match=r"^--resume continues a file"):
        translate("--checkpoint", str(model), "--resume", "ja")
    assert {path: path.read_bytes() for path in Path().glob("y.partial*")} == kept
    Path("text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    asked[asked.index("x")] = "text"  # by another name
    for _ in range(2):  # the second time everything is finished
        translate(*asked, "y", "--resume")
    assert Path("y").read_bytes() == Path("whole").read_bytes()
    assert not [*Path().glob("y.partial*")]
