"""A lexical shortlist: of the vocabulary only the ids by which the words of the source are likely to be translated.

Most ids have nothing to do with a sentence, but the output layer and the softmax compute all of them at every step. A
shortlist leaves them out: the most frequent ids stay, and for each source id those that IBM's model 1 has learned from
the training pairs (Jean et al. 2015, section 3.3). What is left out cannot be chosen, so translations may differ.
"""

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import safetensors.torch
import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.directions import Direction, arrow
from transformer.data.encoded import MAX_COUNTED
from transformer.data.ibm_model1 import IdPair, translation_probabilities
from transformer.data.printable import one_line, script_command, terminal_safe
from transformer.data.tokenizer import EOS, Tokenizer
from transformer.device import check_memory
from transformer.files import atomic_write
from transformer.inference.untrusted import check_tensors, read_tensors
from transformer.model.packed import pack

FORMAT = "lexical shortlist 1"
# A shortlist's size is rounded up to a multiple of this: the search is faster then (see `search.block_size`).
MULTIPLE = 128
MAX_BEST = 1000  # for each token of a batch so many ids are looked up
SPECIAL = list(range(EOS + 1))  # padding, unknown, BOS, EOS
Tokenizers = tuple[Tokenizer, Tokenizer]  # of source and target


@dataclass(frozen=True)
class ShortlistSettings:
    """How many target ids are kept for each source id (`best`), and how many for every sentence (`frequent`)."""

    best: Annotated[int, ">= 1", f"<= {MAX_BEST}"]
    frequent: Annotated[int, ">= 1", "<= 1000000"]


@dataclass(frozen=True)
class Description:
    """What a file says of the shortlist in it, besides its tensors."""

    format: str
    source_language: str
    target_language: str
    vocabularies: list[str]
    frequent: Annotated[int, ">= 1", "<= 1000000"]


class Shortlist:
    """Chooses the target ids that the translations of a batch may have."""

    def __init__(
        self,
        likely: Int[Tensor, "source_vocabulary best"],
        by_frequency: Int[Tensor, " target_vocabulary"],
        frequent: int,
    ) -> None:
        """`likely` are target ids for each source id, `by_frequency` are all of them, the most frequent first."""
        self.likely, self.by_frequency, self.frequent = likely, by_frequency, frequent

    def ids(self, source: Int[Tensor, "sentences source"]) -> Int[Tensor, " ids"] | None:
        """The ids in ascending order; None, for all, where they would be more than half of the vocabulary."""
        chosen = torch.zeros(len(self.by_frequency), dtype=torch.bool)
        chosen[self.likely[source.cpu().flatten()]] = True
        chosen[self.by_frequency[: self.frequent]] = True
        others = self.by_frequency[~chosen[self.by_frequency]]
        chosen[others[: -int(chosen.sum()) % MULTIPLE]] = True
        return chosen.nonzero().flatten().to(source.device) if 2 * int(chosen.sum()) <= len(chosen) else None

    def save(self, path: Path, tokenizers: Tokenizers, languages: Direction) -> None:
        """Writes a .safetensors file, for these vocabularies and languages."""
        about = Description(FORMAT, *languages, [tokenizer.digest for tokenizer in tokenizers], self.frequent)
        tensors = {"likely": self.likely.int(), "by_frequency": self.by_frequency.int()}
        atomic_write(path, safetensors.torch.save(tensors, {"shortlist": json.dumps(asdict(about))}))


def check_replaced(path: Path) -> None:
    """Raises ValueError for a file that is there, and no shortlist: it is not to be written over by one."""
    if path.exists():
        try:
            is_shortlist = "shortlist" in read_tensors(path)[0]
        except (ValueError, RuntimeError):
            is_shortlist = False
        if not is_shortlist:
            raise ValueError(f"output={path} is there, and no shortlist: name another file")


def load_shortlist(path: Path, tokenizers: Tokenizers, languages: Direction) -> Shortlist:
    """Reads a file that may be a stranger's. ValueError for a damaged one, or one of other tokenizers or languages."""
    if not path.is_file():
        raise FileNotFoundError(f"no shortlist at {path}: {script_command('shortlist')} makes one")
    try:
        about, tensors = read_tensors(path)
        check_tensors(path, tensors)
        if "shortlist" not in about:
            raise ValueError("it is no shortlist")
        described = from_dict(Description, json.loads(about["shortlist"]), "shortlist")
        likely, by_frequency = (tensors[name].long() for name in ("likely", "by_frequency"))
        source_size, target_size = map(len, tokenizers)
        if described.format != FORMAT:
            raise ValueError(f"its format is {described.format!r}, not {FORMAT!r}")
        if described.vocabularies != [tokenizer.digest for tokenizer in tokenizers]:
            raise ValueError("it was made with other tokenizers: make one of this run")
        if (own := (described.source_language, described.target_language)) != languages:
            raise ValueError(f"it is for {arrow(own)}, and the translation is {arrow(languages)}")
        if likely.ndim != 2 or len(likely) != source_size or not 1 <= likely.size(1) <= MAX_BEST:
            raise ValueError("it is not made for as many ids")
        if not 0 <= likely.min() <= likely.max() < target_size:
            raise ValueError("its ids are not those of the vocabularies")
        if not torch.equal(by_frequency.sort().values, torch.arange(target_size)):
            raise ValueError("it does not hold every id once")
        if by_frequency[: EOS + 1].tolist() != SPECIAL or described.frequent < len(SPECIAL):
            raise ValueError("its first ids are not the special ones")
    except (ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
        # What stands in the file could steer the terminal of whoever uses this from Python.
        reason = terminal_safe(one_line(error, 300))
        raise ValueError(f"shortlist={path} cannot be used: {reason}") from error
    return Shortlist(likely, by_frequency, described.frequent)


def training_ids(tokenizers: Tokenizers, corpus: DataSettings) -> list[IdPair]:
    """Training pairs as ids, without those that training leaves out: all, or about MAX_COUNTED at equal distances."""
    step = -(-sum(1 for _ in corpus.read("train")) // MAX_COUNTED) or 1
    texts = zip(*islice(corpus.read("train"), 0, None, step), strict=True)
    sides = [tokenizer.encode_all(list(side)) for tokenizer, side in zip(tokenizers, texts, strict=True)]
    least = [len(tokenizer.prefix) + 1 for tokenizer in tokenizers]  # the tag of a target language is not text
    return [
        (source, target)
        for source, target in zip(*sides, strict=True)
        if least[0] <= len(source) <= corpus.max_length and least[1] <= len(target) <= corpus.max_length
    ]


def learn_shortlist(tokenizers: Tokenizers, corpus: DataSettings, settings: ShortlistSettings) -> Shortlist:
    """A shortlist from the training pairs of a corpus. ValueError where memory does not suffice, and for no pairs."""
    sizes = len(tokenizers[0]), len(tokenizers[1])
    check_memory(12 * sizes[0] * sizes[1], f"counting {sizes[0]:,} × {sizes[1]:,} pieces", "use a smaller vocabulary")
    pairs = training_ids(tokenizers, corpus)
    if not pairs:
        raise ValueError(
            f"no training pair has 1 to {corpus.max_length} tokens a side: raise data.max_length, or fill empty sides"
        )
    probabilities = translation_probabilities(pairs, sizes, "learning the shortlist")
    best, likely = probabilities.topk(min(settings.best, sizes[1]), dim=1)
    counts = np.bincount([id for _, target in pairs for id in target], minlength=sizes[1])
    counts[SPECIAL] = counts.max(initial=0) + 1  # they always stay
    by_frequency = torch.from_numpy(np.argsort(-counts, kind="stable"))
    return Shortlist(likely.masked_fill(best == 0, EOS), by_frequency, max(settings.frequent, len(SPECIAL)))


def select_outputs(output: nn.Linear, ids: Int[Tensor, " ids"] | None) -> nn.Linear:
    """The output layer of these ids alone: its row i makes the logit of ids[i]. None: the layer itself."""
    if ids is None:
        return output
    with torch.inference_mode(False), torch.no_grad():
        chosen = nn.utils.skip_init(  # type: ignore[no-untyped-call]
            nn.Linear, output.in_features, len(ids), bias=output.bias is not None
        )
        for name, parameter in output.named_parameters():
            setattr(chosen, name, nn.Parameter(parameter[ids.clone()], requires_grad=False))
    return pack(nn.Sequential(chosen))[0]  # type: ignore[return-value]
