"""Scores given translations: the probability of each of their tokens, by teacher forcing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float

from transformer.data.batching import batches_by_length, inputs_and_labels, pad
from transformer.data.tokenizer import EOS, PAD
from transformer.device import full_precision
from transformer.model.eval_mode import eval_mode
from transformer.model.masks import padding_mask
from transformer.model.transformer import Transformer


@dataclass(frozen=True)
class Scored:
    """A given translation with log p(piece | source, earlier pieces) of each piece, in nats. The last piece is the end
    symbol."""

    pieces: list[str]
    log_probabilities: list[float]

    @property
    def log_probability(self) -> float:
        """log p(translation | source)."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """1 / the geometric mean of the probabilities: guessing among n equally likely pieces has the perplexity n."""
        return math.exp(-self.log_probability / len(self.pieces))


def log_mean(log_probabilities: Sequence[Float[torch.Tensor, "*shape"]]) -> Float[torch.Tensor, "*shape"]:
    """The logarithm of the mean of probabilities, from their logarithms."""
    if len(log_probabilities) == 1:
        return log_probabilities[0]
    return torch.stack([*log_probabilities]).logsumexp(dim=0) - math.log(len(log_probabilities))


@torch.inference_mode()
def token_log_probabilities(
    models: Sequence[Transformer], sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
) -> list[list[float]]:
    """log p of each target id and of the final EOS, in one teacher-forced pass a batch; for several models, of the mean
    of their probabilities. The ids have no BOS and no EOS, and no sentence is empty."""
    results, device = [list[float]() for _ in sources], models[0].output.weight.device
    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    with eval_mode(*models):
        for batch in batches_by_length(lengths, batch_tokens):
            source = pad([[*sources[index], EOS] for index in batch]).to(device)
            inputs, labels = (part.to(device) for part in inputs_and_labels([targets[index] for index in batch]))
            with full_precision(device):
                logits = [model(source, inputs, padding_mask(source, PAD)).float() for model in models]
            log_probabilities = log_mean([of_model.log_softmax(dim=-1) for of_model in logits])
            chosen = log_probabilities.gather(2, labels[..., None]).squeeze(2)
            for index, values in zip(batch, chosen.tolist(), strict=True):
                results[index] = values[: len(targets[index]) + 1]
    return results
