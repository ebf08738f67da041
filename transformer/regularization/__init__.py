"""What else keeps a model from learning its corpus by heart: hung on it from outside, and only while it trains."""
