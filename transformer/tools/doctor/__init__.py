"""Examines a corpus before training: its faults, their remedies, and the settings for training on it.

Read `profile`, `checks`, `check_corpus`, `fix`, then `plan`, `report`, `examine`, in this order. `tools.augment` uses
the same checks to drop bad synthetic pairs.
"""
