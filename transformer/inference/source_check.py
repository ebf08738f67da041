"""Checks whether a model can read its source texts: if it cannot, its translations look just as fluent."""

import logging
from collections.abc import Sequence

from transformer.data.languages import looks_like
from transformer.data.tokenizer import UNK, Tokenizer
from transformer.inference.long_text import split_sentences
from transformer.printing import terminal_safe

log = logging.getLogger(__name__)
TEXTS_PER_CALL = 256  # the language of this number of texts is checked in each call
MAX_NAMED = 50  # the most unknown characters that are named: a file may have thousands


class SourceCheck:
    """Warns in the log, once each, of texts in another language than the source, of texts of several sentences, and of
    each character (with tokenizer=word each word) that is not in the vocabulary."""

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
        """Checks texts with their ids and line numbers; messages have `place` before a number."""
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
        """Checks texts, with their line numbers, that are each translated as one sentence. It warns only if at least
        half of them have several sentences: most corpora have such lines, and models learn from them."""
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
