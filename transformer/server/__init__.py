"""Translators behind HTTP: LibreTranslate's API, and the page of each model.

Read `directions` (what is served), `batcher` (requests become batches), `documents` (texts and HTML), `api`
(LibreTranslate's requests and answers), `app` (limits, headers, errors) and `run` (the port and the signals).
"""
