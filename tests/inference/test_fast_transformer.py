"""The fast model of a search against the plain one, whose results it must give, or leave to it."""

import copy
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from tests.cases import others_long
from tests.factories import model_dict, small_model, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import train_tokenizer
from transformer.inference.ensemble import Ensemble
from transformer.inference.fast_transformer import FastCache, FastTransformer
from transformer.inference.translator import BEAM
from transformer.model import attention
from transformer.model.config import POSITIONS, SCORES, FeedForwardConfig
from transformer.model.eval_mode import eval_mode
from transformer.model.layers import AddNorm, FeedForward
from transformer.model.masks import padding_mask
from transformer.model.packed import pack, packed_types

# Only where weights are packed is there a fast model.
pytestmark = pytest.mark.skipif(not packed_types(), reason="nothing is packed on this processor")

# An untrained model goes on until it must stop.
SOON = replace(BEAM, length_ratio=1.0, length_extra=3)
TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "", "ja", "wir gehen in den Park, weil die Sonne scheint", " "]
ACTIVATIONS = get_args(get_type_hints(FeedForwardConfig)["activation"])
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 3], [11, 12, 13, 3, 0, 0, 0], [14, 15, 16, 17, 18, 3, 0]])
# Origins of the hypotheses, and the sentences that stay, after each step of a search with three hypotheses.
TURNS: list[tuple[list[list[int]] | None, list[int] | None]] = [
    ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], None),
    ([[2, 0, 0], [1, 1, 0], [0, 1, 2]], None),
    ([[1, 2, 2], [0, 0, 1]], [0, 2]),
    (None, [1, 0]),
    *[([[0, 2, 1], [1, 0, 2]], None)] * 6,
    ([[2, 2, 0]], [1]),
    *[([[1, 0, 2]], None)] * 4,
    *[([[2]], None), ([[0]], None)],
]


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def disturbed(**changes: Any) -> Transformer:
    """A packed model in which no bias is zero, and no norm does nothing."""
    model = small_model(**changes)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1 or "positions" in name:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return pack(model)


def log_probabilities(model: Transformer, fast: FastTransformer | None, source: Tensor = SOURCE) -> list[Tensor]:
    """Of every step of a search that takes the `TURNS`."""
    visible, generator, steps = padding_mask(source, 0), torch.Generator().manual_seed(3), []
    stepping: Any = model if fast is None else fast
    state: Any
    state = (
        fast.encode_and_init_cache(source, visible) if fast else model.decoder.init_cache(model.encode(source, visible))
    )
    ids = torch.full((len(source),), 2)
    for origins, sentences in TURNS:
        logits, state = stepping.step(ids, state)
        steps.append(logits.log_softmax(dim=1))
        state = state.select(*(None if chosen is None else torch.tensor(chosen) for chosen in (origins, sentences)))
        count = len(state.score_mask) if isinstance(state, FastCache) else len(state.ancestry)
        hypotheses = 3 if origins is None else len(origins[0])
        ids = torch.randint(4, 29, (hypotheses * count,), generator=generator)
    return steps


def assert_alike(model: Transformer) -> None:
    assert FastTransformer.supports(model)
    fast = FastTransformer(model)
    assert fast.applies_to(model)
    steps = zip(log_probabilities(model, fast), log_probabilities(model, None), strict=True)
    for ours, expected in steps:
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


# One activation first: all are combined with all.
@pytest.mark.parametrize(
    ("activation", "norm", "positions"),
    others_long(itertools.product(ACTIVATIONS, ["pre", "post"], POSITIONS), short=2 * len(POSITIONS)),
)
def test_norms_positions_and_activations_are_those_of_the_model_or_left_to_it(
    norm: str, positions: str, activation: str
) -> None:
    model = disturbed(norm=norm, positions=positions, feed_forward__activation=activation)
    if positions in ("sinusoidal", "learned", "none"):
        assert_alike(model)
    else:
        assert not FastTransformer.supports(model)


@pytest.mark.parametrize("part", ["encoder__self_attention", "decoder__self_attention", "decoder__cross_attention"])
@pytest.mark.parametrize("score", SCORES)
def test_scores_of_every_attention_are_those_of_the_model_or_left_to_it(score: str, part: str) -> None:
    model = disturbed(**{f"{part}__score": score})
    if score in ("dot", "scaled_dot"):
        assert_alike(model)
    else:
        assert not FastTransformer.supports(model)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_tied_matrices_biases_and_cross_attention_are_those_of_the_model(tied: str, cross: bool, bias: bool) -> None:
    changes: dict[str, Any] = {"decoder__cross_attention__bias": bias} if cross else {"decoder__cross_attention": None}
    changes |= {"encoder__self_attention__bias": bias, "decoder__self_attention__bias": bias}
    assert_alike(disturbed(tied_embeddings=tied, output_bias=bias, **changes))


def test_every_attention_may_have_heads_and_widths_of_its_own() -> None:
    sizes = {"encoder__self_attention": (2, 5, 7), "decoder__self_attention": (3, 11, 4)}
    sizes["decoder__cross_attention"] = (4, 3, 13)
    names = ("heads", "head_dim", "value_dim")
    changes = {f"{part}__{name}": size for part in sizes for name, size in zip(names, sizes[part], strict=True)}
    assert_alike(disturbed(encoder__layers=1, decoder__layers=3, **changes))


def test_buffers_that_grow_again_and_again_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = disturbed()
    fast = FastTransformer(model)
    with_room = log_probabilities(model, fast)
    monkeypatch.setattr("transformer.inference.fast_transformer.EXTRA_CAPACITY", -6)
    for ours, expected in zip(log_probabilities(model, fast), with_room, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_padding_and_other_sentences_change_nothing_for_one() -> None:
    model = disturbed()
    fast = FastTransformer(model)
    together = fast.step(torch.full((3,), 2), fast.encode_and_init_cache(SOURCE, padding_mask(SOURCE, 0)))[0]
    for row, length in enumerate([7, 4, 6]):
        alone = fast.encode_and_init_cache(SOURCE[row : row + 1, :length], None)
        logits, _ = fast.step(torch.tensor([2]), alone)
        torch.testing.assert_close(logits[0], together[row], atol=1e-5, rtol=1e-5)


def change_in_place(model: Transformer) -> None:
    model.decoder.layers[0].self_attention.value.weight.mul_(2)  # type: ignore[union-attr, operator]


def change_a_norm(model: Transformer) -> None:
    model.encoder.layers[0].add_norm_self.norm.weight.add_(1)  # type: ignore[union-attr, operator]


def load_others(model: Transformer) -> None:
    model.load_state_dict({name: 2 * weight for name, weight in model.state_dict().items()})


def replace_a_layer(model: Transformer) -> None:
    model.decoder.layers[0] = copy.deepcopy(model.decoder.layers[0])


def watch(model: Transformer) -> None:
    model.decoder.layers[1].register_forward_hook(lambda module, inputs, output: None)


def watch_what_goes_in(model: Transformer) -> None:
    model.decoder.layers[1].register_forward_pre_hook(lambda module, inputs: None)


def convert(model: Transformer) -> None:
    model.double()


def train(model: Transformer) -> None:
    model.train()


def train_a_part(model: Transformer) -> None:
    model.encoder.layers[0].train()


CHANGES = [
    change_in_place,
    change_a_norm,
    load_others,
    replace_a_layer,
    watch,
    watch_what_goes_in,
    convert,
    train,
    train_a_part,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_is_changed_watched_or_trained_searches_by_itself(change: Any) -> None:
    model = disturbed()
    fast = FastTransformer(model)
    assert fast.applies_to(model)
    change(model)
    assert not fast.applies_to(model)


def test_gradients_autocast_global_hooks_and_other_models_are_left_to_the_plain_one() -> None:
    model = disturbed()
    fast = FastTransformer(model)
    with torch.enable_grad():
        assert not fast.applies_to(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert not fast.applies_to(model)
    for register in (register_module_forward_hook, register_module_forward_pre_hook):
        hook = register(lambda *_: None)
        assert not fast.applies_to(model)
        hook.remove()
    assert not fast.applies_to(disturbed())
    assert fast.applies_to(model)


def test_a_model_that_comes_back_from_training_unchanged_is_fast_again() -> None:
    model = disturbed()
    fast = FastTransformer(model)
    model.train().eval()
    assert fast.applies_to(model)


def test_a_copy_whose_weights_are_not_packed_leaves_searching_to_the_plain_model() -> None:
    copied = copy.deepcopy(FastTransformer(disturbed()))
    assert not copied.applies_to(copied.model)


def test_weights_not_packed_or_changed_since_and_watched_models_are_not_supported() -> None:
    for change in (watch, watch_what_goes_in, train, train_a_part):
        change(watched := disturbed())
        assert not FastTransformer.supports(watched)
    assert not FastTransformer.supports(small_model())
    model = disturbed()
    model.encoder.layers[0].feed_forward.inner.weight.mul_(2)  # type: ignore[union-attr, operator]
    assert not FastTransformer.supports(model)
    assert not FastTransformer.supports(copy.deepcopy(disturbed()))


def test_what_the_plain_model_refuses_is_refused_in_the_same_words() -> None:
    model = disturbed(positions="none", max_length=9)
    fast = FastTransformer(model)
    long, empty = torch.full((1, 10), 5), torch.empty(1, 0, dtype=torch.long)

    def plain(source: Tensor) -> Any:
        return model.decoder.init_cache(model.encode(source))

    for source in (long, empty):
        with pytest.raises(ValueError, match="tokens") as expected:
            plain(source)
        with pytest.raises(ValueError, match="tokens") as ours:
            fast.encode_and_init_cache(source, None)
        assert str(ours.value) == str(expected.value)
    messages = []
    for stepping, state in ((model, plain(SOURCE)), (fast, fast.encode_and_init_cache(SOURCE, None))):
        with pytest.raises(ValueError, match="4 rows") as of_rows:
            stepping.step(torch.full((4,), 5), state)
        for _ in range(9):
            _, state = stepping.step(torch.full((3,), 5), state)
        with pytest.raises(ValueError, match="10 tokens") as of_length:
            stepping.step(torch.full((3,), 5), state)
        messages.append((str(of_rows.value), str(of_length.value)))
    assert messages[0] == messages[1]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 60))
    config = from_dict(ModelConfig, model_dict(source_vocab_size=60, target_vocab_size=60, max_length=32), "model")
    path = tmp_path_factory.mktemp("fast") / "translator.safetensors"
    Translator(Transformer(config), (tokenizer, tokenizer), ("de", "en")).save(path)
    return path


def plainly(translator: Translator) -> Translator:
    """The same without its fast model."""
    plain = copy.copy(translator)
    plain.fast_model = None
    return plain


def assert_same_translations(ours: Translator, plain: Translator, method: Any) -> None:
    search = replace(SOON, method=method)
    for found, expected in zip(ours.n_best(TEXTS, search), plain.n_best(TEXTS, search), strict=True):
        assert [one.pieces for one in found] == [one.pieces for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)


METHODS = pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
BEAM_FIRST = pytest.mark.parametrize("method", others_long(["beam", "greedy", "sampling"]))


@METHODS
def test_texts_are_translated_as_the_plain_model_translates_them(path: Path, method: str) -> None:
    translator = Translator.load(path)
    assert translator.fast_model is not None
    assert_same_translations(translator, plainly(translator), method)


@BEAM_FIRST
def test_an_ensemble_works_with_it(path: Path, method: str) -> None:
    together = Ensemble([Translator.load(path), Translator.load(path)])
    apart = Ensemble([plainly(member) for member in together.members])
    assert_same_translations(together, apart, method)


@BEAM_FIRST
def test_batches_side_by_side_give_what_one_after_another_gives(path: Path, method: Any) -> None:
    translator, search, before = Translator.load(path), replace(SOON, method=method), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = translator.n_best(TEXTS * 4, search, batch_tokens=40)
        torch.set_num_threads(3)
        for found, alone in zip(translator.n_best(TEXTS * 4, search, batch_tokens=40), expected, strict=True):
            assert [one.pieces for one in found] == [one.pieces for one in alone]
            assert [one.score for one in found] == pytest.approx([one.score for one in alone], abs=1e-5)
    finally:
        torch.set_num_threads(before)


def without_padding_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, source, visible=None: encode(self, source))


def softmax_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention weights add up to 1 over the queries instead of over the keys."""
    monkeypatch.setattr(attention, "attention_weights", lambda scores, visible=None: scores.softmax(dim=2))


def double_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = AddNorm.forward
    monkeypatch.setattr(AddNorm, "forward", lambda self, states, sublayer: forward(self, states, sublayer) + states)


@pytest.mark.parametrize("dtype", packed_types())
@pytest.mark.parametrize("change", [without_padding_mask, softmax_of_queries, double_residuals])
def test_once_equations_of_the_model_are_changed_it_searches_itself_and_says_so(
    path: Path, change: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change(monkeypatch)
    translator = Translator.load(path, precision=str(dtype).removeprefix("torch."))
    assert translator.fast_model is None
    assert "change the equations there too" in caplog.text


def another_scale(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for layer in model.decoder.layers:
        layer.cross_attention.score.scale *= 0.1


def another_epsilon(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.encoder.layers[0].add_norm_feed.norm.eps = 1.0


def another_method_of_one_layer(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = model.decoder.layers[0].feed_forward
    layer.forward = torch.neg


def another_method_of_all_layers(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedForward, "forward", lambda self, states: -states)


def another_function(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax_of_queries(monkeypatch)


def test_what_changes_nothing_leaves_it_in_use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(path)
    assert translator.fast_model is not None
    monkeypatch.setattr(attention, "another", torch.neg, raising=False)  # as torch.compile adds its own
    translator.model.output.note = np.ones(3)  # type: ignore[assignment]
    with eval_mode(translator.model):
        assert translator.fast_model.applies_to(translator.model)
    with monkeypatch.context() as undone:
        undone.setattr(FeedForward, "forward", None)
        assert not translator.fast_model.applies_to(translator.model)
    assert translator.fast_model.applies_to(translator.model)


CHANGES_AFTERWARDS = [
    *(another_scale, another_epsilon, another_method_of_one_layer, another_method_of_all_layers, another_function),
]


@pytest.mark.parametrize("change", others_long(CHANGES_AFTERWARDS, short=2))
def test_what_is_changed_after_loading_is_searched_with(
    path: Path, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, before = Translator.load(path), Translator.load(path).n_best(TEXTS, SOON)
    assert translator.n_best(TEXTS, SOON) == before
    change(translator.model, monkeypatch)
    changed = translator.n_best(TEXTS, SOON)
    translator.fast_model = None
    assert changed == translator.n_best(TEXTS, SOON) != before


@pytest.mark.parametrize("max_length", [2, 3, 9])
@pytest.mark.parametrize("dtype", packed_types())
def test_unchanged_models_of_any_size_agree_with_it(max_length: int, dtype: torch.dtype) -> None:
    sizes = {"max_length": max_length, "source_vocab_size": 4, "target_vocab_size": 5, "tied_embeddings": "target"}
    model = pack(small_model(**sizes).to(dtype))
    assert FastTransformer(model).agrees()


def test_it_is_what_searches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, steps, step = Translator.load(path), list[int](), FastTransformer.step

    def counted(self: FastTransformer, ids: torch.Tensor, *rest: Any) -> Any:
        steps.append(len(ids))
        return step(self, ids, *rest)

    monkeypatch.setattr(FastTransformer, "step", counted)
    expected = translator.translate(TEXTS)
    assert (searched := len(steps)) > 0
    assert copy.copy(translator).in_direction("de", "en").translate(TEXTS) == expected
    assert len(steps) == 2 * searched


@pytest.mark.long
def test_translators_that_are_copied_or_changed_search_with_their_own_weights(path: Path) -> None:
    translator = Translator.load(path)
    expected = translator.n_best(TEXTS)
    for changed in (copy.deepcopy(translator), copy.copy(translator)):
        changed.model = copy.deepcopy(translator.model)
        changed.models = [changed.model]
        assert changed.translate(TEXTS) == [hypotheses[0].text for hypotheses in expected]
        changed.model.output.weight.mul_(-1)
        assert_same_translations(changed, plainly(changed), "beam")
    assert translator.n_best(TEXTS) == expected
    translator.model.decoder.layers[0].feed_forward.inner.weight.mul_(-2)  # type: ignore[union-attr, operator]
    assert_same_translations(translator, plainly(translator), "beam")
    assert [hypotheses[0].score for hypotheses in translator.n_best(TEXTS)] != [one[0].score for one in expected]


@pytest.mark.parametrize("dtype", packed_types())
@METHODS
def test_a_batch_gives_the_pieces_that_its_sentences_give_alone(path: Path, dtype: torch.dtype, method: Any) -> None:
    translator, search = (
        Translator.load(path, precision=str(dtype).removeprefix("torch.")),
        replace(BEAM, method=method),
    )
    assert translator.fast_model is not None
    for line, (text, together) in enumerate(zip(TEXTS, translator.n_best(TEXTS, search), strict=True), 1):
        [alone] = translator.n_best([text], search, line_numbers=[line])
        assert [one.pieces for one in alone] == [one.pieces for one in together]
        assert math.isclose(alone[0].score, together[0].score, abs_tol=1e-2 if dtype == torch.bfloat16 else 1e-5)
