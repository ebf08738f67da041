"""Symbolic links, which only some users may make on Windows, and named pipes, which Windows does not have."""

import os
import tempfile
from pathlib import Path

import pytest


def _can_link() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        try:
            link.symlink_to("file")
        except OSError:
            return False
        return link.is_symlink()  # Python does not recognize Wine's links


needs_links = pytest.mark.skipif(not _can_link(), reason="symbolic links (on Windows: with developer mode)")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
