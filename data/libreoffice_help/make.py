"""Make a corpus of LibreOffice's help in two languages (MPL-2.0) from Debian's packages: train, validation and test.

    python data/libreoffice_help/make.py --output DIR de en

`python scripts/train.py data=libreoffice_help` does this if the corpus does not exist yet.
"""

import argparse
import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

Pair = tuple[str, str]
# Usual codes of languages for which Debian has a longer code.
PACKAGES = {"en": "en-us", "zh": "zh-cn"}
# The ids of paragraphs and headings that are translated.
PARAGRAPH = re.compile(r"(?:par|hd)_(\w+)")
# How many of a thousand ids are for test and validation: 700 to 1,000 pairs each, depending on the language.
TEST, VALIDATION = 25, 25
SPLITS = ("test", "validation", "train")


class Paragraphs(HTMLParser):
    """Collects `texts` by id from one page of the help.

    Program code is left out. If a text differs by system ("Tools – Options" is elsewhere on a Mac), the common variant
    is taken; a paragraph without a common variant (it differs by application) is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        # Within a paragraph: its id and tag, its parts so far, the number of choices without a variant yet, and for
        # each open span whether it is shown.
        self.id = self.tag = ""
        self.parts: list[str] = []
        self.choices = 0
        self.shown: list[bool] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if not self.tag:
            paragraph = PARAGRAPH.fullmatch(values.get("id", ""))
            if paragraph and re.fullmatch(r"p|h[1-6]", tag) and not re.search("code|image", values.get("class", "")):
                self.id, self.tag, self.parts, self.choices, self.shown = paragraph[1], tag, [], 0, []
        elif tag == "span":
            self.choices += values.get("class") == "switchinline"
            common = "hidden" in values and values.get("id", "").startswith("default")
            self.choices -= common
            self.shown.append(common or "hidden" not in values)
        elif tag == "br":
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self.shown:
            self.shown.pop()
        elif tag == self.tag:
            # A page may have the same paragraph twice.
            if self.choices == 0:
                self.texts.setdefault(self.id, " ".join("".join(self.parts).split()))
            self.tag = ""

    def handle_data(self, data: str) -> None:
        if self.tag and all(self.shown):
            self.parts.append(data)


def read_help(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(page, id, text) of all pages of an unpacked package, in a fixed order. ValueError if there are none."""
    tops = sorted(folder.glob("usr/share/libreoffice/help/*/text"))
    if len(tops) != 1:
        raise ValueError(
            f"{folder} does not have the folders of Debian's packages of LibreOffice's help: {len(tops)} folders"
        )
    for path in sorted(tops[0].rglob("*.html")):
        parser = Paragraphs()
        parser.feed(path.read_text(encoding="utf-8"))
        parser.close()
        for id, text in parser.texts.items():
            yield path.relative_to(tops[0]).as_posix(), id, text


def split_of(id: str) -> str:
    """The split of a paragraph, only by its id, so that updates of the help do not change it.

    Copies of a paragraph on other pages mostly have the same id, and so the same split.
    """
    share = int.from_bytes(hashlib.sha256(id.encode()).digest()[:8], "big") % 1000
    return "test" if share < TEST else "validation" if share < TEST + VALIDATION else "train"


def join(source: Path, target: Path) -> dict[str, list[Pair]]:
    """The pairs of all splits: paragraphs of two unpacked packages with the same page and id.

    Pairs without a letter, pairs that are not translated, and repetitions are left out. A text of the test, on either
    side, is in no other split, and a text of validation is not in training.
    """
    sources = {(page, id): text for page, id, text in read_help(source)}
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for page, id, text in read_help(target):
        pair = sources.get((page, id), ""), text
        if all(re.search(r"[^\W\d_]", side) for side in pair) and pair[0].casefold() != pair[1].casefold():
            splits[split_of(id)].append(pair)
    taken: tuple[set[str], set[str]] = set(), set()
    for split, pairs in splits.items():
        splits[split] = [pair for pair in dict.fromkeys(pairs) if pair[0] not in taken[0] and pair[1] not in taken[1]]
        for pair in pairs:
            taken[0].add(pair[0])
            taken[1].add(pair[1])
    return splits


def run(command: list[str], work: Path, packages: list[str]) -> None:
    instead = "put your own files into a folder and give data.directory=FOLDER"
    try:
        process = subprocess.run(command, cwd=work, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    except FileNotFoundError as error:
        raise OSError(f"{command[0]}, which makes this corpus on Debian or Ubuntu, is missing: {instead}") from error
    if process.returncode == 0:
        return
    if unknown := [package for package in packages if f"Unable to locate package {package}" in process.stderr]:
        raise ValueError(
            f"apt-get knows no package {unknown[0]}: apt-cache search libreoffice-help lists the languages "
            "(apt-get update renews the list)"
        )
    errors = [line.removeprefix("E: ") for line in process.stderr.splitlines() if line.startswith("E: ")]
    reason = (errors or process.stderr.splitlines() or [f"status {process.returncode}"])[0]
    raise OSError(f"{command[0]} could not fetch {' and '.join(packages)} ({reason}): try again, or {instead}")


def fetch(packages: list[str], work: Path) -> list[str]:
    """Downloads Debian packages and unpacks each into a folder with its name; returns the file names, with versions.

    apt-get checks their digests against the archive's signed lists.
    """
    command = ["apt-get", "download", "-q", "-o", "APT::Get::AllowUnauthenticated=false", *packages]
    run(command, work, packages)
    files = sorted(work.glob("*.deb"))
    for package in packages:
        [file] = [file for file in files if file.name.startswith(f"{package}_")]
        run(["dpkg", "-x", str(file), str(work / package)], work, packages)
    return [file.name for file in files]


def make(folder: Path, languages: tuple[str, str]) -> None:
    """Fills `folder` with SPLIT.LANGUAGE.gz of all splits, the license, and the versions of the packages."""
    packages = [f"libreoffice-help-{PACKAGES.get(language, language)}" for language in languages]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        versions = fetch(packages, work)
        for split, pairs in join(*(work / package for package in packages)).items():
            if not pairs:
                raise ValueError(f"{' and '.join(packages)} have no pair for {split} in common")
            for language, lines in zip(languages, zip(*pairs, strict=True), strict=True):
                # Without a time in it, the same packages give the same bytes.
                content = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
                (folder / f"{split}.{language}.gz").write_bytes(content)
        (folder / "origin.txt").write_text("".join(f"{version}\n" for version in versions))
        copyright = work / packages[0] / "usr/share/doc" / packages[0] / "copyright"
        (folder / "copyright").write_bytes(copyright.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the files")
    parser.add_argument("source_language")
    parser.add_argument("target_language")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        make(arguments.output, (arguments.source_language, arguments.target_language))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
