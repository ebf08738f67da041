"""Untrained translators, small enough to look into."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from tests.factories import model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import Kind, train_tokenizer
from transformer.inference.translator import BEAM

TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "ja", "wir gehen in den Park, weil die Sonne scheint"]
# An untrained model goes on until it must stop: let it be soon.
SEARCH = replace(BEAM, length_ratio=1.0, length_extra=3)


def untrained(texts: list[str], kind: Kind = "bpe", tags: Sequence[str] = (), **changes: object) -> Translator:
    torch.manual_seed(1)
    settings = tokenizer_settings(kind, 40 if kind == "unigram" else 70)
    tokenizer = train_tokenizer([*texts * 3, "<script>&"], settings, tags)
    # Numbers of layers and heads that differ, so that no swapped attentions fit by chance.
    cross = {**model_dict()["decoder"]["cross_attention"], "heads": 2}  # type: ignore[index]
    vocabulary = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(tokenizer))
    plain = model_dict(
        **vocabulary, **{"max_length": 80, "decoder__layers": 3, "decoder__cross_attention": cross} | changes
    )
    return Translator(Transformer(from_dict(ModelConfig, plain, "model")).eval(), (tokenizer, tokenizer), ("de", "en"))
