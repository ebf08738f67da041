"""Translators behind HTTP: LibreTranslate's API, and the page of each model.

Read `settings`, `directions` (what is served), `batcher` (requests become batches), `documents` (texts and HTML),
`languages` (which language a text is in), `requests` (what was asked), `api` (LibreTranslate's answers), `app` (limits,
headers, errors) and `run` (the port and the signals).
"""
