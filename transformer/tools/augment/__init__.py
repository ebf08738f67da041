"""Synthetic pairs: a model translates text that has no translation."""
