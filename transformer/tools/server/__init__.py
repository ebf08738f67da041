"""Translators behind HTTP: LibreTranslate's API, and the page of each model.

Read `settings`, `served` (which directions), `batcher` (requests become batches), `documents` (texts and HTML),
`detection` (which language a text is in), `requests` (what was asked), `api` (LibreTranslate's answers), `app` (limits,
headers, errors) and `listening` (the port and the signals).
"""
