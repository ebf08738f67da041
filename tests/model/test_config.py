"""The allowed models, and the error messages for others."""

from dataclasses import asdict, replace

import pytest
import torch

from tests.factories import composed, model_dict
from transformer import ModelConfig, Transformer
from transformer.config import from_dict
from transformer.model.config import DecoderConfig, EncoderConfig, read_model

FOR_ALL_PARTS = ("heads", "layers", "score")


def message(**changes: object) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        from_dict(ModelConfig, model_dict(**changes), "model")
    return str(caught.value)


def test_heads_that_do_not_divide_dim_are_reported_with_both_numbers() -> None:
    text = message(encoder__self_attention__heads=5)
    assert "model.encoder.self_attention.heads=5 does not divide dim=24" in text


def test_heads_need_not_divide_when_their_widths_are_given() -> None:
    free = {
        f"encoder__self_attention__{key}": value for key, value in (("heads", 5), ("head_dim", 7), ("value_dim", 2))
    }
    assert from_dict(ModelConfig, model_dict(**free), "model").encoder.self_attention.heads == 5
    for missing in ("head_dim", "value_dim"):
        assert "heads=5 does not divide" in message(**free | {f"encoder__self_attention__{missing}": None})


def test_wrong_keys_types_nulls_and_values_name_the_key_and_the_choices() -> None:
    assert message(hight=3).startswith("model.hight: no such setting; ")
    assert message(dims=3) == "model.dims: no such setting; did you mean dim?"
    assert message(dim="eight") == "model.dim=eight must be a whole number"
    assert message(dim=True) == "model.dim=true must be a whole number"
    assert message(dropout=None) == "model.dropout=null must be a number"
    assert message(norm="middle") == "model.norm=middle is not allowed; choose one of pre, post"
    assert "sinusoidal, learned, rotary, alibi, none" in message(positions="absolute")
    assert "scaled_dot" in message(decoder__cross_attention__score="cosine")
    assert message(encoder=3) == "model.encoder=3 must be settings by name: layers, self_attention"


def test_sizes_and_rates_out_of_range_are_refused() -> None:
    assert message(encoder__layers=0) == "model.encoder.layers=0 must be >= 1 and <= 200"
    assert message(dropout=1.0) == "model.dropout=1.0 must be >= 0 and < 1"
    assert "one vocabulary for both languages" in message(target_vocab_size=31)
    assert "odd head_dim 3" in message(positions="rotary", encoder__self_attention__head_dim=3)
    # With rotary positions a cross-attention has no rotation, so its width may be odd.
    from_dict(ModelConfig, model_dict(positions="rotary", decoder__cross_attention__head_dim=3), "model")


def test_the_defaults_of_the_class_are_those_of_the_base_preset() -> None:
    preset = {key: value for key, value in composed("model=base")["model"].items() if key not in FOR_ALL_PARTS}
    vocabularies = {"source_vocab_size": 37_000, "target_vocab_size": 37_000}  # the paper's; a corpus has its own
    assert asdict(ModelConfig()) == preset | vocabularies


def test_the_default_model_has_the_65_million_parameters_of_the_paper() -> None:
    with torch.device("meta"):
        count = sum(weight.numel() for weight in Transformer(ModelConfig()).parameters())
    assert count == pytest.approx(65e6, rel=0.04)  # table 3


@pytest.mark.parametrize(
    ("given", "overrides"),
    [
        ({"dim": 256, "heads": 4, "layers": 3}, ["model.dim=256", "model.heads=4", "model.layers=3"]),
        ({"score": "dot", "encoder": {"layers": 2}}, ["model.score=dot", "model.encoder.layers=2"]),
        (
            {"heads": 4, "decoder": {"self_attention": {"heads": 2}, "cross_attention": None}},
            ["model.heads=4", "model.decoder.self_attention.heads=2", "model.decoder.cross_attention=null"],
        ),
        ({"feed_forward": {"dim": 64}}, ["model.feed_forward.dim=64"]),
    ],
)
def test_the_class_takes_the_words_of_the_command_line(given: dict[str, object], overrides: list[str]) -> None:
    built = ModelConfig(100, 100, **given)  # type: ignore[arg-type]
    assert built == read_model(composed("model=base", *overrides)["model"])
    assert replace(built, dropout=0.3) == read_model(composed("model=base", *overrides, "model.dropout=0.3")["model"])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"norm": "middle"}, "^norm=middle is not allowed; choose one of pre, post"),
        ({"encoder": {"layer": 2}}, "^encoder.layer: no such setting; did you mean layers"),
        ({"layers": 0}, "layers=0 must be >= 1"),
        ({"heads": 7}, "heads=7 does not divide dim=512"),
        ({"heads": 4, "encoder": EncoderConfig()}, "set them in the EncoderConfig and DecoderConfig"),
        ({"layers": 4, "decoder": DecoderConfig()}, "set them in the EncoderConfig and DecoderConfig"),
    ],
)
def test_the_class_refuses_what_the_command_line_refuses(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ModelConfig(**given)  # type: ignore[arg-type]
