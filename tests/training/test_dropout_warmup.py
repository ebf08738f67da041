"""Dropout that grows: what share of the states is zero at each step of a training."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformer.training.callbacks.dropout_warmup import DropoutWarmup

from tests.training.small import SETTINGS, module_for, numbers_data, trainer_for
from transformer.model.dropout import Dropout

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_the_share_of_zeros_grows_evenly_to_that_of_the_model(tmp_path: Path) -> None:
    data = numbers_data(tmp_path)
    module = module_for(data, replace(SETTINGS, patience=50), dropout=0.4)
    model, zeros = module.model, []

    def count(dropout: nn.Module, arguments: Any, states: torch.Tensor) -> None:
        if dropout.training:
            zeros.append((states == 0).float().mean().item())

    for side in (model.encoder, model.decoder):
        side.embedding.dropout.register_forward_hook(count)
    shares = {part.p for part in module.modules() if isinstance(part, Dropout)}
    warmup = DropoutWarmup(module.model, steps=4)
    trainer_for(tmp_path, max_steps=8, callbacks=[warmup], limit_val_batches=0).fit(module, datamodule=data)
    for of_side in (zeros[::2], zeros[1::2]):
        assert of_side[0] == 0
        assert of_side == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4], abs=0.06)
    assert {part.p for part in module.modules() if isinstance(part, Dropout)} == shares == {0.4, 0.0}
