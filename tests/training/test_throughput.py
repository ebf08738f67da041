"""What a run says of its costs."""

from pathlib import Path

from tests import processes
from transformer.training.callbacks.throughput import peak_memory


def test_the_peak_of_memory_is_known_where_the_system_does_not_tell_it(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t  2024 kB\n")
    assert processes.peak_memory() <= peak_memory(tmp_path / "status") <= processes.peak_memory()
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t  2024 kB\nVmRSS:\t  1000 kB\n")
    assert peak_memory(tmp_path / "status") == 2024 * 1024
