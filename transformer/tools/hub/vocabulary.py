"""Vocabularies of Hugging Face's MarianTokenizer: SentencePiece models, and a vocab.json with the ids of their pieces.

Our vocabulary is only a SentencePiece model, which has its own ids. So their model is rewritten with its pieces in the
order of our ids: the four special ones, then those of vocab.json. It segments a text in the same way.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from transformer.data.tokenizer import BOS, EOS, PAD, UNK, Kind, Tokenizer, language_tag

# SentencePiece's model_type. Its kind "word" differs from tokenizer=word, which marks words without a space before
# them.
KINDS: dict[int, Kind] = {1: "unigram", 2: "bpe", 4: "char"}
Piece = ModelProto.SentencePiece


def marian_code(language: str) -> str:
    """The code that chooses the target language of a MarianTokenizer, at the beginning of a text."""
    return f">>{language}<<"


@dataclass(frozen=True)
class Numbering:
    """For each of our ids: their id, and the piece."""

    their_ids: list[int]
    pieces: list[str]


def build_numbering(
    vocabulary: Mapping[str, int], size: int, special: Mapping[int, int], *models: ModelProto
) -> Numbering:
    """Our order of a vocabulary of `size` ids: `special` has their ids for our PAD, UNK, BOS and EOS.

    Pieces of `models` that are not in the vocabulary are unknown there: they follow at the end with the id of UNK.
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
    if (added := len(numbering.pieces) - len(rest) - 4) > size:  # each takes a row of the embeddings
        raise ValueError(f"its tokenizers have {added:,} pieces that are not in its vocabulary of {size:,}")
    return numbering


def kind_of(model: ModelProto) -> Kind:
    if model.trainer_spec.model_type not in KINDS:
        raise ValueError(f"its tokenizer has none of the kinds {', '.join(KINDS.values())}")
    return KINDS[model.trainer_spec.model_type]


def renumbered(model: ModelProto, numbering: Numbering) -> Tokenizer:
    """The tokenizer of a SentencePiece model with its pieces in the order of `numbering`.

    Pieces that this model does not have (of the other language) are never made from a text.
    """
    kind = kind_of(model)
    known = {
        piece.piece: piece for piece in model.pieces if piece.type in (Piece.NORMAL, Piece.USER_DEFINED, Piece.BYTE)
    }
    result = ModelProto()
    result.CopyFrom(model)
    del result.pieces[:]
    # CONTROL for BPE, because its merges would still use pieces that are UNUSED.
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
    """Raises ValueError for bytes that are no SentencePiece model."""
    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise ValueError("its tokenizer is not a SentencePiece model") from error
    if not model.pieces:
        raise ValueError("its tokenizer has no pieces")
    return model
