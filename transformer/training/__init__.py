"""Training with Lightning. Read `module` and `loss`, then `train`; what keeps a run safe is in `callbacks`."""
