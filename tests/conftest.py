"""Shapes in signatures are checked while testing, and only then."""

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores; before torch is imported, and for all processes that a test starts.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# All rooms but the command line's, whose types are Hydra's.
ROOMS = "config device files model data inference evaluation visualization training export doctor"


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return  # The process that deals out the tests runs none, and need not import torch.
    # Before the hook: whatever is first imported beneath it is compiled anew, without a .pyc, which takes seconds.
    import lightning.pytorch  # noqa: F401

    from tests.shapes import check_shapes

    check_shapes([f"transformer.{room}" for room in ROOMS.split()])


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch

    torch.manual_seed(0)
