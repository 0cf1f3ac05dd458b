"""The driver: runs passes, keeps what each leaves, verifies that it is legal for its stage, and takes the time."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Callable

from .. import env
from .stages import Stage, check_stage


@dataclass
class Options:
    """What a user may ask of the compiler.

    max_versions: upper limit of copies of one tile (2 = double buffering, 1 = none); capacity decides below it.
    fast_math: element functions with fewer instructions whose error grows with the argument (see `tileop/math_*.py`).
    coarsen: neighbouring blocks, and iterations of loops over small tiles, may be worked on together, with a larger tile.
    keep_operands: an operand of a product may stay in L1 for several blocks, while sums of parts of K are added up in GM.
    merge_steps: steps of an attention loop may be worked on together.
    vectorize_loops: serial loops over elements may be work of the vector unit.
    direct_channels: values may cross between cube and vector cores on chip, where there are paths.
    overlap_tiles: the halves of vector work on two tiles may be done side by side; None: where that is faster by the machine model. pair_tiles: the same of
    two tiles of a core as they are. pair_blocks: the same of two neighbouring blocks of the grid.
    hint_l2: tensors that are needed once may go past L2.
    cann: release of CANN, 8 or 9, in whose form the text is written; passes do not look at it.
    """

    max_versions: int = 6
    fast_math: bool = False
    coarsen: bool = True
    keep_operands: bool = True
    merge_steps: bool = True
    vectorize_loops: bool = True
    direct_channels: bool = True
    overlap_tiles: bool | None = None
    pair_tiles: bool | None = None
    pair_blocks: bool | None = None
    hint_l2: bool = True
    cann: int = 8


class Apart(IntEnum):
    """Which products are made apart from what they are added to: those that have to be, those of loops for accumulators that L0C has no room for
    too, or every one for them."""

    FOUND = 0
    LOOPS = 1
    ALL = 2


class Direct(IntEnum):
    """Which values cross between cube and vector cores on chip, where there are paths: those to UB and those to L1, those to UB, or none."""

    NONE = 0
    TO_UB = 1
    ALL = 2


@dataclass
class Context:
    """What passes may ask for, and what they tell the user.

    keep: keep the IR after every pass, as (name, IR) in `stages`. verify: check it against the table of its stage. times: name of a pass ->
    seconds it took, all attempts together, those that lost too; None: nobody asked. cramped: there was no room for a second copy of a tile that
    transfers could fill while the first is in use. merged: steps of a loop are worked on together. in_pieces: whether such steps may
    be longer than their products fit: 1: as long as is best, n: an n-th of that, 0: not. pieced: it made a difference. following: they may be as long as is best where tiles of a core
    follow each other. relied: they are that long. chained: tiles do follow each other. narrow: products are made in parts of few columns. short: steps stay as they
    are for want of room. parts:
    tiles are worked on in so many of them. in_step: whether statements of a loop that may run late may run in step
    where memories are too small for values of several iterations. may_join: blocks that load the same may be worked on together. joined: they are. may_overlap, may_pair, may_pair_blocks: halves of tiles,
    tiles, or blocks might be worth being done side by side. apart: which products are made apart from what they are added to, here and in all attempts.
    few_flags: flags have run out in another attempt. fences: barriers for all pipes that stand for flags.
    """

    chip: Any
    options: Options = field(default_factory=Options)
    keep: bool = False
    verify: bool = field(default_factory=env.VERIFY_PASSES.get)
    stages: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    times: dict[str, float] | None = None
    cramped: bool = False
    merged: bool = False
    in_pieces: int = 0
    pieced: bool = False
    following: bool = True
    relied: bool = False
    chained: bool = False
    narrow: bool = False
    short: bool = False
    parts: int = 1
    apart: Apart = Apart.FOUND
    in_step: bool = True
    may_join: bool = True
    joined: bool = False
    few_flags: bool = False
    fences: int = 0
    may_overlap: bool = False
    may_pair: bool = False
    may_pair_blocks: bool = False

    def attempt(self) -> Context:
        """A context of its own for something that may fail or lose against another attempt."""
        return Context(
            self.chip,
            self.options,
            self.keep,
            self.verify,
            times=self.times,
            apart=self.apart,
            in_step=self.in_step,
            may_join=self.may_join,
            following=self.following,
        )

    def adopt(self, other: Context) -> None:
        """Continue with what an attempt has found."""
        self.stages += other.stages
        self.notes += other.notes
        self.warnings += other.warnings
        self.cramped |= other.cramped
        self.merged |= other.merged
        self.pieced |= other.pieced
        self.narrow |= other.narrow
        self.short |= other.short
        self.joined |= other.joined
        self.may_overlap |= other.may_overlap
        self.may_pair |= other.may_pair
        self.may_pair_blocks |= other.may_pair_blocks
        self.relied |= other.relied
        self.chained |= other.chained
        self.parts *= other.parts
        self.fences += other.fences

    @contextmanager
    def timed(self, name: str):
        """What runs inside is the time of the pass `name`, also if it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self.times is not None:
                self.times[name] = self.times.get(name, 0.0) + time.perf_counter() - start

    @property
    def may_coarsen(self) -> bool:
        return self.options.coarsen

    @property
    def may_hint(self) -> bool:
        return self.options.hint_l2

    @property
    def may_vectorize(self) -> bool:
        return self.options.vectorize_loops

    @property
    def may_keep(self) -> bool:
        return self.options.coarsen and self.options.keep_operands

    @property
    def merging(self) -> Context | None:
        """Who is told that steps have been merged; None if they must not be."""
        return self if self.options.merge_steps else None

    @property
    def joining(self) -> Context | None:
        """Who is told that blocks have been joined; None if they must not be."""
        return self if self.may_join and self.options.coarsen else None

    @property
    def chaining(self) -> Context:
        """Who is told that tiles follow each other."""
        return self

    @property
    def parting(self) -> Context:
        """Who is told that parts of products have few columns."""
        return self

    @property
    def overlap(self) -> bool:
        """Whether the halves of tiles are done side by side."""
        return bool(self.options.overlap_tiles)

    @property
    def overlapping(self) -> Context:
        """Who is told that this might be worth it."""
        return self

    @property
    def pair(self) -> bool:
        """Whether two tiles of a core are worked on side by side."""
        return bool(self.options.pair_tiles)

    @property
    def pair_blocks(self) -> bool:
        """Whether two neighbouring blocks are one."""
        return bool(self.options.pair_blocks)

    @property
    def pairing(self) -> Context:
        """Who is told that this might be worth it."""
        return self

    @property
    def fast_math(self) -> bool:
        return self.options.fast_math

    @property
    def queue_depth(self) -> int:
        return self.chip.queue_depth


@dataclass(frozen=True)
class Pass:
    """A function from IR to IR. `stage`: of what it leaves. `wants`: attributes of the context it is called with, besides the IR.
    `changes`: False for checks, which return what they are given."""

    run: Callable
    stage: Stage
    wants: tuple[str, ...] = ()
    changes: bool = True

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def doc(self) -> str:
        """What it does, in one line: the head of its file."""
        head = sys.modules[self.run.__module__].__doc__.split("\n\n")[0]
        return " ".join(head.removeprefix(f"{self.name}: ").split())


def run(passes, ir, context: Context, **wanted):
    """`ir` after `passes`. `wanted`: what they ask for beyond the context."""
    for p in passes:
        with context.timed(p.name):
            ir = p.run(ir, *(wanted[name] if name in wanted else getattr(context, name) for name in p.wants))
        if p.changes:
            left(p.name, ir, p.stage, context)
    return ir


def left(name: str, ir, stage: Stage, context: Context) -> None:
    """Note what a pass leaves."""
    if context.keep:
        context.stages.append((name, ir))
    if context.verify:
        check_stage(ir, stage, name)


__all__ = ["Apart", "Context", "Options", "Pass", "left", "run"]
