"""Corpora that are cut, mixed up or damaged: they are read unchanged, or refused in a line with file and line
number."""

import gzip
import os
import random
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import posix_only
from tests.reliability import report, trials
from tests.reliability.children import TOY, ChildDiedError, in_child, read_corpus
from transformer.data import text_files
from transformer.data.text_files import Pair, find_files, read_lines, read_pairs

SOURCES, TARGETS = ((TOY / f"test.{language}").read_bytes().splitlines()[:40] for language in ("de", "en"))
INSERTED = [
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\r",
        b"\r\r\n",
        b"\t",
        b"\0",
        b"\v",
        b"\f",
        b"\x1c",
        b" ",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
    ),
    *(
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xe2\x80\xa9",
        b"\xe3\x80\x80",
        b"\xc2",
        b"\xe2\x80",
        b"\xed\xa0\x80",
        b"\xf8\x88",
    ),
    *(
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
        "👩‍👩‍👧".encode(),
        "שלום".encode(),
        "\u202e".encode(),
        b"de\ten\n",
        b"\x1f\x8b",
    ),
]


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Content after a few random changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        place, other = sorted(chance.choices(range(len(content) + 1), k=2))
        content = chance.choice([
            lambda c=content, p=place: c[:p],
            lambda c=content, p=place: c[p:],
            lambda c=content, p=place, o=other: c[:p] + c[o:],
            lambda c=content, p=place, o=other: c[:p] + c[o : o + 30] + c[p:o] + c[o + 30 :],
            lambda c=content, p=place: c[:p] + bytes([chance.randrange(256)]) + c[p + 1 :],
            lambda c=content, p=place: c[:p] + chance.choice(INSERTED) + c[p:],
            lambda c=content: chance.choice(INSERTED) + c,
            lambda c=content: c + chance.choice(INSERTED),
            lambda c=content: c.replace(b" ", chance.choice((b"  ", b"\xc2\xa0", b"\xe2\x80\xa8"))),
            lambda c=content: c.replace(b"\n", b"\r\n", chance.randrange(1, 50)),
            lambda c=content: b"\n".join(chance.sample(c.split(b"\n"), c.count(b"\n") + 1)),
            lambda c=content: c.decode("utf-8", "replace").encode(chance.choice(["utf-16", "latin-1"]), "replace"),
        ])()  # fmt: skip
    return content


def expected_lines(path: Path) -> Iterator[str | None]:
    """The lines, read in another way, None for a line that is not text; EOFError if a .gz is cut or damaged."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        text = b""
        while content:
            unpack = zlib.decompressobj(wbits=31)
            text += unpack.decompress(content)
            if not unpack.eof:
                raise EOFError
            # Zeros may come after a member.
            content = unpack.unused_data.lstrip(b"\0")
        content = text
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = content.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        only_zeros = [not bytes_of.strip(b"\0") for bytes_of in (line[::2], line[1::2])]
        is_utf16 = number == 1 and len(line) > 2 and sum(only_zeros) == 1
        try:
            yield None if is_utf16 else line.decode("utf-8")
        except UnicodeDecodeError:
            yield None


def expected_pairs(files: list[Path]) -> list[Pair] | str:
    """The pairs, or a pattern of the error message."""
    try:
        sides = [list(expected_lines(path)) for path in files]
    except (EOFError, zlib.error):
        named = "|".join(re.escape(str(path)) for path in files)
        damaged = r"line \d+ is not UTF-8|line \d+ has \d+ tab-separated column"
        return rf"({named}) (cannot be read(?: after line \d+)?: |{damaged})"
    for path, lines in zip(files, sides, strict=True):
        if None in lines and len(files) == 1:
            return rf"{re.escape(str(path))} line \d+( has \d+ tab-separated column| is not UTF-8)"
    if len(files) == 1:
        numbered = [
            (number, str(line).split("\t")) for number, line in enumerate(sides[0], 1) if str(line).strip("\r\n")
        ]
        numbers, cells = [number for number, _ in numbered], [row for _, row in numbered]
        first = [cell.strip() for cell in cells[0]] if cells else []
        named = {"de", "en"} <= set(first)
        width, source, target = (len(first), first.index("de"), first.index("en")) if named else (2, 0, 1)
        if wrong := [place for place, line in enumerate(cells) if len(line) != width]:
            count = len(cells[wrong[0]])
            return re.escape(
                f"{files[0]} line {numbers[wrong[0]]} has {count} tab-separated column{'s' * (count != 1)}, "
            )
        pairs = [(line[source], line[target]) for line in cells[named:]]
    else:
        common = min(map(len, sides))
        bad = [
            (number, side) for side, lines in enumerate(sides) for number, line in enumerate(lines, 1) if line is None
        ]
        if bad:
            # Reading goes by pairs; after the end of the shorter file only lines are counted.
            number, side = min(bad)
            return re.escape(f"{files[side]} line {number} is not UTF-8")
        if len(sides[0]) != len(sides[1]):
            return re.escape(f"{files[0]} has {len(sides[0]):,} lines but {files[1]} has {len(sides[1]):,}")
        pairs = [(str(a), str(b)) for a, b in zip(*sides, strict=True)][:common]
    return [(a.strip(), b.strip()) for a, b in pairs] or re.escape(f"{files[0]} is empty")


def test_mutated_corpora_are_read_as_they_stand_or_refused_by_file_and_line(tmp_path: Path) -> None:
    chance, lost, tried, read = random.Random(7), [], 1000, 0
    for number in range(tried):
        folder = tmp_path / str(number)
        folder.mkdir()
        form = chance.choice(("x.tsv", "x.tsv.gz", "x.de", "x.de.gz"))
        ending = ".gz" if form.endswith(".gz") else ""
        if form.startswith("x.tsv"):
            contents = {form: b"".join(a + b"\t" + b + b"\n" for a, b in zip(SOURCES, TARGETS, strict=True))}
            if chance.random() < 0.3:
                contents[form] = chance.choice((b"de\ten\n", b"en\tde\n")) + contents[form]
        else:
            sides = {"de": SOURCES, "en": TARGETS}
            contents = {f"x.{language}{ending}": b"\n".join(lines) + b"\n" for language, lines in sides.items()}
        for name in contents if chance.random() < 0.2 else [chance.choice(list(contents))]:
            contents[name] = mutated(contents[name], chance)
        for name, content in contents.items():
            packed = gzip.compress(content, mtime=0) if ending else content
            (folder / name).write_bytes(mutated(packed, chance) if ending and chance.random() < 0.3 else packed)
        files = find_files(str(folder / (form if ".tsv" in form else "x")), "de", "en")
        expected = expected_pairs(files)
        try:
            found: list[Pair] | str = list(read_pairs(files, "de", "en"))
            read += 1
        except ValueError as error:
            found = str(error)
        right = found == expected if isinstance(expected, list) else (
            isinstance(found, str) and re.match(expected, found) and "\n" not in found
        )  # fmt: skip
        if not right:
            lost.append(f"{number} {form}: {str(found)[:300]!r} instead of {str(expected)[:300]!r}")
    # Both results must be frequent.
    assert tried // 5 < read < tried * 4 // 5
    report("mutated corpora are read as they stand or refused in one line", tried, lost)


def test_no_character_but_a_newline_ends_a_line(tmp_path: Path) -> None:
    inside = "\v\f\r\x1c\x1d\x1e\x85\u2028\u2029\0"
    path = tmp_path / "x.txt"
    path.write_text(f"a{inside}b\r\nc{inside}d", encoding="utf-8", newline="")
    assert list(read_lines(path)) == [f"a{inside}b", f"c{inside}d"]


def test_a_line_larger_than_any_sentence_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"ein Haus\ta house\n")
    os.truncate(path, trials(160 << 20, 2 << 30))  # zeros, which take no space
    try:
        said, memory = in_child(read_corpus, path)
    except ChildDiedError as error:
        pytest.fail(str(error))
    assert said == f"{path} line 2 has more than {text_files.MAX_LINE_BYTES:,} bytes: this is no sentence"
    assert memory < 40 << 20  # the names of languages take most of it


@pytest.mark.parametrize("text", ['"ab\n",' * 200_000, "ab," * 600_000], ids=["over many lines", "in one line"])
def test_a_row_without_end_is_refused_before_memory_is_taken_for_it(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "x.csv").write_text(f"a,b\n{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.csv line \d+(: a row of more than| has more than) 1,048,576"):
        list(read_pairs([path], "de", "en"))


@pytest.mark.parametrize("line", [b"ein Haus\ta house\n", b"\0"])
def test_a_small_gz_that_unpacks_without_end_is_refused_before_its_lines_are_read(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.tsv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(65):
            file.write(line * ((1 << 20) // len(line)))
    limit = text_files.MAX_UNPACKED_BYTES
    assert text_files.MAX_RATIO * path.stat().st_size < limit
    with pytest.raises(ValueError, match=rf"x\.tsv\.gz unpacks to more than {limit:,} bytes: unpack it yourself"):
        next(read_pairs([path], "de", "en"))


def test_a_gz_that_is_packed_no_more_than_text_is_may_be_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_UNPACKED_BYTES", 1 << 10)
    lines = [b"\t".join(sides) for sides in zip(SOURCES, TARGETS, strict=True)]
    (path := tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    assert len(list(read_pairs([path], "de", "en"))) == len(lines)


def test_the_size_of_a_gz_is_looked_at_once_and_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_UNPACKED_BYTES", 1 << 16)
    path, pair = tmp_path / "x.tsv.gz", b"ein Haus\ta house\n"
    path.write_bytes(gzip.compress(pair))
    before = text_files._check_unpacked_size.cache_info().misses
    assert list(read_pairs([path], "de", "en")) == list(read_pairs([path], "de", "en")) == [("ein Haus", "a house")]
    assert text_files._check_unpacked_size.cache_info().misses == before + 1
    path.write_bytes(gzip.compress(pair * 10_000))
    with pytest.raises(ValueError, match=r"x\.tsv\.gz unpacks to more than 65,536 bytes"):
        next(read_pairs([path], "de", "en"))


@posix_only
@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a device"])
def test_a_folder_pipe_or_device_is_no_corpus_and_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.tsv"
    make: dict[str, Callable[[], None]] = {
        "a folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "a device": lambda: path.symlink_to("/dev/zero"),
    }
    make[kind]()
    with pytest.raises(FileNotFoundError, match=r"no corpus file .*x\.tsv"):
        find_files(str(path), "de", "en")


@pytest.mark.parametrize("name", ["x.tmx", "x.fr"])
def test_a_file_that_is_neither_a_table_nor_a_prefix_is_said_to_be_so(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Hallo\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=rf"{name} is a file of another kind: PREFIX means PREFIX\.de and"):
        find_files(str(tmp_path / name), "de", "en")


@pytest.mark.parametrize("name", ["x.de", "x.de.gz"])
def test_the_file_of_one_language_is_answered_with_its_prefix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Hallo\n", encoding="utf-8")
    prefix = re.escape(str(tmp_path / "x"))
    with pytest.raises(FileNotFoundError, match=rf"{name} is the file of one language: give its PREFIX, {prefix}$"):
        find_files(str(tmp_path / name), "de", "en")
