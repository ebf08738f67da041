"""A small language learned in seconds, and what trains on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning import Fabric, Trainer

from tests.data.corpora import settings as data_settings
from tests.data.corpora import write
from tests.factories import composed, model_dict, run_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.datamodule import TranslationData
from transformer.inference.translator import BEAM
from transformer.signals import SignalHandler
from transformer.training.config import RunSettings, TrainingSettings
from transformer.training.loop import Training
from transformer.training.module import TranslationModule

SETTINGS = from_dict(
    TrainingSettings,
    composed(
        *("training.learning_rate=1e-2", "training.weight_decay=0.1", "training.schedule=cosine"),
        *("training.warmup_steps=4", "training.label_smoothing=0.1", "training.validate_every=10"),
        *(
            "training.patience=5",
            "training.samples=0",
            "training.choose_by=bleu",
            "training.averaging={decay: 0.9, count: 3}",
        ),
    )["training"],
    "training",
)
DIGITS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def numbers_data(folder: Path, **changes: Any) -> TranslationData:
    """Numbers of two to four digits, read out digit by digit: a language that a model learns in seconds."""
    numbers = [[int(digit) for digit in str(number)] for number in range(17, 4000, 23)]
    write(folder, "x.de", [" ".join(DIGITS[digit] for digit in number) for number in numbers])
    write(folder, "x.en", [" ".join(ENGLISH[digit] for digit in number) for number in numbers])
    words = tokenizer_settings("word", 100)
    return TranslationData(data_settings(folder, batch_tokens=160, **changes), words, seed=1)


def module_for(data: TranslationData, settings: TrainingSettings = SETTINGS, **model: Any) -> TranslationModule:
    torch.manual_seed(5)
    size = len(data.source_tokenizer)
    config = from_dict(ModelConfig, model_dict(source_vocab_size=size, target_vocab_size=size, **model), "model")
    tokenizers = (data.source_tokenizer, data.target_tokenizer)
    translator = Translator(Transformer(config), tokenizers, ("de", "en"), data.settings.all_directions)
    return TranslationModule(translator, settings)


def fabric_for(processes: int = 1) -> Fabric:
    fabric = Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
    fabric.launch()
    return fabric


def training_for(
    module: TranslationModule, data: TranslationData, folder: Path, processes: int = 1, **more: Any
) -> Training:
    """A training of this module on the CPU, in float32, with more trainer settings; settings in `more` with a name of
    Training are passed to it."""
    given = {name: more.pop(name) for name in ("guide", "on_step", "on_validation") if name in more}
    plain = run_dict()
    plain["trainer"] |= {"accelerator": "cpu", "precision": "32-true", "gradient_clip_val": None} | more
    settings = replace(
        from_dict(RunSettings, plain, ""),
        data=data.settings,
        training=module.settings,
        validation_search=replace(BEAM, method="greedy", length_ratio=1.0, length_extra=2),
    )
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    return Training(fabric_for(processes), module, data, settings, {}, folder, SignalHandler(), **given)


def trainer_for(folder: Path, **arguments: Any) -> Trainer:
    """Lightning's Trainer, with the settings of users."""
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    more = {"use_distributed_sampler": False, "num_sanity_val_steps": 0}
    return Trainer(default_root_dir=folder, **(quiet | more | arguments))
