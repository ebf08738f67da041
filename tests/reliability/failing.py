"""scripts/train.py with trouble in one of its processes: `FAILING="RANK BATCH CAUSE" python failing.py …`."""

import os

from scripts.train import read, train
from tests.reliability.runs import CAUSES, trouble
from transformer.cli.launch import launch


def main() -> None:
    guilty, batch, cause = os.environ["FAILING"].split()
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    with trouble(int(batch) if rank == guilty else 0, CAUSES[cause]):
        launch(read, train, config_name="train")


if __name__ == "__main__":
    main()
