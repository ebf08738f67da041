"""training.compile changes the speed of a step (on a GPU), but not its result."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from tests.cases import needs_torch
from tests.reliability.children import in_child
from tests.training.small import SETTINGS, module_for, numbers_data
from transformer.kernels.dropout import Dropout
from transformer.training.module import COMPILED, end_compiling

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def gradients_of(folder: Path) -> int:
    """Compares the loss and the gradients of a batch, plain and compiled; returns the number of compiled graphs."""
    data, losses, gradients = numbers_data(folder), [], []
    batch = next(batch for batch in data.loader("train") if batch.source_visible is not None)
    for backend in (None, "aot_eager"):
        module = module_for(data, replace(SETTINGS, compile=backend), encoder__layers=1, decoder__layers=1).train()
        assert [name in vars(module.model) for name in COMPILED] == [backend is not None] * 2
        total, tokens = module.loss(batch)
        total.backward()
        losses.append(total.item() / tokens.item())
        gradients.append({name: weight.grad for name, weight in module.model.named_parameters()})
        end_compiling(module.model)
        assert not any(name in vars(module.model) for name in COMPILED)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert losses[0] > 1
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
    return int(counters["stats"]["unique_graphs"])


def compiled_dropout() -> float:
    """The mean after a compiled dropout of ones; RuntimeError if it splits its graph."""
    torch.manual_seed(1)
    dropout = torch.compile(Dropout(0.5).train(), backend="eager", fullgraph=True)
    return float(dropout(torch.ones(100, 100)).mean())


@needs_torch("2.11")  # an older one makes more graphs
@pytest.mark.long
def test_a_compiled_step_has_the_loss_and_gradients_of_a_plain_one_in_two_graphs(tmp_path: Path) -> None:
    # In a new process, because compiling takes gigabytes after the functions of all other tests were called.
    assert in_child(gradients_of, tmp_path) == len(COMPILED)


@pytest.mark.long
def test_dropout_does_not_split_the_compiled_graphs() -> None:
    assert in_child(compiled_dropout) == pytest.approx(1, abs=0.05)
