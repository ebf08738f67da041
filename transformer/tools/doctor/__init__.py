"""A look at a corpus before training: what is wrong with it, what to do about it, with which settings to train on it.

Read `text`, `profile`, `leakage`, `checks`, `check_corpus`, `fix`, then `plan`, `report`, `examine`, in this order.
`filters` and `augment` choose by the same checks which synthetic pairs are good enough to be trained on.
"""
