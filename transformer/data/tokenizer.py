"""Text ↔ ids through SentencePiece; the bytes of a trained tokenizer are part of the checkpoint."""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import sentencepiece

from transformer.config import Settings
from transformer.data.clean import JOINER, clean, rules
from transformer.data.languages import marks
from transformer.data.placeholders import PLACEHOLDERS
from transformer.data.subword_sampling import SubwordSampler

# The special ids, here and nowhere else. They are the first of every vocabulary.
PAD, UNK, BOS, EOS = 0, 1, 2, 3

Kind = Literal["bpe", "unigram", "word", "char"]
Normalization = Literal["nfc", "nfkc", "nmt_nfkc", "identity"]
# An untrusted tokenizer may normalize one letter to many. SentencePiece itself makes at most 18 from one (ﷺ).
LONG, MAX_GROWTH = 1000, 32
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# SentencePiece skips longer lines without a message; its default is 4,192 bytes.
MAX_SENTENCE_BYTES = 1 << 24
# A longer piece is data, not a word, and some of them SentencePiece would refuse to load.
MAX_PIECE_BYTES = 4900


@dataclass(frozen=True)
class TokenizerSettings(Settings):
    """How text is segmented."""

    kind: Kind = "bpe"
    """bpe | unigram | word | char"""
    vocabulary_size: Annotated[int, ">= 5", "<= 1000000"] = 2000
    """with the special ids; word and char may have fewer, bpe and unigram have exactly this size unless the corpus
    gives fewer or its characters alone need more"""
    joint: bool = True
    """one vocabulary for both languages; false: one for each (needs model.tied_embeddings=target or none)"""
    character_coverage: Annotated[float, "> 0", "<= 1"] = 1.0
    """share of the text's characters that get a piece; 0.9995 for Chinese or Japanese"""
    byte_fallback: bool = False
    """true: characters without a piece are spelled in bytes (bpe and unigram)"""
    normalization: Normalization = "nfc"
    """nfc | nfkc | nmt_nfkc | identity. nfc keeps the characters (docs/corpus.md), nfkc changes "，" to ",", "Ａ" to
    "A" and "½" to "1⁄2"; the other two are for older models"""


def check_tokenizer_use(kind: Kind, joint: bool, directions: int, bpe_dropout: float, placeholders: float) -> None:
    """Raises ValueError for tokenizers that cannot have this number of `directions`, random segmentations or
    placeholders."""
    if placeholders and kind == "word":
        raise ValueError("data.placeholders needs tokenizer=bpe, unigram or char, not word")
    if bpe_dropout and kind not in ("bpe", "unigram"):
        raise ValueError(f"training.bpe_dropout needs tokenizer=bpe or unigram, not {kind}")
    if directions > 1 and not joint:
        raise ValueError(
            "several data.directions need one vocabulary for all languages: tokenizer.joint=true, also in the run of "
            "init_from="
        )


def language_tag(language: str) -> str:
    return f"<2{language}>"


# The source of a synthetic pair begins with it (Caswell et al. 2019), if data.synthetic_tag is true.
SYNTHETIC_TAG = "<bt>"


def _tags(languages: Sequence[str], synthetic_tag: bool) -> list[str]:
    return [*map(language_tag, languages), *([SYNTHETIC_TAG] if synthetic_tag else [])]


@cache
def _joints(is_ascii: bool) -> re.Pattern[str]:
    """The places in a text between a word and punctuation; marks belong to words."""
    letter = r"\w" if is_ascii else rf"\w{marks()}"
    return re.compile(rf"(?<=[{letter}])(?=[^\s{letter}])|(?<=[^\s{letter}])(?=\S)")


def _prepared(text: str, kind: Kind) -> str:
    """The text for SentencePiece. With kind=word, "Haus." becomes the word "Haus" and a punctuation mark with JOINER
    before it."""
    text = clean(text)
    return _joints(text.isascii()).sub(f" {JOINER}", text) if kind == "word" else text


class Tokenizer:
    """One side's text ↔ ids. Ids have no begin or end symbol: batches and search add them.

    With a `target_language_tag`, ids begin with the tag of that language if the vocabulary has it: the tag chooses one
    of several directions of a model (Johnson et al. 2017). With `is_synthetic`, SYNTHETIC_TAG is next.
    """

    def __init__(
        self, model: bytes, kind: Kind, target_language_tag: str | None = None, is_synthetic: bool = False
    ) -> None:
        self.model = model
        self.kind = kind
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except (RuntimeError, ValueError) as error:
            raise ValueError("the tokenizer's bytes are not a SentencePiece model") from error
        special = (
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        )
        if special != (PAD, UNK, BOS, EOS):
            raise ValueError(f"the tokenizer has other special ids, {special}, than this program")
        ids = map(self._processor.PieceToId, _tags([target_language_tag] if target_language_tag else [], is_synthetic))
        self.prefix = [id for id in ids if id != UNK]

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    @property
    def digest(self) -> str:
        """Identifies the vocabulary: equal digests mean equal vocabularies."""
        return f"{self.kind} {hashlib.sha256(self.model).hexdigest()}"

    @property
    def tagged_languages(self) -> list[str]:
        """The target languages whose tags the vocabulary has."""
        tags = (re.fullmatch(r"<2(.+)>", self.piece(id)) for id in range(len(self)))
        return [tag[1] for tag in tags if tag]

    @property
    def placeholders(self) -> list[int]:
        """The ids of PLACEHOLDERS; none in a vocabulary without them."""
        return [id for id in self.ids(PLACEHOLDERS) if id != UNK]

    def with_tags(
        self, languages: Sequence[str], synthetic_tag: bool = False, placeholders: bool = False
    ) -> "Tokenizer":
        """The same vocabulary with further pieces at its end: tags of target languages, the tag of synthetic pairs, and
        placeholders, if it does not have them."""
        written = PLACEHOLDERS if placeholders else ()
        names = (*_tags(languages, synthetic_tag), *written)
        missing = [name for name in names if self._processor.PieceToId(name) == UNK]
        if not missing:
            return self
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

        model = ModelProto.FromString(self.model)
        kinds = ModelProto.SentencePiece
        for name in missing:
            model.pieces.add(piece=name, score=0.0, type=kinds.USER_DEFINED if name in written else kinds.CONTROL)
        model.trainer_spec.vocab_size = len(model.pieces)
        return Tokenizer(model.SerializeToString(), self.kind)

    def encode(self, text: str) -> list[int]:
        return self.encode_all([text])[0]

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text. Raises ValueError if normalization makes a long text much longer, and for text that is
        no Unicode."""
        for text in texts:
            if LONE_SURROGATE.search(text):
                raise ValueError("half of a surrogate pair stands alone in a text: this is no Unicode")
            if len(text) > LONG and len(self._processor.Normalize(text)) > MAX_GROWTH * len(text):
                raise ValueError(f"a line of {len(text):,} characters is too long for this tokenizer")
        return [
            self.prefix + ids for ids in self._processor.EncodeAsIds([_prepared(text, self.kind) for text in texts])
        ]

    def writes(self, text: str) -> bool:
        """Whether a perfect model could write a text (after `clean`): none of its characters is unknown or changed."""
        return self.decode(self.encode(text)) == clean(text)

    def sample_segmentation(self, ids: list[int], strength: float, random: Random) -> list[int]:
        """Another segmentation of the same text (see `SubwordSampler.sample`), with `bpe` or `unigram` pieces."""
        return self.prefix + self._segmentation.sample(ids[len(self.prefix) :], strength, random)

    @cached_property
    def _segmentation(self) -> SubwordSampler:
        return SubwordSampler(self._processor, self.kind == "bpe", uncut=PLACEHOLDERS)

    def unknown(self, text: str) -> list[str]:
        """The characters of a text (with tokenizer=word: the words) that are not in the vocabulary, each once."""
        text = _prepared(text, self.kind)
        pieces = zip(self._processor.EncodeAsPieces(text), self._processor.EncodeAsIds(text), strict=True)
        words = [word for piece, id in pieces if id == UNK for word in piece.split("▁") if word]
        return list(dict.fromkeys(words if self.kind == "word" else "".join(words)))

    def piece(self, id: int) -> str:
        return str(self._processor.IdToPiece(id))

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, without a tag; unknown pieces are shown as they are written in the text."""
        return list(self._processor.EncodeAsPieces(_prepared(text, self.kind)))

    def ids(self, pieces: Sequence[str]) -> list[int]:
        return [int(self._processor.PieceToId(piece)) for piece in pieces]

    def word_indices(self, pieces: Sequence[str]) -> list[int]:
        """The number of each piece's word, counted from 0; words are separated by spaces, which are ▁ in pieces.
        Unknown words that SentencePiece has joined into one piece are all counted, and the piece belongs to the first.
        Special symbols and tags, which an untrained model may write, belong to no word: -1."""
        words, word, starts = [], -1, True
        for piece in pieces:
            if self._processor.IsControl(self._processor.PieceToId(piece)):
                words.append(-1)
                continue
            rest = piece.removeprefix("▁")
            goes_on = self.kind == "word" and rest.startswith(JOINER) and word >= 0
            starts = (starts or rest != piece or piece == self.piece(UNK)) and not goes_on
            words.append(word + 1 if starts else word)  # a single ▁ belongs to the next word
            if starts and rest:
                word, starts = word + 1, piece == self.piece(UNK)  # an unknown word is shown as ⁇, with spaces
            word += len(re.findall(f"▁(?!{JOINER})", rest))
        return [min(index, word) for index in words]

    def decode(self, ids: list[int]) -> str:
        """The text of ids. Special ids give no text, except unknown ones, which are shown as ⁇."""
        text = str(self._processor.DecodeIds([id for id in ids if id not in (PAD, BOS, EOS)]))
        # An unknown word that is spelled in bytes contains ▁, the mark of a space; ⁇ has spaces around it.
        return re.sub(f" *{JOINER}", "", text.replace("▁", " ").strip()) if self.kind == "word" else text


class VocabularySizeError(ValueError):
    """The corpus gives fewer pieces, or has more characters, than the vocabulary's size: `possible` is a good size."""

    def __init__(self, message: str, possible: int) -> None:
        super().__init__(message)
        self.possible = possible


def _refusal(error: str, settings: TokenizerSettings, extras: int) -> ValueError:
    setting = f"tokenizer.vocabulary_size={settings.vocabulary_size}"
    if limit := re.search(r"value <= (\d+)", error):
        message = f"{setting} is more than this corpus gives; choose {limit[1]} or less"
        return VocabularySizeError(message, int(limit[1]))
    if enough := re.search(r"smaller than required_chars.* \d+ vs (\d+)", error, re.DOTALL):
        message = f"{setting} is less than the corpus' characters need; choose {enough[1]} or more"
        return VocabularySizeError(message, 2 * int(enough[1]))  # as many merges as characters
    if "(vocab_size) >= (0)" in error:  # for words or characters
        needed = len((PAD, UNK, BOS, EOS)) + extras + (256 if settings.byte_fallback else 0)
        return ValueError(
            f"{setting} has no room for its special symbols, tags, placeholders and bytes; choose {needed} or more"
        )
    return ValueError(f"no tokenizer could be trained with {setting}: {error}")


def _sentences(texts: Iterable[str], kind: Kind, tags: list[str], failures: list[Exception]) -> Iterator[str]:
    """Texts for SentencePiece. An error while they are read is kept in `failures`: SentencePiece would hide it in a
    long line of its own.

    SentencePiece ignores the names of special symbols, even their characters, so they are cut in two here.
    """
    special = re.compile("|".join(map(re.escape, ("<unk>", "<s>", "</s>", "<pad>", *tags))))
    try:
        for text in texts:
            yield special.sub(lambda name: f"{name[0][0]} {name[0][1:]}", _prepared(text, kind))
    except Exception as error:
        failures.append(error)
        raise


@contextmanager
def _normalization(name: Normalization) -> Iterator[dict[str, Any]]:
    """The arguments of SentencePiece for a normalization; the rules of nfc are ours and are passed in a file."""
    if name != "nfc":
        yield {"normalization_rule_name": name}
        return

    def code_points(text: str) -> str:
        return " ".join(f"{ord(character):X}" for character in text)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        lines = (f"{code_points(written)}\t{code_points(becomes)}\n" for written, becomes in rules().items())
        path.write_text("".join(lines), encoding="ascii")
        yield {"normalization_rule_tsv": str(path)}


def _finished(model: bytes, normalization: Normalization) -> bytes:
    """A trained vocabulary with the name of its normalization instead of the file with its rules, and without pieces of
    more than MAX_PIECE_BYTES, which tokenizer=word may learn."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    proto = ModelProto.FromString(model)
    proto.normalizer_spec.name, proto.normalizer_spec.normalization_rule_tsv = normalization, ""
    kept = [piece for piece in proto.pieces if len(piece.piece.encode()) <= MAX_PIECE_BYTES]
    if len(kept) < len(proto.pieces):
        del proto.pieces[:]
        proto.pieces.extend(kept)
        proto.trainer_spec.vocab_size = len(kept)
    return bytes(proto.SerializeToString())


def train_tokenizer(
    texts: Iterable[str],
    settings: TokenizerSettings,
    languages: Sequence[str] = (),
    synthetic_tag: bool = False,
    placeholders: bool = False,
) -> Tokenizer:
    """Learns a vocabulary from raw sentences (at most a million), with a tag for each of `languages` and, if wanted,
    the tag of synthetic pairs and placeholders.

    Raises ValueError if the text is too small, or has too many characters, for the size of the vocabulary.
    """
    model = io.BytesIO()
    failures: list[Exception] = []
    tags, written = _tags(languages, synthetic_tag), PLACEHOLDERS if placeholders else ()
    try:
        with _normalization(settings.normalization) as normalization:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=_sentences(texts, settings.kind, tags, failures),
                model_writer=model,
                model_type=settings.kind,
                vocab_size=settings.vocabulary_size,
                # A corpus may have fewer words or characters than the size allows.
                hard_vocab_limit=settings.kind in ("bpe", "unigram"),
                character_coverage=settings.character_coverage,
                **normalization,
                byte_fallback=settings.byte_fallback,
                input_sentence_size=1_000_000,
                max_sentence_length=MAX_SENTENCE_BYTES,
                shuffle_input_sentence=True,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                control_symbols=tags,  # "<2en>" in a text does not become a tag
                user_defined_symbols=list(written),  # "⟦1⟧" in a text becomes a placeholder
                minloglevel=2,
            )
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        raise _refusal(str(error), settings, len(tags) + len(written)) from error
    return Tokenizer(_finished(model.getvalue(), settings.normalization), settings.kind)
