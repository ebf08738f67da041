"""scripts/train.py with an error in one of its processes: `FAILING="RANK BATCH CAUSE" python failing.py …`."""

import os

from tests.reliability.runs import CAUSES, trouble
from transformer.cli.compose import main
from transformer.cli.train import train

if __name__ == "__main__":
    guilty, batch, cause = os.environ["FAILING"].split()
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    with trouble(int(batch) if rank == guilty else 0, CAUSES[cause]):
        main(train, "train")
