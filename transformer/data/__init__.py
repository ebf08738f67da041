"""Text in, batches of ids out: no model.

Read `corpus`, `tokenizer`, `prepared`, `batching`, `datamodule`, in this order.
"""
