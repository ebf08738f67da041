"""Tensors in, tensors out: no text, no Lightning, no Hydra.

Read `transformer`, `layers`, `attention` from the whole to its parts; `scores` and `positions`, and for searches
`kv_cache`, when you need them.
"""
