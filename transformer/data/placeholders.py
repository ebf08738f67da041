"""Placeholders: pieces that stand in a text for strings which its translation has to keep.

A model learns to carry them over from training pairs in which a word and its translation were replaced by the same
placeholder (`data.variants`). So a web address, a number or a term of a glossary passes by the model, which could only
spell it, piece by piece.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from transformer.data.languages import marks

PLACEHOLDERS = tuple(f"⟦{number}⟧" for number in range(1, 17))
WRITTEN = re.compile(r"⟦(\d+)⟧")
# What every translation keeps as it is.
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
    """A string for which a placeholder stands."""

    text: str
    is_term: bool = False  # of a glossary: at the beginning of a translation it is written with a capital
    # Whether it stood right beside a word, as a tag does: the placeholder had a space put between.
    joins_left: bool = False
    joins_right: bool = False


@cache
def _beside_words() -> re.Pattern[str]:
    """The end or the beginning of a word, or another placeholder."""
    return re.compile(rf"[\w{marks()}⟦⟧]")


@dataclass(frozen=True)
class Keeper:
    """Which strings of a source its translation keeps, and which terms it has to use."""

    pattern: re.Pattern[str]
    glossary: Mapping[str, str]

    @classmethod
    def of(cls, keep: str | None = None, glossary: Mapping[str, str] | None = None) -> "Keeper":
        """`keep` is a regular expression of strings that are kept besides those that always are, `glossary` has the
        target term of each source term: whole words, the longest that fit; a source term in small letters may begin
        with a capital. Raises ValueError for what is no regular expression and for an empty term."""
        glossary = {" ".join(source.split()): target.strip() for source, target in (glossary or {}).items()}
        if not all(source and target for source, target in glossary.items()):
            raise ValueError("a glossary has an empty term")
        kinds = [KEPT]
        if glossary:
            terms = "|".join(map(_term, sorted(glossary, key=len, reverse=True)))
            kinds.insert(0, rf"(?P<term>(?<![\w{marks()}])(?:{terms})(?![\w{marks()}]))")
        if keep:
            kinds.insert(0, f"(?-x:{keep})")
        try:
            pattern = re.compile("|".join(kinds), re.VERBOSE)
        except re.error as error:
            raise ValueError(f"{keep} is no regular expression: {error}") from error
        return cls(pattern, glossary)

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        return (match for match in self.pattern.finditer(text) if match[0].strip())

    def count(self, text: str) -> int:
        """How many strings of a text are kept."""
        return sum(1 for _ in self._matches(text))

    def protect(self, text: str) -> tuple[str, list[Kept]]:
        """The text with placeholders, ⟦1⟧ first, and what each of them stands for; so many as there are, the rest of
        the text stays as it is."""
        parts, kept, end = list[str](), list[Kept](), 0
        for match, placeholder in zip(self._matches(text), PLACEHOLDERS, strict=False):
            before, after = text[: match.start()][-1:], text[match.end() :][:1]
            joins = [bool(one and _beside_words().match(one)) for one in (before, after)]
            if match.start() == end and kept:  # another stands right before: it has the space already
                joins[0] = True
            term = self._term_meant(match)
            kept.append(Kept(term or match[0], term is not None, *joins))
            parts += [text[end : match.start()], " " * joins[0], placeholder, " " * joins[1]]
            end = match.end()
        return "".join([*parts, text[end:]]), kept

    def _term_meant(self, match: re.Match[str]) -> str | None:
        if not self.glossary or (source := match["term"]) is None:
            return None
        source = " ".join(source.split())
        return self.glossary.get(source) or self.glossary[source[0].lower() + source[1:]]


def _term(source: str) -> str:
    """A regular expression for a source term."""
    first = f"[{source[0]}{source[0].upper()}]" if source[0].islower() else re.escape(source[0])
    return (first + re.escape(source[1:])).replace(r"\ ", r"\s+")


def restore(translation: str, kept: list[Kept]) -> str:
    """A translation with what its placeholders stand for, beside the words where it stood beside words."""
    texts = WRITTEN.split(translation)
    for place in range(1, len(texts), 2):
        number = int(texts[place])
        if not 1 <= number <= len(kept):
            texts[place] = ""  # the search writes none; another engine may
            continue
        one = kept[number - 1]
        if one.joins_left:
            texts[place - 1] = texts[place - 1].removesuffix(" ")
        if one.joins_right:
            texts[place + 1] = texts[place + 1].removeprefix(" ")
        is_first = one.is_term and not "".join(texts[:place]).strip()
        texts[place] = one.text[:1].upper() + one.text[1:] if is_first else one.text
    return "".join(texts)
