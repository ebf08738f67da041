"""Pictures: attention, training curves, sweeps."""
