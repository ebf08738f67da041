"""`translator back-translate` as a script: `python scripts/back_translate.py --help`."""

from transformer.cli.back_translate import back_translate
from transformer.cli.compose import main

if __name__ == "__main__":
    main(back_translate, "back_translate", sweeps=False)
