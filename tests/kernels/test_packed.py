"""Packed weights against nn.Linear, and a packed model against the plain one."""

import copy

import pytest
import torch
from torch import nn

from tests.factories import small_model
from transformer.inference.packing import pack
from transformer.kernels.packed import PackedLinear, PackedProjections, packed_types

# Only types for which packing has an effect can be tested.
pytestmark = pytest.mark.skipif(not packed_types(), reason="nothing is packed on this processor")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", packed_types())
def test_a_packed_layer_computes_what_the_plain_one_does(dtype: torch.dtype, bias: bool) -> None:
    plain, states = nn.Linear(24, 37, bias=bias, dtype=dtype), torch.randn(5, 7, 24, dtype=dtype)
    packed = pack(nn.Sequential(copy.deepcopy(plain)))
    assert isinstance(packed[0], PackedLinear)
    with torch.no_grad():
        torch.testing.assert_close(packed(states), plain(states))


def test_the_other_rows_of_a_batch_change_no_bit_of_a_row() -> None:
    packed, states = pack(nn.Sequential(nn.Linear(64, 300))), torch.randn(70, 64)
    with torch.no_grad():
        together = packed(states)
        for rows in (1, 2, 3, 5, 16, 33):
            assert torch.equal(packed(states[:rows]), together[:rows])


def test_a_packed_model_has_the_same_weights_and_gradients() -> None:
    plain = small_model()
    packed = pack(copy.deepcopy(plain))
    source, inputs = torch.randint(4, 29, (3, 8)), torch.randint(4, 29, (3, 5))
    with torch.no_grad():
        torch.testing.assert_close(packed(source, inputs), plain(source, inputs))
    for model in (plain, packed):
        model(source, inputs).square().sum().backward()
    assert packed.output.weight is packed.decoder.embedding.tokens.weight
    for (name, weight), (other, twin) in zip(plain.named_parameters(), packed.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(weight, twin)
        assert (weight.grad is None) == (twin.grad is None)
        assert weight.grad is None or torch.equal(weight.grad, twin.grad)


def test_under_autocast_a_packed_layer_multiplies_in_the_lower_precision() -> None:
    packed, states = pack(nn.Sequential(nn.Linear(24, 37))), torch.randn(5, 24)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert packed(states).dtype == torch.bfloat16


@pytest.mark.parametrize("change", ["in place", "other type", "copied", "under autocast", "another place"])
def test_a_weight_that_was_changed_is_used_as_it_is_now(change: str) -> None:
    packed, states = pack(nn.Sequential(nn.Linear(24, 37))), torch.randn(5, 24)
    with torch.no_grad(), torch.autocast("cpu", enabled=change == "under autocast"):
        if change == "other type":
            packed, states = packed.double(), states.double()
        elif change == "copied":
            packed = copy.deepcopy(packed)
        elif change == "under autocast":
            states = states.bfloat16()
        if change == "another place":
            packed[0].weight.data = 2 * packed[0].weight.data
        else:
            packed[0].weight.mul_(2)
        expected = nn.functional.linear(states, packed[0].weight, packed[0].bias)
        assert torch.equal(packed(states), expected)


def test_a_model_made_in_inference_mode_whose_changes_do_not_count_stays_as_it_is() -> None:
    states = torch.randn(5, 24)
    with torch.inference_mode():
        plain = nn.Sequential(nn.Linear(24, 37))
        expected = plain(states)
        assert torch.equal(pack(plain)(states), expected)
        plain[0].weight.mul_(2)
        assert torch.equal(plain(states), nn.functional.linear(states, plain[0].weight, plain[0].bias))


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", {"avx2"}, [torch.float32]),
        ("AMD64", {"avx2", "avx512_bf16"}, [torch.float32, torch.bfloat16]),
        ("aarch64", {"asimd", "bf16"}, []),
    ],
)
def test_types_are_packed_where_the_processor_multiplies_them_fast(
    machine: str, features: set[str], expected: list[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("transformer.kernels.packed.cpu_features", lambda: features)
    packed_types.cache_clear()
    try:
        assert packed_types() == expected
        monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
        packed_types.cache_clear()
        assert packed_types() == []
    finally:
        packed_types.cache_clear()


class Doubling(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


@pytest.mark.parametrize(
    "layer", [Doubling(3, 4), nn.Linear(3, 4, dtype=torch.float64), nn.Linear(3, 4, device="meta")]
)
def test_a_layer_of_another_class_type_or_device_stays_as_it_is(layer: nn.Linear) -> None:
    assert pack(nn.Sequential(layer))[0] is layer


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu"])
def test_a_packed_model_is_the_plain_one_also_after_its_weights_changed(activation: str) -> None:
    plain = small_model(feed_forward__activation=activation)
    packed = pack(copy.deepcopy(plain))
    attention = packed.encoder.layers[0].self_attention
    assert isinstance(attention.projections, PackedProjections)
    source, inputs = torch.randint(4, 29, (3, 8)), torch.randint(4, 29, (3, 5))
    for changed in ("query", "value", None):
        with torch.no_grad():
            torch.testing.assert_close(packed(source, inputs), plain(source, inputs))
            for model in (plain, packed) if changed else ():
                layer = getattr(model.encoder.layers[0].self_attention, changed)
                (layer.weight if changed == "query" else layer.bias).add_(0.5)
        torch.testing.assert_close(packed(source, inputs), plain(source, inputs))  # with gradients


def test_a_copy_of_a_packed_model_has_weights_of_its_own() -> None:
    packed = pack(small_model())
    copied = copy.deepcopy(packed)
    source, inputs = torch.randint(4, 29, (3, 8)), torch.randint(4, 29, (3, 5))
    with torch.no_grad():
        before = packed(source, inputs)
        for weight in copied.parameters():
            weight.mul_(0.5)
        assert torch.equal(packed(source, inputs), before)
        assert not torch.allclose(copied(source, inputs), before)
