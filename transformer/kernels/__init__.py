"""Code for speed only: tensors in, tensors out. Each function names the equation that it equals; tests compare."""
