"""Checks before a search that the CPU's memory suffices: the system may kill a process that takes too much."""

from collections.abc import Sequence

from transformer.device import check_memory, worker_count
from transformer.inference.settings import SearchSettings
from transformer.model.config import ModelConfig

# Keys and values are copied when they grow, and scores are in memory together with tensors that are made from them.
BYTES_OF_FLOAT32, COPIES_OF_CACHE, SCORES_IN_MEMORY = 4, 3, 4


def check_search_memory(configs: Sequence[ModelConfig], batches: list[list[int]], search: SearchSettings) -> None:
    """Raises ValueError for a search that does not fit into memory, with batches of sources of these lengths. All
    models (of an ensemble) are in memory together."""
    hypotheses, search_name, remedy = 1, f"a {search.method} search", "take a smaller max_length or batch_tokens"
    if search.method == "beam":
        hypotheses, search_name = search.beam, f"a beam of {search.beam}"
        remedy = "take a smaller beam, max_length or batch_tokens"
    max_length = min(config.max_length for config in configs)
    scores = SCORES_IN_MEMORY * len(configs) * configs[0].target_vocab_size
    keys_and_values = sum(
        config.decoder.layers * attention.heads * sum(attention.head_dims(config.dim))
        for config in configs
        for attention in [config.decoder.self_attention]
    )
    needed = []
    for lengths in batches:
        longest = min(max_length, max(search.max_lengths(lengths)) + 1)
        numbers_per_hypothesis = COPIES_OF_CACHE * longest * keys_and_values + scores
        needed.append(BYTES_OF_FLOAT32 * hypotheses * len(lengths) * numbers_per_hypothesis)
    count = max(map(len, batches), default=0)
    what = f"{search_name} with {count} sentence{'s' if count != 1 else ''} at a time"
    check_memory(worker_count(len(batches)) * max(needed, default=0), what, remedy)
