"""A trained translator in the formats of other programs. Read `folder`, then `ctranslate2` and `engine`, or `onnx`."""
