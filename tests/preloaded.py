"""Imported by the process that others are forked from (`tests.processes`): what most of them would do first."""

import gc
import importlib
import weakref

# What is imported stays: to look for garbage in it, again and again, would take a fifth of the time.
gc.disable()
for module in (
    *("pytest", "transformer.training.train", "transformer.tools.page.explanation"),
    *("transformer.tools.export.write", "transformer.evaluation.evaluate", "transformer.tools.doctor.examine"),
    *("transformer.cli.app", "transformer.cli.train", "transformer.cli.translate", "transformer.cli.evaluate"),
    *("tests.reliability.children", "tests.reliability.runs"),
):
    importlib.import_module(module)
importlib.import_module("tests.factories").composed()
gc.collect()
gc.freeze()
gc.enable()
# Else each process would, as it exits, take down torch's operators one by one.
for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
    finalizer.atexit = False
