"""narrow_channels: with fast math, scores on their way to an exponential cross from cube to vector cores as float16.

What the Fixpipe writes bounds attention: float32 scores of a 128x128 tile take longer than their product. The exponential of a score that is
rounded to float16 is off by as much as the score times 2^-11. Only products of float16 operands that do nothing but add, scale, take
maxima and branches on their way into exponentials are narrowed; a maximum over them is one, too. Scores or maxima that also reach a tensor
(a log-sum-exp among the results), a condition or an index keep their dtype.

Before:  gemm(Q, K, S@l0c); copy(S@l0c, ws); copy(ws, S@ub); P[i, j] = exp(S@ub[i, j] * c - m[i])
After:   the same with a workspace of float16

Masks of such scores become choices (score_masks.py).

Requires: placed Tile IR. Ensures: no other value is rounded; without fast math nothing changes.
"""

from __future__ import annotations

from enum import IntEnum

from ...analysis.index.coverage import writes_whole
from ...analysis.tiles.step_values import EXPONENTIALS
from ...ir import (
    AllocBuffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    TensorLoad,
    While,
    decl_buffer,
    dtype_of,
    expr_children,
    exprs,
    is_choice,
    op_name,
    redeclared,
    scope_of,
    statements,
    substitute,
    tirx,
)
from ...tile import COPY, GEMM, REDUCE, is_op
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, loads_in, own_uses
from .placement import ACC, SCOPE, UB
from .score_masks import choose_masks

_LINEAR = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)


class _Flow(IntEnum):
    """What of the scores is in a value: nothing, exponentials of them, or they themselves; BAD: something a rounding may change by more."""

    NONE = 0
    ENDS = 1
    CARRIES = 2
    BAD = 3


def narrow_channels(func: PrimFunc, fast_math: bool) -> PrimFunc:
    """Apply to a Tile IR function."""
    if not fast_math:
        return func
    every = statements(func.body)
    wide = [s.buffer for s in every if isinstance(s, AllocBuffer) and "workspace" in s.annotations and dtype_of(s.buffer) == "float32"]
    narrow = {ws: decl_buffer(list(ws.ty.shape), "float16", ws.name) for ws in wide if _carries_scores(ws, func.body, every)}
    if not narrow:
        return func
    body = choose_masks(func.body, set(narrow))
    return func.with_body(redeclared(substitute(body, narrow), narrow))


def _carries_scores(ws, body: Stmt, every: list) -> bool:
    """Do nothing but scores go through a workspace?"""
    writers = [s for s in every if ws in own_uses(s).writes]
    readers = [s for s in every if ws in own_uses(s).reads]
    if not all(is_op(s, COPY) for s in (*writers, *readers)):
        return False
    products = {s.value.args[0].source for s in writers}
    if any(scope_of(p) != SCOPE[ACC] for p in products):
        return False
    operands = [x.source for s in every if is_op(s, GEMM) and s.value.args[2].source in products for x in s.value.args[:2]]
    if any(dtype_of(x) != "float16" for x in operands):
        return False
    walk = _Walk(ws)
    try:
        walk.run(body, frozenset())
    except _NotScores:
        return False
    return walk.ends


class _NotScores(Exception):
    """A rounding of the values may matter more than in an exponential."""


class _Walk:
    """Follows what comes out of a workspace through a program. States are sets of tiles that may hold scores.

    ends: some have reached an exponential.
    """

    def __init__(self, ws):
        self.ws, self.ends = ws, False

    def run(self, stmt: Stmt | None, held: frozenset) -> frozenset:
        """What holds scores after a statement."""
        if stmt is None:
            return held
        if isinstance(stmt, SeqStmt):
            for s in stmt.seq:
                held = self.run(s, held)
            return held
        if is_parallel(stmt):
            return self._nest(stmt, held)
        for e in [] if isinstance(stmt, (Evaluate, BufferStore)) else exprs(stmt):
            self._allow(_index_flow(e, held))
        if isinstance(stmt, IfThenElse):
            return self.run(stmt.then_case, held) | self.run(stmt.else_case, held)
        if isinstance(stmt, (For, While)):
            before = None
            while before != held:
                before, held = held, held | self.run(stmt.body, held)
            if held and may_leave(stmt.body):
                raise _NotScores  # not followed
            return held
        if isinstance(stmt, BufferStore):
            return self._store(stmt, held)
        return self._op(stmt, held) if isinstance(stmt, Evaluate) else held

    def _nest(self, nest: Stmt, held: frozenset) -> frozenset:
        """Its iterations may see what others have stored."""
        inner, before = held, None
        stores = [s for s in statements(nest) if isinstance(s, BufferStore)]
        for s in statements(nest):
            for e in [] if isinstance(s, BufferStore) else exprs(s):
                self._allow(_index_flow(e, held))
            if isinstance(s, Evaluate) and own_uses(s).reads & held:
                raise _NotScores
        while before != inner:
            before = inner
            for s in stores:
                inner = self._store(s, inner)
        kept = {s.buffer for s in stores if self._value(s, inner) is _Flow.CARRIES}
        return frozenset(b for b in inner if b in kept or not (b in {s.buffer for s in stores} and writes_whole(nest, b)))

    def _store(self, s: BufferStore, held: frozenset) -> frozenset:
        flow = self._value(s, held)
        self._allow(flow)
        self.ends = self.ends or flow is _Flow.ENDS
        return self._hold(s.buffer, held) if flow is _Flow.CARRIES else held

    def _value(self, s: BufferStore, held: frozenset) -> _Flow:
        return max([_flow(s.value, held), *(_index_flow(i, held) for i in s.indices)])

    def _op(self, s: Evaluate, held: frozenset) -> frozenset:
        uses = own_uses(s)
        if is_op(s, COPY):
            source, target = (x.source for x in s.value.args[:2])
            if source in held or source.same_as(self.ws):
                return self._hold(target, held)
        elif uses.reads & held:
            if not (is_op(s, REDUCE) and s.value.attrs["kind"] == "max"):
                raise _NotScores
            for target in uses.writes:  # A maximum of scores is a score.
                held = self._hold(target, held)
            return held
        return frozenset(b for b in held if not (b in uses.writes and writes_whole(s, b)))

    def _hold(self, tile, held: frozenset) -> frozenset:
        if scope_of(tile) != SCOPE[UB] or dtype_of(tile) != "float32":
            raise _NotScores
        return held | {tile}

    def _allow(self, flow: _Flow) -> None:
        if flow is _Flow.BAD:
            raise _NotScores


def _index_flow(e, held: frozenset) -> _Flow:
    """Of an index, an extent or a condition."""
    return _Flow.BAD if any(load.source in held for load in loads_in(e)) else _Flow.NONE


def _flow(e, held: frozenset) -> _Flow:
    """What of the scores is in the value of an expression."""
    if isinstance(e, TensorLoad):
        inner = max((_index_flow(i, held) for i in e.indices), default=_Flow.NONE)
        return max(inner, _Flow.CARRIES if e.source in held else _Flow.NONE)
    parts = [_flow(c, held) for c in expr_children(e)]
    found = max(parts, default=_Flow.NONE)
    if found in (_Flow.NONE, _Flow.BAD):
        return found
    if op_name(e) in EXPONENTIALS:
        return _Flow.ENDS
    if dtype_of(e) == "bool":
        return _Flow.BAD  # a decision
    if found is _Flow.ENDS:
        return found
    if is_choice(e):  # their conditions are decisions
        return found
    wide = isinstance(e, tirx.Cast) and dtype_of(e) == "float32"
    return found if wide or isinstance(e, _LINEAR) else _Flow.BAD


__all__ = ["narrow_channels"]
