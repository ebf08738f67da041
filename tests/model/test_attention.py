"""Attention compared with the paper's equation, and the effects of masks."""

import math

import pytest
import torch

from transformer.model.attention import MultiHeadAttention, attention, attention_weights
from transformer.model.config import SCORES, AttentionConfig
from transformer.model.masks import causal_mask
from transformer.model.scores import Additive, Bilinear, Concat, ConstantQuery, ScaledDotProduct, Score


def config(**changes: object) -> AttentionConfig:
    plain = {"heads": 3, "head_dim": None, "value_dim": None, "dropout": 0.0, "bias": True, "score": "scaled_dot"}
    return AttentionConfig(**(plain | changes))  # type: ignore[arg-type]


def one_head_after_another(attention: MultiHeadAttention, states: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Multi-head attention in a loop over heads: equation (1) in plain loops over the batch."""
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
    torch.testing.assert_close(attention(states, attention.project_kv(memory)), expected)


@pytest.mark.parametrize("fused", [False, True])
def test_the_weights_that_pictures_show_are_those_the_fast_path_uses(
    fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cuda, "flash_sdp_enabled", lambda: fused)
    attention = MultiHeadAttention(24, config())
    states, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    visible = torch.rand(2, 1, 1, 7) > 0.3
    visible[..., 0] = True
    record: list[torch.Tensor] = []
    shown = attention(states, attention.project_kv(memory), visible, record=record)
    torch.testing.assert_close(attention(states, attention.project_kv(memory), visible), shown)
    torch.testing.assert_close(record[0].sum(-1), torch.ones(2, 3, 5))
    assert (record[0].masked_select(~visible.expand(2, 3, 5, 7)) == 0).all()


@pytest.mark.parametrize("gradients", [False, True])
def test_on_a_cpu_the_equation_that_is_read_is_the_one_that_runs(
    gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cuda, "flash_sdp_enabled", lambda: False)  # as machine.attention=auto has it
    monkeypatch.setattr(
        "transformer.model.attention.attention_weights", lambda scores, visible: torch.zeros_like(scores)
    )
    attention = MultiHeadAttention(24, config(bias=False))
    states = torch.randn(2, 5, 24)
    with torch.set_grad_enabled(gradients):
        assert not attention(states, attention.project_kv(states)).any()


def test_the_causal_mask_shows_each_position_itself_and_the_past() -> None:
    expected = [[j <= i for j in range(5)] for i in range(5)]
    assert causal_mask(5, 5, torch.device("cpu"))[0, 0].tolist() == expected
    # Two new positions after three that are cached.
    assert causal_mask(2, 5, torch.device("cpu"))[0, 0].tolist() == expected[3:]


def test_scaling_keeps_the_variance_of_scores_at_one_and_the_softmax_soft() -> None:
    q, k = torch.randn(1, 1, 300, 512), torch.randn(1, 1, 300, 512, requires_grad=True)
    raw = q @ k.transpose(-2, -1)
    assert raw.var().item() == pytest.approx(512, rel=0.1)
    assert (raw / math.sqrt(512)).var().item() == pytest.approx(1, rel=0.1)
    unscaled, scaled = attention_weights(raw), attention_weights(raw / math.sqrt(512))
    # Unscaled, nearly all attention goes to one key …
    assert unscaled.max(-1).values.mean() > 0.85 > 0.2 > scaled.max(-1).values.mean()
    # … and the softmax passes far less gradient to the scores.
    spread = [(w * (1 - w)).sum(-1).mean().item() for w in (unscaled, scaled)]
    assert spread[0] < 0.3 * spread[1]


def test_simple_self_attention_is_attention_without_projections() -> None:
    x = torch.randn(1, 1, 6, 8)
    weights = attention_weights(x @ x.transpose(-2, -1))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 6))
    rows = [sum(weights[0, 0, i, j] * x[0, 0, j] for j in range(6)) for i in range(6)]
    torch.testing.assert_close(attention(x, x, x)[0, 0], torch.stack(rows))  # type: ignore[arg-type]


def test_masking_before_the_softmax_equals_renormalizing_after_it() -> None:
    scores, visible = torch.randn(2, 3, 5, 5), causal_mask(5, 5, torch.device("cpu"))
    after = scores.softmax(-1) * torch.ones(5, 5).tril()
    after = after / after.sum(-1, keepdim=True)
    torch.testing.assert_close(attention_weights(scores, visible), after)
    additive = torch.zeros(1, 1, 5, 5).masked_fill(~visible, -math.inf)
    torch.testing.assert_close((scores + additive).softmax(-1), after)


def compared(attention: MultiHeadAttention, q: torch.Tensor, k: torch.Tensor, head: int) -> torch.Tensor:
    """The score of one query and one key by its formula."""
    if isinstance(attention.score, Bilinear):
        return q @ attention.score.weight[head] @ k
    if isinstance(attention.score, Concat):
        # All weights of the query's half give the same attention.
        w = attention.query.weight.view(attention.heads, -1)[head]
        return torch.cat([torch.randn(len(q)), w]) @ torch.cat([q, k])
    if isinstance(attention.score, Additive):
        return attention.score.weight[head] @ torch.tanh(q + k)
    return q @ k * (len(k) ** -0.5 if isinstance(attention.score, ScaledDotProduct) else 1.0)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("widths", [{}, {"head_dim": 5, "value_dim": 7}])
def test_each_score_equals_its_formula_pair_by_pair(score: str, widths: dict[str, int]) -> None:
    attention = MultiHeadAttention(24, config(score=score, **widths))
    for weight in (attention.query.weight, *attention.score.parameters()):
        torch.nn.init.normal_(weight)
    states, memory = torch.randn(1, 4, 24), torch.randn(1, 6, 24)
    visible = torch.tensor([True, True, False, True, True, False])[None, None, None]
    cache, outputs = attention.project_kv(memory), []
    for i in range(4):
        heads = []
        for head in range(3):
            rows = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
            q = torch.zeros(attention.head_dim) if score == "concat" else attention.query(states[0, i])[rows]
            keys, constant = cache.keys[0, head], torch.get_rng_state()
            scores = []
            for k in keys:
                torch.set_rng_state(constant)  # concat's half for the query is the same for all keys
                scores.append(compared(attention, q, k, head))
            weights = torch.stack(scores).masked_fill(~visible[0, 0, 0], -math.inf).softmax(-1)
            heads.append(weights @ cache.values[0, head])
        outputs.append(torch.cat(heads))
    expected = attention.output(torch.stack(outputs))[None]
    torch.testing.assert_close(attention(states, cache, visible), expected, atol=1e-5, rtol=1e-4)
    record: list[torch.Tensor] = []
    torch.testing.assert_close(attention(states, cache, visible, record=record), expected, atol=1e-5, rtol=1e-4)


def test_bilinear_with_the_identity_is_the_dot_product() -> None:
    bilinear, dot = MultiHeadAttention(24, config(score="bilinear")), MultiHeadAttention(24, config(score="dot"))
    dot.load_state_dict(bilinear.state_dict(), strict=False)
    bilinear.score.weight.data = torch.eye(8).repeat(3, 1, 1)
    states = torch.randn(2, 5, 24)
    torch.testing.assert_close(bilinear(states, bilinear.project_kv(states)), dot(states, dot.project_kv(states)))


def test_concat_gives_every_query_the_same_weights() -> None:
    attention, record = MultiHeadAttention(24, config(score="concat")), []
    states = torch.randn(2, 5, 24)
    attention(states, attention.project_kv(states), record=record)
    torch.testing.assert_close(record[0], record[0][:, :, :1].expand_as(record[0]))
    assert isinstance(attention.query, ConstantQuery)


def test_hypotheses_that_share_a_sentence_share_its_keys_and_values() -> None:
    attention = MultiHeadAttention(24, config())
    memory, states = torch.randn(2, 7, 24), torch.randn(6, 1, 24)
    shared = attention(states, attention.project_kv(memory))
    repeated = attention(states, attention.project_kv(memory.repeat_interleave(3, dim=0)))
    torch.testing.assert_close(shared, repeated)


@pytest.mark.parametrize("score", SCORES)
def test_dropout_acts_on_the_weights_of_every_score_and_is_right_on_average(score: str) -> None:
    attention = MultiHeadAttention(24, config(score=score, dropout=0.4))
    states = torch.randn(1, 5, 24)
    draws = attention(states.expand(4000, -1, -1), attention.project_kv(states.expand(4000, -1, -1)))
    expected = attention.eval()(states, attention.project_kv(states))
    assert draws.std(dim=0).min() > 0.01
    # The mean of 4,000 draws differs by at most a few standard errors.
    assert ((draws.mean(dim=0) - expected[0]).abs() < 5 * draws.std(dim=0) / 4000**0.5).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keys", [1, 2, 15, 16, 17, 40])
def test_the_softmax_of_any_number_of_keys_is_that_of_float64(keys: int, dtype: torch.dtype) -> None:
    scores = 3 * torch.randn(3, 20, 20, keys, dtype=dtype, generator=torch.Generator().manual_seed(1))
    visible = torch.ones(3, 1, 1, keys, dtype=torch.bool)
    visible[0, ..., keys // 2 + 1 :] = False
    upstream = torch.randn(scores.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    scores.requires_grad_()
    weights = attention_weights(scores, visible)
    weights.backward(upstream.to(dtype))
    exact = scores.detach().double().requires_grad_()
    expected = torch.where(visible, exact, -math.inf).softmax(dim=-1)
    expected.backward(upstream.to(dtype).double())
    assert weights.dtype == dtype
    assert (weights[0, ..., keys // 2 + 1 :] == 0).all()
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2}[dtype]
    torch.testing.assert_close(weights.double(), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("score", [*SCORES])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_query_that_sees_no_key_gets_numbers_and_gives_gradients(score: str, gradients: bool) -> None:
    attention = MultiHeadAttention(24, AttentionConfig(4, score=score))
    states, visible = torch.randn(2, 5, 24, requires_grad=True), torch.ones(2, 1, 5, 5, dtype=torch.bool)
    visible[0, :, 2] = False
    with torch.set_grad_enabled(gradients):
        output = attention(states, attention.project_kv(states), visible)
    assert output.isfinite().all()
    if gradients:
        output.sum().backward()
        assert all(one.grad is None or one.grad.isfinite().all() for one in (states, *attention.parameters()))


def test_a_score_with_an_equation_of_its_own_is_no_dot_product_whatever_it_says() -> None:
    class Distance(Score):
        """−|q − k|²"""

        def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
            return -torch.cdist(queries, keys).square()

    assert not Distance(4, 6).is_dot_product
    dots = {name for name in SCORES if SCORES[name](4, 6).is_dot_product}
    assert dots == {"dot", "scaled_dot", "bilinear", "concat"}
    SCORES["distance"] = Distance
    try:
        attention = MultiHeadAttention(24, AttentionConfig(4, score="distance"))
        states, record = torch.randn(2, 5, 24), []
        memory = attention.project_kv(states)
        shown = attention(states, memory, record=record)
        torch.testing.assert_close(attention(states, memory), shown)
        queries = attention.project_queries(states)
        torch.testing.assert_close(record[0], (-torch.cdist(queries, memory.keys).square()).softmax(dim=-1))
    finally:
        del SCORES["distance"]
