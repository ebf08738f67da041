"""`python -m transformer` is `translator`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main()
