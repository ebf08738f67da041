"""The small translators of `models`, made once."""

from functools import partial

import pytest

from tests.export.models import Build, random_translator, small_tokenizer, teach_to_repeat
from transformer import Translator


@pytest.fixture(scope="session")
def build() -> Build:
    """Makes a translator whose weights are all random: `build(a__b=x)` sets model.a.b."""
    return partial(random_translator, small_tokenizer())


@pytest.fixture(scope="session")
def taught(build: Build) -> Translator:
    """A translator that has learned a little: `teach_to_repeat`."""
    translator = build()
    teach_to_repeat(translator, steps=60)
    return translator
