"""Beside the book: imported by none of its rooms. Each has a page of docs."""
