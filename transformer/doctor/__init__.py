"""A look at a corpus before training: what is wrong with it, what to do, what training will cost.

Read `text`, `profile`, `leakage`, `checks`, `examination`, `fix`, `estimate`, `report`, in this order.
"""
