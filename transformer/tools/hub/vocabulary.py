"""Vocabularies of Hugging Face's MarianTokenizer: SentencePiece models whose pieces a vocab.json numbers.

Ours is a SentencePiece model alone, whose own numbers are the ids. So theirs is rewritten with its pieces in the
order of our ids: the four special ones, then those of vocab.json. It segments a text as before.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from transformer.data.tokenizer import BOS, EOS, PAD, UNK, Kind, Tokenizer, language_tag

# SentencePiece's model_type. Its words are not those of tokenizer=word, which marks what stands without a space.
KINDS: dict[int, Kind] = {1: "unigram", 2: "bpe", 4: "char"}
Piece = ModelProto.SentencePiece


def marian_code(language: str) -> str:
    """What asks a MarianTokenizer for a target language, at the beginning of a text."""
    return f">>{language}<<"


@dataclass(frozen=True)
class Numbering:
    """Which of their ids, and which piece, stands at each of our ids."""

    their_ids: list[int]
    pieces: list[str]


def build_numbering(
    vocabulary: Mapping[str, int], size: int, special: Mapping[int, int], *models: ModelProto
) -> Numbering:
    """Our order of a vocabulary of `size` ids: `special` says which of theirs are our PAD, UNK, BOS and EOS.

    Pieces of `models` that the vocabulary lacks, which they take for unknown, follow at the end with the id of UNK.
    Raises ValueError for ids that are not in the model.
    """
    if not all(0 <= id < size for id in (*special.values(), *vocabulary.values())):
        raise ValueError(f"its vocabulary has ids beyond the {size:,} of its model")
    names = {id: piece for piece, id in vocabulary.items()}
    rest = [id for id in range(size) if id not in special.values()]
    numbering = Numbering(
        [special[PAD], special[UNK], special[BOS], special[EOS], *rest], ["<pad>", "<unk>", "<s>", "</s>"]
    )
    numbering.pieces.extend(names.get(id, f"<unused {id}>") for id in rest)
    known = set(numbering.pieces) | set(vocabulary)
    for piece in sorted({piece.piece for model in models for piece in model.pieces} - known):
        numbering.their_ids.append(special[UNK])
        numbering.pieces.append(piece)
    if (added := len(numbering.pieces) - len(rest) - 4) > size:  # each takes a row as wide as the model
        raise ValueError(f"its tokenizers have {added:,} pieces that its vocabulary of {size:,} lacks")
    return numbering


def kind_of(model: ModelProto) -> Kind:
    if model.trainer_spec.model_type not in KINDS:
        raise ValueError(f"its tokenizer is of none of the kinds {', '.join(KINDS.values())}")
    return KINDS[model.trainer_spec.model_type]


def renumbered(model: ModelProto, numbering: Numbering) -> Tokenizer:
    """The tokenizer of a SentencePiece model with its pieces in the order of `numbering`.

    Pieces of the other language, which this model does not have, are never made from a text.
    """
    kind = kind_of(model)
    known = {
        piece.piece: piece for piece in model.pieces if piece.type in (Piece.NORMAL, Piece.USER_DEFINED, Piece.BYTE)
    }
    result = ModelProto()
    result.CopyFrom(model)
    del result.pieces[:]
    # The merges of BPE would look for pieces that are only unused.
    foreign = Piece.UNUSED if kind == "unigram" else Piece.CONTROL
    for id, name in enumerate(numbering.pieces):
        if id in (PAD, UNK, BOS, EOS):
            result.pieces.add(piece=name, score=0.0, type=Piece.UNKNOWN if id == UNK else Piece.CONTROL)
        elif code := re.fullmatch(r">>(.+)<<", name):
            result.pieces.add(piece=language_tag(code[1]), score=0.0, type=Piece.CONTROL)
        elif name in known:
            result.pieces.add().CopyFrom(known[name])
        else:
            result.pieces.add(piece=name, score=0.0, type=foreign)
    trainer = result.trainer_spec
    trainer.pad_id, trainer.unk_id, trainer.bos_id, trainer.eos_id = PAD, UNK, BOS, EOS
    trainer.pad_piece, trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = numbering.pieces[:4]
    trainer.vocab_size = len(numbering.pieces)
    return Tokenizer(result.SerializeToString(), kind)


def parse(content: bytes) -> ModelProto:
    """Raises ValueError for what is no SentencePiece model."""
    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise ValueError("its tokenizer is not a SentencePiece model") from error
    if not model.pieces:
        raise ValueError("its tokenizer has no pieces")
    return model
