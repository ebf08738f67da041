"""The settings of the machine, in a module that does not import torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer.config import Settings

MatmulPrecision = Literal["highest", "high", "medium"]


@dataclass(frozen=True)
class MachineSettings(Settings):
    """How torch uses the machine; if a setting is None, `configure_torch` chooses."""

    threads: Annotated[int, ">= 1", "<= 1024"] | None = None
    """by default torch's own number, but at most the cores that this process may use"""
    matmul_precision: MatmulPrecision | None = None
    """the precision of float32 matrix multiplications, with torch's names: highest | high (TF32 on a GPU) | medium
    (oneDNN or bf16 on a CPU). By default training uses high on a GPU; on a CPU highest, or medium if a short timing
    shows that it is faster and as exact. Translating uses highest on x86 (weights are packed for oneDNN there) and, in
    float32, on a GPU"""
    attention: Literal["math", "fused"] | None = None
    """math | fused (torch's flash kernels); by default math on a CPU, fused on a GPU"""
