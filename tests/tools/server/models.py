"""Two translators of three directions: one has learned German → English, one both English → French and back."""

import torch

from tests.factories import tokenizer_settings
from tests.tools.export.models import TEXTS, VOCAB_SIZE, random_translator, small_tokenizer, teach_to_repeat
from transformer import Translator
from transformer.data.tokenizer import train_tokenizer

# Of every length, with letters that the vocabulary lacks, and longer than the model allows.
LINES = [*filter(None, TEXTS), "der Hund geht in ein Haus. " * 6 + "ja", "жзд und ein Haus", "12 %"]

# Of both directions, in the folder where tests serve them.
BOTH = ("--checkpoint", "de_en.safetensors", "--checkpoint", "en_fr.safetensors")


def german_to_english() -> Translator:
    translator = random_translator(small_tokenizer())
    teach_to_repeat(translator, steps=60)
    return translator


def english_and_french() -> Translator:
    torch.manual_seed(2)
    settings = tokenizer_settings("bpe", VOCAB_SIZE)
    tokenizer = train_tokenizer(TEXTS * 3, settings, ["en", "fr"])
    directions = [("en", "fr"), ("fr", "en")]
    return Translator(random_translator(tokenizer).model, (tokenizer, tokenizer), ("en", "fr"), directions)
