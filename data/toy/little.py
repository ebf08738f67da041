"""Writes a small part of the bundled corpus: 500 pairs, and other sentences without translations.

    python data/toy/little.py --output FOLDER

The sentences are those of `train`: 500 pairs, then 3,000 English ones, then 3,000 other German ones, so that no
sentence of monolingual.en has its translation in monolingual.de.
"""

import argparse
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PAIRS, SENTENCES = 500, 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the files")
    parser.add_argument("languages", nargs="*", help="ignored: both languages are always written")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for language, first in (("en", PAIRS), ("de", PAIRS + SENTENCES)):
        lines = (HERE / f"train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        for name, part in (("train", lines[:PAIRS]), ("monolingual", lines[first : first + SENTENCES])):
            (folder / f"{name}.{language}").write_text("".join(part), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
