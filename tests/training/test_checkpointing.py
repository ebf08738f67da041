"""Where checkpoints are saved does not depend on what an earlier checkpoint says."""

from pathlib import Path

import pytest
import torch
from transformer.training.callbacks.checkpointing import BestCheckpoint, ValidationCheckpoint


@pytest.mark.parametrize("foreign", ["/elsewhere/best.ckpt", "/"])
def test_the_paths_of_a_checkpoint_give_way_to_those_of_the_run(tmp_path: Path, foreign: str) -> None:
    for callback in (BestCheckpoint(tmp_path), ValidationCheckpoint(tmp_path, "last", monitor=None)):
        score = torch.tensor(31.0)
        callback.load_state_dict(
            callback.state_dict()
            | dict.fromkeys(("dirpath", "best_model_path", "kth_best_model_path", "last_model_path"), foreign)
            | {"best_k_models": {foreign: score}, "best_model_score": score, "kth_value": score, "current_score": score}
        )
        state = callback.state_dict()
        paths = {state[key] for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        assert paths | set(state["best_k_models"]) == {callback.path}
        assert Path(callback.path).parent == Path(state["dirpath"]) == tmp_path / "checkpoints"
        assert state["best_model_score"] == score
