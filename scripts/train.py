"""`translator train` as a script: `python scripts/train.py --help`."""

from transformer.cli.compose import main
from transformer.cli.train import train

if __name__ == "__main__":
    main(train, "train")
