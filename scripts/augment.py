"""`translator augment` as a script: `python scripts/augment.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("augment")
