"""Shapes in signatures are checked while testing, and only then; shared small models."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores; before torch is imported, and for all processes that a test starts.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

# All rooms but the command line's, whose types are Hydra's.
ROOMS = "config device files model data inference evaluation visualization training export doctor"
install_import_hook([f"transformer.{room}" for room in ROOMS.split()], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

from transformer.config import from_dict  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def model_plain(**changes: object) -> dict:  # type: ignore[type-arg]
    """A small model as plain data; sizes are distinct, so that no swapped axes fit by chance. `a__b=x` sets a.b."""

    def attention() -> dict[str, object]:
        return {
            "heads": 3,
            "head_dim": None,
            "value_dim": None,
            "dropout": 0.0,
            "bias": True,
            "score": "scaled_dot",
        }

    plain: dict[str, object] = {
        "source_vocab_size": 29,
        "target_vocab_size": 29,
        "dim": 24,
        "positions": "sinusoidal",
        "max_length": 64,
        "norm": "pre",
        "tied_embeddings": "all",
        "dropout": 0.0,
        "feed_forward": {"dim": 37, "activation": "relu", "dropout": 0.0},
        "encoder": {"layers": 2, "self_attention": attention()},
        "decoder": {"layers": 2, "self_attention": attention(), "cross_attention": attention()},
    }
    for path, value in changes.items():
        *above, key = path.split("__")
        place = plain
        for name in above:
            place = place[name]  # type: ignore[assignment]
        place[key] = value
    return plain


def small_model(**changes: object) -> "torch.nn.Module":
    """A small Transformer in evaluation mode."""
    from transformer import ModelConfig, Transformer

    return Transformer(from_dict(ModelConfig, model_plain(**changes), "model")).eval()
