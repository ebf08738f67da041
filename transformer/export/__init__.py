"""A trained translator in the formats of other programs, and as a page that translates in a browser.

Read `folder`, then `ctranslate2` and `engine`, `huggingface`, `onnx`, or `page`.
"""
