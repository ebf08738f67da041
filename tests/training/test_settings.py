"""Wrong combinations of settings are refused before the corpus is read; each setting is allowed with others."""

import importlib.util
import re

import pytest

from tests.cases import others_long
from tests.factories import composed, run_dict
from transformer.cli.train import of_run, read_run_settings
from transformer.model.config import read_model
from transformer.training.config import check_settings


def check(typed: str) -> None:
    settings = of_run(composed("data=toy", *typed.split()))
    check_settings(read_run_settings(settings), read_model(settings["model"]))


@pytest.mark.parametrize(
    ("together", "apart", "said"),
    others_long(
        [
            (
                "model.tied_embeddings=all tokenizer.joint=false",
                ["model.tied_embeddings=target tokenizer.joint=false", "tokenizer.joint=false init_from=x"],
                "model.tied_embeddings=all needs one vocabulary for both languages",
            ),
            (
                "training.initial_embeddings=cooccurrence model.tied_embeddings=target",
                [
                    "training.initial_embeddings=cooccurrence",
                    "model.tied_embeddings=target",
                    "training.initial_embeddings=cooccurrence model.tied_embeddings=target init_from=x",
                ],
                "training.initial_embeddings=cooccurrence makes one matrix for both languages",
            ),
            (
                "tokenizer=word training.bpe_dropout=0.1",
                ["tokenizer=word", "training.bpe_dropout=0.1", "tokenizer=word training.bpe_dropout=0.1 init_from=x"],
                "training.bpe_dropout needs tokenizer=bpe or unigram, not word",
            ),
            (
                "search.min_length=64 model.max_length=64",
                ["search.min_length=63 model.max_length=64"],
                "search.min_length=64 is more than model.max_length=64 allows",
            ),
            (
                "validation_search.min_length=64 model.max_length=64",
                ["validation_search.min_length=63 model.max_length=64"],
                "validation_search.min_length=64 is more than model.max_length=64 allows",
            ),
            (
                "training.guided_alignment.weight=0.1 model.decoder.cross_attention=null",
                ["training.guided_alignment.weight=0 model.decoder.cross_attention=null"],
                "training.guided_alignment.weight teaches a head of cross-attention, which this model does not have",
            ),
            (
                "training.snapshots=5 trainer.max_steps=-1",
                ["training.snapshots=5", "training.snapshots=5 trainer.max_steps=-1 trainer.max_epochs=2"],
                "training.snapshots are spread over all steps of a run, and this one has no limit of steps",
            ),
            (
                "training.dropout_warmup_steps=1 training.compile=aot_eager",
                ["training.dropout_warmup_steps=1", "training.compile=aot_eager"],
                "training.dropout_warmup_steps changes dropout at every step",
            ),
            ("training.betas=[0.9]", ["training.betas=[0.9,0.98]"], "training.betas=[0.9] must be two numbers"),
        ],
        short=4,
    ),
)
def test_settings_that_do_not_go_together_are_refused_and_each_alone_is_taken(
    together: str, apart: list[str], said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        check(together)
    for typed in apart:
        check(typed)


def test_a_setting_that_no_run_has_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"^sed: no such setting; did you mean seed\?"):
        read_run_settings(run_dict("data=toy") | {"sed": 3})
    with pytest.raises(ValueError, match=r"^sed: no such setting"):
        of_run(composed("data=toy") | {"sed": 3})


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_logger_that_is_not_installed_is_refused_before_the_work() -> None:
    check("loggers=[csv,tensorboard]")
    with pytest.raises(ValueError, match=r"^loggers= names wandb, which is not installed: pip install"):
        check("loggers=[csv,wandb]")
