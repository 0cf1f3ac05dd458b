"""normalize_clears: say "start from zero" in one way only, as a fill in front of the accumulation.

Before:  for k in range(4): gemm(A, B, C, clear_accum=(k == 0))        gemm(A, B, C, clear_accum=True)
After:   fill(C, 0); for k in range(4): gemm(A, B, C, False)           fill(C, 0); gemm(A, B, C, False)

A nest that stores one number to all of a tile is a fill, too.
A condition that holds in the first iteration only becomes a fill in front of the loop where nobody can tell: the first iteration surely
comes to the gemm, or C has no value there that could be lost. In the latter case a loop that runs zero times leaves zeros behind, where the
user's program leaves C undefined: a refinement. A loop that may run zero times over a C that vector statements write, too, gets the fill
under the condition that it runs: its first product needs no old value, and there may be none where gemm could find it. Products that are a
part of C, or multiply C, keep what they say.

Requires: Tile IR after fold_conditions. Ensures: every constant `clear_accum` of a gemm into a whole tile that it does not multiply is False; other conditions stay.
"""

from __future__ import annotations

from ...analysis.index.coverage import whole_store
from ...ir import (
    AllocBuffer,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    PrimFunc,
    Stmt,
    StmtMutator,
    While,
    const_int,
    full_region,
    imm,
    seq,
    statements,
    stmts_of,
    sym,
)
from ...ir.grids import is_grid_axis
from ...tile import FILL, is_op, tile_op
from ...tile.clears import gemm_args, is_first_iteration, multiplies_own, with_clear, zero_fill
from ...tile.jumps import may_leave
from ...tile.uses import covers_whole, own_uses, uses_of


class _Normalize(StmtMutator):
    """`defined`: accumulators that may have a value at the place the walk has reached."""

    def __init__(self, body: Stmt):
        self.defined: set = set()
        self.by_vector: set = set()
        for s in statements(body):
            if gemm_args(s) is None and not is_op(s, FILL):
                self.by_vector |= own_uses(s).writes

    def visit_Evaluate(self, s: Evaluate):
        args = gemm_args(s)
        self.defined |= uses_of(s).writes
        if args is None or const_int(args[3]) is None or not covers_whole(args[2]) or const_int(args[3]) and multiplies_own(s):
            return s
        plain = with_clear(s, imm(False, "bool"))
        return [zero_fill(args[2], s.span), plain] if const_int(args[3]) else plain

    def visit_BufferStore(self, s):
        self.defined.add(s.buffer)
        return s

    def visit_AllocBuffer(self, s: AllocBuffer):
        self.defined.discard(s.buffer)
        return s

    def visit_While(self, s: While):
        self.defined |= _left_behind(s.body)
        return self.generic(s)

    def visit_For(self, loop: For):
        if is_grid_axis(loop):
            return self.generic(loop)
        fill = _as_fill(loop)
        if fill is not None:
            self.defined |= uses_of(fill).writes
            return fill
        before = set(self.defined)
        self.defined |= _left_behind(loop.body)
        body = stmts_of(self.block(loop.body))
        certain = bool(sym.Analyzer().can_prove(loop.extent >= 1))
        hoisted, guarded = [], []
        for i, s in enumerate(body):
            args = gemm_args(s)
            if args is None or not covers_whole(args[2]) or multiplies_own(s) or not is_first_iteration(args[3], loop):
                continue
            c = args[2].source
            if any(c in uses_of(x).all for x in body[:i]):
                continue
            reached = not any(may_leave(x) for x in body[:i])
            if certain and reached or c not in before:
                hoisted.append(zero_fill(args[2], s.span))
            elif reached and c in self.by_vector:
                guarded.append(zero_fill(args[2], s.span))
            else:
                continue
            body[i] = with_clear(s, imm(False, "bool"))
        out = For(loop.loop_var, loop.min, loop.extent, loop.kind, seq(body), annotations=dict(loop.annotations), span=loop.span)
        if guarded:
            return [*hoisted, IfThenElse(loop.extent >= 1, seq(guarded, out), None, span=loop.span)]
        return [*hoisted, out]


def _as_fill(nest: For) -> Evaluate | None:
    """The fill that a nest is, if it is one."""
    s = whole_store(nest)
    if s is None or not isinstance(s.value, (IntImm, FloatImm)):
        return None
    return tile_op("fill", full_region(s.buffer), s.value, span=s.span)


def _left_behind(body: Stmt) -> set:
    """Buffers that an iteration may find written by the one before: those written in it and not declared in it."""
    return uses_of(body).writes - {s.buffer for s in statements(body) if isinstance(s, AllocBuffer)}


def normalize_clears(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Normalize(func.body)(func.body))


__all__ = ["normalize_clears"]
