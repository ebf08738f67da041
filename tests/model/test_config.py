"""What a model may be made of, and what one is told when it cannot be."""

import pytest

from tests.factories import model_dict
from transformer import ModelConfig
from transformer.config import from_dict


def message(**changes: object) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        from_dict(ModelConfig, model_dict(**changes), "model")
    return str(caught.value)


def test_heads_that_do_not_divide_dim_are_told_with_both_numbers() -> None:
    text = message(encoder__self_attention__heads=5)
    assert "model.encoder.self_attention.heads=5 does not divide model.dim=24" in text


def test_heads_need_not_divide_when_their_widths_are_given() -> None:
    free = {
        f"encoder__self_attention__{key}": value for key, value in (("heads", 5), ("head_dim", 7), ("value_dim", 2))
    }
    assert from_dict(ModelConfig, model_dict(**free), "model").encoder.self_attention.heads == 5


def test_wrong_keys_types_nulls_and_values_name_the_key_and_the_choices() -> None:
    assert message(hight=3).startswith("unknown setting model.hight: allowed: source_vocab_size")
    assert message(dims=3) == "unknown setting model.dims: did you mean dim?"
    assert message(dim="eight") == "model.dim=eight must be a whole number"
    assert message(dim=True) == "model.dim=True must be a whole number"
    assert message(dropout=None) == "model.dropout=null must be a number"
    assert message(norm="middle") == "model.norm=middle is not allowed; choose one of pre, post"
    assert "sinusoidal, learned, rotary, alibi, none" in message(positions="absolute")
    assert "scaled_dot" in message(decoder__cross_attention__score="cosine")
    assert message(encoder=3) == "model.encoder must be a group of settings, not 3"


def test_sizes_and_rates_out_of_range_are_refused() -> None:
    assert message(encoder__layers=0) == "model.encoder.layers=0 must be >= 1"
    assert message(dropout=1.0) == "model.dropout=1.0 must be >= 0 and < 1"
    assert "one vocabulary for both languages" in message(target_vocab_size=31)
    assert "odd head_dim 3" in message(positions="rotary", encoder__self_attention__head_dim=3)
