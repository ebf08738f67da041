"""The peers of `quality`: two trainers in their usual form.

python -m benchmarks.quality_peers torch|transformers LEARNING_RATE FOLDER_OF_MULTI30K|- SETTINGS_OF_TRAIN.PY …

Both train a model of the project's size with its tokenizer, in bf16 if the machine has instructions for it. They take
as many steps as the project with as many pairs per step, and translate the validation set as often, greedily. They
print a line at each validation, like `scripts/train.py`.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import SMOOTHING, Size, settings
from benchmarks.peers import TorchTransformer, learn, marian, on
from transformer.cli.compose import compose
from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler, pad
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.device import device_kind, find_hardware
from transformer.evaluation.metrics import score

# The peak, reached after the project's number of warm-up steps.
LEARNING_RATES = {"torch": 1e-3, "transformers": 1e-3}
VALIDATION_SENTENCES, MAX_LENGTH = 64, 128


@dataclass(frozen=True)
class Plan:
    """The part of the project's settings that the peers use."""

    data: TranslationData
    size: Size
    steps: int
    warm_up: int
    validate_every: int
    seed: int
    device: str
    bf16: bool

    def batches(self, split: str) -> tuple[PairDataset, TokenBudgetSampler]:
        """The same batches as the project's, also padded to few lengths if the project does that."""
        pairs, buckets = self.data.split(split), self.data.buckets(split)
        sampler = TokenBudgetSampler(
            pairs, self.data.settings.batch_tokens, self.seed, shuffle=split == "train", buckets=buckets
        )
        return PairDataset(pairs, buckets), sampler


def read_plan(directory: Path | None, overrides: list[str]) -> Plan:
    composed = compose(*overrides)
    model, training, seed = composed["model"], composed["training"], composed["seed"]
    data, tokenizer = settings(directory)
    torch.set_num_threads(composed["machine"]["threads"])
    device = device_kind(composed["trainer"]["accelerator"])
    bf16 = "bf16" in find_hardware(device).instructions
    corpus = TranslationData(replace(data, batch_tokens=composed["data"]["batch_tokens"]), tokenizer, seed)
    corpus.choose_bucketing(device, "bf16-mixed" if bf16 else "32-true")
    return Plan(
        corpus,
        Size(model["dim"], model["feed_forward"]["dim"], model["heads"], model["layers"]),
        composed["trainer"]["max_steps"],
        training["warmup_steps"],
        training["validate_every"],
        seed,
        device,
        bf16,
    )


class Progress:
    """Prints the line of a validation; the speed is that of training without validation."""

    def __init__(self, data: TranslationData) -> None:
        self.tokenizer, self.references = data.target_tokenizer, [target for _, target in data.text_pairs("validation")]
        self.started, self.validating = time.perf_counter(), 0.0

    def bleu(self, hypotheses: list[list[int]]) -> float:
        """BLEU of ids from a decoder, which may have special ids and ids after the end."""
        cut = [ids[: ids.index(EOS)] if EOS in ids else ids for ids in hypotheses]
        texts = [self.tokenizer.decode([id for id in ids if id not in (BOS, PAD)]) for ids in cut]
        return score(texts, self.references, "en", ["bleu"])["bleu"]

    def show(self, step: int, bleu: float, seconds: float, tokens: float) -> None:
        self.validating += seconds
        speed = tokens / (time.perf_counter() - self.started - self.validating)
        print(
            f"step {step:,}   BLEU {bleu:.1f}   validated in {seconds:.1f} s   {speed:,.0f} target tokens/s",
            file=sys.stderr,
            flush=True,
        )


# ---- torch.nn.Transformer in the loop of the tutorials: Adam, warm-up and inverse square root, no cache while decoding


def torch_loop(plan: Plan, learning_rate: float) -> None:
    torch.manual_seed(plan.seed)
    model = TorchTransformer(plan.size, len(plan.data.target_tokenizer))
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)
    model.to(plan.device)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate, (0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / plan.warm_up, (plan.warm_up / (step + 1)) ** 0.5)
    )
    autocast = torch.autocast(plan.device, torch.bfloat16) if plan.bf16 else contextlib.nullcontext()
    progress, tokens = Progress(plan.data), 0
    for step, batch in zip(range(1, plan.steps + 1), epochs(plan), strict=False):
        tokens += int((batch.labels != PAD).sum())
        batch = on(plan.device, batch)
        with autocast:
            logits = model.train()(batch)
        learn(model, logits, batch, optimizer)
        schedule.step()
        if step % plan.validate_every == 0:
            started = time.perf_counter()
            with autocast:
                bleu = progress.bleu(translate(model.eval(), plan))
            progress.show(step, bleu, time.perf_counter() - started, tokens)


def epochs(plan: Plan) -> Iterator[Batch]:
    """The project's own batches, in its order, without end."""
    dataset, sampler = plan.batches("train")
    for epoch in range(plan.steps):
        sampler.set_epoch(epoch)
        for index in sampler:
            yield dataset[index]


def translate(model: TorchTransformer, plan: Plan) -> list[list[int]]:
    """The translations of the validation set, in its order."""
    translations: dict[int, list[int]] = {}
    dataset, sampler = plan.batches("validation")
    for index in sampler:
        batch = on(plan.device, dataset[index])
        translations |= zip(batch.indices.tolist(), greedy(model, batch).tolist(), strict=True)
    return [translations[number] for number in sorted(translations)]


@torch.no_grad()
def greedy(model: TorchTransformer, batch: Batch) -> Tensor:
    """Greedy search without a cache: every step computes the whole target again."""
    hidden = None if batch.source_visible is None else ~batch.source_visible
    memory = model.body.encoder(model.embed(batch.source), src_key_padding_mask=hidden)
    ids = torch.full((len(batch.source), 1), BOS, device=batch.source.device)
    finished = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    while not finished.all() and ids.size(1) <= min(MAX_LENGTH, 2 * batch.source.size(1) + 20):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1), device=ids.device)
        states = model.body.decoder(
            model.embed(ids), memory, tgt_mask=mask, memory_key_padding_mask=hidden, tgt_is_causal=True
        )
        newest = functional.linear(states[:, -1], model.embedding.weight).argmax(dim=-1)
        ids, finished = torch.cat([ids, newest[:, None]], dim=1), finished | (newest == EOS)
    return ids


# ---- transformers: Seq2SeqTrainer with MarianMT, linear warm-up and decay, batches grouped by length, generate


def seq2seq_trainer(plan: Plan, learning_rate: float) -> None:
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback, set_seed

    set_seed(plan.seed)
    model: Any = marian(plan.size, len(plan.data.target_tokenizer))
    train, validation = (examples(plan.data, split) for split in ("train", "validation"))
    progress = Progress(plan.data)
    tokens_per_epoch = sum(len(example["labels"]) for example in train)

    def scores(predicted: Any) -> dict[str, float]:
        """The Trainer also sorts the validation set by length, so sentences are identified by their labels. It pads
        labels with -100, and with PAD up to the largest length of generated texts."""
        translations = {
            tuple(labels[labels > PAD].tolist()): ids
            for labels, ids in zip(predicted.label_ids, predicted.predictions.clip(PAD).tolist(), strict=True)
        }
        return {"bleu": progress.bleu([translations[tuple(example["labels"])] for example in validation])}

    class Shown(TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **others: Any) -> None:
            tokens = state.epoch * tokens_per_epoch
            progress.show(state.global_step, metrics["eval_bleu"], metrics["eval_runtime"], tokens)

    def padded(rows: list[list[int]]) -> Tensor:
        """In bf16 padded to a multiple of 8, like `pad_to_multiple_of` of the library's collators."""
        longest = max(map(len, rows))
        return pad(rows, longest + (-longest % 8 if plan.bf16 else 0))

    def collate(chosen: list[dict[str, Any]]) -> dict[str, Tensor]:
        source, labels = (padded([example[key] for example in chosen]) for key in ("input_ids", "labels"))
        labels = labels.masked_fill(labels == PAD, -100)
        inputs = model.prepare_decoder_input_ids_from_labels(labels)
        return {"input_ids": source, "attention_mask": (source != PAD).long(), "labels": labels} | {
            "decoder_input_ids": inputs
        }

    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder,
            max_steps=plan.steps,
            # The mean number of sentences in the project's batches.
            per_device_train_batch_size=round(len(train) / len(plan.batches("train")[1])),
            train_sampling_strategy="group_by_length",
            learning_rate=learning_rate,
            warmup_steps=plan.warm_up,
            lr_scheduler_type="linear",
            label_smoothing_factor=SMOOTHING,
            bf16=plan.bf16,
            use_cpu=plan.device == "cpu",
            eval_strategy="steps",
            eval_steps=plan.validate_every,
            per_device_eval_batch_size=VALIDATION_SENTENCES,
            predict_with_generate=True,
            generation_max_length=MAX_LENGTH,
            generation_num_beams=1,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=plan.seed,
        )
        Seq2SeqTrainer(
            model,
            arguments,
            collate,
            train,
            validation,
            compute_metrics=scores,
            callbacks=[Shown()],
        ).train()


def examples(data: TranslationData, split: str) -> list[dict[str, Any]]:
    """The ids of each pair with transformers' names and the end symbol."""
    encoded = data.split(split)
    pairs = [encoded.pair(0, number) for number in range(len(encoded))]
    return [{"input_ids": [*source, EOS], "labels": [*target, EOS]} for source, target in pairs]


PEERS: dict[str, Callable[[Plan, float], None]] = {"torch": torch_loop, "transformers": seq2seq_trainer}


if __name__ == "__main__":
    system, learning_rate, folder, *overrides = sys.argv[1:]
    PEERS[system](read_plan(None if folder == "-" else Path(folder), overrides), float(learning_rate))
