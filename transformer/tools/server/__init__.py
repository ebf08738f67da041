"""Translators behind HTTP: LibreTranslate's API, and the page of each model.

Read `settings`, `served` (the directions), `batcher` (requests become batches), `documents` (texts and HTML),
`detection` (the language of a text), `requests` (reading and checking them), `api` (LibreTranslate's answers), `app`
(limits, headers, errors) and `listening` (the port and the signals).
"""
