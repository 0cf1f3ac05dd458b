"""Profiles: what was simulated of the kernels of a script, in plain JSON types. The page is made of this alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from ...errors import TilelangAscendError
from ...runtime.artifact import Artifact
from ...runtime.simulation import SimulationReport
from .columns import pack_rows, unpack

FORMAT = "tilelang-ascend profile"
VERSION = 1
EVENT_COLUMNS = ("core", "slot", "op", "line", "start", "duration")
LINK_COLUMNS = ("source", "destination", "event", "id")
LIFE_COLUMNS = ("tile", "version", "start", "end")
_COLUMNS = {"events": EVENT_COLUMNS, "links": LINK_COLUMNS}


class ProfileError(TilelangAscendError):
    """A file that is no profile, or one this release cannot read."""


def kernel_profile(name: str, artifact: Artifact, report: SimulationReport) -> dict[str, Any]:
    """All the page shows of one kernel. Times are cycles. `report` comes from `simulation.observe`."""
    from ...sim.flags import flag_links
    from ...sim.report import PIPES

    run, explanation = report.run, report.explain()
    ops, codes = _names_of_ops(run.events["op"])
    events = run.events.copy()
    events["op"] = codes
    return {
        "name": name,
        "report": report.to_dict(),
        "explanation": [explanation.bound, *str(explanation).splitlines()[1:]],
        "source": {"file": _shown(report.source_file), "text": _text(report.source_file)},
        "cores": list(run.core_names),
        "pipes": list(PIPES),
        "ops": ops,
        "events": pack_rows(events, EVENT_COLUMNS),
        "links": pack_rows(flag_links(run), LINK_COLUMNS),
        "memory": _memories(artifact, run),
    }


def profile(script: Path, kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole file."""
    return {"format": FORMAT, "version": VERSION, "script": script.name, "kernels": kernels}


def text_of(found: Mapping[str, Any]) -> str:
    """A profile as JSON, without a blank."""
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def read(path: Path) -> dict[str, Any]:
    """The profile in a file.

    Raises:
        ProfileError: it is none, or of another version.
    """
    hint = "`tilelang-ascend profile` writes one beside each page"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path} is no JSON file: {error}", hint=hint) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ProfileError(f"{path} is no profile", hint=hint)
    if found.get("version") != VERSION:
        raise ProfileError(
            f"{path} is a profile of version {found.get('version')}, this release reads version {VERSION}", hint="profile again"
        )
    try:
        for kernel in found["kernels"]:
            _check(kernel)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(f"{path} is a damaged profile: {type(error).__name__}: {error}", hint="profile again") from None
    return found


def _check(kernel: Mapping[str, Any]) -> None:
    """Everything the page takes for granted."""
    "\n".join(kernel["explanation"])
    kernel["name"], kernel["source"]["text"], kernel["source"]["file"], kernel["report"]["simulated_us"], kernel["report"]["clock_hz"]
    for part, names in _COLUMNS.items():
        lengths = {len(unpack(kernel[part][name])) for name in names}
        if len(lengths) != 1:
            raise ValueError(f"columns of {part} have different lengths")
    for column, names in (("core", kernel["cores"]), ("slot", kernel["pipes"]), ("op", kernel["ops"])):
        _check_range(kernel["events"], column, len(names))
    for column in ("source", "destination"):
        _check_range(kernel["links"], column, len(unpack(kernel["events"]["core"])))
    for memory in kernel["memory"]:
        for tile in memory["tiles"]:
            memory["capacity_bytes"][tile["space"]], tile["name"], tile["address"], tile["nbytes"], tile["versions"], tile["line"]
        if len({len(unpack(memory["lives"][name])) for name in LIFE_COLUMNS}) != 1 or not isinstance(memory["core"], str):
            raise ValueError("columns of lives have different lengths")
        _check_range(memory["lives"], "tile", len(memory["tiles"]))


def _check_range(columns: Mapping[str, Any], name: str, count: int) -> None:
    values = unpack(columns[name])
    if len(values) and not 0 <= values.min() <= values.max() < count:
        raise ValueError(f"column {name} leads out of its table")


def _names_of_ops(codes: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names of the instructions that occur, and where each instruction stands among them."""
    from ...isa.table import TABLE

    every = list(TABLE)
    used, positions = np.unique(codes, return_inverse=True)
    return [every[code] for code in used.tolist()], positions


def _memories(artifact: Artifact, run) -> list[dict[str, Any]]:
    """For each launch and kind of core the core with most instructions: its tiles, and when they had contents."""
    from ... import arch
    from ...ir.functions import core_functions, launches
    from ...sim.contents import lives_of, tiles_of

    chip = arch.get_chip(artifact.chip)
    capacity = {space.name: chip.capacity_bytes(space) for space in chip.memories}
    counts = np.bincount(run.events["core"], minlength=len(run.core_names))
    parts = [core_functions(part) for part in launches(artifact.ascend_ir)]
    found = []
    for k, functions in enumerate(parts):
        for kind, func in functions.items():
            start = f"launch {k + 1} {kind.upper()} " if len(parts) > 1 else f"{kind.upper()} "
            cores = [core for core, name in enumerate(run.core_names) if name.startswith(start)]
            tiles = tiles_of(func)
            if not cores or not tiles:
                continue
            core = max(cores, key=lambda core: counts[core])
            found.append({
                "core": run.core_names[core],
                "capacity_bytes": capacity,
                "tiles": [tile._asdict() for tile in tiles],
                "lives": pack_rows(lives_of(run, core, tiles), LIFE_COLUMNS),
            })  # fmt: skip
    return found


def _shown(file: str) -> str:
    """A path as short as it is clear: relative to the current folder where it lies below."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd())) if file else ""
    except ValueError:
        return file


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        return ""
