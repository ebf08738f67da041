"""Imported last by the process that others are forked from (`tests.processes`): what most of them would do first."""

import gc

from tests.factories import composed
from tests.reliability import children, runs  # noqa: F401

composed("data=toy")
# What is here is garbage in none of them.
gc.collect()
gc.freeze()
