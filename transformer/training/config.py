"""All settings of a run except the model's, as plain typed data; see configs/train.yaml for the files that explain
them."""

import importlib.util
import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from transformer.config import FIXED, OFF_CARD, PATH, Registry, Settings, setting
from transformer.data.config import DataSettings
from transformer.data.tokenizer import TokenizerSettings, check_tokenizer_use
from transformer.evaluation.metrics import MetricSettings
from transformer.files import expanded
from transformer.inference.settings import SearchSettings
from transformer.machine import MachineSettings
from transformer.model.config import ModelConfig, Rate

DEFAULT_STEPS = 1000
Steps = Annotated[int, ">= 1", "<= 1000000000"]
WarmupSteps = Annotated[int, ">= 0", "<= 1000000000"]  # 0: no warm-up
# The function for each name in the settings; its file says how to add another.
OPTIMIZERS: Registry[Any] = Registry({name: f"transformer.training.optim:{name}" for name in ("adamw", "adam", "muon")})
SCHEDULES: Registry[Any] = Registry(
    {name: f"transformer.training.optim:{name}" for name in ("cosine", "inverse_square_root")}
)
REGULARIZERS: Registry[Any] = Registry(
    word_dropout="transformer.training.regularization:drop_words",
    layer_drop="transformer.training.regularization:drop_layers",
)
# Each function makes a logger for a run's folder; a resumed run keeps some rows and steps of its log.
LOGGERS: Registry[Any] = Registry(
    {name: f"transformer.tools.loggers:{name}" for name in ("csv", "tensorboard", "wandb")}
)
# How much of an epoch or a split is used: a number of batches, or, as a float up to 1.0, a share of them.
BatchLimit = Annotated[int | float, ">= 0", "<= 1000000000"]


@dataclass(frozen=True)
class TrainerSettings(Settings):
    """The devices of training and when it ends, with the names of Lightning's Trainer."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    """auto (a GPU if there is one) | cpu | gpu | mps"""
    devices: Annotated[int, ">= -1", "<= 100000"] = 1
    """the number of devices, each with a process; -1: all GPUs"""
    num_nodes: Annotated[int, ">= 1", "<= 100000"] = 1
    """machines that torchrun or SLURM start the processes on"""
    strategy: Literal["auto", "ddp"] = "auto"
    """auto | ddp: several processes, each with a copy of the weights"""
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    """32-true | bf16-mixed | 16-mixed; auto: bf16-mixed on a GPU or CPU that multiplies bf16 fast (AVX512_BF16, AMX,
    ARM BF16), else 32-true"""
    max_steps: Annotated[int, ">= -1", "<= 1000000000000"] | None = None
    """updates of the weights; -1: no limit; null: chosen by the number of pairs, with training=standard 1000, or no
    limit beside max_epochs or max_time"""
    max_epochs: Annotated[int, ">= -1", "<= 1000000000000"] = -1
    """passes over the training pairs; -1: no limit"""
    max_time: str | None = None
    """DD:HH:MM:SS for training and test: some steps are timed at the start, and max_steps is set so that they fit"""
    gradient_clip_val: Annotated[float, ">= 0", "<= 1000000000"] | None = 1.0
    """a gradient with a larger norm is scaled down to this norm; null: off"""
    accumulate_grad_batches: Annotated[int, ">= 1", "<= 1000000"] = 1
    """batches of each process for one update"""
    limit_train_batches: BatchLimit = 1.0
    """how much of an epoch is used: a number of batches, or a share up to 1.0"""
    limit_val_batches: BatchLimit = 1.0
    """the same for the validation set; 0: no validation"""
    limit_test_batches: BatchLimit = 1.0
    """the same for each test set"""
    log_every_n_steps: Annotated[int, ">= 1", "<= 1000000000"] = 20
    """steps between two logs of loss, norm of the gradient and learning rate"""
    deterministic: bool = False
    """true: torch uses only operations that always give the same result (for a GPU; slower)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_steps", "max_epochs", "devices", "limit_train_batches", "limit_test_batches"):
            if getattr(self, name) == 0:
                raise ValueError(f"trainer.{name}=0 is not allowed: a run trains and ends with its test")
        for name in ("limit_train_batches", "limit_val_batches", "limit_test_batches"):
            limit = getattr(self, name)
            if isinstance(limit, float) and limit > 1:
                raise ValueError(f"trainer.{name}={limit} must be a whole number of batches, or a share up to 1.0")
        if self.max_seconds is not None and self.max_seconds <= 0:
            raise ValueError(f"trainer.max_time={self.max_time} leaves no time: 00:00:10:00 are ten minutes")

    @property
    def steps(self) -> int | float:
        """The limit of steps; infinite if there is none."""
        if self.max_steps is None:
            return math.inf if self.max_epochs > 0 or self.max_time else DEFAULT_STEPS
        return math.inf if self.max_steps < 0 else self.max_steps

    @property
    def max_seconds(self) -> float | None:
        """The limit of time in seconds; None if there is none. Raises ValueError for text that is no time."""
        if self.max_time is None:
            return None
        if not re.fullmatch(r"\d{1,5}(:\d\d){3}", self.max_time):
            raise ValueError(f"trainer.max_time={self.max_time} must be DD:HH:MM:SS: 00:00:10:00 are ten minutes")
        days, hours, minutes, seconds = map(int, self.max_time.split(":"))
        return timedelta(days, seconds, hours=hours, minutes=minutes).total_seconds()


@dataclass(frozen=True)
class GuidedAlignmentSettings(Settings):
    """The `weight` of its loss at the first step; it falls evenly to 0 over `steps` steps."""

    weight: Annotated[float, ">= 0", "<= 1000"] = 0.0
    """the weight of this loss at the first step, added to the cross-entropy (about 1; 0: off)"""
    steps: Annotated[int, ">= 1", "<= 1000000000"] = 3000
    """the number of steps over which the weight falls to 0"""


@dataclass(frozen=True)
class AveragingSettings(Settings):
    """`decay` is for the exponential average, `count` for the plain mean."""

    kind: Annotated[Literal["none", "exponential", "last"], FIXED] = "none"
    """none | exponential (over steps) | last (the mean of the weights at the last validations)"""
    decay: Annotated[float, "> 0", "< 1"] = 0.999
    """of the exponential average"""
    count: Annotated[int, ">= 1", "<= 1000"] = 5
    """of the mean: the number of validations"""


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How the weights are trained."""

    initial_embeddings: Literal["random", "cooccurrence"] = "random"
    """random | cooccurrence: pieces that occur in the same training pairs begin with similar vectors (not with
    init_from)"""
    optimizer: Annotated[str, OPTIMIZERS, FIXED] = "adamw"
    """adamw | adam | muon (for the layers' matrices, adamw for the rest)"""
    learning_rate: Annotated[float, "> 0", "<= 1000"] = 0.003
    """the peak, reached after warm-up"""
    betas: list[Rate] = setting([0.9, 0.98])
    """of Adam: the decay of the means of the gradient and of its square"""
    weight_decay: Annotated[float, ">= 0", "<= 1000"] = 0.01
    """on the matrices of layers only"""
    schedule: Annotated[str, SCHEDULES] = "cosine"
    """after warm-up: cosine (to 0 at the last step) | inverse_square_root (Vaswani et al. 2017)"""
    warmup_steps: WarmupSteps = 200
    """the number of steps over which the learning rate rises from 0"""
    label_smoothing: Rate = 0.1
    """the share of probability spread over all ids"""
    r_drop: Annotated[float, ">= 0", "<= 1000"] = 0.0
    """α of R-Drop: two forward passes whose predictions should agree (about 5; 0: one pass)"""
    bpe_dropout: Rate = 0.0
    """the probability that BPE skips a merge, so words are split differently in every epoch (about 0.1; 0: off); for
    unigram, splits are drawn by their probability to this power"""
    dropout_warmup_steps: WarmupSteps = 0
    """the number of steps over which dropout grows from 0 to the model's own; 0: off"""
    guided_alignment: GuidedAlignmentSettings = GuidedAlignmentSettings()
    """an early loss that teaches one head of cross-attention alignments counted in the training pairs"""
    regularization: dict[Annotated[str, REGULARIZERS], Rate] = setting({"word_dropout": 0.0, "layer_drop": 0.0})
    """probabilities (0: off); dropout itself is a setting of the model"""
    averaging: AveragingSettings = AveragingSettings()
    """which weights are validated, tested and saved: the current ones, or an average of them"""
    validate_every: Steps = 200
    """steps between validations"""
    choose_by: Literal["auto", "bleu", "chrf", "loss"] = "auto"
    """auto | bleu | chrf | loss: which validation score chooses the best checkpoint; auto: BLEU, or chrF if no
    reference has four words, so that BLEU is always 0"""
    patience: Steps = 10
    """validations without a better score before training stops"""
    checkpoint_every_steps: Steps | None = None
    """saves last.ckpt also every N steps, not only at each validation (null: off)"""
    checkpoint_every_minutes: Annotated[float, "> 0", "<= 1000000"] | None = None
    """the same every N minutes (null: off)"""
    snapshots: Annotated[int, ">= 0", "<= 30"] = 0
    """how many models of its training a run keeps, for the page: at step 0, at step 50, then each the same factor
    later (about 5; 0: none)"""
    samples: Annotated[int, ">= 0", "<= 1000"] = 3
    """validation sentences whose translations are printed when validation BLEU improves"""
    compile: Literal["inductor", "aot_eager"] | None = None
    """torch.compile while training: inductor (for a GPU; slower on a CPU) | aot_eager (to find errors)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.betas) != 2:
            raise ValueError(f"training.betas={self.betas} must be two numbers")


@dataclass(frozen=True, kw_only=True)
class RunSettings(MetricSettings):
    """A whole run, except the model: its vocabularies depend on the tokenizers."""

    test: Annotated[bool, OFF_CARD] = True
    """false: no test at the end; a sweep's table then shows validation BLEU"""
    seed: Annotated[int, ">= 0", "<= 4294967295", FIXED] = 1
    """of weights, dropout and batch order"""
    init_from: Annotated[str, PATH, FIXED] | None = None
    """a run or a model file: training begins with its weights and tokenizers"""
    loggers: Annotated[list[Annotated[str, LOGGERS]], OFF_CARD] = setting(["csv", "tensorboard"])
    """csv | tensorboard | wandb (pip install -e '.[wandb]')"""
    data: DataSettings
    tokenizer: Annotated[TokenizerSettings, FIXED] = TokenizerSettings()
    training: TrainingSettings = TrainingSettings()
    trainer: TrainerSettings = TrainerSettings()
    validation_search: Annotated[SearchSettings, OFF_CARD] = SearchSettings(method="greedy")
    search: SearchSettings = SearchSettings()
    machine: Annotated[MachineSettings, OFF_CARD] = MachineSettings()


def check_settings(settings: RunSettings, model: ModelConfig) -> None:
    """Checks settings against each other and against those of the model: raises ValueError for mistakes that do not
    depend on the corpus."""
    if not settings.init_from:  # otherwise weights and tokenizers exist already
        tokenizer, directions = settings.tokenizer, len(settings.data.all_directions)
        # The sizes do not tell: two separate vocabularies may have the same size.
        if model.tied_embeddings == "all" and not tokenizer.joint:
            raise ValueError(
                "model.tied_embeddings=all needs one vocabulary for both languages: tokenizer.joint=true, or else "
                "model.tied_embeddings=target or none"
            )
        check_tokenizer_use(
            tokenizer.kind, tokenizer.joint, directions, settings.training.bpe_dropout, settings.data.placeholders
        )
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
            f"training.averaging.kind={settings.training.averaging.kind} needs a validation, which shows whether the "
            "average is better: leave out trainer.limit_val_batches=0"
        )
    trainer = settings.trainer
    if settings.training.snapshots and math.isinf(trainer.steps) and trainer.max_epochs < 0 and not trainer.max_time:
        raise ValueError(
            "training.snapshots are spread over all steps of a run, and this one has no limit of steps: give "
            "trainer.max_steps, max_epochs or max_time, or training.snapshots=0"
        )
    if (cache := expanded(settings.data.cache)).exists() and not cache.is_dir():
        raise ValueError(f"data.cache={cache} is a file: give a folder")
    if "wandb" in settings.loggers and not importlib.util.find_spec("wandb"):
        raise ValueError("loggers= names wandb, which is not installed: pip install -e '.[wandb]'")
