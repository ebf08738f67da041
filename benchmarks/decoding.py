"""Decoding a whole file: sentences a second, with all hypotheses of the same length, so that all do the same work.

An untrained model of the project (its translations do not matter), exported for CTranslate2, and transformers' MarianMT
of the same size. The forced length is the mean length of the references. Each decoder makes one more step for the end
symbol; CTranslate2 ends without one at its limit, so its limit is one higher. The inputs are ids; the project also
decodes its results to text. The project and CTranslate2 get the whole file and make batches of 2,048 source tokens, on
a GPU of 8,192. On a CPU each thread decodes a batch, on a GPU one batch is decoded at a time. transformers gets batches
of 64 sentences sorted by length.
"""

import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import Row, Setting, alone, config, precisions, prepared, vocabulary
from benchmarks.peers import marian
from transformer import Transformer, Translator
from transformer.data.batching import pad
from transformer.data.tokenizer import EOS, PAD
from transformer.inference.translator import BATCH_TOKENS, BATCH_TOKENS_ON_GPU, BEAM
from transformer.machine import MachineSettings

SENTENCES = 64


def corpus_batches(directory: Path | None, sentences: int) -> list[tuple[list[str], list[list[int]], int]]:
    """Texts, their ids and the forced length of each batch."""
    data = prepared(directory)
    pairs = data.text_pairs("test")[:sentences]
    sides = zip(*pairs, strict=True)
    source, target = (
        tokenizer.encode_all(list(side))
        for tokenizer, side in zip((data.source_tokenizer, data.target_tokenizer), sides, strict=True)
    )
    order = sorted(range(len(pairs)), key=lambda i: len(source[i]))
    found = []
    for start in range(0, len(order), SENTENCES):
        batch = order[start : start + SENTENCES]
        length = round(statistics.mean(len(target[i]) for i in batch))
        found.append(([pairs[i][0] for i in batch], [source[i] for i in batch], length))
    return found


def fresh(setting: Setting) -> Translator:
    torch.manual_seed(1)
    data = prepared(setting.directory)
    tokenizers = (data.source_tokenizer, data.target_tokenizer)
    return Translator(Transformer(config(setting.size, vocabulary(setting.directory))).eval(), tokenizers, ("de", "en"))


# Takes the ids of texts and the forced length; returns the lengths of all hypotheses of each text.
Decode = Callable[[list[list[int]], int], list[list[int]]]


def timed(decode: Decode, setting: Setting, sentences: int) -> Row:
    """Sentences a second when the whole file is decoded for the second time, and the number of wrong lengths. The first
    time allocates memory, and a GPU chooses kernels by shape."""
    batches = corpus_batches(setting.directory, sentences)
    ids = [one for _, of_batch, _ in batches for one in of_batch]
    length = round(statistics.mean(length for _, _, length in batches))
    decode(ids, length)
    setting.wait()
    started = time.perf_counter()
    lengths = decode(ids, length)
    setting.wait()
    seconds = time.perf_counter() - started
    wrong = sum(found != length for row in lengths for found in row)
    return {"sentences_per_second": len(ids) / seconds, "wrong_lengths": wrong}


def loaded(setting: Setting, precision: str) -> Translator:
    """An untrained model, loaded from a file as by users."""
    with tempfile.TemporaryDirectory() as folder:
        fresh(setting).save(Path(folder, "fresh.safetensors"))
        translator = Translator.load(Path(folder, "fresh.safetensors"), setting.device, precision)
    translator.configure_torch(MachineSettings(setting.threads, None, None))
    return translator


def ours(setting: Setting, sentences: int, beam: int, precision: str, scores: bool = False) -> Row:
    """Without `scores` greedy search computes no softmax, as in translate.py."""
    names = {"float32": "float32", "bf16": "bfloat16"}
    translator = loaded(setting, names[precision])
    translator.greedy_scores = scores

    def decode(ids: list[list[int]], length: int) -> list[list[int]]:
        method = "beam" if beam > 1 else "greedy"
        search = replace(BEAM, method=method, beam=beam, min_length=length, max_length=length)
        return [[len(hypothesis.pieces) for hypothesis in row] for row in translator.n_best_ids(ids, search)]

    return timed(decode, setting, sentences) | {"peak_mb": setting.peak_mb()}


def ours_scores(setting: Setting, sentences: int, beam: int, precision: str) -> Row:
    """With the score of each hypothesis, as in `Translator.n_best`."""
    return ours(setting, sentences, beam, precision, scores=True)


def ctranslate2(setting: Setting, sentences: int, beam: int, precision: str, scores: bool = False) -> Row:
    """On a CPU it has as many workers as threads, which is fastest for a file. It sorts the sentences itself. Without
    `scores` greedy search needs no softmax."""
    import ctranslate2

    from transformer.tools.export.formats import ExportSettings
    from transformer.tools.export.write import export

    translator = fresh(setting)
    kinds = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}
    workers = setting.threads if setting.device == "cpu" else 1
    with tempfile.TemporaryDirectory() as folder:
        export(translator, ExportSettings("ctranslate2", kinds[precision], folder))
        threads = {"intra_threads": setting.threads // workers, "inter_threads": workers}
        engine = ctranslate2.Translator(folder, setting.device, compute_type=kinds[precision], **threads)
    tokenizer = translator.source_tokenizer

    def decode(ids: list[list[int]], length: int) -> list[list[int]]:
        steps = length + 1
        results = engine.translate_batch(
            [[tokenizer.piece(id) for id in row] for row in ids],
            beam_size=beam,
            num_hypotheses=beam,
            min_decoding_length=steps,
            max_decoding_length=steps,
            max_batch_size=BATCH_TOKENS_ON_GPU if setting.device == "cuda" else BATCH_TOKENS,
            batch_type="tokens",
            return_scores=scores,
        )
        return [[len(hypothesis) - 1 for hypothesis in result.hypotheses] for result in results]

    return timed(decode, setting, sentences)


def ctranslate2_scores(setting: Setting, sentences: int, beam: int, precision: str) -> Row:
    """With the score of each hypothesis."""
    return ctranslate2(setting, sentences, beam, precision, scores=True)


def ctranslate2_mkl(setting: Setting, sentences: int, beam: int, precision: str) -> Row:
    """Multiplying with MKL, which is its default only on Intel's processors."""
    os.environ["CT2_USE_MKL"] = "1"  # read when it is imported, which happens only in this process
    return ctranslate2(setting, sentences, beam, precision)


def transformers(setting: Setting, sentences: int, beam: int, precision: str, **switches: Any) -> Row:
    """`switches` are arguments of its `generate`."""
    torch.manual_seed(1)
    torch.backends.cuda.enable_cudnn_sdp(False)  # and no TF32, as in the project
    model: Any = marian(setting.size, vocabulary(setting.directory)).eval().to(setting.device)
    if precision == "bf16":
        model = model.bfloat16()

    @torch.inference_mode()
    def decode(ids: list[list[int]], length: int) -> list[list[int]]:
        lengths = []
        for start in range(0, len(ids), SENTENCES):
            batch = ids[start : start + SENTENCES]
            source = pad([torch.tensor([*row, EOS]).numpy() for row in batch]).to(setting.device)
            found = model.generate(
                input_ids=source,
                attention_mask=(source != PAD).long(),
                num_beams=beam,
                num_return_sequences=beam,
                min_new_tokens=length + 1,
                max_new_tokens=length + 1,
                do_sample=False,
                **switches,
            )
            # The result begins with the start symbol; the last token is forced to be the end symbol.
            lengths += (found[:, 1:] != EOS).sum(dim=1).view(-1, beam).tolist()
        return lengths

    return timed(decode, setting, sentences) | {"peak_mb": setting.peak_mb()}


def transformers_compiled(setting: Setting, sentences: int, beam: int, precision: str) -> Row:
    """With a cache of fixed size, `generate` compiles the model on a GPU."""
    return transformers(setting, sentences, beam, precision, cache_implementation="static")


SYSTEMS = {
    "ours": ours,
    "ours-scores": ours_scores,
    "ctranslate2": ctranslate2,
    "ctranslate2-scores": ctranslate2_scores,
    "ctranslate2-mkl": ctranslate2_mkl,
    "transformers": transformers,
    "transformers-compiled": transformers_compiled,
}
CPU_PRECISIONS = {
    "ours": ("float32", "bf16"),
    "ours-scores": ("float32", "bf16"),
    "ctranslate2": ("float32", "int8"),
    "ctranslate2-scores": ("float32", "int8"),
    "ctranslate2-mkl": ("float32", "int8"),
    "transformers": ("float32",),
    "transformers-compiled": ("float32",),
}
GPU_PRECISIONS = {
    "ours": ("float32", "bf16"),
    "ours-scores": ("float32", "bf16"),
    "ctranslate2": ("float32", "bf16", "int8"),
    "transformers": ("float32", "bf16"),
    "transformers-compiled": ("bf16",),
}
# On a CPU only with --systems.
FOR_GPUS = ("transformers-compiled",)


def compared(systems: list[str] | None, device: str, asked: list[str] | None) -> list[tuple[str, str, int]]:
    """The cases to measure, among the given systems and precisions: (system, precision, beam)."""
    here, modes_of = precisions(device, asked), GPU_PRECISIONS if device == "cuda" else CPU_PRECISIONS
    chosen = [name for name in modes_of if (systems is None or name in systems)]
    if device == "cpu" and systems is None:
        chosen = [name for name in chosen if name not in FOR_GPUS]
    installed = [name for name in chosen if name.startswith("ours") or importlib.util.find_spec(name.split("-")[0])]
    modes = [(name, precision) for name in installed for precision in modes_of[name] if precision in here]
    return [(*mode, beam) for beam in (1, 5) for mode in modes]


def measure(case: tuple[str, str, int], setting: Setting, sentences: int) -> Row:
    system, precision, beam = case
    return alone(SYSTEMS[system], setting, sentences, beam, precision, threads=setting.threads)  # type: ignore[no-any-return]


def _latency(setting: Setting) -> dict[str, float]:
    translator, seconds = loaded(setting, "float32"), []
    for texts, _, length in corpus_batches(setting.directory, 1000)[:8]:
        for text in texts[:4]:
            search = replace(BEAM, min_length=length, max_length=length)
            started = time.perf_counter()
            translator.translate([text], search)
            seconds.append(time.perf_counter() - started)
    return {"cold_ms": 1000 * seconds[0], "warm_ms": 1000 * statistics.median(seconds[1:])}


def latency(setting: Setting) -> dict[str, float]:
    """Milliseconds for one sentence by beam search, with the mean length of the references of 64 similar sentences: for
    the first after loading, and the median of the others."""
    return alone(_latency, setting, threads=setting.threads)  # type: ignore[no-any-return]
