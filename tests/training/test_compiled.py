"""training.compile changes how fast a run is (on a GPU), not what it learns."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning import Callback, Trainer
from torch._dynamo.utils import counters

from tests.training.small import SETTINGS, module_for, trainer_for
from transformer.data.datamodule import TranslationData
from transformer.training.module import COMPILED, end_compiling

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Losses(Callback):
    """The loss of every step."""

    def __init__(self) -> None:
        self.all: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        self.all.append(outputs["loss"].item())


def test_a_compiled_run_learns_and_translates_as_a_plain_one(data: TranslationData) -> None:
    layer = {"encoder__layers": 1, "decoder__layers": 1}
    losses, translations = [], []
    counters.clear()
    for backend in (None, "aot_eager"):
        module, watch = module_for(data, replace(SETTINGS, compile=backend), **layer), Losses()
        is_compiled = [name in vars(module.model) for name in COMPILED]
        assert is_compiled == [backend is not None] * 2
        # Two steps of one shape each and no validation: each further mode of a pass is compiled for seconds.
        trainer_for(data.settings.cache, max_steps=2, limit_val_batches=0, callbacks=[watch]).fit(
            module, datamodule=data
        )
        end_compiling(module.model)
        assert not any(name in vars(module.model) for name in COMPILED)
        losses.append(watch.all)
        translations.append(module.translator.translate(["eins zwei drei", "null neun"]))
    assert counters["stats"]["unique_graphs"] > 0  # several: the checks of shapes in tests stand between them
    assert len(losses[0]) == 2
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-6)
    assert translations[0] == translations[1]
