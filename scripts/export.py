"""`translator export` as a script: `python scripts/export.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("export")
