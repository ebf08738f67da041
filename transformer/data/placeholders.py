"""Placeholders: pieces that replace strings which a translation has to keep.

A model learns to copy them from training pairs in which a word and its translation were replaced by the same
placeholder (`data.variants`). So the model need not spell a web address, a number or a term of a glossary piece by
piece.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

from transformer.data.languages import marks
from transformer.data.text_files import read_pairs

PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, 17))
ANY_PLACEHOLDER = re.compile(f"({'|'.join(PLACEHOLDERS)})")
# Strings that every translation keeps unchanged.
KEPT = r"""
    (?: https?:// | ftp:// | www\. ) [^\s<>"]* [^\s<>"'.,;:!?)\]}]   # a web address, without the sentence's full stop
  | [\w.+-]+ @ [\w-]+ (?: \.[\w-]+ )+                                   # an e-mail address
  | </? [A-Za-z] [^<>]* > | <!-- .*? -->                                # a tag with its attributes
  | \$? \{+ [^{}\n]* \}+                                                # {name}, {{name}}, ${NAME}
  | % (?: \d+\$ )? (?: \(\w+\) )? [-+0\#]* \d* (?: \.\d+ )? [sdifgxu] (?! \w )   # %s, %(name)s, %1$s, %.2f
  | & (?: \#\d+ | \#x[0-9A-Fa-f]+ | [A-Za-z]+ ) ;                       # &nbsp;
  | \d+ (?: [.,:/'’-] \d+ )+ | \d{3,}                                   # a number with separators, or of many digits
  | ⟦ \d+ ⟧
"""


@dataclass(frozen=True)
class Kept:
    """A string that a placeholder replaces. If there are many strings, several have the same placeholder."""

    placeholder: str
    text: str
    is_term: bool = False  # of a glossary: at the beginning of a translation it gets a capital letter
    # Whether it was directly beside a word, as a tag may be: then a space was added between them.
    joins_left: bool = False
    joins_right: bool = False


@cache
def _beside_words() -> re.Pattern[str]:
    """A character of a word."""
    return re.compile(rf"[\w{marks()}]")


def _term_pattern(source: str) -> str:
    first = f"[{source[0]}{source[0].upper()}]" if source[0].islower() else re.escape(source[0])
    return (first + re.escape(source[1:])).replace(r"\ ", r"\s+")


@dataclass(frozen=True)
class Keeper:
    """The strings of a source that its translation must keep, and the terms that it must use."""

    pattern: re.Pattern[str]
    glossary: Mapping[str, str]

    @classmethod
    def of(cls, keep: str | None = None, glossary: Mapping[str, str] | None = None) -> "Keeper":
        """`keep` is a regular expression for further strings to keep; `glossary` has the target term of each source
        term. A source term matches whole words, the longest term first; if it begins with a small letter it may also be
        written with a capital. Raises ValueError for an invalid expression and for an empty term."""
        terms = {" ".join(source.split()): target.strip() for source, target in (glossary or {}).items()}
        if one := next((one for one in terms.items() if not all(one)), None):
            raise ValueError(f"a glossary has the term {one[0]!r} for {one[1]!r}: neither may be empty")
        kinds = [KEPT]
        if terms:
            any_term = "|".join(map(_term_pattern, sorted(terms, key=len, reverse=True)))
            kinds.insert(0, rf"(?P<term>(?<![\w{marks()}])(?:{any_term})(?![\w{marks()}]))")
        if keep:
            kinds.insert(0, f"(?-x:{keep})")
        try:
            pattern = re.compile("|".join(kinds), re.VERBOSE)
        except re.error as error:
            raise ValueError(f"{keep!r} is not a regular expression: {error}") from error
        return cls(pattern, terms)

    def protect(self, text: str) -> tuple[str, list[Kept]]:
        """The text with placeholders, and the strings that they replace, in order. After the last placeholder the first
        is used again."""
        parts, kept, end = list[str](), list[Kept](), 0
        matches = (match for match in self.pattern.finditer(text) if match[0].strip())
        for match, placeholder in zip(matches, cycle(PLACEHOLDERS)):
            sides = text[: match.start()][-1:], text[match.end() :][:1]
            left, right = (_beside_words().match(side) is not None for side in sides)
            left = left or (match.start() == end and bool(kept))  # another one is directly before it
            term = self._term_meant(match)
            kept.append(Kept(placeholder, term or match[0], term is not None, left, right))
            parts += [text[end : match.start()], " " * left, placeholder, " " * right]
            end = match.end()
        return "".join([*parts, text[end:]]), kept

    def _term_meant(self, match: re.Match[str]) -> str | None:
        if not self.glossary or match["term"] is None:
            return None
        source = " ".join(match["term"].split())
        return self.glossary.get(source) or self.glossary[source[0].lower() + source[1:]]


def count_placeholders(text: str) -> int:
    return len(ANY_PLACEHOLDER.findall(text))


def restore(translation: str, kept: Sequence[Kept]) -> str:
    """A translation with the kept strings in place of its placeholders, without spaces that were only added. A
    placeholder without a string is left out."""
    waiting, texts = list(kept), ANY_PLACEHOLDER.split(translation)
    for place in range(1, len(texts), 2):
        one = next((one for one in waiting if one.placeholder == texts[place]), None)
        texts[place] = ""
        if one is None:
            continue
        waiting.remove(one)
        if one.joins_left:
            texts[place - 1] = texts[place - 1].removesuffix(" ")
        if one.joins_right:
            texts[place + 1] = texts[place + 1].removeprefix(" ")
        is_first = one.is_term and not "".join(texts[:place]).strip()
        texts[place] = one.text[:1].upper() + one.text[1:] if is_first else one.text
    return "".join(texts)


def read_glossary(path: Path, languages: tuple[str, str], columns: list[int] | None = None) -> dict[str, str]:
    """The target term of each source term, from a file with a term on each line and a tab between source and target.
    Raises the errors of `read_pairs`."""
    return dict(read_pairs([path], *languages, columns))
