"""Symbolic links: on Windows only some users may make them."""

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
        return link.is_symlink()  # Wine's links are none that Python sees


needs_links = pytest.mark.skipif(not _can_link(), reason="symbolic links (on Windows: with developer mode)")
