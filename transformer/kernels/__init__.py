"""What is there for speed alone: tensors in, tensors out. Each names the equation that it equals; tests compare."""
