"""Exports a translator as a folder that Hugging Face's transformers loads without our code.

`AutoModelForSeq2SeqLM` and `AutoTokenizer` load it: norm=pre as a Blenderbot model, norm=post as a Marian model, the
tokenizers as a MarianTokenizer. `tools.hub.reader` explains the two classes, and reads such folders.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from transformer.data.directions import Direction, arrow, direction_name
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, language_tag
from transformer.device import PRECISIONS
from transformer.files import HUGGINGFACE_TOKENIZER
from transformer.inference.settings import SearchSettings
from transformer.model.attention import MultiHeadAttention
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer
from transformer.tools.export import folder as folders
from transformer.tools.export.supported import check_learned, check_supported, dot_product_query
from transformer.tools.export.write import Export
from transformer.tools.hub.reader import (
    ACTIVATIONS,
    CONFIG,
    DIRECTIONS,
    GENERATION_CONFIG,
    MODEL_TYPES,
    TARGET_VOCABULARY,
    VOCABULARY,
    reorder_width,
    sines_first,
    their_name,
)
from transformer.tools.hub.vocabulary import KINDS, marian_code

CLASSES = {"blenderbot": "BlenderbotForConditionalGeneration", "marian": "MarianMTModel"}
# The card of a model without a run.
NO_CARD = """\
---
language: {languages}
pipeline_tag: translation
---

# {direction}

"""
HOW_TO_LOAD = """\
## How to load

With Hugging Face's transformers (5 or newer), in this folder (or with the model's name on the hub):

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForSeq2SeqLM.from_pretrained(".")
tokens = tokenizer(["…"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**tokens), skip_special_tokens=True))
```
"""
POSITIONS = {"pre": ("sinusoidal", "learned", "none"), "post": ("sinusoidal",)}
SCORES = ("dot", "scaled_dot", "bilinear")


def check(config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Raises ValueError, with the setting, if transformers has no class for a translator."""
    program = f"Hugging Face with model.norm={config.norm}"
    check_supported(config, program, POSITIONS[config.norm], SCORES, tuple(ACTIVATIONS))
    cross, heads = config.decoder.cross_attention, config.decoder.self_attention.heads
    refused = {
        "model.decoder.cross_attention=null: its decoder reads the source": cross is None,
        f"model.decoder.cross_attention.heads beside {heads} of self_attention: its decoder has one number of heads": (
            cross is not None and cross.heads != heads
        ),
        f"model.tied_embeddings={config.tied_embeddings} with model.norm=pre: its class has one table of embeddings": (
            config.norm == "pre" and config.tied_embeddings != "all"
        ),
        f"tokenizer={tokenizer.kind}: its tokenizer cannot mark words without a space before them": (
            tokenizer.kind not in KINDS.values()
        ),
    }
    for name, attention in config.attentions().items():
        widths = set(attention.head_dims(config.dim)) | {config.dim // attention.heads}
        refused[f"model.{name}.head_dim and value_dim: its heads share model.dim equally"] = len(widths) > 1
    for reason, applies in refused.items():
        if applies:
            raise ValueError(f"cannot be exported to Hugging Face: {reason}")


def _weights(model: Transformer) -> dict[str, Tensor]:
    """Their state dict: our weights with their names, in their order of the width."""
    config = model.config
    ours = {name: weight.detach().cpu() for name, weight in model.named_parameters()}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            ours.pop(f"{name}.score.weight", None)
            # Their score is scaled_dot, so other scales and matrices become part of the query.
            for part, query in dot_product_query(module).items():
                ours[f"{name}.query.{part}"] = query * module.score.scale * module.head_dim**0.5
            for part in ("query", "key", "value", "output"):
                ours.setdefault(f"{name}.{part}.bias", torch.zeros(len(ours[f"{name}.{part}.weight"])))
    if config.norm == "pre":
        for side, positions in (
            ("encoder", model.encoder.embedding.positions),
            ("decoder", model.decoder.embedding.positions),
        ):
            none = torch.zeros(config.max_length, config.dim)
            ours[f"{side}.embedding.positions.table"] = getattr(positions, "table", none).detach().cpu()
    order = sines_first(config.dim) if config.norm == "post" else torch.arange(config.dim)
    theirs = {their_name(name): reorder_width(name, weight, order) for name, weight in ours.items()}
    if config.tied_embeddings == "all":
        theirs["model.shared.weight"] = theirs.pop("model.encoder.embed_tokens.weight")
    theirs.setdefault("final_logits_bias", torch.zeros(config.target_vocab_size))
    return theirs | {"final_logits_bias": theirs["final_logits_bias"][None]}


def _config(config: ModelConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Their config.json: the shape of the model, and its dropout for further training."""
    model_type, attention = MODEL_TYPES[config.norm], config.encoder.self_attention
    return {
        "architectures": [CLASSES[model_type]],
        "model_type": model_type,
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "d_model": config.dim,
        "encoder_layers": config.encoder.layers,
        "decoder_layers": config.decoder.layers,
        "encoder_attention_heads": attention.heads,
        "decoder_attention_heads": config.decoder.self_attention.heads,
        "encoder_ffn_dim": config.feed_forward.dim,
        "decoder_ffn_dim": config.feed_forward.dim,
        "activation_function": ACTIVATIONS[config.feed_forward.activation][0],
        "max_position_embeddings": config.max_length,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
        "tie_word_embeddings": config.tied_embeddings != "none",
        "dropout": config.dropout,
        "attention_dropout": attention.dropout,
        "activation_dropout": config.feed_forward.dropout,
        # By default Blenderbot forbids to repeat three source tokens, and forces an end.
        "encoder_no_repeat_ngram_size": 0,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "dtype": str(dtype).removeprefix("torch."),
    }


def _vocabulary(tokenizer: Tokenizer, directions: Sequence[Direction]) -> dict[str, int]:
    """Piece → id. With several directions, the language tags also get the names that a MarianTokenizer uses."""
    pieces = {tokenizer.piece(id): id for id in range(len(tokenizer))}
    tags = {marian_code(target): pieces.get(language_tag(target)) for _, target in directions}
    return {code: id for code, id in tags.items() if id is not None} | pieces


def hub_card(card: str, languages: tuple[str, str]) -> str:
    """The card of the folder: that of the run with another section about loading, or, without a run, a short one."""
    head, how_to_load, rest = card.partition("## How to load\n")
    if not how_to_load or not head.startswith("---\n"):
        head = NO_CARD.format(languages=json.dumps(languages), direction=arrow(languages))
        rest = ""
    head = head.replace("pipeline_tag: translation\n", "pipeline_tag: translation\nlibrary_name: transformers\n", 1)
    scores = rest[rest.find("## Scores\n") :] if "## Scores\n" in rest else ""
    return f"{head}{HOW_TO_LOAD}\n{scores}"


def write_model(
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    directions: Sequence[Direction],
    length_penalty: float,
    dtype: torch.dtype,
    card: str,
    folder: Path,
) -> None:
    """Writes the files of transformers (without the SentencePiece models) and the run's `card` (README.md) for the hub.
    `directions` are all that the model has learned, first the one to translate. Raises the errors of `check`."""
    check(model.config, tokenizers[0])
    languages = directions[0]
    weights = {name: weight.to(dtype).contiguous() for name, weight in _weights(model).items()}
    # Written as bytes, because only the owner could read a file of `save_file`.
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(weights, {"format": "pt"}))
    config = _config(model.config, dtype)
    separate = not config["share_encoder_decoder_embeddings"]
    ends = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "decoder_start_token_id": BOS}
    longest = model.config.max_length
    generation = {
        **ends,
        "num_beams": SearchSettings().beam,
        "length_penalty": length_penalty,
        "early_stopping": True,  # at `num_beams` hypotheses, as in our search
        "max_length": longest,
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": separate,
        "model_max_length": longest,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        DIRECTIONS: [*map(direction_name, directions)],
    }
    files: dict[str, dict[str, Any]] = {
        CONFIG: config | ends,
        GENERATION_CONFIG: generation,
        HUGGINGFACE_TOKENIZER: tokenizer,
        VOCABULARY: _vocabulary(tokenizers[0], directions),
    }
    if separate:
        files[TARGET_VOCABULARY] = _vocabulary(tokenizers[1], directions)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    (folder / "README.md").write_text(hub_card(card, languages), encoding="utf-8")


def write(export: Export) -> None:
    """Writes the folder of this format. Raises ValueError for a direction that the model has not learned."""
    translator = export.translator
    check_learned(translator, "huggingface")
    first = translator.languages
    directions = [first, *(one for one in translator.directions if one != first)]

    def make(work: Path) -> None:
        write_model(
            translator.model,
            translator.tokenizers,
            directions,
            translator.defaults.length_penalty,
            PRECISIONS[export.precision],
            export.card,
            work,
        )

    folders.write(export.output, "huggingface", translator, make)
