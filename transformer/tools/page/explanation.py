"""One translation explained on an HTML page: all attention weights, each step's alternatives, the hypotheses."""

from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.data.tokenizer import EOS, Tokenizer
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM, Translator
from transformer.model.transformer import Transformer
from transformer.tools.page.html import assemble, to_json
from transformer.tools.pictures.attention_maps import read_translation

NEXT_BEST = 5


def _thousandths(weights: Float[Tensor, "1 heads queries keys"], causal: bool = False) -> list[list[list[int]]]:
    """Weights to three decimals, as integers, which are the shortest to write; causal rows end at what is visible."""
    heads = (weights[0].float() * 1000).round().int().tolist()
    return [[row[: t + 1] for t, row in enumerate(head)] for head in heads] if causal else heads


@torch.inference_mode()
def _read_layers(
    model: Transformer, states: Float[Tensor, "layers steps dim"], tokenizer: Tokenizer
) -> list[list[tuple[str, float]]]:
    """For each step, what each decoder layer would write, were it the last (the "logit lens" of nostalgebraist, 2020):
    its states go through the last norm, if the model has one, and the output matrix."""
    logits = model.output(model.decoder.norm(states)).float()
    best, best_ids = logits.softmax(dim=-1).max(dim=-1)
    return [
        [(tokenizer.piece(id), round(share, 5)) for id, share in zip(ids, shares, strict=True)]
        for ids, shares in zip(best_ids.T.tolist(), best.T.tolist(), strict=True)
    ]


def _steps(
    probabilities: Float[Tensor, "steps vocabulary"],
    ids: list[int],
    tokenizer: Tokenizer,
    layers: list[list[tuple[str, float]]],
) -> list[Any]:
    """Each step's probability, the most probable pieces that it did not choose, and that of each layer."""
    best, best_ids = probabilities.topk(min(NEXT_BEST + 1, probabilities.size(-1)))
    steps = []
    for row, id in enumerate(ids):
        ranked = zip(best_ids[row].tolist(), best[row].tolist(), strict=True)
        others = [(tokenizer.piece(other), round(share, 5)) for other, share in ranked if other != id][:NEXT_BEST]
        steps.append(
            {"probability": round(probabilities[row, id].item(), 5), "next_best": others, "layers": layers[row]}
        )
    return steps


def explain(translator: Translator, text: str, search: SearchSettings = BEAM, name: str = "") -> dict[str, Any]:
    """What the page shows, as plain data: pieces, weights in thousandths, steps and hypotheses.

    Row t of the decoder's two attentions is the step that produced target piece t: its query is at the piece before,
    the first one at `<s>`. A model without cross-attention has an empty list there. "alignment" says which weights
    align words best (None: nobody has measured it). `name` is what the page calls the model. Raises ValueError for a
    text without tokens or with too many.
    """
    reading, ids, hypotheses = read_translation(translator, text, search)
    end = translator.target_tokenizer.piece(EOS)
    config = translator.model.config
    layers = _read_layers(translator.model, reading.states, translator.target_tokenizer)
    return {
        "text": text,
        "translation": hypotheses[0].text,
        "languages": [translator.source_language, translator.target_language],
        "model": {
            "name": name,
            "parameters": sum(weight.numel() for weight in translator.model.parameters()),
            "dim": config.dim,
            "encoder_layers": config.encoder.layers,
            "decoder_layers": config.decoder.layers,
        },
        "source": reading.source,
        "target": [*reading.target, end],
        "attention": {
            name: [_thousandths(weights, causal=name == "decoder") for weights in layers]
            for name, layers in reading.record._asdict().items()
        },
        "alignment": asdict(translator.alignment) if translator.alignment else None,
        "steps": _steps(reading.probabilities, [*ids, EOS], translator.target_tokenizer, layers),
        "hypotheses": [
            {
                "text": hypothesis.text,
                "pieces": [*hypothesis.pieces, end],
                "score": round(hypothesis.score, 4),
                "log_probability": round(hypothesis.log_probability, 4),
                "length": len(hypothesis.pieces) + 1,
            }
            for hypothesis in hypotheses
        ],
        "search": {
            "method": search.method,
            "beam": search.beam,
            "length_penalty": search.with_defaults(translator.defaults).length_penalty,
        },
    }


def page(explanation: dict[str, Any]) -> str:
    """The explanation as one HTML file that needs nothing but a browser."""
    return assemble({"explanation": to_json(explanation)})
