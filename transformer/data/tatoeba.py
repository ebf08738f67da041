"""What configs/data/tatoeba.yaml asks about a file of manythings.org/anki: its languages and columns."""

from pathlib import Path

from transformer.config import UsageError

# The site names its files by ISO 639-3, cmn.txt; here languages have their two letters where there are any.
TWO_LETTERS = dict(
    code.split(":")
    for code in """
        afr:af ara:ar aze:az bel:be ben:bn bul:bg cat:ca ces:cs cmn:zh dan:da deu:de ell:el epo:eo est:et
        eus:eu fas:fa fin:fi fra:fr gle:ga glg:gl heb:he hin:hi hrv:hr hun:hu hye:hy ind:id isl:is ita:it jpn:ja
        kat:ka kaz:kk kor:ko lat:la lav:lv lit:lt mal:ml mar:mr mkd:mk msa:ms nld:nl nob:nb nno:nn pes:fa pol:pl
        por:pt ron:ro rus:ru slk:sk slv:sl spa:es sqi:sq srp:sr swe:sv swh:sw tam:ta tat:tt tel:te tgl:tl tha:th
        tur:tr uig:ug ukr:uk urd:ur uzb:uz vie:vi yid:yi yue:yue zsm:ms
    """.split()
)


def file_language(file: str | None) -> str:
    """The language that stands beside English in a file, by its name: `zh` for cmn.txt. UsageError if it names none."""
    if file is None:
        return "und"  # undetermined; DataSettings says that there is no file
    code = Path(file).name.partition(".")[0].removesuffix("-eng")
    if not (code.isascii() and code.islower() and 2 <= len(code) <= 3):
        raise UsageError(f"data.file={file} does not name its language as cmn.txt does: add data.target_language=CODE")
    return TWO_LETTERS.get(code, code)


def source_language(target_language: str, file: str | None) -> str:
    """English, unless that is the target."""
    return file_language(file) if target_language == "en" else "en"


def columns(source_language: str) -> list[int]:
    """Source and target: English stands first in every line, then the other language, then whose sentences they are."""
    return [1, 2] if source_language == "en" else [2, 1]
