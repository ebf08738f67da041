"""`translator explain` as a script: `python scripts/explain.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("explain")
