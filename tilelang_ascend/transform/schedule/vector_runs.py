"""Runs of vector instructions: which of them may stand together, so that fewer barriers part them.

A vector instruction that depends on another one waits for it behind a barrier, and the barrier waits for everything before it: the latency
of an instruction is paid once for each barrier. In a run of instructions the fewest barriers are those of its longest chain of
dependences: list scheduling, by the place the chain of an instruction gives it.

The first instruction that works on a tile some other pipe reads or writes does not pass instructions before it: it could have to wait
for a transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...analysis.dependence.dependence import meet
from ...analysis.dependence.liveness import live_buffers
from ...analysis.dependence.program import QUEUES, Instr, Program
from ...ir import Evaluate, SeqStmt, StmtMutator

LEAST = 4
"""Runs shorter than this have next to nothing to gain."""


def tiles_apart(program: Program) -> Program:
    """The program of a function without addresses, of whose tiles no two share any."""
    addresses, at = {}, 0
    for b in live_buffers(program):
        addresses[b.buffer], at = at, at + b.total_bytes
    return replace(program, addresses=addresses, hulls={}, reaches={})


def shared_tiles(program: Program) -> set:
    """Tiles that other pipes than the vector unit work on."""
    return {a.buffer for i in program.instrs if QUEUES[i.queue][1] != "V" for a in i.accesses if a.space != "global"}


def moves(program: Program, counts: Callable[[Instr], bool] = lambda instr: True, shared: set | None = None) -> dict:
    """First statement of a run -> its statements in their new order, for runs of instructions that count, and that change. shared: what other pipes work
    on, if not all of that matters."""
    shared = shared_tiles(program) if shared is None else shared
    blocks: dict[int, list[Instr]] = {}
    for instr in filter(counts, program.instrs):
        blocks.setdefault(id(instr.parent), []).append(instr)
    out = {}
    for instrs in blocks.values():
        for run in _runs(instrs):
            levels = _levels(run, program, shared)
            order = sorted(range(len(run)), key=lambda i: levels[i])
            if order != list(range(len(run))):
                out[run[0].stmt] = [run[i].stmt for i in order]
    return out


def _runs(instrs: list[Instr]) -> list[list[Instr]]:
    """Vector instructions that stand one right after the other."""
    runs: list[list[Instr]] = [[]]
    for instr in instrs:
        if QUEUES[instr.queue][1] != "V" or not isinstance(instr.stmt, Evaluate):
            runs.append([])
            continue
        if runs[-1] and runs[-1][-1].position != instr.position - 1:
            runs.append([])
        runs[-1].append(instr)
    return [run for run in runs if len(run) >= LEAST]


def _levels(run: list[Instr], program: Program, shared: set) -> list[int]:
    """How many barriers stand in front of each instruction at least."""
    levels: list[int] = []
    met: set = set()
    for j, instr in enumerate(run):
        transferred = {a.buffer for a in instr.accesses} & shared
        level = 0 if transferred <= met else max(levels, default=0)
        met |= transferred
        for i in range(j - 1, -1, -1):
            if levels[i] >= level and meet(run[i], instr, program):
                level = levels[i] + 1
        levels.append(level)
    return levels


class Permute(StmtMutator):
    """moves: first statement of a run -> its statements in their new order."""

    def __init__(self, moves: dict):
        self.moves = moves

    def visit_SeqStmt(self, s: SeqStmt):
        items, out, at = list(s.seq), [], 0
        while at < len(items):
            run = self.moves.get(items[at])
            out += run if run else [self.visit(items[at])]
            at += len(run) if run else 1
        return out


__all__ = ["Permute", "moves", "shared_tiles", "tiles_apart"]
