"""Text in, batches of ids out: no model.

Read `corpus`, `tokenizer`, `encoded`, `batching`, `datamodule`, in this order.
"""
