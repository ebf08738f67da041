"""What happens around the training steps: saving, stopping, resuming, averaging, showing. Begin with train_progress."""
