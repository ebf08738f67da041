"""Attention against the paper's equation written out, and what a mask must do."""

import math

import pytest
import torch

from transformer.model.attention import MultiHeadAttention, attention_weights, causal_visible
from transformer.model.config import AttentionConfig


def config(**changes: object) -> AttentionConfig:
    plain = {"heads": 3, "head_dim": None, "value_dim": None, "dropout": 0.0, "bias": True, "score": "scaled_dot"}
    return AttentionConfig(**(plain | changes))  # type: ignore[arg-type]


def one_head_after_another(attention: MultiHeadAttention, states: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Multi-head attention in a loop over heads, each by equation (1) in plain loops over the batch."""
    outputs = []
    for head in range(attention.heads):
        rows = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
        value_rows = slice(head * attention.value_dim, (head + 1) * attention.value_dim)

        def projected(linear: torch.nn.Linear, x: torch.Tensor, rows: slice) -> torch.Tensor:
            return x @ linear.weight[rows].T + (linear.bias[rows] if linear.bias is not None else 0)

        q, k = projected(attention.query, states, rows), projected(attention.key, memory, rows)
        v = projected(attention.value, memory, value_rows)
        exponents = torch.exp(q @ k.transpose(1, 2) / math.sqrt(attention.head_dim))
        outputs.append(exponents / exponents.sum(-1, keepdim=True) @ v)
    return attention.output(torch.cat(outputs, dim=-1))


@pytest.mark.parametrize("widths", [{}, {"head_dim": 5}, {"value_dim": 11}, {"head_dim": 2, "value_dim": 13}])
@pytest.mark.parametrize("bias", [True, False])
def test_parallel_heads_equal_heads_computed_one_after_another(widths: dict[str, int], bias: bool) -> None:
    attention = MultiHeadAttention(24, config(bias=bias, **widths))
    states, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    expected = one_head_after_another(attention, states, memory)
    torch.testing.assert_close(attention(states, attention.keys_values(memory)), expected)


def test_the_weights_that_pictures_show_are_those_the_fast_path_uses() -> None:
    attention = MultiHeadAttention(24, config())
    states, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    visible = torch.rand(2, 1, 1, 7) > 0.3
    visible[..., 0] = True
    record: list[torch.Tensor] = []
    shown = attention(states, attention.keys_values(memory), visible, record=record)
    torch.testing.assert_close(attention(states, attention.keys_values(memory), visible), shown)
    torch.testing.assert_close(record[0].sum(-1), torch.ones(2, 3, 5))
    assert (record[0].masked_select(~visible.expand(2, 3, 5, 7)) == 0).all()


def test_the_causal_mask_shows_each_position_itself_and_the_past() -> None:
    expected = [[j <= i for j in range(5)] for i in range(5)]
    assert causal_visible(5, 5, torch.device("cpu"))[0, 0].tolist() == expected
    # Two new positions after three that are cached.
    assert causal_visible(2, 5, torch.device("cpu"))[0, 0].tolist() == expected[3:]


def test_scaling_keeps_the_variance_of_scores_at_one() -> None:
    q, k = torch.randn(1, 1, 300, 512), torch.randn(1, 1, 300, 512)
    raw = q @ k.transpose(-2, -1)
    assert raw.var() == pytest.approx(512, rel=0.1)
    assert (raw / math.sqrt(512)).var() == pytest.approx(1, rel=0.1)
    torch.testing.assert_close(attention_weights(q, k), (raw / math.sqrt(512)).softmax(-1))


def test_hypotheses_that_share_a_sentence_share_its_keys_and_values() -> None:
    attention = MultiHeadAttention(24, config())
    memory, states = torch.randn(2, 7, 24), torch.randn(6, 1, 24)
    shared = attention(states, attention.keys_values(memory))
    repeated = attention(states, attention.keys_values(memory.repeat_interleave(3, dim=0)))
    torch.testing.assert_close(shared, repeated)
