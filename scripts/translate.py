"""`translator translate` as a script: `python scripts/translate.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("translate")
