"""Checks the shapes in signatures, only while testing. Browsers are started once, if a test needs one."""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import CHROMIUM, FIREFOX, Chromium, Firefox

# Background jobs ignore it, and so would the scripts that tests send it to.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores; before torch is imported, and for all processes that a test starts.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Modules with shapes in their signatures, and the tests that check them; elsewhere such calls are too many.
SHAPED = "kernels model inference.search data.aligner data.batching training.loss training.regularization"
CHECKING = tuple(f"tests/{room}" for room in ("kernels", "model", "data", "training", "inference/test_search"))
# Folders with slow files, which run first, so that no worker ends alone with a slow file.
LONG = "scripts reliability cli page export server doctor tests".split()
# Beginnings of the names of files that open a browser (or that are near such files).
BROWSERS = (
    "tests/tools/page/",
    "tests/tools/export/test_page",
    "tests/tools/export/test_demo.py",
    "tests/tools/server/test_serve.py",
)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return  # The process that distributes the tests runs none, and needs no torch.
    # Before the hook: modules that are first imported below it are compiled again, without a .pyc, which takes seconds.
    import hypothesis
    import jaxtyping
    import lightning.pytorch  # noqa: F401

    jaxtyping.install_import_hook([f"transformer.{name}" for name in SHAPED.split()], "beartype.beartype")
    # By default an example fails if it takes over 0.2 s or is slow to make, which can happen on a busy machine.
    too_slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("without a clock", deadline=None, suppress_health_check=too_slow)
    hypothesis.settings.load_profile("without a clock")


@pytest.fixture(autouse=True)
def check_what_is_left() -> Iterator[None]:
    """Fails a test that changes the state of later tests, instead of a later test."""
    before = Path.cwd(), logging.root.level
    yield
    assert (Path.cwd(), logging.root.level) == before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(folder) if (folder := item.path.parent.name) in LONG else len(LONG))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distributes tests by file, but gives all files that open a browser to one worker, because a browser starts
    slowly."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browsers" if nodeid.startswith(BROWSERS) else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    # Objects imported so far stay: otherwise the garbage collector searched them 140 times, for a minute.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    # pytest then collects garbage five times, to find errors in deleted objects, for a second each: once is enough.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> None:
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", not request.node.nodeid.startswith(CHECKING))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch

    # Not torch.manual_seed, which also stores for other devices where it was called, half a millisecond each time.
    torch.default_generator.manual_seed(0)


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pip install playwright (it drives the installed Chromium)"
    )
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium (Debian) or another Chromium")
    with playwright.sync_playwright() as driver:
        browser = Chromium(driver)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    if FIREFOX is None:
        pytest.skip("no Firefox: apt-get install firefox-esr (Debian) or another Firefox")
    firefox = Firefox(tmp_path_factory.mktemp("firefox"))
    yield firefox
    firefox.close()
