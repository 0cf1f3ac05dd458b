"""What msprof has measured of a kernel: the tables `op_summary_*.csv` it leaves, read and selected by kernel."""

from __future__ import annotations

import csv
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

from ...errors import DeviceError
from .cann import Cann

_NAME = ("Op Name", "OP Name", "Kernel Name")
_DURATION = ("Task Duration(us)", "Task Duration (us)")
_BLOCKS = ("Block Dim", "Block Num")
"""Columns under the names that releases give them (assumed but for ``Op Name`` and ``Task Duration(us)``)."""


@dataclass(frozen=True)
class LaunchProfile:
    """One launch as msprof measured it.

    Attributes:
        kernel: its name.
        duration_us: microseconds on the device.
        blocks: number of blocks; 0 when the table does not say.
        pipes: microseconds of each pipe that the table has, by the name of the column without its unit, such as ``aiv_mte2_time``.
        columns: everything in the table, as text.
    """

    kernel: str
    duration_us: float
    blocks: int
    pipes: Mapping[str, float]
    columns: Mapping[str, str]


def msprof(cann: Cann) -> Path | None:
    """Path of msprof, or None."""
    places = (cann.home / "bin" / "msprof", cann.home / "tools" / "profiler" / "bin" / "msprof")
    in_path = shutil.which("msprof")
    return next((path for path in places if os.access(path, os.X_OK)), Path(in_path) if in_path else None)


def kernels_of(text: str) -> list[str]:
    """Names of the kernels of an emitted text."""
    return re.findall(r'extern "C" __global__ .*? void (\w+)\(', text)


def read(folder: Path, kernels: Sequence[str]) -> list[LaunchProfile]:
    """The launches of kernels of these names, in the order of the newest profile below `folder`.

    Raises:
        errors.DeviceError: there is no table, or no such launch in it.
    """
    tables = sorted(folder.rglob("op_summary*.csv"), key=lambda path: (path.stat().st_mtime_ns, str(path)))
    how = f"run the script by msprof --output={folder} python SCRIPT, then read it here"
    if not tables:
        raise DeviceError(f"there is no op_summary*.csv of msprof below {folder}", hint=how)
    newest = [path for path in tables if path.parent == tables[-1].parent]
    rows = [row for path in newest for row in _rows(path)]
    found = [_profile(row) for row in rows if any(_is_kernel(_field(row, _NAME), name) for name in kernels)]
    if not found:
        seen = sorted({_field(row, _NAME) for row in rows})
        raise DeviceError(
            f"the newest profile below {folder} has no launch of {' or '.join(kernels)}",
            notes=[f"it has {', '.join(seen[:20])}" if seen else "it is empty"],
            hint=how,
        )
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _field(row: Mapping[str, str], names: Sequence[str]) -> str:
    return next((row[name] or "" for name in names if name in row), "")


def _is_kernel(shown: str, name: str) -> bool:
    """The compiler of 8.x marks the side of a kernel by a suffix (assumed)."""
    return shown == name or shown.startswith((f"{name}_mix_", f"{name}_vec", f"{name}_cube"))


def _profile(row: Mapping[str, str]) -> LaunchProfile:
    blocks = _field(row, _BLOCKS)
    pipes = {}
    for column, text in row.items():
        name, unit, _ = (column or "").partition("(us)")
        if unit and column not in _DURATION and name.rstrip().endswith("_time") and _number(text) is not None:
            pipes[name.rstrip()] = float(text)
    return LaunchProfile(
        _field(row, _NAME), _number(_field(row, _DURATION)) or 0.0, int(blocks) if blocks.isdigit() else 0, pipes, dict(row)
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:  # msprof writes N/A
        return None
