"""Scores of translations, and whether they differ by more than chance."""
