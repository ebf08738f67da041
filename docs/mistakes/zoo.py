"""Ten mistakes that people make when they write a Transformer, each made in this project's code from outside.

    with MISTAKES["no_causal_mask"].made():
        …  # training and translating have the mistake here

Every mistake replaces one function or method, and restores it. docs/mistakes.md shows the effects of each.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn

import transformer.inference.translator as translator_file
import transformer.model.attention as attention_file
import transformer.model.transformer as transformer_file
import transformer.training.loop as loop_file
from transformer.data.batching import Batch, inputs_and_labels, pad
from transformer.data.text_files import Pair
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.evaluation.evaluate import Evaluation
from transformer.evaluation.metrics import score
from transformer.inference.choosing import references_loss
from transformer.inference.translator import Translator
from transformer.model.eval_mode import eval_mode
from transformer.model.masks import padding_mask
from transformer.model.positions import Sinusoidal
from transformer.model.scores import ScaledDotProduct, Score
from transformer.model.transformer import Transformer
from transformer.training.module import TranslationModule
from transformer.training.optim import learning_rate_factor

Patch = AbstractContextManager[Any]


def no_causal_mask() -> Patch:
    def everything_visible(queries: int, keys: int, device: torch.device) -> Tensor:
        return torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)

    return patch.object(transformer_file, "causal_mask", everything_visible)


def padding_attended_to() -> Patch:
    encode = Transformer.encode

    def encode_without_mask(model: Transformer, source: Tensor, source_visible: Any = None, record: Any = None) -> Any:
        return encode(model, source, None, record)

    return patch.object(Transformer, "encode", encode_without_mask)


def no_sqrt_dim() -> Patch:
    return patch.object(ScaledDotProduct, "__init__", Score.__init__)  # whose scale is 1, not 1 / √head_dim


def post_norm_without_warmup() -> Patch:
    """The settings of the run have model.norm=post."""

    def without_warmup(schedule: str, warmup_steps: int, *length: Any) -> Callable[[int], float]:
        return learning_rate_factor(schedule, 0, *length)

    return patch.object(loop_file, "learning_rate_factor", without_warmup)


def labels_not_shifted() -> Patch:
    loss = TranslationModule.loss

    def loss_of_inputs(module: TranslationModule, batch: Batch) -> tuple[Tensor, Tensor]:
        return loss(module, batch._replace(labels=batch.inputs))

    return patch.object(TranslationModule, "loss", loss_of_inputs)


def softmax_over_wrong_axis() -> Patch:
    def over_queries(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        # Not −∞: the column of a padding would be NaN.
        return (scores if visible is None else scores.masked_fill(~visible, -1e9)).softmax(dim=-2)

    return patch.object(attention_file, "attention_weights", over_queries)


def no_positions() -> Patch:
    def add_nothing(positions: Sinusoidal, states: Tensor, offset: int = 0) -> Tensor:
        return states

    return patch.object(Sinusoidal, "forward", add_nothing)


def dropout_left_on() -> Patch:
    def always_train(model: Transformer, mode: bool = True) -> nn.Module:
        return nn.Module.train(model, True)  # eval() is train(False)

    return patch.object(Transformer, "train", always_train)


def bos_and_eos_mixed_up() -> Patch:
    """Translation takes the begin symbol for the end symbol, and the other way around; training does not."""
    return patch.multiple(translator_file, BOS=EOS, EOS=BOS)


def teacher_forcing_as_decoding() -> Patch:
    def predict_from_reference(
        translator: Translator, pairs: list[Pair], search: Any, metrics: list[str], *rest: Any, **more: Any
    ) -> Evaluation:
        sources, references = map(list, zip(*pairs, strict=True))
        source = pad([[*ids, EOS] for ids in translator.source_tokenizer.encode_all(sources)])
        inputs, labels = inputs_and_labels(translator.target_tokenizer.encode_all(references))
        with torch.inference_mode(), eval_mode(translator.model):
            memory = translator.model.encode(source, padding_mask(source, PAD))
            ids = translator.model.decode(inputs, memory).argmax(dim=-1)  # the inputs are the reference
        lengths = (labels != PAD).sum(dim=1) - 1
        tokenizer, rows = translator.target_tokenizer, zip(ids.tolist(), lengths.tolist(), strict=True)
        hypotheses = [tokenizer.decode(row[:length]) for row, length in rows]
        total, tokens = references_loss(translator, pairs)
        return Evaluation(hypotheses, score(hypotheses, references, "en", metrics), total / tokens)

    return patch.object(loop_file, "evaluate", predict_from_reference)


class Reference(NamedTuple):
    """A run without a mistake, with these settings."""

    title: str
    settings: tuple[str, ...]


class Mistake(NamedTuple):
    """`made()` is a context in which the code has the mistake. It is compared with the run `reference`, and has the
    same settings."""

    title: str
    made: Callable[[], Patch]
    reference: str = "right"


REFERENCES = {
    "right": Reference("no mistake", ()),
    "post_norm": Reference("no mistake, post-norm", ("model.norm=post",)),
}
MISTAKES = {
    "no_causal_mask": Mistake("No causal mask in training", no_causal_mask),
    "padding_attended_to": Mistake("Padding is attended to", padding_attended_to),
    "no_sqrt_dim": Mistake("No √dim", no_sqrt_dim),
    "post_norm_without_warmup": Mistake("Post-norm without warm-up", post_norm_without_warmup, "post_norm"),
    "labels_not_shifted": Mistake("Labels not shifted", labels_not_shifted),
    "softmax_over_wrong_axis": Mistake("Softmax over the wrong axis", softmax_over_wrong_axis),
    "no_positions": Mistake("Positions forgotten", no_positions),
    "dropout_left_on": Mistake("Dropout left on", dropout_left_on),
    "bos_and_eos_mixed_up": Mistake("BOS and EOS mixed up", bos_and_eos_mixed_up),
    "teacher_forcing_as_decoding": Mistake("Teacher forcing mistaken for decoding", teacher_forcing_as_decoding),
}
