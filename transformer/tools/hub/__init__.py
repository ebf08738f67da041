"""Reading and writing models of Hugging Face's transformers."""
