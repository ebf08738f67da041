"""The two ONNX graphs, run step by step by onnxruntime, compared with one teacher-forced pass of the model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.torch_version import TorchVersion

from tests.cases import needs_torch
from tests.pages import play
from tests.scripts.running import script
from tests.tools.export.models import Build, teach_to_repeat
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inference.translator import BEAM
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export

onnxruntime = pytest.importorskip("onnxruntime", reason="the export extra is not installed")
pytest.importorskip("onnxscript", reason="the export extra is not installed")


@needs_torch("2.11")
@pytest.mark.long
def test_graphs_give_the_logits_of_a_teacher_forced_pass_at_any_length(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = build(
        positions="rotary",
        encoder__layers=1,
        decoder__layers=2,
        decoder__self_attention__value_dim=5,
        decoder__cross_attention__heads=4,
        decoder__cross_attention__score="concat",
    )
    teach_to_repeat(translator, steps=60)
    translator.save(tmp_path / "t.safetensors")
    # A new process, because torch cannot trace through the checks of shapes in tests.
    done = script("export", "onnx", "--checkpoint", "t.safetensors", "--output", "graphs", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "next: docs/export.md shows how onnxruntime translates with it\n")
    encoder, step = (
        onnxruntime.InferenceSession(tmp_path / "graphs" / f"{name}.onnx") for name in ("encoder", "decoder_step")
    )
    for batch, source_length, target_length in ((3, 11, 6), (1, 1, 31)):
        source = torch.randint(EOS + 1, 60, (batch, source_length))
        source[0, source_length // 2 + 1 :] = PAD
        source_visible, targets = source != PAD, torch.randint(EOS + 1, 60, (batch, target_length))
        targets[:, 0] = BOS
        fixed = {"source": source.numpy(), "source_visible": source_visible.numpy()}
        names = [output.name for output in encoder.get_outputs()]
        fixed = {"source_visible": source_visible.numpy()} | dict(zip(names, encoder.run(None, fixed), strict=True))
        cache = {
            f"{part}_{layer}": torch.zeros(batch, 3, 0, width).numpy()
            for layer in range(2)
            for part, width in (("keys", 8), ("values", 5))
        }
        with torch.no_grad():
            expected = translator.model(source, targets, source_visible)
        for position in range(target_length):
            logits, *new = step.run(None, {"ids": targets[:, position].numpy()} | fixed | cache)
            cache = dict(zip(cache, new, strict=True))
            torch.testing.assert_close(torch.from_numpy(logits), expected[:, position], atol=1e-4, rtol=1e-4)
    monkeypatch.chdir(tmp_path)
    [(_, printed, _)] = play("export.md", "ONNX from Python")
    assert printed == translator.translate("Wir essen heute Abend im Garten.", replace(BEAM, method="greedy")) != ""


def test_a_torch_that_cannot_make_the_graphs_is_refused_in_one_line(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.10.1"))
    with pytest.raises(ValueError, match=r"^onnx needs torch 2\.11 or later, this is 2\.10\.1: upgrade") as error:
        export(build(), ExportSettings("onnx", "float32", str(tmp_path / "graphs")))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decoder__cross_attention": None}, "model.decoder.cross_attention=null cannot be exported to ONNX"),
        ({"decoder__cross_attention__score": "additive"}, "model.decoder.cross_attention.score=additive cannot be"),
        ({"max_length": 6}, "model.max_length=6 cannot be exported to ONNX: it supports 7 and more"),
    ],
    ids=str,
)
def test_what_no_graph_can_express_is_refused(
    build: Build, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        export(build(**changes), ExportSettings("onnx", "float32", str(tmp_path / "graphs")))
    assert list(tmp_path.iterdir()) == []
