"""The precision depends on the features of a machine: a pure function of named features, without timing."""

import logging
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer.device import (
    Hardware,
    available_cores,
    available_memory,
    available_threads,
    check_memory,
    choose_precision,
    compiles_kernel_per_shape,
    configure_torch,
    cpu_features,
    device_kind,
    fast_instructions,
    fastest_matmul_precision,
    find_hardware,
    full_precision,
    parallel_map,
    parse_device,
    parse_precision,
    processor_name,
    worker_count,
)
from transformer.evaluation.settings import EvaluationInference
from transformer.inference.settings import InferenceSettings
from transformer.machine import MachineSettings

OLD_LAPTOP = {"sse4_2", "avx2", "fma", "f16c"}
OLD_CPU, NEW_CPU = Hardware("cpu", {}), Hardware("cpu", {"bf16": "AVX512_BF16"})


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (OLD_LAPTOP, {}),
        ({*OLD_LAPTOP, "avx512f", "avx512_vnni"}, {}),
        ({*OLD_LAPTOP, "avx512f", "avx512_bf16"}, {"bf16": "AVX512_BF16"}),
        ({"avx512_bf16", "amx_tile", "amx_bf16", "avx512_fp16"}, {"bf16": "AMX", "fp16": "AVX512_FP16"}),
        ({"fp", "asimd"}, {}),
        ({"fp", "asimd", "asimdhp", "bf16", "i8mm"}, {"bf16": "ARM BF16", "fp16": "ARM FP16"}),
    ],
)
def test_only_instructions_of_a_processor_make_16_bits_fast(features: set[str], expected: dict[str, str]) -> None:
    assert fast_instructions(features) == expected


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Writes files of a Linux system that replace the real ones."""
    monkeypatch.setattr("transformer.device.Path", lambda path: tmp_path / path.lstrip("/"))

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")

    return write


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_the_features_of_a_processor_are_those_that_linux_lists(system: Any, name: str) -> None:
    system({"proc/cpuinfo": f"processor\t: 0\nmodel name\t: A chip\n{name}: fpu bf16\nbugs\t\t: spectre\n"})
    assert cpu_features() == {"fpu", "bf16"}


@pytest.mark.parametrize(("quota", "cores"), [("max", 8), ("150000", 2), ("5000", 1), ("1600000", 8), (None, 8)])
def test_a_container_has_the_cores_of_its_share_rounded_up(
    system: Any, quota: str | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    system({"sys/fs/cgroup/cpu.max": f"{quota} 100000\n"} if quota else {})
    assert available_cores() == cores


@pytest.mark.parametrize(("cores", "asked", "threads"), [(8, 3, 3), (2, 3, 2)])
def test_there_are_as_many_threads_as_cores_unless_fewer_were_asked_for(
    system: Any, cores: int, asked: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)), raising=False)
    monkeypatch.setattr("torch.get_num_threads", lambda: asked)
    assert available_threads() == threads


@pytest.mark.parametrize(
    ("used", "cached", "free"), [(900, 0, 100), (900, 300, 400), (1100, 0, 0), (100, 0, 512), (None, 0, 512)]
)
def test_free_memory_is_what_the_system_and_the_share_of_a_container_leave(
    system: Any, used: int | None, cached: int, free: int
) -> None:
    system({"proc/meminfo": "MemTotal:  900000 kB\nMemFree:  1 kB\nMemAvailable:  500 kB\n"})
    system({"sys/fs/cgroup/memory.max": "max\n" if used is None else "1000000\n"})
    system({"sys/fs/cgroup/memory.current": f"{used}000\n"})
    system({"sys/fs/cgroup/memory.stat": f"anon 7\ninactive_file {cached}000\nactive_file 9\n"})
    assert available_memory() == 1000 * free


def test_without_a_file_about_memory_every_batch_is_tried(system: Any) -> None:
    assert available_memory() == math.inf
    check_memory(10**18, "a model", "take a smaller one")


@pytest.mark.parametrize(
    ("accelerator", "has_cuda", "has_mps", "kind"),
    [
        *[(accelerator, True, False, "cuda") for accelerator in ("auto", "gpu", "cuda")],
        *[(accelerator, False, True, "mps") for accelerator in ("auto", "gpu", "mps")],
        *[(accelerator, False, False, "cpu") for accelerator in ("auto", "gpu", "cuda", "mps", "cpu")],
        *[("cpu", True, True, "cpu"), ("cuda", False, True, "cpu"), ("mps", True, False, "cpu")],
    ],
)
def test_an_accelerator_means_a_device_that_is_there(
    accelerator: str, has_cuda: bool, has_mps: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has_mps)
    assert device_kind(accelerator) == kind
    hardware = find_hardware(accelerator)
    assert (hardware.device, kind == "mps") == (kind, hardware.instructions == {"fp16": "Metal"})
    if accelerator == "auto":
        assert parse_device("auto").type == kind


def test_bf16_that_a_gpu_emulates_is_not_what_it_multiplies_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert find_hardware("gpu").instructions.keys() == {"fp16"}
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert find_hardware("gpu").instructions.keys() == {"fp16", "bf16"}


def test_the_precision_is_that_of_the_gpu_unless_the_cpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.device.cpu_features", set[str])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert choose_precision("auto", "auto") == choose_precision("auto", "gpu") == "bf16-mixed"
    assert choose_precision("auto", "cpu") == "32-true"


@pytest.mark.skipif(not hasattr(torch.cpu, "_is_avx512_bf16_supported"), reason="torch cannot tell")
def test_linux_and_torch_agree_about_this_processor() -> None:
    assert ("avx512_bf16" in cpu_features()) == torch.cpu._is_avx512_bf16_supported()


@pytest.mark.parametrize(
    ("hardware", "training", "translating"),
    [
        (OLD_CPU, "32-true", torch.float32),
        (NEW_CPU, "bf16-mixed", torch.bfloat16),
        (Hardware("cuda", {"fp16": "GPU"}), "32-true", torch.float32),
        (Hardware("cuda", {"fp16": "GPU", "bf16": "GPU"}), "bf16-mixed", torch.bfloat16),
        (Hardware("mps", {"fp16": "Metal"}), "32-true", torch.float32),
    ],
)
def test_auto_is_bf16_only_where_it_is_fast(
    hardware: Hardware,
    training: str,
    translating: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("transformer.device.find_hardware", lambda accelerator: hardware)
    assert choose_precision("auto", "auto") == training
    assert parse_precision("auto", hardware) == translating
    assert not caplog.records


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "32-true"])
def test_a_set_precision_is_used_with_a_warning_if_it_is_emulated(
    precision: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("transformer.device.find_hardware", lambda accelerator: OLD_CPU)
    with caplog.at_level(logging.WARNING):
        assert choose_precision(precision, "auto") == precision
    slow = [f"trainer.precision={precision}: this CPU has no"] if "16" in precision else []
    assert [record.getMessage()[: len(slow[0])] for record in caplog.records] == slow
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_a_slow_precision_of_translating_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_precision("float32", OLD_CPU) == torch.float32
    assert parse_precision("float16", Hardware("cuda", {"fp16": "GPU"})) == torch.float16
    assert parse_precision("bfloat16", OLD_CPU) == torch.bfloat16
    assert parse_precision("bfloat16", NEW_CPU) == torch.bfloat16
    [record] = caplog.records
    assert "this CPU has no bf16 instructions and emulates them" in record.getMessage()
    parse_precision("float16", NEW_CPU)
    assert "this CPU has no fp16 instructions and emulates them" in caplog.messages[-1]


def test_the_first_lines_of_a_run_say_why_a_precision_was_taken() -> None:
    assert NEW_CPU.describe("bf16-mixed") == "precision bf16-mixed (AVX512_BF16)"
    assert NEW_CPU.describe("32-true") == "precision 32-true"
    assert OLD_CPU.describe("32-true") == "precision 32-true (this CPU has no bf16 instructions)"
    assert OLD_CPU.describe("bf16-mixed") == "precision bf16-mixed (emulated)"
    assert "not tested" in Hardware("mps", {"fp16": "Metal"}).describe("32-true")


def test_translating_chooses_by_hardware_and_scores_are_the_same_everywhere() -> None:
    assert InferenceSettings().precision == "auto"
    assert EvaluationInference().precision == "float32"


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has it")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"device=mps: this machine has no GPU that torch can use"):
        parse_device("mps")
    assert find_hardware("cpu").device == "cpu"


def test_a_gpu_beyond_the_last_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [parse_device(name) for name in ("cuda", "cuda:1")] == [torch.device("cuda"), torch.device("cuda:1")]
    with pytest.raises(ValueError, match=r"device=cuda:2: torch can use 2 GPUs of this machine, up to cuda:1"):
        parse_device("cuda:2")
    with pytest.raises(ValueError, match=r"device=cuda:01 is not allowed"):
        parse_device("cuda:01")


@pytest.mark.parametrize(("dtype", "is_packed"), [(torch.bfloat16, False), (torch.float32, True)])
def test_no_matrix_product_is_timed_where_few_are_left(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, is_packed: bool
) -> None:
    monkeypatch.setattr("transformer.device.fastest_matmul_precision", lambda: pytest.fail("it is timed"))
    settings = MachineSettings(torch.get_num_threads(), None, None)
    before = torch.get_float32_matmul_precision()
    assert "matmul precision highest" in configure_torch(settings, "cpu", dtype, is_packed)
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores the settings that `configure_torch` changes for the whole process."""
    monkeypatch.setattr("os.environ", {key: value for key, value in os.environ.items() if not key.startswith("ONEDNN")})
    cuda, threads, precision = torch.backends.cuda, torch.get_num_threads(), torch.get_float32_matmul_precision()
    flash, efficient, cudnn = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    cuda.enable_flash_sdp(flash)
    cuda.enable_mem_efficient_sdp(efficient)
    cuda.enable_cudnn_sdp(cudnn)


@pytest.mark.usefixtures("restored")
def test_torch_uses_the_settings_of_the_machine() -> None:
    said = configure_torch(MachineSettings(2, "medium", "fused"), "cpu", torch.bfloat16, is_packed=True)
    assert said == "cpu: 2 threads, matmul precision medium (as set), attention fused"
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (2, "medium")
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()


@pytest.mark.usefixtures("restored")
def test_on_a_cpu_attention_is_plain_matrix_multiplication() -> None:
    said = configure_torch(MachineSettings(1, "highest", None), "cpu")
    assert said == "cpu: 1 thread, matmul precision highest (as set), attention math"
    assert not torch.backends.cuda.flash_sdp_enabled()
    assert not torch.backends.cuda.mem_efficient_sdp_enabled()


@pytest.mark.usefixtures("restored")
def test_a_gpu_multiplies_in_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "matmul precision high (TF32)" in configure_torch(MachineSettings(1, None, None), "gpu")
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("bucketed", "kernels"), [(False, "64"), (True, "1024")])
def test_kernels_are_kept_where_their_shapes_come_again(bucketed: bool, kernels: str) -> None:
    configure_torch(MachineSettings(1, "highest", None), "cpu", bucketed=bucketed)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == kernels
    os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "7"
    configure_torch(MachineSettings(1, "highest", None), "cpu", bucketed=bucketed)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("speedup", "is_worth_it"), [(1.1, False), (2.0, True)])
def test_another_way_to_multiply_is_taken_if_it_is_much_faster_and_as_precise(
    speedup: float, is_worth_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def multiplied(left: torch.Tensor, right: torch.Tensor) -> float:
        return 1.0 if torch.get_float32_matmul_precision() == "highest" else 1 / speedup

    monkeypatch.setattr("transformer.device._seconds", multiplied)
    torch.set_float32_matmul_precision("medium")
    left, right = torch.randn(512, 256), torch.randn(256, 512)
    exact = left.double() @ right.double()
    is_precise = (left @ right - exact).norm() < 1e-5 * exact.norm()
    torch.set_float32_matmul_precision("high")
    precision, reason = fastest_matmul_precision.__wrapped__()  # not the cached result
    assert (precision == "medium") == (is_precise and is_worth_it)
    assert ("not float32" in reason) == (not is_precise)
    assert torch.get_float32_matmul_precision() == "high"


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("restored")
def test_items_side_by_side_share_the_threads_and_give_them_back() -> None:
    torch.set_num_threads(5)
    assert parallel_map(lambda item: (item, torch.get_num_threads()), ["a", "b"]) == [("a", 2), ("b", 2)]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (5, 5)


@pytest.mark.usefixtures("restored")
def test_after_an_item_that_fails_no_other_is_begun_and_all_threads_are_there() -> None:
    torch.set_num_threads(4)
    begun: list[int] = []

    def fails(item: int) -> None:
        begun.append(item)
        time.sleep(0.01)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        parallel_map(fails, list(range(200)))
    assert len(begun) < 100
    assert threads_of_a_new_thread() == 4


@pytest.mark.parametrize(("threads", "items", "workers"), [(4, 3, 3), (4, 9, 4), (64, 99, 8), (1, 9, 1)])
def test_no_more_items_are_taken_at_once_than_there_are_threads_for(
    threads: int, items: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    assert worker_count(items) == workers


FREED_MEMORY = """
import resource, torch
from transformer.device import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(20_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = page_faults()
keep_freed_memory()
page_faults()  # the first calls add a few
print(before, page_faults())
"""


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", FREED_MEMORY], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before / 10


def test_on_a_gpu_no_shape_of_attention_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN took 260 ms for each new shape of a batch, and a step takes 19 ms (docs/experiments.md)."""
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr("transformer.device.device_kind", lambda accelerator: "cuda")
    assert "attention fused" in configure_torch(MachineSettings(torch.get_num_threads(), "highest", None), "gpu")
    assert torch.backends.cuda.flash_sdp_enabled()
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    torch.set_float32_matmul_precision(before)


def test_on_a_gpu_no_search_uses_attention_of_cudnn_by_default() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    for enabled in (True, False):
        torch.backends.cuda.enable_cudnn_sdp(enabled)
        with full_precision(torch.device("cuda")):
            assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
    torch.backends.cuda.enable_cudnn_sdp(before)


def test_on_a_gpu_what_is_translated_has_full_precision_whatever_training_uses() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    with torch.autocast("cpu", torch.bfloat16), full_precision(torch.device("cpu")):
        assert not torch.is_autocast_enabled("cpu")
    with full_precision(torch.device("cuda")):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("precision", "slow"),
    [("bf16-mixed", True), ("bf16-true", True), ("16-mixed", True), ("32-true", False), ("64-true", False)],
)
def test_on_a_cpu_the_16_bit_precisions_make_kernels_by_shape(precision: str, slow: bool) -> None:
    assert compiles_kernel_per_shape("cpu", precision) == slow


def test_a_gpu_makes_no_kernels_by_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not compiles_kernel_per_shape("gpu", "bf16-mixed")


def test_the_processor_has_a_name() -> None:
    assert processor_name("cpu: 2 threads").strip()


def test_the_name_of_a_processor_is_what_linux_calls_it(system: Any) -> None:
    system({"proc/cpuinfo": "processor\t: 0\nmodel name\t: A chip @ 2 GHz\nmodel\t\t: 7\n"})
    assert processor_name("cpu: 2 threads") == "A chip @ 2 GHz"


def test_the_name_of_a_gpu_is_what_its_driver_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A card")
    assert processor_name("cuda: 2 threads, matmul precision high (TF32)") == "A card"
