"""Reads models of Hugging Face's transformers: the names and the order of the parts of a translator in its folders.

Two of its classes compute the same as ours. Blenderbot has the norm before a sublayer (norm=pre) and a table of
positions among its weights. Marian, the class of the OPUS-MT models, has the norm after it (norm=post), and sinusoidal
positions with all sines before all cosines. In ours they alternate, so the width of the whole model is reordered.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.config import from_dict, read_value
from transformer.data.directions import Direction, parse_direction
from transformer.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from transformer.files import HUGGINGFACE_TOKENIZER, read_file, read_json
from transformer.inference.saved_translator import SavedTranslator
from transformer.inference.settings import Defaults, LengthPenalty
from transformer.inference.untrusted import check_shapes, check_tensors, read_checkpoint, read_tensors
from transformer.model.config import ModelConfig, Size
from transformer.model.positions import sinusoidal_table
from transformer.model.transformer import Transformer
from transformer.tools.hub.vocabulary import Numbering, build_numbering, parse, renumbered

CONFIG, GENERATION_CONFIG, VOCABULARY, TARGET_VOCABULARY = (
    "config.json",
    "generation_config.json",
    "vocab.json",
    "target_vocab.json",
)
SPM = ("source.spm", "target.spm")
DIRECTIONS = "directions"  # our own key in their tokenizer_config.json
MAX_HUB_FILE_BYTES = 16 << 20  # the largest size of these files, which are links in the hub's own cache
# The class for a model with this norm.
MODEL_TYPES = {"pre": "blenderbot", "post": "marian"}
# transformers' names of our activations, the usual one first.
ACTIVATIONS = {"relu": ("relu",), "gelu": ("gelu",), "silu": ("silu", "swish")}
# From our parameter names to theirs; the replacements are applied one after another.
RENAMED: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^output\.weight$", "lm_head.weight"),
    (r"^output\.bias$", "final_logits_bias"),
    (r"^(encoder|decoder)\.norm\.", r"\1.layer_norm."),
    (r"^(encoder|decoder)\.", r"model.\1."),
    (r"\.embedding\.tokens\.", ".embed_tokens."),
    (r"\.embedding\.positions\.table$", ".embed_positions.weight"),
    (r"\.self_attention\.", ".self_attn."),
    (r"\.cross_attention\.", ".encoder_attn."),
    (r"_attn\.(query|key|value)\.", lambda match: f"_attn.{match[1][0]}_proj."),
    (r"_attn\.output\.", "_attn.out_proj."),
    (r"\.add_norm_self\.norm\.", ".self_attn_layer_norm."),
    (r"\.add_norm_cross\.norm\.", ".encoder_attn_layer_norm."),
    (r"\.add_norm_feed\.norm\.", ".final_layer_norm."),
    (r"\.feed_forward\.inner\.", ".fc1."),
    (r"\.feed_forward\.outer\.", ".fc2."),
)


def their_name(name: str) -> str:
    """The name of one of our parameters in their folders."""
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def sines_first(dim: int) -> Tensor:
    """Marian's order of the model's width: for each of its entries, the index in ours."""
    return torch.arange(dim).view(-1, 2).T.flatten()


def reorder_width(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """One of our parameters with the entries along the model's width in another order."""
    reads = re.search(r"\.(tokens|query|key|value|inner)\.weight$|^output\.weight$", name)
    writes = re.search(r"\.(outer|norm)\.|attention\.output\.", name)
    return weight[:, order] if reads else weight[order] if writes else weight


@dataclass(frozen=True)
class HubConfig:
    """The settings that are read from their config.json, with defaults for optional ones."""

    model_type: str
    vocab_size: Size
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    activation_function: str
    max_position_embeddings: int
    scale_embedding: bool
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    decoder_vocab_size: Size | None = None
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.model_type not in MODEL_TYPES.values():
            raise ValueError(f"model_type={self.model_type} must be {' or '.join(MODEL_TYPES.values())}")
        if self.encoder_ffn_dim != self.decoder_ffn_dim:
            raise ValueError(
                f"encoder_ffn_dim={self.encoder_ffn_dim} and decoder_ffn_dim={self.decoder_ffn_dim} must be equal here"
            )
        if not self.scale_embedding:
            raise ValueError("scale_embedding=false: embeddings are scaled by √d_model here")

    @classmethod
    def read(cls, path: Path) -> "HubConfig":
        plain = read_json(path, MAX_HUB_FILE_BYTES, follow_links=True)
        return from_dict(cls, {field.name: plain[field.name] for field in fields(cls) if field.name in plain})

    def target_vocab_size(self) -> int:
        shared = self.share_encoder_decoder_embeddings or self.decoder_vocab_size is None
        return self.vocab_size if shared else self.decoder_vocab_size  # type: ignore[return-value]

    def activation(self) -> str:
        for ours, theirs in ACTIVATIONS.items():
            if self.activation_function in theirs:
                return ours
        known = ", ".join(theirs for names in ACTIVATIONS.values() for theirs in names)
        raise ValueError(f"activation_function={self.activation_function} is not known here; known are {known}")

    def model(self, positions: str, output_bias: bool, vocab_sizes: tuple[int, int]) -> ModelConfig:
        """Our configuration of the same model."""

        def attention(heads: int) -> dict[str, Any]:
            common = {"head_dim": None, "value_dim": None, "bias": True, "score": "scaled_dot"}
            return {"heads": heads, "dropout": self.attention_dropout, **common}

        tied = "all" if self.share_encoder_decoder_embeddings else "target"
        model = {
            "source_vocab_size": vocab_sizes[0],
            "target_vocab_size": vocab_sizes[1],
            "dim": self.d_model,
            "positions": positions,
            "max_length": self.max_position_embeddings,
            "norm": "pre" if self.model_type == MODEL_TYPES["pre"] else "post",
            "output_bias": output_bias,
            "tied_embeddings": tied if self.tie_word_embeddings else "none",
            "dropout": self.dropout,
            "feed_forward": {
                "dim": self.encoder_ffn_dim,
                "activation": self.activation(),
                "dropout": self.activation_dropout,
            },
            "encoder": {"layers": self.encoder_layers, "self_attention": attention(self.encoder_attention_heads)},
            "decoder": {
                "layers": self.decoder_layers,
                "self_attention": attention(self.decoder_attention_heads),
                "cross_attention": attention(self.decoder_attention_heads),
            },
        }
        return from_dict(ModelConfig, model, "model")


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, from model.safetensors or pytorch_model.bin."""
    path, old = folder / "model.safetensors", folder / "pytorch_model.bin"
    if path.is_file():
        _, tensors = read_tensors(path)
    elif old.is_file():
        path, tensors = old, read_checkpoint(old)
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise ValueError(f"{old.name} holds more than tensors: it is no state_dict() of a model")
        # The same embeddings may have up to four names.
        shared = tensors.get("model.shared.weight", torch.empty(0)).data_ptr()
        for name in ("lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))):
            if name in tensors and tensors[name].data_ptr() == shared:
                del tensors[name]
    else:
        raise ValueError(f"it has neither {path.name} nor {old.name}")
    check_tensors(path, tensors)
    return tensors


def _tensor(tensors: dict[str, Tensor], name: str) -> Tensor:
    shared = tensors.get("model.shared.weight") if "embed_tokens" in name else None
    if (weight := tensors.get(name, shared)) is None:
        raise ValueError(f"it has no tensor {name}")
    return weight


def _read_vocabulary(path: Path) -> dict[str, int]:
    vocabulary = read_json(path, MAX_HUB_FILE_BYTES, follow_links=True)
    if not all(type(id) is int for id in vocabulary.values()):
        raise ValueError(f"{path.name} does not number pieces")
    return vocabulary


def _special(vocabulary: dict[str, int], config: HubConfig) -> dict[int, int]:
    """Our special ids → theirs."""
    if "<unk>" not in vocabulary:
        raise ValueError("its vocabulary has no <unk>")
    return {
        PAD: config.pad_token_id,
        UNK: vocabulary["<unk>"],
        BOS: config.decoder_start_token_id,
        EOS: config.eos_token_id,
    }


def _read_vocabularies(
    folder: Path, config: HubConfig
) -> tuple[tuple[Tokenizer, Tokenizer], tuple[Numbering, Numbering]]:
    content = [read_file(folder / name, MAX_HUB_FILE_BYTES, follow_links=True) for name in SPM]
    source, target = (parse(model) for model in content)
    vocabulary = _read_vocabulary(folder / VOCABULARY)
    if config.share_encoder_decoder_embeddings:
        shared = build_numbering(vocabulary, config.vocab_size, _special(vocabulary, config), source, target)
        numberings = shared, shared
    else:
        others = _read_vocabulary(folder / TARGET_VOCABULARY)
        # The start symbol of the decoder is only in its own vocabulary.
        encoder_special = _special(vocabulary, config) | {BOS: vocabulary.get("<s>", config.pad_token_id)}
        numberings = (
            build_numbering(vocabulary, config.vocab_size, encoder_special, source),
            build_numbering(others, config.target_vocab_size(), _special(others, config), target),
        )
    return (renumbered(source, numberings[0]), renumbered(target, numberings[1])), numberings


def _our_weights(
    config: ModelConfig, settings: HubConfig, tensors: dict[str, Tensor], numberings: tuple[Numbering, Numbering]
) -> Iterator[tuple[str, Tensor]]:
    """Each of our parameters, made from theirs."""
    if 10 * (config.encoder.layers + config.decoder.layers) > len(tensors):
        raise ValueError("it declares more layers than it holds")
    to_ours = sines_first(config.dim).argsort() if config.norm == "post" else torch.arange(config.dim)
    with torch.device("meta"):
        model = Transformer(config)
    for name, _ in model.named_parameters():
        theirs = their_name(name)
        weight = _tensor(tensors, theirs)
        if name == "output.bias":
            weight = weight.flatten()
        side = numberings[0 if name.startswith("encoder") else 1]
        try:
            if name.startswith("output.") or ".tokens." in name:
                if max(side.their_ids) >= len(weight):  # checked before memory is allocated for the rows
                    raise IndexError
                weight = weight[torch.tensor(side.their_ids)]
            yield name, reorder_width(name, weight, to_ours)
        except IndexError:
            raise ValueError(f"its tensor {theirs} is {tuple(weight.shape)}, unlike in its settings") from None


def _directions(about: dict[str, Any], languages: Direction, tokenizer: Tokenizer) -> list[Direction]:
    """The directions that our own export has saved; for other models, those of the language codes in the vocabulary."""
    if DIRECTIONS in about:
        noted = read_value(list[str], about[DIRECTIONS], f"{HUGGINGFACE_TOKENIZER}: {DIRECTIONS}")
        return [parse_direction(text, f"{HUGGINGFACE_TOKENIZER}: {DIRECTIONS}") for text in noted] or [languages]
    source, target = languages
    tagged = [(target, source) if tag == source else (source, tag) for tag in tokenizer.tagged_languages]
    return list(dict.fromkeys([languages, *tagged]))


def _length_penalty(generation: Path) -> float:
    settings = read_json(generation, MAX_HUB_FILE_BYTES, follow_links=True) if generation.is_file() else {}
    found = settings.get("length_penalty", Defaults.length_penalty)
    return float(read_value(LengthPenalty, found, f"{generation.name}: length_penalty"))


def read(folder: Path) -> SavedTranslator:
    """A translator from a folder of Hugging Face's transformers.

    Our ids are theirs in another order; see vocabulary.py. Runs no code from the folder. Raises ValueError or OSError
    for damaged files, and for a model that this program cannot compute.
    """
    settings, tensors = HubConfig.read(folder / CONFIG), _read_weights(folder)
    for side, size in (("encoder", settings.vocab_size), ("decoder", settings.target_vocab_size())):
        if len(_tensor(tensors, f"model.{side}.embed_tokens.weight")) != size:
            raise ValueError(f"its settings have {size:,} ids, but the embeddings of its {side} have another number")
    tokenizers, numberings = _read_vocabularies(folder, settings)
    tables = [tensors.get(f"model.{side}.embed_positions.weight") for side in ("encoder", "decoder")]
    shape = (settings.max_position_embeddings, settings.d_model)
    learned = settings.model_type == MODEL_TYPES["pre"] and not (
        all(table is not None and table.shape == shape for table in tables)
        and all(torch.equal(table.float(), sinusoidal_table(*shape)) for table in tables if table is not None)
    )
    vocab_sizes = (len(numberings[0].their_ids), len(numberings[1].their_ids))
    output_bias = bool(tensors.get("final_logits_bias", torch.zeros(1)).any())
    config = settings.model("learned" if learned else "sinusoidal", output_bias, vocab_sizes)
    weights = dict(_our_weights(config, settings, tensors, numberings))
    check_shapes(config, weights)
    about = read_json(folder / HUGGINGFACE_TOKENIZER, MAX_HUB_FILE_BYTES, follow_links=True)
    source, target = (str(about.get(f"{side}_lang") or "und") for side in ("source", "target"))
    directions = _directions(about, (source, target), tokenizers[0])
    length_penalty = _length_penalty(folder / GENERATION_CONFIG)
    return SavedTranslator(config, tokenizers, (source, target), weights, directions, Defaults(length_penalty))
