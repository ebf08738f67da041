"""The whole model compared with torch.nn.Transformer, and what may change a logit."""

import math
import re
from itertools import product

import jaxtyping
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.factories import small_model
from transformer import Transformer
from transformer.kernels.dropout import Dropout
from transformer.model.attention import AttentionRecord, MultiHeadAttention
from transformer.model.config import POSITIONS, SCORES
from transformer.model.positions import Learned, sinusoidal_table
from transformer.model.scores import Additive, ConstantQuery, Score

GRID = list(product(POSITIONS, ["pre", "post"], ["relu", "swiglu"]))


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.data = torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
    theirs.in_proj_bias.data = torch.cat([ours.query.bias, ours.key.bias, ours.value.bias])
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_logits_equal_those_of_torch_nn_transformer_with_the_same_weights(norm: str, activation: str) -> None:
    ours = small_model(norm=norm, feed_forward__activation=activation, positions="none")
    for parameter in ours.parameters():  # biases and norms must not stay at 0 and 1 either
        nn.init.normal_(parameter, std=0.3)
    final = None if norm == "post" else nn.LayerNorm(24)
    pre, common = norm == "pre", (24, 3, 37, 0.0, getattr(functional, activation))
    encoder_layer = nn.TransformerEncoderLayer(*common, batch_first=True, norm_first=pre)
    decoder_layer = nn.TransformerDecoderLayer(*common, batch_first=True, norm_first=pre)
    encoder = nn.TransformerEncoder(encoder_layer, 2, final, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, 2, nn.LayerNorm(24) if pre else None)
    for mine, their in zip(
        [*ours.encoder.layers, *ours.decoder.layers], [*encoder.layers, *decoder.layers], strict=True
    ):
        copy_attention(mine.self_attention, their.self_attn)
        their.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        their.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
        norms = [mine.add_norm_self, mine.add_norm_feed]
        if hasattr(mine, "cross_attention"):
            copy_attention(mine.cross_attention, their.multihead_attn)
            norms.insert(1, mine.add_norm_cross)
        for number, add_norm in enumerate(norms, 1):
            getattr(their, f"norm{number}").load_state_dict(add_norm.norm.state_dict())
    if pre:
        encoder.norm.load_state_dict(ours.encoder.norm.state_dict())
        decoder.norm.load_state_dict(ours.decoder.norm.state_dict())
    encoder.eval(), decoder.eval()
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    source_visible = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    embed = lambda ids: ours.encoder.embedding.tokens(ids) * math.sqrt(24)  # noqa: E731
    memory = encoder(embed(source), src_key_padding_mask=~source_visible)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    states = decoder(embed(inputs), memory, tgt_mask=causal, memory_key_padding_mask=~source_visible)
    torch.testing.assert_close(
        ours(source, inputs, source_visible), states @ ours.output.weight.T, atol=1e-4, rtol=1e-4
    )


def test_swiglu_is_equation_6_of_its_paper() -> None:
    swiglu = small_model(feed_forward__activation="swiglu").encoder.layers[0].feed_forward
    states = torch.randn(2, 5, 24)
    gate = functional.linear(states, swiglu.gate.weight, swiglu.gate.bias)
    swish = gate * torch.sigmoid(gate)  # of xW, the gate of xV
    xv = functional.linear(states, swiglu.inner.weight, swiglu.inner.bias)
    torch.testing.assert_close(swiglu(states), functional.linear(swish * xv, swiglu.outer.weight, swiglu.outer.bias))


@pytest.mark.parametrize(("positions", "norm", "activation"), GRID)
def test_decoding_step_by_step_gives_the_logits_of_one_teacher_forced_pass(
    positions: str, norm: str, activation: str
) -> None:
    model = small_model(positions=positions, norm=norm, feed_forward__activation=activation)
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    source_visible = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    memory = model.encode(source, source_visible)
    at_once, cache = model.decode(inputs, memory), model.decoder.init_cache(memory)
    for position in range(5):
        logits, cache = model.step(inputs[:, position], cache)
        torch.testing.assert_close(logits, at_once[:, position], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_target_decoded_in_parts_has_the_logits_of_one_pass(positions: str) -> None:
    model, inputs = small_model(positions=positions), torch.randint(4, 29, (2, 7))
    memory = model.encode(torch.randint(4, 29, (2, 6)))
    cache, parts = model.decoder.init_cache(memory), []
    for part in inputs.split([2, 4, 1], dim=1):
        states, cache = model.decoder(part, cache)
        parts.append(model.output(states))
    torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(inputs, memory), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_later_target_tokens_change_no_logits_and_every_source_token_does(positions: str) -> None:
    model = small_model(positions=positions)
    source, inputs = torch.randint(4, 29, (1, 7)), torch.randint(4, 29, (1, 5))
    logits = model(source, inputs)
    for position in range(5):
        changed = inputs.clone()
        changed[0, position] = (changed[0, position] + 1) % 29
        moved = (model(source, changed) - logits).abs().amax(dim=-1)[0]
        assert (moved[:position] == 0).all()
        assert moved[position] > 1e-4
    for position in range(7):
        changed = source.clone()
        changed[0, position] = (changed[0, position] + 1) % 29
        assert ((model(changed, inputs) - logits).abs().amax(dim=-1) > 1e-6).all()


ATTENTIONS = ["encoder__self_attention", "decoder__self_attention", "decoder__cross_attention"]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_score_keeps_the_mask_the_cache_and_the_beam_in_every_attention(score: str, attention: str) -> None:
    model = small_model(positions="rotary", **{f"{attention}__score": score})
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    source_visible = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    memory = model.encode(source, source_visible)
    at_once = model.decode(inputs, memory)
    torch.testing.assert_close(model(source[1:, :4], inputs[1:])[0], at_once[1], atol=1e-5, rtol=1e-5)
    later = inputs.clone()
    later[:, 3:] = 4
    torch.testing.assert_close(model.decode(later, memory)[:, :3], at_once[:, :3])
    # Two hypotheses of each sentence share its memory.
    cache, twice = model.decoder.init_cache(memory), inputs.repeat_interleave(2, dim=0)
    for position in range(5):
        logits, cache = model.step(twice[:, position], cache)
        torch.testing.assert_close(logits[1::2], at_once[:, position], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_looking_at_the_weights_of_every_attention_changes_no_logit(score: str) -> None:
    model, record = (
        small_model(**{f"{attention}__score": score for attention in ATTENTIONS}),
        AttentionRecord([], [], []),
    )
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    source_visible = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    shown = model.decode(inputs, model.encode(source, source_visible, record), record=record)
    torch.testing.assert_close(model(source, inputs, source_visible), shown, atol=1e-5, rtol=1e-5)
    for weights in (*record.encoder, *record.cross):
        assert (weights[1, :, :, 4:] == 0).all()
    for weights in record.decoder:
        assert (weights.triu(1) == 0).all()


def test_without_cross_attention_the_decoder_never_sees_the_source() -> None:
    model = small_model(decoder__cross_attention=None)
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    logits = model(source, inputs)
    assert torch.equal(model(source.flip(0), inputs), logits)
    cache = model.decoder.init_cache(model.encode(source))
    for position in range(5):
        step, cache = model.step(inputs[:, position], cache)
        torch.testing.assert_close(step, logits[:, position], atol=1e-5, rtol=1e-5)
    logits.logsumexp(-1).mean().backward()
    # Parameters that never get a gradient do not require one, so no process waits for it.
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_changes_nothing(positions: str) -> None:
    model = small_model(positions=positions)
    source, inputs = torch.randint(4, 29, (1, 7)), torch.randint(4, 29, (1, 5))
    padded = torch.cat([source, torch.zeros(1, 4, dtype=torch.long)], dim=1)
    longer = torch.cat([inputs, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    logits = model(padded, longer, padded != 0)
    torch.testing.assert_close(logits[:, :5], model(source, inputs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_embeddings_are_one_matrix(tied: str, matrices: int) -> None:
    model = small_model(tied_embeddings=tied)
    weights = {
        weight.data_ptr()
        for weight in (
            model.encoder.embedding.tokens.weight,
            model.decoder.embedding.tokens.weight,
            model.output.weight,
        )
    }
    assert len(weights) == matrices


def test_a_fresh_model_starts_as_the_paper_says() -> None:
    model = small_model(dim=192, source_vocab_size=2000, target_vocab_size=2000)
    scaled = model.encoder.embedding.tokens.weight.detach() * math.sqrt(192)
    assert scaled.std().item() == pytest.approx(1, rel=0.02)
    query = model.encoder.layers[0].self_attention.query
    assert query.weight.abs().max() <= math.sqrt(6 / (192 + 192))
    assert query.weight.std().item() == pytest.approx(math.sqrt(2 / (192 + 192)), rel=0.02)
    assert (query.bias == 0).all()


def test_vectors_to_train_start_with_length_one_whatever_their_width() -> None:
    for vectors in (Learned(192, 50).table, Additive(50, 192).weight, ConstantQuery(50, 192).weight.view(50, 192)):
        assert vectors.norm(dim=1).mean().item() == pytest.approx(1, rel=0.05)


def test_a_fresh_bilinear_score_is_the_scaled_dot_product() -> None:
    queries, keys = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8)
    bilinear, scaled = SCORES["bilinear"](3, 8), SCORES["scaled_dot"](3, 8)
    torch.testing.assert_close(bilinear(bilinear.transform(queries), keys), scaled(queries, keys))


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_checkpoint_holds_what_is_trained_and_no_table_that_is_computed(positions: str) -> None:
    model = small_model(positions=positions)
    assert {*model.state_dict()} == {name for name, _ in model.named_parameters(remove_duplicate=False)}


def test_embeddings_are_scaled_and_positions_added_before_dropout() -> None:
    ids = torch.randint(4, 29, (2, 7))
    embedding = small_model(dropout=0.5).encoder.embedding
    expected = embedding.tokens.weight[ids] * math.sqrt(24) + sinusoidal_table(7, 24)
    torch.testing.assert_close(embedding(ids), expected)
    dropped = embedding.train()(ids)
    # Kept values are doubled, the position together with the token.
    torch.testing.assert_close(dropped, torch.where(dropped == 0, 0.0, 2 * expected))
    assert 0.3 < (dropped == 0).float().mean() < 0.7


RATES = {"embedding": 0.1, "add_norm": 0.1, "feed_forward": 0.2}
RATES |= {"encoder.self_attention": 0.3, "decoder.self_attention": 0.4, "decoder.cross_attention": 0.5}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_each_dropout_has_its_own_rate_and_what_it_drops_is_missed(norm: str) -> None:
    settings = {f"{name.replace('.', '__')}__dropout": rate for name, rate in RATES.items() if "attention" in name}
    model = small_model(norm=norm, dropout=0.1, feed_forward__dropout=0.2, **settings)
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))
    parts = {name: part for name, part in model.named_modules() if isinstance(part, Dropout)}
    rates = {name: part.p for name, part in parts.items()}

    def logits() -> torch.Tensor:
        record = AttentionRecord([], [], [])  # the attention weights, as in training
        return model.decode(inputs, model.encode(source, record=record), record)

    with torch.no_grad():
        whole = logits()
        for name, part in parts.items():
            [rate] = [rate for where, rate in RATES.items() if where in re.sub(r"layers\.\d\.", "", name)]
            assert rates[name] == rate
            with part.register_forward_hook(lambda _, __, kept: torch.zeros_like(kept)):
                assert not torch.allclose(logits(), whole), name
    # Once for each embedding; in each layer, for each attention, the feed-forward network, and around each of them.
    assert len(parts) == 2 + 2 * (2 + 2) + 2 * (3 + 3)


def test_every_parameter_gets_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORES, "another", type("Another", (Score,), {"uses_query": False}))
    for positions, score in product(POSITIONS, SCORES):
        scores = {f"{attention}__score": score for attention in ATTENTIONS}
        model: Transformer = small_model(
            positions=positions, tied_embeddings="none", feed_forward__activation="swiglu", **scores
        )
        model(torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))).square().mean().backward()
        without = [name for name, weight in model.named_parameters() if weight.grad is None]
        assert not without


def test_the_record_holds_the_weights_of_all_three_attentions_by_layer() -> None:
    model, record = small_model(), AttentionRecord([], [], [])
    memory = model.encode(torch.randint(4, 29, (2, 7)), record=record)
    model.decode(torch.randint(4, 29, (2, 5)), memory, record=record)
    assert [tuple(weights.shape) for weights in record.encoder] == [(2, 3, 7, 7)] * 2
    assert [tuple(weights.shape) for weights in record.decoder] == [(2, 3, 5, 5)] * 2
    assert [tuple(weights.shape) for weights in record.cross] == [(2, 3, 5, 7)] * 2


@pytest.mark.parametrize(
    ("source", "inputs", "visible", "problem"),
    [
        ((3, 7), (2, 5), None, "2 targets but 3 sources"),
        ((2, 7), (2, 0), None, "a target has no tokens: inputs begin with BOS"),
        ((2, 0), (2, 5), None, "the source has no tokens: it ends with EOS"),
        ((2, 7), (2, 5), torch.ones(2, 6, dtype=torch.bool), r"source_visible has the shape \[2, 6\]"),
        ((2, 7), (2, 5), torch.ones(2, 7), "a mask must be torch.bool, .* not torch.float32"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_in_a_sentence(
    source: tuple[int, int],
    inputs: tuple[int, int],
    visible: torch.Tensor | None,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside of the tests
    model = small_model()
    with pytest.raises(ValueError, match=problem):
        model(torch.full(source, 5), torch.full(inputs, 5), visible)


def test_a_beam_that_narrows_to_one_hypothesis_sees_the_past_of_this_one_alone() -> None:
    model, ids = small_model(), torch.tensor([[2, 5, 8], [2, 6, 9]])
    source = torch.tensor([[4, 5, 6, 3], [7, 8, 9, 3]])
    # The second of two hypotheses stays in the first sentence, and the first one in the second.
    cache = model.decoder.init_cache(model.encode(source))
    _, cache = model.step(torch.tensor([2, 2]), cache)
    _, cache = model.step(torch.tensor([10, 5, 6, 11]), cache.select(torch.tensor([[0, 0], [0, 0]])))
    logits, _ = model.step(ids[:, 2], cache.select(torch.tensor([[1], [0]])))
    torch.testing.assert_close(logits, model.decode(ids, model.encode(source))[:, -1])


def test_a_model_reads_as_many_tokens_as_it_has_positions_and_not_one_more() -> None:
    model, ids = small_model(max_length=6), torch.full((1, 7), 5)
    memory = model.encode(ids[:, :6])
    cache, at_once = model.decoder.init_cache(memory), model.decode(ids[:, :6], memory)
    for position in range(6):
        logits, cache = model.step(ids[:, position], cache)
        torch.testing.assert_close(logits, at_once[:, position], atol=1e-5, rtol=1e-5)
    for too_much in (
        lambda: model.step(ids[:, 6], cache),
        lambda: model.encode(ids),
        lambda: model.decode(ids, memory),
    ):
        with pytest.raises(ValueError, match="7 tokens are more than the model's 6 positions"):
            too_much()


def test_a_step_takes_equally_many_ids_for_every_sentence() -> None:
    model = small_model()
    cache = model.decoder.init_cache(model.encode(torch.full((2, 7), 5)))
    with pytest.raises(ValueError, match="3 rows cannot be shared out among the 2 sentences of the cache"):
        model.step(torch.full((3,), 2), cache)


@pytest.mark.long
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "none"])
def test_an_exported_graph_takes_any_number_of_sentences(positions: str, score: str) -> None:
    jaxtyping.config.update("jaxtyping_disable", True)  # sizes are symbols while a graph is traced
    attentions = ("encoder__self_attention", "decoder__self_attention", "decoder__cross_attention")
    model = small_model(positions=positions, **{f"{attention}__score": score for attention in attentions})

    def batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
        visible = torch.ones(size, 7, dtype=torch.bool)
        visible[0, 5:] = False
        return torch.randint(4, 29, (size, 7)), torch.randint(4, 29, (size, 5)), visible

    sizes = {0: torch.export.Dim("batch", min=2, max=64)}
    graph = torch.export.export(model, batch(3), dynamic_shapes=(sizes, sizes, sizes)).module()
    more = batch(7)
    torch.testing.assert_close(graph(*more), model(*more))
