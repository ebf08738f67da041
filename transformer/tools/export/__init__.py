"""A trained translator in the formats of other programs.

Read `formats` (the list), `write`, `supported` and `folder`, then `ctranslate2` with `engine`, which translates with
it, or `onnx`. The format of Hugging Face's transformers is in `tools.hub`, the page in `tools.page`.
"""
