"""`translator serve` as a script: `python scripts/serve.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("serve")
