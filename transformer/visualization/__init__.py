"""Pictures: training curves and attention."""
