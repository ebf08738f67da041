"""Variants of training pairs, for text that is too rare in a corpus: with placeholders, or in the way that people type
(small letters, no full stop, a single word)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random

from transformer.data.aligner import Link, bare_word, word_alignments
from transformer.data.config import DataSettings
from transformer.data.encoded import MAX_COUNTED
from transformer.data.placeholders import PLACEHOLDERS
from transformer.data.text_files import Pair
from transformer.data.words import WITHOUT_SPACES_PATTERN

# A word is a translation of another if it is linked to it at least this often, and in this share of the other's links.
MIN_LINKS, MIN_SHARE = 3, 0.3
MAX_FREQUENCY = 1 / 500  # of the words of all sentences: a more frequent one is an article, a pronoun, a preposition
MAX_PLACEHOLDERS = 3  # of a variant
SENTENCE_ENDS = ".!?…。！？"
Vary = Callable[[Pair, Sequence[Link], Random], Pair | None]


def with_placeholders(pair: Pair, links: Sequence[Link], random: Random) -> Pair | None:
    """Replaces one to three words and their translations by the same placeholders; or puts a placeholder before and one
    after a word and its translation, like tags."""
    if not links:
        return None
    chosen = random.sample(links, min(len(links), random.randint(1, MAX_PLACEHOLDERS)))
    names = random.sample(PLACEHOLDERS, 2 * len(chosen))
    sides = [text.split() for text in pair]
    for link in chosen:
        first, second = names.pop(), names.pop()
        is_tagged = random.random() < 0.25
        for words, place in zip(sides, link, strict=True):
            bare = bare_word(words[place])
            becomes = f"{first} {bare} {second}" if is_tagged else first
            words[place] = words[place].replace(bare, becomes, 1)
    return " ".join(sides[0]), " ".join(sides[1])


def as_typed(pair: Pair, links: Sequence[Link], random: Random) -> Pair | None:
    """The pair without punctuation at the end, or with its source in small letters, or both; or a single word and its
    translation."""
    source, target = pair
    kind = random.choice(("small", "no end", "small, no end", "word"))
    if kind == "word":
        if not links:
            return None
        places = random.choice(links)
        source, target = (bare_word(text.split()[place]) for text, place in zip(pair, places, strict=True))
        return source, target
    if "small" in kind:
        source = source.lower()
    if "no end" in kind:
        source, target = (text.rstrip(SENTENCE_ENDS).rstrip() for text in (source, target))
    return (source, target) if source and target and (source, target) != pair else None


def _bare(text: str) -> list[str]:
    """The words of a text, in small letters and without punctuation."""
    return [bare_word(word).lower() for word in text.split()]


class Dictionary:
    """The words of the sources, in small letters, with their counts and their likely translations."""

    def __init__(self, pairs: Sequence[Pair], alignments: Sequence[Sequence[Link]]) -> None:
        links: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.counts: Counter[str] = Counter()
        for (source, target), found in zip(pairs, alignments, strict=True):
            sides = _bare(source), _bare(target)
            self.counts.update(sides[0])
            for place, other in found:
                links[sides[0][place]][sides[1][other]] += 1
        self.translations = {
            word: {one for one, count in found.items() if count >= max(MIN_LINKS, MIN_SHARE * found.total())}
            for word, found in links.items()
        }
        self.common = MAX_FREQUENCY * self.counts.total()

    def sure(self, pair: Pair, links: Sequence[Link]) -> list[Link]:
        """The links of one word to one other that is equal or a translation in the dictionary. The most frequent words
        (articles and the like) and text that is written without spaces are left out."""
        source, target = map(_bare, pair)
        times, sure = Counter(place for place, _ in links), list[Link]()
        for place, other in links:
            word, translation = source[place], target[other]
            is_sure = word == translation or translation in self.translations.get(word, ())
            is_word = self.counts[word] <= self.common and not WITHOUT_SPACES_PATTERN.search(word + translation)
            if is_sure and is_word and times[place] == 1:
                sure.append((place, other))
        return sure


def read_variants(corpus: DataSettings) -> Iterator[Pair]:
    """A variant for a share of the training pairs: for `data.placeholders` with placeholders, for `data.robust` in the
    way that people type. The draws depend on the pair's number and are the same in every run."""
    total = sum(1 for _ in corpus.read("train"))
    step = -(-total // MAX_COUNTED)  # in a large corpus only some pairs have variants
    pairs = [pair for number, pair in enumerate(corpus.read("train")) if number % step == 0]
    alignments = word_alignments(pairs)
    dictionary = Dictionary(pairs, alignments)
    shares: dict[Vary, float] = {with_placeholders: corpus.placeholders, as_typed: corpus.robust}
    for number, (pair, links) in enumerate(zip(pairs, alignments, strict=True)):
        sure = dictionary.sure(pair, links)
        for vary, share in shares.items():
            random = Random(f"{vary.__name__} {number}")
            if random.random() < share * step and (variant := vary(pair, sure, random)):
                yield variant
