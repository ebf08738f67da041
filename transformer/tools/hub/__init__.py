"""Models of Hugging Face's transformers, read and written."""
