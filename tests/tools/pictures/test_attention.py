"""Heat maps show the model's own weights, by layer, head and piece; unknown layers and heads are refused in a line."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases import others_long
from tests.tools.page.models import SEARCH, TEXTS, untrained
from transformer import Transformer, Translator
from transformer.cli.app import parse
from transformer.data.tokenizer import BOS, EOS
from transformer.model.attention import AttentionRecord
from transformer.tools.pictures.attention_maps import (
    MAX_TOKENS,
    Reading,
    attention_figure,
    draw_translation,
    read,
    read_translation,
    reading_figure,
)
from transformer.tools.pictures.picture import save
from transformer.tools.pictures.training_pictures import draw_attentions
from transformer.tools.pictures.view import View


@pytest.fixture(scope="module")
def reading(translator: Translator) -> Reading:
    return read(translator, TEXTS[1], translator.target_tokenizer.encode(TEXTS[3]))


def test_a_reading_is_one_pass_over_both_sides(translator: Translator, reading: Reading) -> None:
    source, target = (translator.source_tokenizer.encode(text) for text in (TEXTS[1], TEXTS[3]))
    logits = translator.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))
    torch.testing.assert_close(reading.probabilities, logits[0].softmax(-1))
    assert (reading.source[-1], reading.target[0]) == ("</s>", "<s>")
    assert "".join(reading.source[:-1]) == "▁" + TEXTS[1].replace(" ", "▁")
    assert "".join(reading.target[1:]) == "▁" + TEXTS[3].replace(" ", "▁")
    # With padding, the same sentence has the same weights: these are from the other path, for batches.
    record = AttentionRecord([], [], [])
    padded = torch.tensor([[*source, EOS, 0, 0]])
    memory = translator.model.encode(padded, padded != 0, record)
    translator.model.decode(torch.tensor([[BOS, *target]]), memory, record=record)
    for name, layers in reading.record._asdict().items():
        for layer, weights in enumerate(layers):
            keys = weights.size(-1)
            torch.testing.assert_close(weights, getattr(record, name)[layer][:, :, : weights.size(2), :keys])


@pytest.mark.parametrize(
    ("attention", "layers", "heads"), others_long([("encoder", 2, 3), ("decoder", 3, 3), ("cross", 3, 2)])
)
def test_the_drawn_matrix_is_the_recorded_one_by_layer_and_head(
    reading: Reading, attention: Any, layers: int, heads: int
) -> None:
    rows, columns = {
        "encoder": (reading.source, reading.source),
        "decoder": ([*reading.target[1:], "</s>"], reading.target),
        "cross": ([*reading.target[1:], "</s>"], reading.source),
    }[attention]
    recorded = getattr(reading.record, attention)
    for layer in (None, *range(1, layers + 1)):
        for head in (None, *range(1, heads + 1)):
            axes = reading_figure(reading, View(attention, layer, head)).axes[0]
            of_layer = recorded[-1 if layer is None else layer - 1][0]
            expected = of_layer.mean(0) if head is None else of_layer[head - 1]
            drawn = torch.tensor(axes.images[0].get_array().data)
            torch.testing.assert_close(drawn, expected)
            torch.testing.assert_close(drawn.sum(1), torch.ones(len(rows)))
            assert f"layer {layer or layers} of {layers}" in axes.get_title()
            assert (f"head {head} of {heads}" if head else f"mean of {heads} heads") in axes.get_title()
    assert [label.get_text() for label in axes.get_xticklabels()] == [p.removeprefix("▁") or p for p in columns]
    assert [label.get_text() for label in axes.get_yticklabels()] == [p.removeprefix("▁") or p for p in rows]
    looking, looked_at = {
        "encoder": ("the source", "the source"),
        "decoder": ("the step that writes …", "what is written already"),
        "cross": ("the step that writes …", "the source"),
    }[attention]
    assert axes.get_ylabel() == f"looking: {looking} (queries)"
    assert axes.get_xlabel() == f"looked at: {looked_at} (keys)"
    # A darker cell is a larger share, with the same scale in every picture.
    image = axes.images[0]
    assert image.get_clim() == (0, 1)
    assert sum(image.cmap(0.0)[:3]) > 2.8 > 1 > sum(image.cmap(1.0)[:3])


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (View("encoder", 3), r"there is no layer 3: the encoder self-attention of this model has layers 1 to 2"),
        (View("cross", 2, 3), r"there is no head 3: the .* \(cross\) attention of this model has heads 1 to 2"),
    ],
)
def test_the_error_for_an_unknown_layer_or_head_has_the_range(reading: Reading, view: View, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        reading.weights(view)


def test_a_model_without_cross_attention_shows_the_two_it_has(without_cross: Translator, tmp_path: Path) -> None:
    draw_translation(without_cross, TEXTS[1], SEARCH, View("decoder"), tmp_path / "decoder.png")
    with pytest.raises(ValueError, match=r"^this model has no encoder-decoder \(cross\) attention$"):
        draw_translation(without_cross, TEXTS[1], SEARCH, View("cross"), tmp_path / "cross.png")
    assert [path.name for path in tmp_path.iterdir()] == ["decoder.png"]
    draw_attentions(without_cross, [(TEXTS[1], "", TEXTS[0])], tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["decoder.png", "encoder.png"]


def test_too_little_and_too_much_text_is_refused_on_either_side(translator: Translator) -> None:
    for text, tokens in (("", "0"), ("  ", "0"), ("ja " * 100, r"\d+")):
        with pytest.raises(ValueError, match=rf"^the text has {tokens} tokens; between 1 and 79 can be shown$"):
            read_translation(translator, text, SEARCH)
    with pytest.raises(ValueError, match=r"^the translation has 80 tokens; between 0 and 79 can be shown$"):
        read(translator, "ja", [4] * 80)
    tagged = translator.target_tokenizer.with_tags(["en", "de"])
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(tagged))
    of_two_directions = Transformer(replace(translator.model.config, **sizes))
    with pytest.raises(ValueError, match=r"^the text has 0 tokens; between 1 and 78 can be shown$"):
        read_translation(Translator(of_two_directions, (tagged, tagged), ("de", "en")), "", SEARCH)
    roomy = untrained(TEXTS, max_length=4 * MAX_TOKENS)
    with pytest.raises(ValueError, match=rf"between 1 and {MAX_TOKENS} can be shown"):
        read(roomy, "ja " * (MAX_TOKENS + 1), [])
    assert read(translator, "ja", []).target == ["<s>"]


@pytest.mark.long
def test_a_run_whose_sample_is_too_long_to_draw_ends_well(
    translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draw_attentions(translator, [("ja " * 100, "yes", "yes")], tmp_path / "none")
    assert "no pictures of attention: the text has" in caplog.text
    assert not (tmp_path / "none").exists()
    draw_attentions(translator, [(TEXTS[1], "", TEXTS[0])], tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["cross.png", "decoder.png", "encoder.png"]


def test_any_piece_is_a_label_and_no_formula(tmp_path: Path) -> None:
    pieces = ["▁", "▁$a_1$", "$\\frac$", "<0x0A>", "▁" + "w" * 60, "Ärger\n"]
    figure = attention_figure(torch.eye(6), pieces, pieces, "title")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["▁", "$a_1$", "$\\frac$", "<0x0A>", "w" * 23 + "…", "Ärger\n"]
    save(figure, tmp_path / "new" / "labels.png")
    assert (tmp_path / "new" / "labels.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("pieces", [1, 2, 40])
def test_every_label_lies_within_the_saved_picture(pieces: int) -> None:
    long = ["Donaudampfschifffahrt"] * pieces
    figure = attention_figure(torch.eye(pieces), long, long, "decoder self-attention\nlayer 10 of 12, mean of 16 heads")
    figure.draw_without_rendering()
    whole = figure.get_tightbbox().padded(0.01).transformed(figure.dpi_scale_trans)
    axes = figure.axes[0]
    texts = [axes.title, axes.xaxis.label, axes.yaxis.label, figure.axes[1].yaxis.label]
    boxes = [text.get_window_extent() for text in (*texts, *axes.get_xticklabels(), *axes.get_yticklabels())]
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in boxes)
    assert all(whole.y0 <= box.y0 and box.y1 <= whole.y1 for box in boxes)
    # Labels of neighboring rows and columns do not overlap.
    for labels, low, high in ((axes.get_xticklabels(), "x0", "x1"), (axes.get_yticklabels()[::-1], "y0", "y1")):
        spans = [
            (getattr(label.get_window_extent(), low), getattr(label.get_window_extent(), high)) for label in labels
        ]
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


# The command, in this process.


@pytest.fixture(scope="module")
def saved(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "t.safetensors"
    translator.save(path)
    return path


def explain(saved: Path, *flags: str, text: str = TEXTS[1]) -> None:
    parse(["explain", text, "--checkpoint", str(saved), "--length-ratio", "1", "--length-extra", "3", *flags])()


@pytest.mark.parametrize(
    ("name", "start"), others_long([("a.png", b"\x89PNG"), ("b.SVG", b"<?xml"), ("c.pdf", b"%PDF")])
)
def test_the_output_decides_what_is_written(
    saved: Path, name: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new folder" / name
    explain(saved, "--output", str(path), "--attention", "encoder", "--layer", "2", "--head", "3")
    assert path.read_bytes().startswith(start)
    assert capsys.readouterr().out == f"{path}\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--output", "x.gif"], "--output .*x.gif must end in .html or .png or .svg or .pdf"),
        (["--output", "."], "--output .* is a folder"),
        (["--output", "x.html", "--head", "2"], "--head are for a picture, --output FILE.png"),
        (["--layer", "9"], r"no layer 9: the encoder-decoder \(cross\) attention of this model has layers 1 to 3"),
        (["--head", "0"], "--head=0 must be >= 1"),
        (["--layer", "two"], "--layer"),
        (["--attention", "self"], "--attention"),
        (["--device", "gpu"], "--device=gpu"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_with_its_flag(
    saved: Path, flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = [] if "--output" in flags else ["--output", "x.png"]
    with pytest.raises(ValueError, match=message):
        explain(saved, *output, *flags)
    assert list(tmp_path.iterdir()) == []


def test_chinese_labels_of_columns_are_written_downwards_and_not_turned() -> None:
    figure = attention_figure(torch.eye(4), ["a", "b", "c", "d"], ["▁打开", "Calc", "文", "T恤"], "title")
    labels = [(label.get_text(), label.get_rotation()) for label in figure.axes[0].get_xticklabels()]
    assert labels == [("打\n开", 0), ("Calc", 90), ("文", 0), ("T恤", 90)]
