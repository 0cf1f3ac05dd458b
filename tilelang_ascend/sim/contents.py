"""What lies in the memories of a core, and when."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ..ir import AllocBuffer, const_int, dtype_of, itemsize, scope_of, statements
from ..isa import SCOPES, TABLE, Space
from ..isa.stream import TILE_BIAS
from .report import RunResult
from .streams import records

LIFE = np.dtype([("tile", "i4"), ("version", "i4"), ("start", "f8"), ("end", "f8")])
"""One row for the time in which a version of a tile has contents that somebody wants: from the first write to the last read before contents are
replaced. Cycles of the time line; `tile` is a position in the list of tiles."""


class Tile(NamedTuple):
    """An on-chip buffer of a program: `versions` pieces of `nbytes` side by side at byte `address` of `space`. line 0: unknown."""

    name: str
    space: str
    address: int
    nbytes: int
    versions: int
    line: int


def tiles_of(func) -> list[Tile]:
    """The tiles of the program of one core, by the numbers `sim.lower` gives them: number 1 stands first."""
    tiles = []
    for s in statements(func.body):
        if not isinstance(s, AllocBuffer) or scope_of(s.buffer) == "local.var":
            continue
        versions, count = (const_int(n) for n in s.buffer.ty.shape)
        line = int(s.span.line) if s.span is not None else 0
        space, address = SCOPES[scope_of(s.buffer)].name, int(s.annotations["address"])
        tiles.append(Tile(s.buffer.name, space, address, count * itemsize(dtype_of(s.buffer)), versions, line))
    return tiles


def lives_of(run: RunResult, core: int, tiles: list[Tile]) -> np.ndarray:
    """Rows of dtype `LIFE`, in order of start, of a core of a run made with ``trace``, ``record_stream`` and ``record_tiles``."""
    accesses: dict[tuple[int, int], list[tuple[float, float, bool, bool]]] = defaultdict(list)
    for instruction, start, end in _executed(run, core):
        for tile, place, reads, writes in _operands(instruction):
            if tile < len(tiles):
                version = (place - tiles[tile].address) // max(1, tiles[tile].nbytes)
                accesses[tile, min(max(version, 0), tiles[tile].versions - 1)].append((start, end, reads, writes))
    rows = [(*key, *life) for key, several in accesses.items() for life in _lives(sorted(several))]
    return np.array(sorted(rows, key=lambda row: row[2]), LIFE)


def _lives(accesses: list[tuple[float, float, bool, bool]]) -> list[tuple[float, float]]:
    lives: list[tuple[float, float]] = []
    was_read = True
    for start, end, reads, writes in accesses:
        if not lives or (writes and not reads and was_read):
            lives.append((start, end))
        else:
            lives[-1] = lives[-1][0], max(lives[-1][1], end)
        was_read = reads
    return lives


def _executed(run: RunResult, core: int):
    """(record of the stream, start, end) of every instruction of a core that is on the time line."""
    events = run.events[run.events["core"] == core]
    slot_of = dict(zip(events["op"].tolist(), events["slot"].tolist()))  # flags and what tells numbers have no events
    waiting = {slot: iter(events[events["slot"] == slot][["start", "duration"]].tolist()) for slot in set(slot_of.values())}
    for instruction in records(run.streams[core]):
        if instruction.op in slot_of:
            event = next(waiting[slot_of[instruction.op]], None)
            if event is not None:
                yield instruction, event[0], event[0] + event[1]


_RECORDS = list(TABLE.values())


def _operands(instruction):
    """(position of the tile, byte offset in its memory, reads, writes) of every operand with a tile."""
    record = _RECORDS[instruction.op]
    first = len(record.attrs)
    anew = bool(record.anew_if) and instruction.args[first + record.arg_names.index(record.anew_if)] == 1
    for i, operand in enumerate(record.operands):
        word = instruction.args[first + i]
        number = (word >> 32) & 0xFFFF
        if word >> 56 & 0xFF == Space.GM or not number:
            continue
        direction = "out" if anew and i == 0 else operand.direction
        yield number - 1, (word & 0xFFFFFFFF) - TILE_BIAS, direction != "out", direction != "in"
