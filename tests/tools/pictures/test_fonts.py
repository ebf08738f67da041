"""Texts of any language in pictures: drawn if a font has their characters, named in one line if none has."""

import logging
from pathlib import Path

import matplotlib.image
import pytest
import torch
from matplotlib import rcParams

from transformer.tools.pictures import fonts
from transformer.tools.pictures.attention_maps import attention_figure
from transformer.tools.pictures.picture import save


def drawn(text: str, folder: Path, suffix: str = ".png") -> Path:
    """A heat map of one cell with the row label `text`. Any warning of matplotlib fails the test."""
    path = folder / f"{len(list(folder.iterdir()))}{suffix}"
    save(attention_figure(torch.ones(1, 1), [text], ["key"], "title"), path)
    return path


def test_accents_need_no_other_font(caplog: pytest.LogCaptureFixture) -> None:
    assert fonts.families("Grüße, ąčę; Привет; ▁⁀…") == rcParams["font.family"]
    assert caplog.text == ""


def test_a_character_that_no_font_has_is_named_in_one_line_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Private characters, which have no glyph in any standard.
    text = "a\U0010f0a1b\U0010f0a2"
    with caplog.at_level(logging.WARNING):
        drawn(text, tmp_path)
        drawn(text, tmp_path)
    [record] = caplog.records
    message = record.getMessage()
    assert "\n" not in message
    assert "U+10F0A1" in message
    assert "U+10F0A2" in message
    assert "U+0061" not in message
    assert "apt-get install fonts-noto-cjk" in message
    drawn("a\U0010f0a3", tmp_path)
    assert len(caplog.records) == 2
    assert "U+10F0A1" not in caplog.records[1].getMessage()
    fonts.families("".join(chr(0x10F0B0 + number) for number in range(fonts.MAX_NAMED + 2)))
    assert "(U+10F0B9) and 2 more: " in caplog.records[2].getMessage()
    assert " more" not in message


def test_chinese_and_japanese_are_drawn_with_an_installed_font(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "猫が漢字"
    if not any(set(text) <= font.characters for font in fonts._installed()):
        pytest.skip("no font with Chinese and Japanese: apt-get install fonts-noto-cjk (Debian)")
    first, *others = fonts.families(f"Grüße {text}")
    assert [first] == rcParams["font.family"]
    assert len(others) == 1
    # Boxes for missing glyphs would look the same.
    pictures = {matplotlib.image.imread(drawn(mark, tmp_path)).tobytes() for mark in text}
    assert len(pictures) == len(text)
    for suffix in (".svg", ".pdf"):
        assert drawn(f"Grüße {text}", tmp_path, suffix).stat().st_size > 1000
    assert caplog.text == ""


def test_a_file_that_is_no_font_is_passed_over(tmp_path: Path) -> None:
    for name, content in (("empty.ttf", b""), ("text.ttf", b"no font at all")):
        (tmp_path / name).write_bytes(content)
        assert fonts._read(str(tmp_path / name)) is None
    assert fonts._read(str(tmp_path / "missing.ttf")) is None
