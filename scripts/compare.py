"""`translator compare` as a script: `python scripts/compare.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("compare")
