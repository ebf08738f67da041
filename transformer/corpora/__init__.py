"""Corpora that are made from what others publish: fetched, joined and split."""
