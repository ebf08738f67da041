"""Speed against peers, measured side by side on the machine at hand: `python benchmarks/run.py --help`."""
