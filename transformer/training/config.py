"""All settings of a run but the model's and the Trainer's, as plain typed data; configs/train.yaml names the files that
explain them."""

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.tokenizer import TokenizerSettings, check_tokenizer_use
from transformer.device import MachineSettings
from transformer.evaluation.metrics import MetricSettings
from transformer.files import expanded
from transformer.inference.search import SearchSettings
from transformer.model.config import ModelConfig, Rate
from transformer.training.guided_alignment import GuidedAlignmentSettings
from transformer.training.optim import OPTIMIZERS, SCHEDULES, require_muon
from transformer.training.regularization import REGULARIZERS

Steps = Annotated[int, ">= 1", "<= 1000000000"]
WarmupSteps = Annotated[int, ">= 0", "<= 1000000000"]  # 0: no warm-up
LoggerName = Literal["csv", "tensorboard", "wandb"]


@dataclass(frozen=True)
class AveragingSettings:
    """`decay` belongs to the exponential average; `count` is how many validations' weights the plain mean takes."""

    kind: Literal["none", "exponential", "last"]
    decay: Annotated[float, "> 0", "< 1"]
    count: Annotated[int, ">= 1", "<= 1000"]


@dataclass(frozen=True)
class TrainingSettings:
    """How the weights are trained. `validate_every` counts steps, `patience` validations without a better BLEU."""

    initial_embeddings: Literal["random", "cooccurrence"]
    optimizer: Annotated[str, OPTIMIZERS]
    learning_rate: Annotated[float, "> 0", "<= 1000"]
    betas: list[Rate]
    weight_decay: Annotated[float, ">= 0", "<= 1000"]
    schedule: Annotated[str, SCHEDULES]
    warmup_steps: WarmupSteps
    label_smoothing: Rate
    r_drop: Annotated[float, ">= 0", "<= 1000"]
    bpe_dropout: Rate
    dropout_warmup_steps: WarmupSteps
    guided_alignment: GuidedAlignmentSettings
    regularization: dict[Annotated[str, REGULARIZERS], Rate]
    averaging: AveragingSettings
    validate_every: Steps
    patience: Steps
    checkpoint_every_steps: Steps | None
    checkpoint_every_minutes: Annotated[float, "> 0", "<= 1000000"] | None
    samples: Annotated[int, ">= 0", "<= 1000"]
    compile: Literal["inductor", "aot_eager"] | None

    def __post_init__(self) -> None:
        if len(self.betas) != 2:
            raise ValueError(f"training.betas={self.betas} must be two numbers")


@dataclass(frozen=True)
class RunSettings(MetricSettings):
    """A whole run, but for the model (the tokenizers decide its vocabularies) and Lightning's Trainer."""

    test: bool
    seed: Annotated[int, ">= 0", "<= 4294967295"]
    init_from: str | None
    loggers: list[LoggerName]
    data: DataSettings
    tokenizer: TokenizerSettings
    training: TrainingSettings
    validation_search: SearchSettings
    search: SearchSettings
    machine: MachineSettings


def read_run_settings(settings: dict[str, Any]) -> RunSettings:
    """Reads all settings of a run, strictly; those of its model and of the Trainer are read where they are used."""
    return from_dict(
        RunSettings, {key: value for key, value in settings.items() if key not in ("model", "trainer")}, ""
    )


def check_settings(settings: RunSettings, model: ModelConfig) -> None:
    """Checks settings against each other and against those of the model: raises ValueError for what is wrong whatever
    the corpus."""
    if not settings.init_from:  # else weights and tokenizers are there
        tokenizer, directions = settings.tokenizer, len(settings.data.all_directions)
        # Two vocabularies may be of one size all the same.
        if model.tied_embeddings == "all" and not tokenizer.joint:
            raise ValueError(
                "model.tied_embeddings=all needs one vocabulary for both languages: tokenizer.joint=true, or else "
                "model.tied_embeddings=target or none"
            )
        check_tokenizer_use(tokenizer.kind, tokenizer.joint, directions, settings.training.bpe_dropout)
        if settings.training.initial_embeddings == "cooccurrence" and model.tied_embeddings != "all":
            raise ValueError(
                "training.initial_embeddings=cooccurrence makes one matrix for both languages: with "
                f"model.tied_embeddings={model.tied_embeddings} use training.initial_embeddings=random"
            )
    for name, search in {"search": settings.search, "validation_search": settings.validation_search}.items():
        if search.min_length >= model.max_length:
            raise ValueError(
                f"{name}.min_length={search.min_length} is more than model.max_length={model.max_length} allows"
            )
    if settings.training.guided_alignment.weight and model.decoder.cross_attention is None:
        raise ValueError(
            "training.guided_alignment.weight teaches a head of cross-attention, which this model does not have: leave "
            "out model.decoder.cross_attention=null, or give training.guided_alignment.weight=0"
        )
    if settings.training.compile and settings.training.dropout_warmup_steps:
        raise ValueError(
            "training.dropout_warmup_steps changes dropout at every step, and each time training.compile would compile "
            "the model again: set only one of them"
        )
    if settings.training.optimizer == "muon":
        require_muon()
    if (cache := expanded(settings.data.cache)).exists() and not cache.is_dir():
        raise ValueError(f"cache={cache} is a file: name a folder")
    if "wandb" in settings.loggers and not importlib.util.find_spec("wandb"):
        raise ValueError("loggers= names wandb, which is not installed: pip install -e '.[wandb]'")
