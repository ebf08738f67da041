"""A corpus made from Debian's packages: how pages are read and split, and the messages if something fails."""

import gzip
import os
from pathlib import Path

import pytest

from tests.data.corpora import DATA, recipe
from tests.factories import data_settings
from transformer.data.config import DataSettings

MAKE = recipe(DATA / "libreoffice_help" / "make.py")
PAGE = "usr/share/libreoffice/help/{}/text/swriter/01/page.html"
GERMAN = """<html><body><p dir="auto">Hilfe</p><div id="DisplayArea">
<h1 id="hd_id1" dir="auto">Ein &amp; Aus</h1>
<p id="par_id2" class="paragraph">Der <span class="emph">fette</span><br>  Text\u00a0&hellip; <img alt="Bild"></p>
<p id="par_id3" class="code">DIM x AS Integer</p>
<p id="par_id4" class="paragraph">Wählen Sie <span id="swln1" class="switchinline"><span hidden="true" id="MAC1"
class="MAC"><span class="emph">LibreOffice – Einstellungen</span></span><span hidden="true" id="default1"><span
class="emph">Extras – Optionen</span></span></span> oder nichts.</p>
<p id="par_id5" class="paragraph">In <span id="swln2" class="switchinline"><span hidden="true" id="WRITER1"
class="WRITER">Writer</span><span hidden="true" id="CALC1" class="CALC">Calc</span></span> geht es so.</p>
<p id="par_id6" class="paragraph">42</p> <p id="par_id7" class="paragraph">LibreOffice Writer</p>
<p id="par_id8" class="paragraph">Nur deutsch</p> <p id="par_id2" class="paragraph">noch einmal</p>
</div></body></html>"""
ENGLISH = """<h1 id="hd_id1">On &amp; Off</h1> <p id="par_id2">The <span class="emph">bold</span> text …</p>
<p id="par_id3">DIM x AS Integer</p> <p id="par_id4">Choose Tools or nothing.</p> <p id="par_id5">Here it works.</p>
<p id="par_id6">42</p> <p id="par_id7">LibreOffice writer</p> <p id="par_id9">Only English</p>"""


def package(folder: Path, language: str, page: str) -> Path:
    path = folder / PAGE.format(language)
    path.parent.mkdir(parents=True)
    path.write_text(page, encoding="utf-8")
    return folder


def test_a_page_gives_its_paragraphs_and_headings_as_they_are_read(tmp_path: Path) -> None:
    found = list(MAKE.read_help(package(tmp_path, "de", GERMAN)))
    assert {page for page, _, _ in found} == {"swriter/01/page.html"}
    assert {id: text for _, id, text in found} == {
        "id1": "Ein & Aus",
        "id2": "Der fette Text …",
        "id4": "Wählen Sie Extras – Optionen oder nichts.",
        "id6": "42",
        "id7": "LibreOffice Writer",
        "id8": "Nur deutsch",
    }


def test_paragraphs_of_one_page_and_id_are_pairs_unless_nobody_translated_them(tmp_path: Path) -> None:
    found = MAKE.join(package(tmp_path / "de", "de", GERMAN), package(tmp_path / "en", "en-US", ENGLISH))
    pairs = {pair for split in found.values() for pair in split}
    assert pairs == {
        ("Ein & Aus", "On & Off"),
        ("Der fette Text …", "The bold text …"),
        ("Wählen Sie Extras – Optionen oder nichts.", "Choose Tools or nothing."),
    }


def pages(folder: Path, numbers: range, marks: str = "") -> tuple[Path, Path]:
    """Packages with one paragraph for each number; every third has the text of the one before it."""
    german, english = (
        "".join(f'<p id="par_id{number}">{word} {"x" * (number - number % 3 // 2)}.{marks}</p>' for number in numbers)
        for word in ("Satz", "sentence")
    )
    return package(folder / "de", "de", german), package(folder / "en", "en-US", english)


def test_the_split_of_a_paragraph_hangs_on_its_id_alone(tmp_path: Path) -> None:
    few = MAKE.join(*pages(tmp_path / "few", range(0, 1500, 3)))
    more = MAKE.join(*pages(tmp_path / "more", range(1500)))
    for split, pairs in few.items():
        # An update that adds paragraphs moves none to another split.
        assert not any(set(pairs) & set(found) for other, found in more.items() if other != split)
    rewritten = MAKE.join(*pages(tmp_path / "rewritten", range(0, 1500, 3), marks="!"))
    for split, pairs in few.items():
        assert [(source + "!", target + "!") for source, target in pairs] == rewritten[split]
    shares = [MAKE.split_of(f"id{number}") for number in range(20_000)]
    assert 400 < shares.count("test") < 600
    assert 400 < shares.count("validation") < 600


def test_no_text_stands_in_two_splits(tmp_path: Path) -> None:
    found = MAKE.join(*pages(tmp_path, range(1500)))
    for side in (0, 1):
        texts = [{pair[side] for pair in pairs} for pairs in found.values()]
        assert len(set.union(*texts)) == sum(map(len, texts)) == 1000


needs_a_shell = pytest.mark.skipif(os.name == "nt", reason="apt-get and dpkg are stood in for by shell scripts")


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def settings(folder: Path, source: str = "de", target: str = "en") -> DataSettings:
    """The settings of the configuration, in `folder`."""
    languages = f"data.source_language={source}", f"data.target_language={target}"
    return data_settings("data=libreoffice_help", f"data.directory='{folder}'", *languages)


@needs_a_shell
def test_the_packages_are_fetched_once_and_the_folder_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = pages(tmp_path / "unpacked", range(1500))
    for folder, package_name in zip(unpacked, ("libreoffice-help-de", "libreoffice-help-en-us"), strict=True):
        (folder / "usr/share/doc" / package_name).mkdir(parents=True)
        (folder / "usr/share/doc" / package_name / "copyright").write_text("License: MPL-2.0\n", encoding="utf-8")
    programs = tmp_path / "programs"
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), os.environ["PATH"]]))
    program(programs, "apt-get", "touch libreoffice-help-de_7.4_all.deb libreoffice-help-en-us_7.4_all.deb")
    # Fails for the second of the two packages.
    program(programs, "dpkg", f'case "$2" in *-de_*) cp -r {unpacked[0]} "$3";; *) echo "E: broken" >&2; exit 2;; esac')
    wanted = settings(tmp_path / "made")
    with pytest.raises(OSError, match=r"dpkg could not fetch .*broken"):
        wanted.fetch()
    assert not (tmp_path / "made").exists()
    program(programs, "dpkg", f'case "$2" in *-de_*) cp -r {unpacked[0]} "$3";; *) cp -r {unpacked[1]} "$3";; esac')
    wanted.fetch()
    assert [list(wanted.read(split)) for split in ("test", "validation", "train")] == list(
        MAKE.join(*unpacked).values()
    )
    assert (tmp_path / "made" / "copyright").read_text(encoding="utf-8") == "License: MPL-2.0\n"
    before = (tmp_path / "made" / "train.de.gz").read_bytes()
    program(programs, "apt-get", "exit 1")
    wanted.fetch()
    assert (tmp_path / "made" / "train.de.gz").read_bytes() == before
    assert gzip.decompress(before).startswith(b"Satz")


@needs_a_shell
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("echo 'E: Unable to locate package libreoffice-help-xx' >&2; exit 100", "^apt-get knows no package libre"),
        ("echo 'W: x' >&2; echo 'E: Failed to fetch http://x' >&2; exit 100", r"\(Failed to fetch http://x\)"),
        (None, "^apt-get, which makes this corpus"),
    ],
)
def test_a_failed_download_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, message: str
) -> None:
    programs = tmp_path / "programs"
    monkeypatch.setenv("PATH", str(programs))
    if answer:
        program(programs, "apt-get", answer)
    with pytest.raises(OSError, match=message) as caught:
        settings(tmp_path / "made", target="xx").fetch()
    assert "\n" not in str(caught.value)


def test_a_users_own_folder_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "own").mkdir()
    settings(tmp_path / "own").fetch()
    assert not list((tmp_path / "own").iterdir())
