"""Small translators in which every weight matters, so that an export that loses one gives other results."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from tests.factories import model_dict, small_model, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, train_tokenizer
from transformer.model.masks import padding_mask

TEXTS = [
    *("ein Haus", "der kleine Hund läuft schnell", "", "ja", "wir gehen in den Park, weil die Sonne scheint"),
    *("nein!", "der Park", "die Sonne scheint", "der Hund geht in ein Haus.", "wir gehen, ja", "schnell, schnell"),
]
ENGLISH = ["a house", "the little dog runs fast", "we go to the park, as the sun shines", "no!"]
VOCAB_SIZE = 60
Build = Callable[..., Translator]


def small_tokenizer() -> Tokenizer:
    settings = tokenizer_settings("bpe", VOCAB_SIZE)
    return train_tokenizer(TEXTS * 3, settings)


def random_translator(tokenizer: Tokenizer, **changes: object) -> Translator:
    """A translator with only random weights; `a__b=x` sets model.a.b."""
    torch.manual_seed(1)
    sizes = {"source_vocab_size": len(tokenizer), "target_vocab_size": len(tokenizer), "max_length": 32}
    model = Transformer(from_dict(ModelConfig, model_dict(**(sizes | changes)), "model")).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight += 0.3 * torch.randn_like(weight)  # otherwise biases are zero and norms one
    return Translator(model, (tokenizer, tokenizer), ("de", "en"))


def with_two_vocabularies() -> Translator:
    """A translator with different vocabularies, of different sizes, in the source and in the target."""
    source, target = (
        train_tokenizer(texts * 3, tokenizer_settings("bpe", size, byte_fallback=False))
        for texts, size in ((TEXTS, VOCAB_SIZE), (ENGLISH, 45))
    )
    sizes = {"source_vocab_size": len(source), "target_vocab_size": len(target), "max_length": 32}
    # Settings that all exports support.
    model = small_model(**sizes, norm="post", tied_embeddings="target")
    return Translator(model, (source, target), ("de", "en"))


def teach_to_repeat(translator: Translator, steps: int, texts: Sequence[str] = TEXTS) -> None:
    """Teaches a model to repeat its source, but not well: its probabilities are not near 1, and its sentences end."""
    ids = [torch.tensor([*translator.source_tokenizer.encode(text), EOS]).numpy() for text in texts]
    source = pad(ids)
    inputs = torch.cat([torch.full((len(ids), 1), BOS), source[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(translator.model.parameters(), lr=3e-3)
    for _ in range(steps):
        logits = translator.model(source, inputs, padding_mask(source, PAD))
        loss = functional.cross_entropy(logits.mT, source, ignore_index=PAD, label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
