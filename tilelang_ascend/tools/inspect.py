"""What `inspect` writes for one kernel."""

from __future__ import annotations

from pathlib import Path

from ..runtime.artifact import Artifact
from .dump import dump_stages


def write_stages(artifact: Artifact, folder: Path, times: dict[str, float] | None = None) -> list[Path]:
    """Lower the kernel once more, keeping the IR after each pass, and write it with the memory map and the sources. `times` is given the
    seconds each pass took."""
    from ..jit.build import lower_stages

    stages = lower_stages(artifact, times)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("[0-9][0-9]*_*.py"):
        stale.unlink()
    paths = dump_stages([("tile_ir", artifact.tile_ir), *stages], folder)
    for file, text in (
        ("memory_map.txt", artifact.memory_map),
        ("kernel.cpp", artifact.kernel_source),
        ("host.cpp", artifact.host_source),
    ):
        (folder / file).write_text(text, encoding="utf-8")
    return paths


def table_of_times(times: dict[str, float]) -> str:
    """A line for each pass, the slowest first: milliseconds, share, name."""
    total = sum(times.values())
    rows = sorted(times.items(), key=lambda row: -row[1])
    return "\n".join(f"{1e3 * t:9.1f} ms {100 * t / total:5.1f} %  {name}" for name, t in [*rows, ("all passes", total)])
