"""A trained translator in the formats of other programs, and as a page that translates in a browser.

Read `settings`, `supported` and `folder`, then `ctranslate2` and `engine`, `huggingface`, `onnx`, or `page`; `formats`
chooses among them, and `load` takes a checkpoint or an export alike.
"""
