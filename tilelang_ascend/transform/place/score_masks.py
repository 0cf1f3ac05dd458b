"""Masks of scores as choices: what a sum with a large negative number, or -inf, leaves of a score is that number.

Before:  copy(ws, s); Parallel(i, j): s[i, j] = s[i, j] + if_then_else(…, 0, -1e9)    # ws: scores, as float16
After:   copy(ws, s); Parallel(i, j): s[i, j] = if_then_else(…, s[i, j], -1e9)

A score that crossed as float16 is at most 65504, so that the sum is off by no more of itself than rounding made the score, if the number is 2^11 times that.
A choice takes one instruction, in its place; a sum two, and a tile for what it gives elsewhere.
"""

from __future__ import annotations

from ...ir import (
    BufferStore,
    FloatImm,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    StmtMutator,
    choice_of,
    is_choice,
    seq,
    stmts_of,
    tirx,
)
from ...tile import COPY, is_op
from ...tile.nests import is_own
from ...tile.uses import is_parallel, uses_of

LARGEST_SCORE = 65504.0
"""That is finite in float16."""
ROUNDING = 2.0**-11
"""Of float16, relative."""


def choose_masks(body: Stmt, scores: set) -> Stmt:
    """`body` with masks behind copies of the tensors `scores` as choices."""
    return _Choose(scores)(body)


class _Choose(StmtMutator):
    def __init__(self, scores: set):
        self.scores = scores

    def visit_SeqStmt(self, s: SeqStmt):
        raw: set = set()
        body = []
        for x in stmts_of(seq([self.visit(x) for x in s.seq])):
            new = _Masks(raw)
            masked = new(x) if _is_mask(x) else None
            if masked is not None and new.all_found:
                body.append(masked)
                continue
            body.append(x)
            if is_op(x, COPY) and x.value.args[0].source in self.scores:
                raw.add(x.value.args[1].source)
            else:
                raw -= uses_of(x).writes
        return seq(body)


def _is_mask(s: Stmt) -> bool:
    """A nest, or nests in branches."""
    if isinstance(s, IfThenElse):
        return all(map(_is_mask, stmts_of(s.then_case))) and (s.else_case is None or all(map(_is_mask, stmts_of(s.else_case))))
    return isinstance(s, For) and is_parallel(s)


class _Masks(StmtMutator):
    """raw: tiles of scores as they came, but for masks. all_found: False if a store is no mask of one of them."""

    def __init__(self, raw: set):
        self.raw, self.all_found = raw, True

    def visit_BufferStore(self, s: BufferStore):
        value = _choice(s) if s.buffer in self.raw else None
        self.all_found &= value is not None
        return s if value is None else BufferStore(s.buffer, value, list(s.indices), span=s.span)

    def visit_Evaluate(self, s):
        self.all_found = False
        return s


def _choice(s: BufferStore):
    """The value of a mask as a choice between the element that is stored to and a number; None if it is none."""
    e = s.value
    if isinstance(e, tirx.Add):
        for own, mask in ((e.a, e.b), (e.b, e.a)):
            if is_own(own, s) and is_choice(mask):
                condition, *values = choice_of(mask)
                made = [own if _is_zero(v) else v if _hides(v) else None for v in values]
                return None if None in made else tirx.if_then_else(condition, *made)
        return None
    if not is_choice(e):
        return None
    condition, *values = choice_of(e)
    made = [_hidden(v, s) for v in values]
    return None if None in made else tirx.if_then_else(condition, *made)


def _hidden(v, s: BufferStore):
    if is_own(v, s) or _hides(v):
        return v
    if isinstance(v, tirx.Add):
        return next((n for own, n in ((v.a, v.b), (v.b, v.a)) if is_own(own, s) and _hides(n)), None)
    return None


def _is_zero(e) -> bool:
    return isinstance(e, FloatImm) and e.value == 0


def _hides(e) -> bool:
    """A number next to which no score counts."""
    return isinstance(e, FloatImm) and float(e.value) <= -LARGEST_SCORE / ROUNDING


__all__ = ["choose_masks"]
