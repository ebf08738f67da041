"""What a person sees of a run while it goes on, and what it leaves to be looked at."""
