"""Parallel text in files: finding the files, and reading their pairs one at a time, with checks."""

import csv
import functools
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer.data.languages import base_language, name_of
from transformer.files import expanded, read_blocks

Pair = tuple[str, str]
MAX_LINE_BYTES = 1 << 20  # a small .gz can hold a line larger than memory
# A .gz that unpacks to more than both of these is no corpus: text shrinks to a third, a line that is repeated many
# times to a hundredth or less.
MAX_UNPACKED_BYTES, MAX_RATIO = 64 << 20, 100
# The first bytes of packed files, and the program that packs them.
PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"(\xb5/\xfd": "zstd", b"PK\3\4": "zip"}
PACKED |= {b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)}
TABLES = (".tsv", ".txt", ".csv")  # files that hold both sides, in columns
# Headings of columns that name no language.
SIDES = (("source", "src", "original", "quelle"), ("target", "tgt", "trg", "translation", "ziel", "cible"))


def is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def is_table(path: str) -> bool:
    return Path(path).name.lower().removesuffix(".gz").endswith(TABLES)


def digest_of(files: list[Path]) -> str:
    """sha256 over the bytes of some files."""
    digest = hashlib.sha256()
    for path in files:
        for block in read_blocks(path):
            digest.update(block)
        digest.update(b"\0")
    return digest.hexdigest()


def _possible_files(base: Path, sides: tuple[str, str]) -> Iterator[list[list[Path]]]:
    """For each side its two possible files: with the direction in the names, with the reversed one, and with none."""
    for infix in (f".{sides[0]}-{sides[1]}", f".{sides[1]}-{sides[0]}", ""):
        yield [[base.with_name(f"{base.name}{infix}.{side}{ending}") for ending in ("", ".gz")] for side in sides]


def _found(choice: list[Path]) -> Path | None:
    return next(filter(Path.is_file, choice), None)


def find_files(prefix: str, source_language: str, target_language: str) -> list[Path]:
    """PREFIX itself if it is a table, else PREFIX.<language> for both languages, or the same with .gz.

    PREFIX.de-en.de and PREFIX.de-en.en (or …en-de…) are taken first: they have such names if the corpora of several
    directions have different sentences in one language. FileNotFoundError if one of the two is missing: the files of
    en-de must not replace them, because a model may have written their other side.
    """
    base, sides = expanded(prefix), (source_language, target_language)
    if not base.name:
        raise FileNotFoundError(f"{prefix} is a folder: give a table, or the PREFIX of two files in it")
    own, reversed_, plain = _possible_files(base, sides)
    if is_table(prefix):
        candidates = [[base]]
    elif any(map(_found, own)):
        candidates = own
    else:
        candidates = reversed_ if all(map(_found, reversed_)) else plain
    found = [path for choice in candidates if (path := _found(choice))]
    missing = next((choice for choice in candidates if not _found(choice)), None)
    if missing is None:
        return found
    if candidates is own:
        raise FileNotFoundError(f"no {missing[0]} beside {found[0]}: put it there, or remove the other one too")
    meaning = f"PREFIX means PREFIX.{source_language} and PREFIX.{target_language}, or is one .tsv, .txt or .csv"
    if base.is_dir():
        meaning = f"{prefix} is a folder, and {meaning}"
    elif base.is_file() and (side := Path(prefix.removesuffix(".gz"))).suffix[1:] in sides:
        meaning = f"{prefix} is the file of one language: give its PREFIX, {side.with_suffix('')}"
    elif base.is_file():
        meaning = f"{prefix} is a file of another kind: {meaning}"
    raise FileNotFoundError(f"no corpus file {' or '.join(map(str, missing))}: put it there; {meaning}")


def has_files(prefix: str, source_language: str, target_language: str) -> bool:
    """Whether there are files for this direction (at least one of two), or files that name no direction."""
    base, sides = expanded(prefix), (source_language, target_language)
    if not base.name:
        return False
    own, _, plain = _possible_files(base, sides)
    return any(map(_found, own)) or all(map(_found, plain)) or (is_table(prefix) and base.is_file())


@functools.lru_cache  # a run reads a file several times: unpacking a large one takes seconds
def _check_unpacked_size(path: Path, packed_size: int, modified: int) -> None:
    """Raises ValueError for a .gz that unpacks to too much, before its lines are processed (which is a hundred times
    slower than unpacking). A file with another time `modified`, in nanoseconds, is checked again."""
    max_bytes, size = max(MAX_UNPACKED_BYTES, MAX_RATIO * packed_size), 0
    with suppress(EOFError, gzip.BadGzipFile, zlib.error), gzip.open(path) as file:  # reading the lines reports these
        while part := file.read(1 << 20):
            if (size := size + len(part)) > max_bytes:
                raise ValueError(f"{path} unpacks to more than {max_bytes:,} bytes: unpack it yourself")


def _is_utf16(line: bytes) -> bool:
    """Whether the first line of a file looks like UTF-16 without a byte order mark: with Latin letters every second
    byte is 0."""
    return len(line) > 2 and any(line[::2]) != any(line[1::2])


def decode_lines(readline: Callable[[int], bytes], name: str, edges: str | None = None) -> Iterator[str]:
    """The lines of an open binary stream, read by its method `readline`, decoded and checked as in `read_lines`. Errors
    name the stream by `name`."""
    number = 0
    try:
        # A binary file ends lines at \n only: U+2028 and \x85 belong to the sentence.
        for number, line in enumerate(iter(lambda: readline(MAX_LINE_BYTES + 1), b""), 1):
            # Checked here, because all bytes of a small archive may be valid UTF-8.
            if number == 1 and (kind := next((PACKED[begin] for begin in PACKED if line.startswith(begin)), None)):
                raise ValueError(f"{name} line 1 is not UTF-8 but packed by {kind}: unpack it")
            if number == 1 and line.count(b"\r") > 1 and b"\n" not in line:
                raise ValueError(
                    f"{name}: its lines end in carriage returns (\\r) alone: save it with line feeds (\\n)"
                )
            if number == 1 and _is_utf16(line):
                raise ValueError(f"{name} line 1 is not UTF-8, it looks like UTF-16: save it as UTF-8")
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"{name} line {number} has more than {MAX_LINE_BYTES:,} bytes: this is no sentence")
            yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode("utf-8").strip(edges)
    except UnicodeDecodeError as error:
        if number == 1 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError(f"{name} line 1 is not UTF-8 but UTF-16: save it as UTF-8") from error
        raise ValueError(
            f"{name} line {number} is not UTF-8 (byte {error.start + 1} of the line): save it as UTF-8"
        ) from error
    except (EOFError, OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        place = f" after line {number}" if number else ""
        raise ValueError(f"{name} cannot be read{place}: {reason}") from error


def read_lines(path: Path, edges: str | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file (also .gz), without a byte order mark and without spaces (or `edges`) at their ends."""
    try:
        if is_packed(path):
            with path.open("rb") as packed:
                if packed.read(2) not in (b"\x1f\x8b", b""):
                    raise ValueError(f"{path} cannot be read: its name ends in .gz, but it is not packed with gzip")
            status = path.stat()
            _check_unpacked_size(path, status.st_size, status.st_mtime_ns)
        with gzip.open(path) if is_packed(path) else path.open("rb") as file:
            yield from decode_lines(file.readline, str(path), edges)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error


SEMICOLONS = "it seems to be separated by semicolons: save it with commas, or with tabs as .tsv"


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    taken, line = 0, ""  # characters so far of a row, which may have many lines, and its last line

    def lines() -> Generator[str, None, None]:
        nonlocal taken, line
        for number, line in enumerate(read_lines(path, ""), 1):
            if (taken := taken + len(line)) > MAX_LINE_BYTES:
                raise ValueError(f"{path} line {number}: a row of more than {MAX_LINE_BYTES:,} characters is no pair")
            yield line

    with closing(lines()) as text:
        first = list(islice(text, 1))
        # No sentence has a tab.
        rows = csv.reader(chain(first, text), strict=True, delimiter="\t" if "\t" in "".join(first) else ",")
        try:
            for cells in rows:
                taken = 0
                if cells:  # empty lines are skipped
                    yield rows.line_num, [re.sub(r"[\r\n]+", " ", cell) for cell in cells]
        except csv.Error as error:
            remedy = SEMICOLONS if '";"' in line else "is a quotation mark open before it?"
            raise ValueError(f"{path} line {rows.line_num} is not CSV: {error}; {remedy}") from error


def is_csv(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path, "\r\n"), 1):
        if line:  # empty lines are skipped
            yield number, line.split("\t")


def table_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    return _csv_rows(path) if is_csv(path) else _tsv_rows(path)


class Columns(NamedTuple):
    """The columns of source and target in a table, counted from 1, and the number of columns that a line must have."""

    source: int
    target: int
    width: int | None  # None: any number, if it has these two
    has_names: bool  # whether the first line has names and is no pair

    def fit(self, cells: list[str]) -> bool:
        return len(cells) >= max(self.source, self.target) and self.width in (None, len(cells))


def column_names(first_line: list[str], languages: Sequence[str]) -> list[str]:
    """The headings of a table, with codes of languages in place of their English names."""
    called = {name.lower(): language for language in languages for name in (language, name_of(language))}
    return [called.get(cell.strip().lower(), cell.strip()) for cell in first_line]


def is_heading(pair: Pair, languages: tuple[str, str]) -> bool:
    """Whether a pair is not text but the names of two columns, in any order: source and target, or the languages."""

    def names(cell: str, side: int) -> bool:
        language, cell = languages[side], cell.strip().lower()
        is_language = base_language(cell) == base_language(language) or cell == name_of(language).lower()
        return is_language or cell in SIDES[side]

    first, second = pair
    return (names(first, 0) and names(second, 1)) or (names(first, 1) and names(second, 0))


def find_columns(first_line: list[str], languages: tuple[str, str], typed: list[int] | None) -> Columns:
    """The columns `typed` as data.columns, else those named in the first line (by the languages' codes, or their
    English names), else the only two.

    If columns are named, the names win over [1,2] and [2,1], which are also the defaults of a table without names.
    """
    names = column_names(first_line, languages)
    has_names = set(languages) <= set(names)
    named = [names.index(language) + 1 for language in languages] if has_names else None
    elsewhere = typed if typed and max(typed) > 2 else None
    source, target = elsewhere or named or typed or (1, 2)
    return Columns(source, target, len(names) if has_names else None if typed else 2, has_names)


def _lines_like_it(rows: Iterator[tuple[int, list[str]]], columns: Columns) -> list[int]:
    """The lines after a faulty one that have the same fault, so that all of them can be corrected at once."""
    more: list[int] = []
    with suppress(ValueError):  # for another fault
        more.extend(number for number, cells in rows if not columns.fit(cells))
    return more


def _column_fault(
    path: Path, number: int, cells: list[str], columns: Columns, pairs: int, more: list[int], languages: tuple[str, str]
) -> str:
    """The message for a line with too few or too many columns, after `pairs` good ones; it says how to correct this
    line and others like it (`more`)."""
    separator, noun = "comma" if is_csv(path) else "tab", "column" if len(cells) == 1 else "columns"
    wanted = "a pair needs 2"
    if columns.width is not None and (columns.has_names or columns.width > 2):
        wanted = f"its first line {columns.width}"
    elif columns.width is None:
        wanted = f"data.columns={[columns.source, columns.target]}"
    is_wide = len(cells) > 2 or ((columns.width or 0) > 2 and not columns.has_names)
    commas = "a text with a comma needs quotation marks around it; " if is_csv(path) and is_wide else ""
    remedy = ""
    if is_csv(path) and len(cells) == 1 and ";" in cells[0] and not columns.has_names and len(more) >= pairs:
        remedy = f"; {SEMICOLONS}"
    elif number == 1 and cells[0].startswith("#"):
        remedy = "; delete the lines that begin with # (an export of Anki begins with such lines)"
    elif pairs or columns.has_names:
        some = f"{', '.join(map(str, more[:5]))}{', …' if len(more) > 5 else ''}"
        too = f" (and {len(more):,} more: {some})" if more else ""
        remedy = f"; {commas}correct the line, or delete it{too}"
    elif len(cells) > 2:
        names = " and ".join(languages)
        remedy = f"; {commas}give the columns of source and target, data.columns=[1,2], or a first line with {names}"
    elif len(cells) == 1 == number:
        remedy = f"; if each language has a file, give the PREFIX of the files: data.train=x for x.{languages[0]}"
    return f"{path} line {number} has {len(cells)} {separator}-separated {noun}, {wanted}{remedy}"


def _table_pairs(path: Path, languages: tuple[str, str], typed: list[int] | None) -> Iterator[Pair]:
    columns, pairs, rows = None, 0, table_rows(path)
    for number, cells in rows:
        if columns is None:
            columns = find_columns(cells, languages, typed)
            if columns.has_names:
                continue
            if is_csv(path) and columns.width is None and columns.fit(cells):
                columns = columns._replace(width=len(cells))  # a comma in a text would shift the columns after it
        if not columns.fit(cells):
            more = _lines_like_it(rows, columns)
            raise ValueError(_column_fault(path, number, cells, columns, pairs, more, languages))
        pairs += 1
        yield cells[columns.source - 1], cells[columns.target - 1]


def _aligned_pairs(source_path: Path, target_path: Path) -> Iterator[Pair]:
    sources, targets = read_lines(source_path, "\n"), read_lines(target_path, "\n")
    for count, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            rest = 1 + sum(1 for _ in (targets if source is None else sources))
            source_count, target_count = (count, count + rest) if source is None else (count + rest, count)
            raise ValueError(
                f"{source_path} has {source_count:,} lines but {target_path} has {target_count:,}: "
                "line n of one must translate line n of the other"
            )
        yield source, target


def read_raw_pairs(
    files: list[Path], source_language: str, target_language: str, columns: list[int] | None = None
) -> Iterator[Pair]:
    """Yields the sentence pairs, unchanged, from the files. Only \\n and \\r\\n end a line.

    `find_columns` chooses the columns of a table. Columns are separated by tabs; in a .csv by commas or, if its first
    line has one, by tabs, and quotation marks around a text of a .csv are removed. Raises ValueError that names the
    file and line if the text is not UTF-8, is cut short, lacks a column or is empty, or if the numbers of lines differ.
    """
    if len(files) == 1:
        pairs = _table_pairs(files[0], (source_language, target_language), columns)
    else:
        pairs = _aligned_pairs(*files)
    pair: Pair | None = None
    for pair in pairs:
        yield pair
    if pair is None:
        raise ValueError(f"{files[0]} is empty")


def read_pairs(
    files: list[Path], source_language: str, target_language: str, columns: list[int] | None = None
) -> Iterator[Pair]:
    """Yields the sentence pairs, without spaces at their ends. Raises the errors of `read_raw_pairs`."""
    for source, target in read_raw_pairs(files, source_language, target_language, columns):
        yield source.strip(), target.strip()
