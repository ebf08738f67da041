"""Small translators whose every weight matters: an export that loses one computes something else."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.conftest import model_plain
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.batching import pad, visible_tokens
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, TokenizerSettings, train_tokenizer

TEXTS = [
    *("ein Haus", "der kleine Hund läuft schnell", "", "ja", "wir gehen in den Park, weil die Sonne scheint"),
    *("nein!", "der Park", "die Sonne scheint", "der Hund geht in ein Haus.", "wir gehen, ja", "schnell, schnell"),
]
Build = Callable[..., Translator]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    settings = TokenizerSettings("bpe", 60, joint=True, character_coverage=1.0, byte_fallback=False)
    return train_tokenizer(TEXTS * 3, settings)


@pytest.fixture(scope="session")
def build(tokenizer: Tokenizer) -> Build:
    """A translator whose weights are all random: `build(a__b=x)` sets model.a.b."""

    def built(**changes: object) -> Translator:
        torch.manual_seed(1)
        plain = model_plain(source_vocab_size=60, target_vocab_size=60, max_length=32, **changes)
        model = Transformer(from_dict(ModelConfig, plain, "model")).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 1:
                    weight += 0.3 * torch.randn_like(weight)  # else biases are zero and norms one
        return Translator(model, (tokenizer, tokenizer), ("de", "en"))

    return built


@pytest.fixture(scope="session")
def taught(build: Build, tokenizer: Tokenizer) -> Translator:
    """One that has learned to repeat a sentence, but not well: it is unsure, and its sentences end by themselves."""
    translator = build()
    ids = [torch.tensor([*tokenizer.encode(text), EOS]).numpy() for text in TEXTS]
    source = pad(ids)
    inputs = torch.cat([torch.full((len(ids), 1), BOS), source[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(translator.model.parameters(), lr=3e-3)
    for _ in range(60):
        logits = translator.model(source, inputs, visible_tokens(source))
        loss = functional.cross_entropy(logits.mT, source, ignore_index=PAD, label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return translator
