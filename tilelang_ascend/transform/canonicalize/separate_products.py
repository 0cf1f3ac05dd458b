"""separate_products: a matrix product that is added to what vector statements made becomes a product of its own and an addition.

Before:  Parallel: acc_o[i, j] *= scale[i]; gemm(P_s, V_s, acc_o)
After:   Parallel: acc_o[i, j] *= scale[i]; fill(product, 0); gemm(P_s, V_s, product);
         Parallel: acc_o[i, j] = acc_o[i, j] + product[i, j]

Nothing moves a tile into L0C, so that only the cube core can have made what it adds to. What comes from where is a question of data flow:
a gemm is taken apart if on some way to it the last writer of its accumulator was no gemm (a fill with zero can be done on either side).
Products that follow each other without a look at the accumulator in between share one tile and one addition, and so do those of a loop
that does nothing else with it.

A product is whole pieces of 16 x 16 in L0C. One for a part of an accumulator that begins or ends between them is a product of its own, too.

Where L0C has no room for accumulators, nor for what parts of them would have to leave there for each other, the largest of them are tiles of the
vector cores, and all products for them are taken apart: loop by loop or, if that is not enough, one by one.

Requires: Tile IR without views, clears as fills where they can be. Ensures: no gemm accumulates on what a vector statement may have written, nor
into a part of a tile that is no whole pieces.
"""

from __future__ import annotations

from typing import Collection

from ...analysis.index.value_facts import ValueFacts, facts_about, walk_with_facts
from ...analysis.tiles.large_sums import accumulators, large_sums
from ...ir import (
    Break,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    TensorRegion,
    While,
    const_int,
    imm,
    statements,
    tirx,
)
from ...ir.grids import rewrite_grid_bodies
from ...isa.base import Space
from ...isa.units import FRACTAL_ROWS
from ...tile import GEMM, is_op
from ...tile.clears import gemm_args, is_zero_fill, multiplies_own
from ...tile.products import separated
from ...tile.uses import covers_whole, is_parallel, uses_of
from ..driver import Apart

CUBE, VECTOR = "cube", "vector"


class _Origins:
    """A walk in execution order. `of[c]`: kinds of statements that may have written the value of the accumulator c last."""

    def __init__(self, body: Stmt, apart: set):
        self.apart = apart
        self.accumulators = {s.value.args[2].source for s in statements(body) if is_op(s, GEMM)}
        self.of: dict = {}
        self.leaving: list = []
        self.found: set = set()

    def visit(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.visit(x)
        elif isinstance(s, (For, While)) and not is_parallel(s):
            self.loop(s)
        elif isinstance(s, IfThenElse):
            before = dict(self.of)
            self.visit(s.then_case)
            after, self.of = self.of, before
            if s.else_case is not None:
                self.visit(s.else_case)
            self.of = _joined(self.of, after)
        elif isinstance(s, (Break, Continue)):
            self.leaving[-1].append(dict(self.of))
        elif is_op(s, GEMM):
            self.gemm(s)
        elif is_zero_fill(s) and s.value.args[0].source in self.accumulators:
            if covers_whole(s.value.args[0]):
                self.of[s.value.args[0].source] = frozenset()
        else:
            for c in uses_of(s).writes & self.accumulators:
                self.of[c] = frozenset({VECTOR})

    def gemm(self, s: Evaluate) -> None:
        _, _, c, clear = gemm_args(s)
        before = self.of.get(c.source, frozenset())
        starts_anew = const_int(clear) == 1 and covers_whole(c)
        if VECTOR in before and (not starts_anew or multiplies_own(s)):
            self.found.add(s)
        self.of[c.source] = frozenset({VECTOR}) if s in self.apart else frozenset({CUBE}) if starts_anew else before | {CUBE}

    def loop(self, s) -> None:
        while True:
            before = dict(self.of)
            self.leaving.append([])
            self.visit(s.body)
            for way in (before, *self.leaving.pop()):
                self.of = _joined(self.of, way)
            if self.of == before:
                return


def _joined(a: dict, b: dict) -> dict:
    return {c: a.get(c, frozenset()) | b.get(c, frozenset()) for c in a.keys() | b.keys()}


def products_to_separate(body: Stmt, between: Collection = ()) -> set:
    """Those of `between` and the gemms that may find the work of a vector statement in their accumulators, if those found already are taken apart."""
    apart = set(between) & set(statements(body))
    while True:
        origins = _Origins(body, apart)
        origins.visit(body)
        if origins.found <= apart:
            return apart
        apart |= origins.found


def _between_pieces(func: PrimFunc) -> set:
    """The gemms for parts of accumulators that are not known to be whole pieces."""
    found: set = set()
    if any(is_op(s, GEMM) and not _whole_pieces(s.value.args[2], None) for s in statements(func.body)):
        facts = facts_about(func)

        def see(s):
            if is_op(s, GEMM) and not _whole_pieces(s.value.args[2], facts):
                found.add(s)

        walk_with_facts(func.body, facts, see)
    return found


def _whole_pieces(c: TensorRegion, facts: ValueFacts | None) -> bool:
    """True if a part of an accumulator surely begins and ends with pieces of it, or with the tile; numbers suffice where there are no `facts`."""

    def holds(cond) -> bool:
        return facts.proves(cond) if facts is not None and const_int(cond) is None else const_int(cond) == 1

    for r, size in zip(c.region[-2:], c.source.ty.shape[-2:]):
        starts = holds(tirx.EQ(tirx.floormod(r.min, imm(FRACTAL_ROWS)), imm(0)))
        if not starts or const_int(r.extent) % FRACTAL_ROWS and not holds(r.min + r.extent >= size):
            return False
    return True


def separate_products(func: PrimFunc, chip=None, notes: list | None = None, apart: Apart = Apart.FOUND) -> PrimFunc:
    """Apply to a Tile IR function. apart: which products for accumulators that L0C of the `chip` has no room for are taken apart."""
    between = _between_pieces(func)

    def rewrite(body):
        large = large_sums(accumulators(body), chip.capacity_bytes(Space.L0C)) if apart is not Apart.FOUND else ()
        for_large = {s for s in statements(body) if is_op(s, GEMM) and s.value.args[2].source in large} if large else set()
        found = products_to_separate(body, between | for_large)
        if for_large and notes is not None:
            names = ", ".join(f"'{b.name}'" for b in large)
            notes.append(
                f"sums are larger than {Space.L0C.name}, and parts of them cannot be made alone: vector cores add up products for {names}"
            )
        if not found:
            return body
        return separated(body, found, for_large if apart is Apart.ALL else frozenset())

    return rewrite_grid_bodies(func, rewrite)


__all__ = ["separate_products"]
