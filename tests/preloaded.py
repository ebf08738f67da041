"""Imported by the process that others are forked from (`tests.processes`): the first imports of most of them."""

import gc
import importlib
import weakref

# Imported objects stay: searching them for garbage again and again would take a fifth of the time.
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
# Otherwise each process would remove torch's operators one by one as it exits.
for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
    finalizer.atexit = False
