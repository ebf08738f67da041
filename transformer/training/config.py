"""All settings of a run but the model's, as plain typed data; configs/train.yaml names the files that explain them."""

import importlib.util
import re
from dataclasses import dataclass
from datetime import timedelta
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
from transformer.training.optim import OPTIMIZERS, SCHEDULES
from transformer.training.regularization import REGULARIZERS

Steps = Annotated[int, ">= 1", "<= 1000000000"]
WarmupSteps = Annotated[int, ">= 0", "<= 1000000000"]  # 0: no warm-up
LoggerName = Literal["csv", "tensorboard", "wandb"]
# Of an epoch or a split: a number of batches, or, up to 1.0, a share of them.
BatchLimit = Annotated[int | float, ">= 0", "<= 1000000000"]


@dataclass(frozen=True)
class TrainerSettings:
    """On what training runs and when it ends, in the words of Lightning's Trainer; configs/trainer/auto.yaml explains
    each."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"]
    devices: Annotated[int, ">= -1", "<= 100000"]
    num_nodes: Annotated[int, ">= 1", "<= 100000"]
    strategy: Literal["auto", "ddp"]
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"]
    max_steps: Annotated[int, ">= -1", "<= 1000000000000"]
    max_epochs: Annotated[int, ">= -1", "<= 1000000000000"]
    max_time: str | None
    gradient_clip_val: Annotated[float, ">= 0", "<= 1000000000"] | None
    accumulate_grad_batches: Annotated[int, ">= 1", "<= 1000000"]
    limit_train_batches: BatchLimit
    limit_val_batches: BatchLimit
    limit_test_batches: BatchLimit
    log_every_n_steps: Annotated[int, ">= 1", "<= 1000000000"]
    deterministic: bool

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_epochs", "devices", "limit_train_batches", "limit_test_batches"):
            if getattr(self, name) == 0:
                raise ValueError(f"trainer.{name}=0 is not allowed: a run trains and ends with its test")
        for name in ("limit_train_batches", "limit_val_batches", "limit_test_batches"):
            limit = getattr(self, name)
            if isinstance(limit, float) and limit > 1:
                raise ValueError(f"trainer.{name}={limit} must be a whole number of batches, or a share of them to 1.0")
        if self.max_seconds is not None and self.max_seconds <= 0:
            raise ValueError(f"trainer.max_time={self.max_time} leaves no time: 00:00:10:00 are ten minutes")

    @property
    def max_seconds(self) -> float | None:
        """The limit of time; None: there is none. Raises ValueError for what is no time."""
        if self.max_time is None:
            return None
        if not re.fullmatch(r"\d{1,5}(:\d\d){3}", self.max_time):
            raise ValueError(f"trainer.max_time={self.max_time} must be DD:HH:MM:SS: 00:00:10:00 are ten minutes")
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return timedelta(days, seconds, hours=hours, minutes=minutes).total_seconds()


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
    """A whole run, but for the model: the tokenizers decide its vocabularies."""

    test: bool
    seed: Annotated[int, ">= 0", "<= 4294967295"]
    init_from: str | None
    loggers: list[LoggerName]
    data: DataSettings
    tokenizer: TokenizerSettings
    training: TrainingSettings
    trainer: TrainerSettings
    validation_search: SearchSettings
    search: SearchSettings
    machine: MachineSettings


def read_run_settings(settings: dict[str, Any]) -> RunSettings:
    """Reads all settings of a run, strictly; those of its model are read where they are used."""
    return from_dict(RunSettings, {key: value for key, value in settings.items() if key != "model"}, "")


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
    if settings.trainer.limit_val_batches == 0 and settings.training.averaging.kind != "none":
        raise ValueError(
            f"training.averaging.kind={settings.training.averaging.kind} needs a validation, which says whether the "
            "average is better: leave out trainer.limit_val_batches=0"
        )
    if (cache := expanded(settings.data.cache)).exists() and not cache.is_dir():
        raise ValueError(f"cache={cache} is a file: name a folder")
    if "wandb" in settings.loggers and not importlib.util.find_spec("wandb"):
        raise ValueError("loggers= names wandb, which is not installed: pip install -e '.[wandb]'")
