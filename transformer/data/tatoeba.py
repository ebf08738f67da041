"""Languages and columns of a file of manythings.org/anki, for configs/data/tatoeba.yaml."""

from pathlib import Path

from transformer.config import UsageError
from transformer.data.languages import base_language


def file_language(file: str | None) -> str:
    """The language beside English in a file, by the file's name: `zh` for cmn.txt. UsageError if it names none."""
    if file is None:
        return "und"  # undetermined; DataSettings says that there is no file
    code = Path(file).name.partition(".")[0].removesuffix("-eng")
    if not (code.isascii() and code.islower() and len(code) == 3):  # my.txt is not Burmese
        raise UsageError(f"data.pairs={file} does not name its language as cmn.txt does: add data.target_language=CODE")
    return base_language(code)  # the site names its files by ISO 639-3


def source_language(target_language: str, file: str | None) -> str:
    """English, unless that is the target."""
    return file_language(file) if base_language(target_language) == "en" else "en"


def columns(source_language: str) -> list[int]:
    """Source and target: every line has English first, then the other language, then the authors."""
    return [1, 2] if base_language(source_language) == "en" else [2, 1]
