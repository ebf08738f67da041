"""`translator evaluate` as a script: `python scripts/evaluate.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("evaluate")
