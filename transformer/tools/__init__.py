"""Tools around the translator: no other package imports them. Each has a page in docs."""
