"""`translator doctor` as a script: `python scripts/doctor.py --help`."""

from transformer.cli.app import main

if __name__ == "__main__":
    main("doctor")
