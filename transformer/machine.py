"""The settings of the machine: apart from torch, so that they can be read without it."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer.config import Settings

MatmulPrecision = Literal["highest", "high", "medium"]


@dataclass(frozen=True)
class MachineSettings(Settings):
    """How torch uses the machine; None lets `configure_torch` choose."""

    threads: Annotated[int, ">= 1", "<= 1024"] | None = None
    """by default as many as torch chooses, at most the cores that this process may use"""
    matmul_precision: MatmulPrecision | None = None
    """the precision of float32 matrix multiplications, in torch's words: highest | high (TF32 on a GPU) | medium
    (oneDNN or bf16 on a CPU). By default training uses high on a GPU; on a CPU highest, or medium if a short timing
    finds it faster and as exact. Translating uses highest on x86, where the weights are packed for oneDNN, and in
    float32 on a GPU"""
    attention: Literal["math", "fused"] | None = None
    """math | fused (torch's flash kernels); by default math on a CPU, fused on a GPU"""
