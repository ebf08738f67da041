"""A look at a corpus before training: what is wrong with it, what to do about it, with which settings to train on it.

Read `profile`, `checks`, `check_corpus`, `fix`, then `plan`, `report`, `examine`, in this order. `tools.augment`
chooses by the same checks which synthetic pairs are good enough to be trained on.
"""
