"""A statement of one step of an attention loop, for the keys of several steps: it finds out whose each key is.

    copy(K[table[k] * 64 : +64], k_s)               ->  for p in range(8): copy(K[table[k * 8 + p] * 64 : +64], k_s[p * 64 : +64])
    Parallel: if k == 0: s[i, j] = …; m[k * 64 + j] ->  Parallel: if 8 * k + j // 64 == 0: s[i, j] = …; m[k * 512 + j]

This is what the steps did; where tiles and loops need no more than to be longer, they are faster (divided_body.py).
"""

from __future__ import annotations

from ...analysis.index.sums import SUMS, Sum, as_sum
from ...analysis.tiles.piece_loads import PieceLoad
from ...analysis.tiles.split_axis import SplitPlan
from ...ir import (
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    map_children,
    statements,
    substitute_expr,
    sym,
    tirx,
    walk_expr,
)
from ...tile import COPY, is_op
from ...tile.nests import nest_of, rebuild_nest
from ...tile.uses import covers_whole, is_parallel, moved_regions, on_chip

_TURNED = {tirx.LT: tirx.GT, tirx.GT: tirx.LT, tirx.LE: tirx.GE, tirx.GE: tirx.LE, tirx.EQ: tirx.EQ, tirx.NE: tirx.NE}


class KeyedBody(StmtMutator):
    """Statements of `loop` for `times` steps, in terms of the number of the long step. keys: what counts the keys of one. buffers: tile -> the longer
    one."""

    def __init__(self, loop: For, keys: SplitPlan, times: int, buffers: dict):
        self.k, self.keys, self.times, self.buffers = loop.loop_var, keys, times, buffers
        self.key = None
        """The variable of a nest that counts keys."""
        self.step = self.place = None
        """Whose key that is among `times` steps, and where in the step it is."""
        self.size = 0
        """How many keys a step has."""

    def of(self, s: Stmt) -> Stmt | None:
        """What a statement of a step becomes; None if there is no such way to write it."""
        return self.pieces(s) if is_op(s, COPY) else self.nest(s) if is_parallel(s) else None

    def pieces(self, s: Evaluate) -> Stmt | None:
        """A load of each step's keys."""
        if len(s.value.args) != 2:
            return None
        source, target = moved_regions(s)
        tile = target.source
        if tile not in self.keys.dims or not covers_whole(target) or on_chip(source.source):
            return None
        d, piece = self.keys.dims[tile], Var("piece", dtype_of(self.k))
        there = substitute_expr(source, {self.k: self.k * self.times + piece})
        return PieceLoad(self.buffers[tile], d, piece, self.times, const_int(tile.ty.shape[d]), there, None, s.span).stmt()

    def nest(self, s: For) -> For | None:
        """A nest that knows of every key whose it is. What is said of the place in a step, or of the step itself, would have to be worked out for every key by
        divisions: no longer step is worth that."""
        counting = [x.loop_var for x in statements(s) if isinstance(x, For) and x.loop_var in self.keys.nest_vars]
        if len(counting) != 1:
            return None
        loops, body = nest_of(s)
        self.key, self.size = counting[0], self.keys.nest_vars[counting[0]]
        self.step, self.place = (op(self.key, imm(self.size)) for op in (tirx.floordiv, tirx.floormod))
        longer = [(v, imm(self.times * self.size) if v.same_as(self.key) else self.expr(n)) for v, n in loops]
        out = rebuild_nest(s, longer, self.block(body))
        divided = [x for y in statements(out) for e in exprs(y) for x in _divisions(e)]
        return None if any(x.same_as(y) for x in divided for y in (self.step, self.place)) else out

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(self.buffers.get(s.buffer, s.buffer), self.expr(s.value), self.indices(s.buffer, s.indices), span=s.span)

    def indices(self, buffer, indices) -> list:
        """Indices of an access: a longer tile has every key at its place."""
        return [i if self.keys.dims.get(buffer) == d else self.expr(i) for d, i in enumerate(indices)]

    def expr(self, e):
        if isinstance(e, Var):
            if e.same_as(self.k):
                return self.k * self.times + self.step
            return self.place if e.same_as(self.key) else e
        if isinstance(e, TensorLoad):
            return BufferLoad(self.buffers.get(e.source, e.source), self.indices(e.source, e.indices))
        out = map_children(e, self.expr)
        if isinstance(out, SUMS) and dtype_of(out) == "int32":
            found = as_sum(out, exact=True)
            shorter = self.joined(found)
            return out if shorter is found else shorter.expr()
        return self.compared(out) if isinstance(out, sym.COMPARISONS) and dtype_of(out.a) == "int32" else out

    def joined(self, e: Sum) -> Sum:
        """A sum in which `size` times the step and the place in it are what counts keys."""
        n = e.coefficient(self.place)
        if not n or e.coefficient(self.step) != n * self.size:
            return e
        return e.without([self.step, self.place]).plus(Sum(0, ((self.key, n),)))

    def compared(self, e):
        """A comparison of a multiple of the step with what is the same for all keys, as one of what counts them."""
        difference = self.joined(as_sum(e.a, exact=True).plus(as_sum(e.b, exact=True), -1))
        times, rest = difference.coefficient(self.step), difference.without([self.step])
        if not times or isinstance(e, (tirx.EQ, tirx.NE)) and abs(times) != 1 or any(self.key in free_vars(x) for x, _ in rest.terms):
            return e
        kind, times, rest = (type(e), times, rest.scaled(-1)) if times > 0 else (_TURNED[type(e)], -times, rest)
        # Now `times * step` is compared with `rest`. Steps go from 0 to `self.times - 1`: what lies beyond that need not be told apart, nor may it wrap.
        bound = rest.expr("int64")
        bound = imm(bound, "int64") if isinstance(bound, int) else bound
        bound = tirx.Cast("int32", tirx.max(tirx.min(bound, imm(times * self.times, "int64")), imm(-times, "int64")))
        first = tirx.floordiv(bound + (times - 1), imm(times)) if times > 1 else bound
        behind = tirx.floordiv(bound, imm(times)) + 1 if times > 1 else bound + 1
        first, behind = first * self.size, behind * self.size
        return {
            tirx.GE: lambda: self.key >= first,
            tirx.GT: lambda: self.key >= behind,
            tirx.LT: lambda: self.key < first,
            tirx.LE: lambda: self.key < behind,
            tirx.EQ: lambda: tirx.And(self.key >= first, self.key < behind),
            tirx.NE: lambda: tirx.Or(self.key < first, self.key >= behind),
        }[kind]()


def _divisions(e) -> list:
    """The quotients and remainders in an expression."""
    found: list = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, (tirx.FloorDiv, tirx.FloorMod)) else None)
    return found


__all__ = ["KeyedBody"]
