"""A small language learned in seconds, and what trains on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer
from transformer.training.callbacks.checkpointing import AtomicCheckpoints

from tests.data.corpora import settings as data_settings
from tests.data.corpora import write
from tests.factories import composed, model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.datamodule import TranslationData
from transformer.inference.translator import BEAM
from transformer.training.config import TrainingSettings
from transformer.training.module import TranslationModule

SETTINGS = from_dict(
    TrainingSettings,
    composed(
        *("training.learning_rate=1e-2", "training.weight_decay=0.1", "training.schedule=cosine"),
        *("training.warmup_steps=4", "training.label_smoothing=0.1", "training.validate_every=10"),
        *("training.patience=5", "training.samples=0", "training.averaging={decay: 0.9, count: 3}"),
    )["training"],
    "training",
)
DIGITS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def numbers_data(folder: Path, **changes: Any) -> TranslationData:
    """Numbers of two to four digits, read out digit by digit: a language learned in seconds."""
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
    scored = {
        name: corpus.languages for name, (corpus, split) in data.all_splits.items() if split in ("validation", "test")
    }
    pairs = {name: data.text_pairs(name) for name in scored}
    return TranslationModule(translator, settings, pairs, replace(BEAM, method="greedy"), BEAM, ["bleu"], scored)


def trainer_for(folder: Path, **arguments: Any) -> Trainer:
    quiet = {
        "accelerator": "cpu",
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "use_distributed_sampler": False,
        "num_sanity_val_steps": 0,
        "plugins": [AtomicCheckpoints()],
    }
    return Trainer(default_root_dir=folder, **(quiet | arguments))
