"""The model card: a README.md beside translator.safetensors that can be published with it unchanged."""

import json
import re
from collections import Counter
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from transformer.config import OFF_CARD, PATH, flatten, marked
from transformer.data.config import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.directions import arrow
from transformer.data.splitting import corpus_of
from transformer.data.synthetic import SYNTHETIC, origins, synthetic_files
from transformer.device import processor_name
from transformer.evaluation.metrics import METRICS
from transformer.files import atomic_write
from transformer.inference.translator import Translator
from transformer.run import Run
from transformer.training.config import RunSettings

TEMPLATE = """\
---
{metadata}---

# {direction}, trained on {corpus}

An encoder-decoder Transformer of {parameters:,} parameters that translates {direction}{others}.

## How to load

One file, `translator.safetensors`, holds its weights, tokenizers and settings. With the package `transformer` of the
project that trained it (revision {revision}):

```python
from transformer import Translator

translator = Translator.load("translator.safetensors")
print(translator.translate([{example}]))
```

or `translator translate --checkpoint translator.safetensors < in.txt > out.txt`. Loading runs no code from the file.

## Scores

{scores}

{first}Of one run with seed {seed}; another seed gives other scores. Signatures (sacrebleu):

{signatures}

## Corpus

{corpus}: {license}

{splits}

The digest (sha256) is of the split's files.{synthetic}

## License

{terms}

## Training

- on: {processor} ({machine})
- time: {minutes:.1f} minutes from the start, or the last resumption, through the test{speed}
- memory: {peak:,.0f} MB at most
- versions: {versions}

```
{settings}
```

## Limits

The model has seen {pairs:,} sentence pairs of one corpus, and no other kind of text{beside}. Expect mistakes on other
text. It may leave out, add or reverse a statement without any warning, and it repeats the prejudices of its corpus. It
translates each sentence alone, without the sentences before it. A text of more than {longest:,} tokens is translated in
parts.
"""

FINETUNED = (
    " Training began with the weights of another model (`init_from=`): **the license of those weights holds for this "
    "model too**, and this model has first seen their corpus."
)
SYNTHETIC_PAIRS = """

**Synthetic pairs:** it was also trained on {pairs:,} pairs with one side written by a model ({shares}):

{origins}"""
SYNTHETIC_BEFORE = " That model was also trained on synthetic pairs: its own card says on which."
OTHERS = " and, with `--source` and `--target`, {0}"
FIRST = "`test` is of {0}, the first direction; other splits have their direction in their name. "
# Words that are typed if there is no license: they give nobody the right to use the weights.
NO_LICENSE = ("none", "unknown", "other", "proprietary", "unlicensed", "closed", "private")


def license_id(corpus: DataSettings) -> str | None:
    """The license as the Hugging Face hub writes it: `apache-2.0`, `cc-by-4.0`; None if it is not the name of one."""
    license = corpus.license or ""
    is_name = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", license) and license.lower() not in NO_LICENSE
    return license.lower() if is_name else None


def terms(corpus: DataSettings) -> str:
    """What the license of the corpus means for those who publish the weights."""
    if not corpus.license:
        return (
            "The license of the corpus is not stated. **State it here before you publish the weights**, and that of "
            "the weights; `data.license=…` and `data.home=…` of a training write it into this card."
        )
    if license_id(corpus) is None:
        return (
            f"The license of the corpus ({corpus.license}) is not the name of an open one, as CC-BY-4.0 is. **The "
            "weights may not be freely redistributable**: ask the owners of the corpus before you publish them."
        )
    return f"The corpus has the license {corpus.license}; so have the weights, unless their publisher says otherwise."


def metadata(corpus: DataSettings, license: str | None, tested: dict[str, Any], metrics: list[str]) -> dict[str, Any]:
    """The part of a card that the Hugging Face hub reads, for its search and to show the scores.

    https://github.com/huggingface/hub-docs/blob/main/modelcard.md
    """
    license_terms = {"license": license or "other"}
    if license is None:
        license_terms |= {"license_name": "see-below", "license_link": "README.md"}
    results = [
        {
            "task": {"type": "translation", "name": arrow(corpus.find_split(name)[0].languages)},
            "dataset": {"type": corpus.name, "name": corpus.name, "split": corpus.find_split(name)[1]},
            "metrics": [
                {
                    "type": metric,
                    "name": METRICS[metric].label,
                    "value": round(scores[metric], 2),
                    "args": {"signature": scores["signatures"][metric]},
                }
                for metric in metrics
            ],
        }
        for name, scores in tested.items()
    ]
    return {
        "language": corpus.all_languages,
        **license_terms,
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer", "encoder-decoder"],
        "datasets": [corpus.name],
        "metrics": metrics,
        "model-index": [{"name": f"{corpus.name} {arrow(*corpus.all_directions)}", "results": results}],
    }


def _table(*rows: tuple[str, ...]) -> str:
    heading, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([heading, f"|{'---|' * len(rows[0])}", *others])


def _example(data: TranslationData) -> str:
    """The shortest sentence of the test set; "…" if the license of the corpus is not an open one."""
    sources = [source for source, _ in data.text_pairs("test") if source.strip()] if license_id(data.settings) else []
    return min(sources, key=len, default="…")


def _lines(run: Run, split: str) -> int:
    """How many sentences of a split were translated: with trainer.limit_test_batches not all are."""
    return run.hypotheses_file(split).read_bytes().count(b"\n")


def _score_table(run: Run, tested: dict[str, Any], metrics: list[str]) -> str:
    rows = [
        (split, f"{_lines(run, split):,}", *(f"{scores[metric]:.1f}" for metric in metrics))
        for split, scores in tested.items()
    ]
    return _table(("split", "sentences", *(METRICS[metric].label for metric in metrics)), *rows)


def _split_table(data: TranslationData) -> str:
    rows = [(name, f"{len(data.split(name).source):,}", f"`{data.digests[name]}`") for name in data.settings.all_splits]
    return _table(("split", "pairs used", "digest"), *rows)


def _each_once(data: TranslationData, split: str) -> list[str]:
    """The names of a split in its directions, without those that have the pairs of another one, reversed."""
    names: dict[tuple[frozenset[str], frozenset[Path]], str] = {}
    for name in data.names(split):
        corpus, _ = data.all_splits[name]
        files = chain(*synthetic_files(corpus)) if split == SYNTHETIC else corpus.files(split)
        names.setdefault((frozenset(corpus.languages), frozenset(files)), name)
    return list(names.values())


def synthetic_pairs(data: TranslationData) -> str:
    """The card's paragraph about synthetic pairs: their number, their share and their origin."""
    if not data.settings.synthetic:
        return ""
    ratio = data.settings.synthetic_ratio
    shares = "each once an epoch" if ratio is None else f"{ratio:g} for each real pair"
    names = _each_once(data, SYNTHETIC)
    of_pairs = sum((origins(data.all_splits[name][0]) for name in names), Counter[str]())
    rows = [(origin, f"{count:,}") for origin, count in of_pairs.most_common()]
    table = _table(("side written by a model", "pairs"), *rows)
    pairs = sum(len(data.split(name)) for name in names)
    return SYNTHETIC_PAIRS.format(pairs=pairs, shares=shares, origins=table)


def finetuned_terms(model: Path) -> str:
    """The card's sentences about the weights that training began with."""
    try:
        corpus = corpus_of(Run.open(model))
    except (OSError, ValueError):
        return FINETUNED  # the model's folder does not say what its corpus was
    return FINETUNED + (SYNTHETIC_BEFORE if corpus.synthetic else "")


def shown_settings(settings: dict[str, Any]) -> list[str]:
    """The settings of a run as they are typed, without paths and settings that do not affect the model."""
    known = {"model", *(field.name for field in fields(RunSettings))}
    hidden = {*marked(RunSettings, PATH), *marked(RunSettings, OFF_CARD)}
    if settings["init_from"] is not None:
        hidden.add("tokenizer")  # it comes from the model that training began with
    lines = []
    for key, value in flatten({name: value for name, value in settings.items() if name in known}):
        if not any(key == name or key.startswith(f"{name}.") for name in hidden):
            lines.append(f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    return lines


def write_card(run: Run, translator: Translator, data: TranslationData, settings: dict[str, Any], machine: str) -> None:
    """Writes `README.md` from the run's settings, the description of the `machine`, and its `test.json`."""
    results = json.loads(run.results.read_text(encoding="utf-8"))
    corpus, tested = data.settings, {name: results[name] for name in data.settings.all_splits if name in results}
    first, *others = corpus.all_directions
    metrics = settings["metrics"]
    others_seen = ["the synthetic pairs"] if corpus.synthetic else []
    if finetuned := settings["init_from"] is not None:
        others_seen.append("the model that training began with")
    license = None if finetuned else license_id(corpus)
    card = TEMPLATE.format(
        metadata=yaml.safe_dump(metadata(corpus, license, tested, metrics), sort_keys=False, allow_unicode=True),
        direction=arrow(first),
        others=OTHERS.format(arrow(*others)) if others else "",
        corpus=corpus.name,
        parameters=sum(weight.numel() for weight in translator.model.parameters()),
        revision=(results["revision"] or "unknown").replace("+", " with changes that are not committed"),
        example=json.dumps(_example(data), ensure_ascii=False),
        scores=_score_table(run, tested, metrics),
        first=FIRST.format(arrow(first)) if others else "",
        seed=settings["seed"],
        signatures="\n".join(f"- {metric}: `{text}`" for metric, text in tested["test"]["signatures"].items()),
        license=f"license {corpus.license or 'not stated'}, origin {corpus.home or 'not stated'}.",
        splits=_split_table(data),
        synthetic=synthetic_pairs(data),
        beside=f" but that of {' and of '.join(others_seen)}" if others_seen else "",
        terms=terms(corpus) + (finetuned_terms(Path(settings["init_from"])) if finetuned else ""),
        processor=processor_name(machine),
        machine=machine,
        minutes=results["seconds"] / 60,
        peak=results["cost"]["peak MB"],
        # A finished run that is resumed trains no step.
        speed=f"; {step:g} ms a step" if (step := results["cost"].get("ms/step")) else "",
        versions=", ".join(f"{name} {version}" for name, version in results["versions"].items()),
        settings="\n".join(shown_settings(settings)),
        pairs=sum(len(data.split(name)) for name in _each_once(data, "train")),
        longest=translator.model.config.max_length - 1,
    )
    atomic_write(run.card, card.encode())
