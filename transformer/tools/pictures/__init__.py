"""Pictures: attention, positions, the softmax, training curves, sweeps; and the page that explains a translation."""
