"""Whether a model can read what it is given: where it cannot, its translation looks just as fluent."""

import logging
from collections.abc import Sequence

from transformer.data.languages import looks_like
from transformer.data.tokenizer import UNK, Tokenizer
from transformer.inference.long_text import split_sentences
from transformer.printing import terminal_safe

log = logging.getLogger(__name__)
TEXTS_PER_CALL = 256  # texts of each call that are looked at for their language
MAX_NAMED = 50  # unknown characters that are named in all: a file may hold thousands


class SourceCheck:
    """Warns in the log, once each, of texts in another language than the source, of texts of several sentences, and of
    each character (with tokenizer=word each word) that the vocabulary lacks."""

    def __init__(
        self, tokenizer: Tokenizer, languages: tuple[str, str], directions: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`directions` are all that the model has learned."""
        self.tokenizer, self.languages, self.directions = tokenizer, languages, directions
        self.is_foreign = self.has_several = False
        self.named: set[str] = set()

    def check(
        self, texts: list[str], encoded: list[list[int]], line_numbers: Sequence[int], place: str = "line"
    ) -> None:
        """Looks at texts, their ids and their line numbers; `place` stands before a number."""
        source, target = self.languages
        if not self.is_foreign and (seen := looks_like(texts[:TEXTS_PER_CALL], source)):
            self.is_foreign = True
            others = [
                f"; the target language {one[1]} (--target) asks for {one[0]} → {one[1]}"
                for one in self.directions
                if one[0] == seen
            ]
            log.warning(
                "the text looks like %s, but is translated %s → %s%s", seen, source, target, "".join(others[:1])
            )
        for text, ids, line in zip(texts, encoded, line_numbers, strict=True):
            if UNK in ids and len(self.named) < MAX_NAMED:
                new = [one for one in self.tokenizer.unknown(text) if one not in self.named]
                self.named.update(new)
                if new:
                    log.warning("%s %d: not in the model's vocabulary: %s", place, line, terminal_safe(" ".join(new)))

    def check_sentences(self, numbered: Sequence[tuple[int, str]], place: str = "line") -> None:
        """Looks at line numbers and texts, which are translated as one sentence each. There is no warning where fewer
        than half of them are several sentences: most corpora have such lines, and models learn from them."""
        if self.has_several:
            return
        counts = [(line, len(split_sentences(text))) for line, text in numbered if text.strip()]
        several = [(line, count) for line, count in counts if count > 1]
        self.has_several = 2 * len(several) >= len(counts) > 0
        if self.has_several:
            log.warning(
                "%s %d has %d sentences, translated as one: --split-lines sentences translates each by itself",
                place,
                *several[0],
            )
