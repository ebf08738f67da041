"""What another program can express of a model. Each format lists what it supports, so a new choice is refused."""

from collections.abc import Collection

from transformer.model.config import ModelConfig


def check_supported(
    config: ModelConfig, program: str, positions: Collection[str], scores: Collection[str], activations: Collection[str]
) -> None:
    """Raises ValueError, naming the setting and what `program` supports, for a model with anything else."""
    choices = [("model.positions", config.positions, positions)]
    choices += [(f"model.{name}.score", attention.score, scores) for name, attention in config.attentions().items()]
    choices.append(("model.feed_forward.activation", config.feed_forward.activation, activations))
    for setting, value, supported in choices:
        if value not in supported:
            raise ValueError(f"{setting}={value} cannot be exported to {program}: it supports {', '.join(supported)}")
