"""What is there for speed alone: tensors in, tensors out. Each says the equation that it equals, and a test compares."""
