"""Parallel text is read in every form, and every fault in it gives one clear line."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import socket
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from transformer.config import UsageError
from transformer.data.download import run_recipe
from transformer.data.text_files import MAX_LINE_BYTES, find_files, has_files, read_lines, read_pairs
from transformer.files import sha256

PAIRS = [("ein Haus", "a house"), ("ja\u2028doch", "yes\x85indeed"), ("Grüße", "regards")]


def pairs(
    prefix: Path, source: str = "de", target: str = "en", columns: list[int] | None = None
) -> list[tuple[str, str]]:
    return list(read_pairs(find_files(str(prefix), source, target), source, target, columns))


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_two_files_give_their_lines_as_pairs_in_either_direction(tmp_path: Path, ending: str, line_end: str) -> None:
    write(tmp_path, f"x.de{ending}", [f" {source} " for source, _ in PAIRS], line_end)
    write(tmp_path, f"x.en{ending}", [target for _, target in PAIRS], line_end)
    assert pairs(tmp_path / "x") == PAIRS
    assert pairs(tmp_path / "x", "en", "de") == [(target, source) for source, target in PAIRS]


def test_a_byte_order_mark_and_a_missing_last_line_end_are_no_part_of_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.de").write_bytes(b"\xef\xbb\xbfeins\nzwei")
    (tmp_path / "x.en").write_bytes(b"one\ntwo\n")
    assert pairs(tmp_path / "x") == [("eins", "one"), ("zwei", "two")]


def test_a_tsv_holds_source_and_target_or_says_that_they_are_swapped(tmp_path: Path) -> None:
    path = write(tmp_path, "x.tsv.gz", [f"{source}\t{target}" for source, target in PAIRS])
    assert pairs(path) == PAIRS
    write(tmp_path, "x.tsv.gz", ["de\ten", *(f"{source}\t{target}" for source, target in PAIRS)])
    assert pairs(path) == PAIRS
    assert pairs(path, "en", "de") == [(target, source) for source, target in PAIRS]


@pytest.mark.parametrize("first", ["English\tGerman", "english\tde", "id\tEnglish\tGerman", "English \t German"])
def test_a_first_line_may_name_the_languages_in_english(tmp_path: Path, first: str) -> None:
    more = ["1"] * (first.count("\t") - 1)
    path = write(tmp_path, "x.tsv", [first, *("\t".join([*more, target, source]) for source, target in PAIRS)])
    assert pairs(path) == PAIRS
    with pytest.raises(ValueError, match=r"source_language=German is not the code of a language: write de \(German\)"):
        settings(tmp_path, source_language="German")


def test_an_empty_line_of_a_table_is_no_row(tmp_path: Path) -> None:
    for name, mark in (("x.tsv", "\t"), ("x.csv", ",")):
        assert pairs(write(tmp_path, name, ["", f"eins{mark}one", "", f"zwei{mark}two", ""])) == [
            ("eins", "one"),
            ("zwei", "two"),
        ]


def test_an_empty_cell_of_a_tsv_is_an_empty_text_and_its_tab_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "x.tsv", ["eins\tone", "\ttwo", "drei\t", "\t"], "\r\n")
    assert pairs(path) == [("eins", "one"), ("", "two"), ("drei", ""), ("", "")]
    for line in ("\teins\tone", "eins\tone\t"):
        write(tmp_path, "x.tsv", [line])
        assert refusal(path).startswith(f"{path} line 1 has 3 tab-separated columns, a pair needs 2; give the columns")


CHOSEN = "give the columns of source and target, data.columns=[1,2], or a first line with de and en"


def refusal(prefix: Path) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        pairs(prefix)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "lines",
    [
        ["eins;one"],
        ["ja, eins;one", "zwei;two", "drei;three"],  # the first has two columns, by its comma
        ['"eins";"one"', '"zwei";"two"'],
    ],
)
def test_a_csv_separated_by_semicolons_is_refused_with_what_it_is(tmp_path: Path, lines: list[str]) -> None:
    assert "separated by semicolons: save it with commas" in refusal(write(tmp_path, "x.csv", lines))


def test_a_csv_may_be_separated_by_tabs(tmp_path: Path) -> None:
    lines = ['"Er, ""nicht"" sie"\the, not she', 'zwei\t"two"', "drei\tthree; 3"]
    found = pairs(write(tmp_path, "x.csv", lines))
    assert found == [('Er, "nicht" sie', "he, not she"), ("zwei", "two"), ("drei", "three; 3")]


def test_the_first_lines_of_an_export_of_anki_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = write(tmp_path, "x.txt", ["#separator:tab", "#html:true", "eins\tone"])
    assert refusal(path).endswith("; delete the lines that begin with # (an export of Anki begins with such lines)")


def test_one_line_of_a_csv_without_a_comma_is_no_other_separator(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", ["eins,one", "zwei,two", "drei; three"])
    said = f"{path} line 3 has 1 comma-separated column, a pair needs 2; correct the line, or delete it"
    assert refusal(path) == said


def test_a_comma_in_a_text_of_a_csv_is_refused_whatever_columns_are_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", ["Er, nicht sie,he", "eins,one", "zwei,two"])
    quotes = "a text with a comma needs quotation marks around it; "
    assert refusal(path).endswith(f"line 1 has 3 comma-separated columns, a pair needs 2; {quotes}{CHOSEN}")
    with pytest.raises(ValueError, match=f"line 2 has 2 comma-separated columns, its first line 3; {quotes}") as caught:
        pairs(path, columns=[1, 2])
    assert str(caught.value).endswith("correct the line, or delete it (and 1 more: 3)")
    assert pairs(write(tmp_path, "x.csv", ["1,eins,one", "2,zwei,two"]), columns=[2, 3]) == [
        ("eins", "one"),
        ("zwei", "two"),
    ]


def test_a_line_with_too_few_columns_is_named(tmp_path: Path) -> None:
    short = write(tmp_path, "x.tsv", ["a\tb", "c"])
    assert "line 2 has 1 tab-separated column, a pair needs 2; correct" in refusal(short)
    tsv = write(tmp_path, "y.tsv", ["eins\tone", "zwei two"])
    assert refusal(tsv) == f"{tsv} line 2 has 1 tab-separated column, a pair needs 2; correct the line, or delete it"
    write(tmp_path, "y.tsv", ["eins", "zwei"])
    assert refusal(tsv).endswith("; if each language has a file, give the PREFIX of the files: data.train=x for x.de")


@pytest.mark.parametrize(
    ("count", "more"), [(2, "2 more: 4, 6"), (5, "5 more: 4, 6, 8, 10, 12"), (9, "9 more: 4, 6, 8, 10, 12, …")]
)
def test_further_lines_of_the_same_fault_are_counted(tmp_path: Path, count: int, more: str) -> None:
    damaged = write(tmp_path, "damaged.tsv", ["a\tb", "c\td\te", *(["f\tg", "h"] * count)])
    said = f"3 tab-separated columns, a pair needs 2; correct the line, or delete it (and {more})"
    assert refusal(damaged).endswith(said)


def test_a_line_of_too_few_columns_is_reported_though_a_later_one_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(b"a\tb\nc\nd\ne\xff\tf\n")
    said = "x.tsv line 2 has 1 tab-separated column, a pair needs 2; correct the line, or delete it (and 1 more: 3)"
    assert refusal(tmp_path / "x.tsv").endswith(said)


def test_with_chosen_columns_lines_may_have_different_numbers_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "x.tsv", ["1\tone\teins", "2\ttwo\tzwei\ta note"])
    assert list(read_pairs([path], "de", "en", [3, 2])) == [("eins", "one"), ("zwei", "two")]


def test_a_line_without_a_column_that_is_chosen_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "x.tsv", ["1\tone\teins", "2\ttwo"])
    said = f"{path} line 2 has 2 tab-separated columns, data.columns=[3, 2]; correct the line, or delete it"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        list(read_pairs([path], "de", "en", [3, 2]))


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    for content in (b"\xff\xfe" + "eins\tone\n".encode("utf-16-le"), b"\xfe\xff" + "eins\tone\n".encode("utf-16-be")):
        (tmp_path / "x.tsv").write_bytes(content)
        assert refusal(tmp_path / "x.tsv") == f"{tmp_path / 'x.tsv'} line 1 is not UTF-8 but UTF-16: save it as UTF-8"
    for encoding in ("utf-16-le", "utf-16-be"):  # without a byte order mark
        for line in ("eins\tone\n", "fünf\tfive\n"):
            (tmp_path / "x.tsv").write_bytes(line.encode(encoding))
            said = f"{tmp_path / 'x.tsv'} line 1 is not UTF-8, it looks like UTF-16: save it as UTF-8"
            assert refusal(tmp_path / "x.tsv") == said
    write(tmp_path, "x.de", ["eins", "zwei", "drei"])
    (tmp_path / "x.en").write_bytes(b"one\ntw\xffo\nthree\n")
    said = f"{tmp_path / 'x.en'} line 2 is not UTF-8 (byte 3 of the line): save it as UTF-8"
    assert refusal(tmp_path / "x") == said


def zipped(content: bytes) -> bytes:
    """An archive whose own bytes are all ASCII, whatever the date."""
    info = zipfile.ZipInfo("a", (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as file:
        file.writestr(info, content)
        info.external_attr = 0
    return archive.getvalue()


@pytest.mark.parametrize(
    ("pack", "kind"),
    [
        *((gzip.compress, "gzip"), (lzma.compress, "xz"), (bz2.compress, "bzip2"), (zipped, "zip")),
        (lambda _: zipped(b""), "zip"),
        (lambda content: b"(\xb5/\xfd" + content, "zstd"),  # only the first bytes of such a file
    ],
)
def test_a_packed_file_is_recognized_without_its_usual_name(
    tmp_path: Path, pack: Callable[[bytes], bytes], kind: str
) -> None:
    (tmp_path / "x.tsv").write_bytes(pack(b"eins\tone\n" * 100))
    assert refusal(tmp_path / "x.tsv") == f"{tmp_path / 'x.tsv'} line 1 is not UTF-8 but packed by {kind}: unpack it"


@pytest.mark.parametrize("name", ["mac.tsv", "mac.csv"])
def test_lines_that_end_in_carriage_returns_alone_are_refused(tmp_path: Path, name: str) -> None:
    mac = write(tmp_path, name, ["eins\tone", "zwei\ttwo"], "\r")
    assert refusal(mac) == f"{mac}: its lines end in carriage returns (\\r) alone: save it with line feeds (\\n)"


def test_a_line_end_within_a_cell_of_a_csv_is_a_space(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv.gz", ['"ein', 'Haus","a', "", 'house"', "zwei,two"], "\r\n")
    assert pairs(path) == [("ein Haus", "a house"), ("zwei", "two")]


def test_a_csv_may_be_larger_than_its_largest_row(tmp_path: Path) -> None:
    count = 2 * MAX_LINE_BYTES // 100_000
    assert len(pairs(write(tmp_path, "x.csv", ["x" * 100_000 + ",y"] * count))) == count


def test_an_open_quotation_mark_is_refused(tmp_path: Path) -> None:
    assert "is a quotation mark open before it?" in refusal(write(tmp_path, "x.csv", ['a,"b', "c,d"]))


def test_files_that_are_missing_or_empty_are_refused_by_their_names(tmp_path: Path) -> None:
    assert "x.de or " in refusal(tmp_path / "x")
    assert f"{tmp_path} is a folder, and PREFIX means PREFIX.de" in refusal(tmp_path)
    write(tmp_path, "x.de", []), write(tmp_path, "x.en", [])
    assert refusal(tmp_path / "x") == f"{tmp_path / 'x.de'} is empty"
    (tmp_path / "x.tsv.gz").touch()
    assert refusal(tmp_path / "x.tsv.gz") == f"{tmp_path / 'x.tsv.gz'} is empty"


def test_a_file_that_is_gone_by_now_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.tsv cannot be read: No such file or directory$"):
        list(read_lines(tmp_path / "x.tsv"))


@pytest.mark.parametrize("prefix", [".", "/", ""])
def test_a_folder_alone_is_no_prefix(prefix: str) -> None:
    with pytest.raises(FileNotFoundError, match="is a folder: give a table, or the PREFIX of two files in it"):
        find_files(prefix, "de", "en")
    assert not has_files(prefix, "de", "en")


def test_one_of_two_files_of_a_direction_is_refused_without_the_other(tmp_path: Path) -> None:
    for name in ("x.de-en.en", "x.de", "x.en"):
        write(tmp_path, name, ["a"])
    other, found = tmp_path / "x.de-en.de", tmp_path / "x.de-en.en"
    assert refusal(tmp_path / "x") == f"no {other} beside {found}: put it there, or remove the other one too"


def test_one_of_two_files_of_the_way_back_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "x.en-de.en", ["no"])
    write(tmp_path, "x.de", ["ja"]), write(tmp_path, "x.en", ["yes"])
    assert pairs(tmp_path / "x") == [("ja", "yes")]


@pytest.mark.parametrize(
    ("names", "there"),
    [
        (["x.de-en.de"], True),  # refused later, when it is read
        (["x.de", "x.en.gz"], True),
        (["x.de"], False),
        (["x.en-de.de", "x.en-de.en"], False),
    ],
)
def test_files_of_a_direction_are_there_if_they_say_so_or_none_does(
    tmp_path: Path, names: list[str], there: bool
) -> None:
    for name in names:
        write(tmp_path, name, ["a"])
    assert has_files(str(tmp_path / "x"), "de", "en") == there


def test_a_table_is_of_any_direction_if_it_is_there(tmp_path: Path) -> None:
    assert not has_files(str(tmp_path / "x.tsv"), "de", "en")
    assert has_files(str(write(tmp_path, "x.tsv", ["a\tb"])), "de", "en")


def test_a_corpus_may_lie_in_the_home_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "x.tsv", ["eins\tone"])
    for variable in ("HOME", "USERPROFILE"):  # the second one's on Windows
        monkeypatch.setenv(variable, str(tmp_path))
    assert find_files("~/x.tsv", "de", "en") == [tmp_path / "x.tsv"]
    assert has_files("~/x.tsv", "de", "en")
    settings(tmp_path, url=None, directory="~", sha256={"x.tsv": sha256(tmp_path / "x.tsv")}).fetch()


@pytest.mark.parametrize("count", [2, 5])
def test_two_files_of_unequal_lengths_are_refused_with_both(tmp_path: Path, count: int) -> None:
    source, target = write(tmp_path, "x.de", ["eins", "zwei", "drei"]), write(tmp_path, "x.en", ["one"] * count)
    assert refusal(tmp_path / "x").startswith(f"{source} has 3 lines but {target} has {count}")


PACKED = gzip.compress(b"eins\tone\n" * 5000)


@pytest.mark.parametrize("content", [PACKED[:-20], b"no gzip at all", PACKED[:20] + bytes(20) + PACKED[40:]])
def test_a_damaged_gz_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    damaged = tmp_path / "z.tsv.gz"
    damaged.write_bytes(content)
    assert str(damaged) in refusal(damaged)


def test_a_gz_that_is_none_and_a_damaged_one_have_different_messages(tmp_path: Path) -> None:
    (tmp_path / "x.tsv.gz").write_bytes(b"eins\tone\n")
    said = "x.tsv.gz cannot be read: its name ends in .gz, but it is not packed with gzip"
    assert refusal(tmp_path / "x.tsv.gz") == f"{tmp_path}{os.sep}{said}"


def test_a_missing_file_is_fetched_and_its_digest_checked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, "x.de", ["eins"])
    digest = "2b2d0dd0a1a43f1a7cc8d2d0b0e6ba3f1d0bd3a1c7b0e4b3f7f7a0a0a0a0a0a0"
    wanted = settings(tmp_path / "here", url=home.as_uri(), sha256={"x.de": digest})
    with pytest.raises(ValueError, match="is not the published file"):
        wanted.fetch()
    assert not (tmp_path / "here" / "x.de").exists()
    with pytest.raises(ValueError, match="only plain file names are fetched"):
        settings(tmp_path, sha256={"../x.de": digest})
    right = hashlib.sha256(b"eins\n").hexdigest()
    settings(tmp_path / "there", url=home.as_uri(), sha256={"x.de": right, "x.fr": digest}).fetch()
    assert (tmp_path / "there" / "x.de").read_text(encoding="utf-8") == "eins\n"
    gone = settings(tmp_path / "nowhere", url=(tmp_path / "no").as_uri(), sha256={"x.de": right})
    with pytest.raises(OSError, match=r"cannot be fetched .*: put x.de into .* or another data.directory=; data=files"):
        gone.fetch()


def test_splits_and_languages_are_checked_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the corpus files has no split dev; it has train, validation, test"):
        settings(tmp_path).files("dev")
    with pytest.raises(ValueError, match="are both de"):
        settings(tmp_path, target_language="de")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\neins\n", "after 5 of 100 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\neins\n", "IncompleteRead"),
        (b"no HTTP\r\n\r\n", "no HTTP"),
        (b"", "closed connection"),
    ],
    ids=["cut", "cut in a chunk", "no HTTP", "nothing"],
)
def test_a_broken_download_is_reported_with_its_remedy_and_nothing_is_kept(
    tmp_path: Path, answer: bytes, said: str
) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(10_000)
        connection.sendall(answer)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(OSError, match=rf"cannot be fetched .*{said}.*: put x\.de into .*there or another"):
            settings(tmp_path / "there", url=url, sha256={"x.de": "0" * 64}).fetch()
        server.join()
    assert not list((tmp_path / "there").glob("*"))


def test_a_corpus_is_made_again_once_its_recipe_or_what_that_reads_changes(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    code = (
        "import pathlib, sys; words = pathlib.Path(__file__).with_name('words').read_text('utf-8'); "
        f"open({str(log)!r}, 'a').write(words); pathlib.Path(sys.argv[2], 'x.de').write_text(words"
    )
    for words, end in (("eins\n", ")"), ("eins\n", ")"), ("zwei\n", ")"), ("zwei\n", ".upper())")):
        (home / "words").write_text(words, encoding="utf-8")
        (home / "make.py").write_text(code + end, encoding="utf-8")
        run_recipe(home / "make.py", home, tmp_path / "made", ("de", "en"))
        assert (tmp_path / "made" / "x.de").read_text(encoding="utf-8") == (words if end == ")" else words.upper())
    assert log.read_text(encoding="utf-8") == "eins\nzwei\nzwei\n"


def test_a_digest_of_a_missing_file_without_an_address_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["Hallo"])
    right = sha256(tmp_path / "x.de")
    digests = {"x.de": "0" * 64, "x.en": "0" * 64, "x.fr": "0" * 64}
    with pytest.raises(ValueError, match=r"x\.de has another sha256 than in data\.sha256: replace the file, or"):
        settings(tmp_path, url=None, directory=str(tmp_path), sha256=digests).fetch()
    with pytest.raises(FileNotFoundError, match=r"data\.sha256 names .*x\.en: put it there, or give its data\.url"):
        settings(tmp_path, url=None, directory=str(tmp_path), sha256=digests | {"x.de": right}).fetch()


def test_a_table_with_a_digest_is_fetched_too(tmp_path: Path) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    home.mkdir()
    digest = sha256(write(home, "pairs.tsv.gz", ["eins\tone"]))
    settings(there, url=home.as_uri(), sha256={"pairs.tsv.gz": digest}).fetch()
    assert pairs(there / "pairs.tsv.gz") == [("eins", "one")]


def test_the_digest_of_a_table_of_ones_own_is_checked(tmp_path: Path) -> None:
    write(tmp_path, "pairs.tsv", ["eins\tone"])
    with pytest.raises(ValueError, match=r"pairs\.tsv has another sha256 than in data\.sha256"):
        settings(tmp_path, url=None, sha256={"pairs.tsv": "0" * 64}).fetch()


def test_a_digest_may_be_written_in_capitals(tmp_path: Path) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    home.mkdir()
    digest = sha256(write(home, "x.de", ["eins"])).upper()
    for _ in range(2):  # downloaded, then compared
        settings(there, url=home.as_uri(), sha256={"x.de": digest}).fetch()
    settings(there, url=None, sha256={"x.de": digest}).fetch()


def test_a_file_whose_name_only_begins_like_a_language_is_not_fetched(tmp_path: Path) -> None:
    settings(tmp_path, url=None, sha256={"news.dev.fr": "0" * 64}).fetch()


@pytest.mark.parametrize("url", ["example.org/corpus", "http://[x"])
def test_a_wrong_address_is_reported_as_no_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(OSError, match=r"cannot be fetched \(data\.url is no address.*: put x\.de into"):
        settings(tmp_path, url=url, sha256={"x.de": "0" * 64}).fetch()


def test_the_digest_of_a_table_tells_its_separator(tmp_path: Path) -> None:
    tables = [str(write(tmp_path, name, ["a\tb,c"])) for name in ("x.tsv", "x.csv")]
    tabs, commas = (settings(tmp_path, train=table, columns=[1, 2]) for table in tables)
    assert tabs.digest("train") != commas.digest("train")


def test_a_missing_extra_test_is_reported_before_a_corpus_is_cut(tmp_path: Path) -> None:
    whole = str(write(tmp_path, "x.tsv", ["eins\tone"]))
    parts = {"train": None, "validation": None, "test": None, "pairs": whole}
    settings(tmp_path, extra_tests={"news": whole}, **parts).check_files()
    with pytest.raises(FileNotFoundError, match=r"no corpus file .*news\.tsv: put it there"):
        settings(tmp_path, extra_tests={"news": str(tmp_path / "news.tsv")}, **parts).check_files()


def test_a_damaged_file_with_an_address_is_to_be_deleted(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["eins"])
    with pytest.raises(ValueError, match=r"x\.de is not the published file .*: delete it and try again"):
        settings(tmp_path, url="https://example.org", sha256={"x.de": "0" * 64}).fetch()
    assert (tmp_path / "x.de").exists()
