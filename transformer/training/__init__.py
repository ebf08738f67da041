"""Training with Lightning. Read `module`, then `run`; `callbacks` is what a person sees and a run leaves."""
