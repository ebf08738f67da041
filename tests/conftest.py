"""Shapes in signatures are checked while testing, and only then."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores; before torch is imported, and for all processes that a test starts.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Before the hook: whatever is first imported beneath it is compiled anew, without a .pyc, which takes seconds.
import lightning.pytorch  # noqa: F401
from jaxtyping import install_import_hook

# All rooms but the command line's, whose types are Hydra's.
ROOMS = "config device files model data inference evaluation visualization training export doctor"
install_import_hook([f"transformer.{room}" for room in ROOMS.split()], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
