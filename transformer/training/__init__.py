"""Training with Lightning. Read `module`, then `run`; what keeps a run safe is in `callbacks`."""
