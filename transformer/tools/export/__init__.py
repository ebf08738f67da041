"""A trained translator in the formats of other programs.

Read `formats` (the table of them), `write`, `supported` and `folder`, then `ctranslate2` with `engine`, which
translates with it, or `onnx`. What Hugging Face's transformers read stands in `tools.hub`, the page in `tools.page`.
"""
