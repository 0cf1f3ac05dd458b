"""Masks of scores as choices: what a sum with a large negative number, or -inf, leaves of a score is that number.

Before:  copy(ws, s); Parallel(i, j): s[i, j] = s[i, j] + if_then_else(…, 0, -1e9)    # ws: scores, as float16
After:   copy(ws, s); Parallel(i, j): s[i, j] = if_then_else(…, s[i, j], -1e9)

A score that crossed as float16 is at most 65504, so that the sum is off by no more of itself than rounding made the score, if the number is 2^11 times that.
A choice takes one instruction, in its place; a sum two, and a tile for what it gives elsewhere.
"""

from __future__ import annotations

from ...analysis.index.nest_indices import conjuncts
from ...ir import (
    BufferLoad,
    BufferStore,
    FloatImm,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    StmtMutator,
    choice_of,
    dtype_of,
    imm,
    is_choice,
    seq,
    stmts_of,
    structural_equal,
    tirx,
)
from ...tile import COPY, is_op
from ...tile.nests import is_own
from ...tile.uses import covers_whole, is_parallel, loads_in, uses_of

LARGEST_MASK = -(2.0**27)
"""2^11 times the largest number of float16, for the steps of 2^-11 between its numbers."""


def choose_masks(body: Stmt, scores: set) -> Stmt:
    """`body` with masks behind copies of the tensors `scores` as choices."""
    return _Choose(scores)(body)


class _Choose(StmtMutator):
    def __init__(self, scores: set):
        self.scores = scores

    def visit_SeqStmt(self, s: SeqStmt):
        masked: dict = {}
        """Tile of scores -> conditions of the branches in which some of them have been masked."""
        body = []
        for x in stmts_of(seq([self.visit(x) for x in s.seq])):
            tiles = uses_of(x).writes
            choices = _choices(x, masked) if _is_mask(x) else None
            if choices is not None:
                body.append(choices)
                for b in tiles:
                    masked[b].append(x.condition if isinstance(x, IfThenElse) else None)
                continue
            body.append(x)
            masked = {b: before for b, before in masked.items() if b not in tiles}
            if is_op(x, COPY) and x.value.args[0].source in self.scores and covers_whole(x.value.args[1]):
                masked[x.value.args[1].source] = []
        return seq(body)


def _exclusive(s: Stmt, condition) -> bool:
    """True if a branch and another one, of which this is the condition, are never both taken."""
    if condition is None or not isinstance(s, IfThenElse) or s.else_case is not None:
        return False
    terms, others = conjuncts(s.condition), conjuncts(condition)
    return any(_denies(a, b) or _denies(b, a) for a in terms for b in others)


def _denies(a, b) -> bool:
    """`a` is `not b`; of what memory holds nobody knows whether it has not changed in between."""
    return isinstance(a, tirx.Not) and structural_equal(a.a, b) and not loads_in(b)


def _is_mask(s: Stmt) -> bool:
    """A nest, or nests in branches."""
    if isinstance(s, IfThenElse):
        return all(map(_is_mask, stmts_of(s.then_case))) and (s.else_case is None or all(map(_is_mask, stmts_of(s.else_case))))
    return isinstance(s, For) and is_parallel(s)


def _choices(s: Stmt, masked: dict) -> Stmt | None:
    """A mask as choices; None if it is another one, or on what it may find masked."""
    masks = _Masks({b for b, before in masked.items() if all(_exclusive(s, c) for c in before)})
    new = masks(s)
    return new if masks.all_found else None


class _Masks(StmtMutator):
    """raw: tiles of scores as they came. all_found: False if a store is no mask of one of them."""

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
    mask, sign = _added(s.value, s)
    if mask is not None and is_choice(mask):  # What is added is chosen.
        condition, *values = choice_of(mask)
        made = [_masked(v, sign, s) for v in values]
    elif is_choice(s.value):
        condition, *values = choice_of(s.value)
        made = [v if is_own(v, s) or _hides(v) else _masked(*_added(v, s), s) for v in values]
    else:
        return None
    return None if None in made else tirx.if_then_else(condition, *made)


def _added(e, s: BufferStore) -> tuple:
    """(what is added to the element that is stored to, 1, or -1 if it is subtracted); (None, 0) if `e` is no such sum."""
    if isinstance(e, tirx.Add):
        return next(((mask, 1) for own, mask in ((e.a, e.b), (e.b, e.a)) if is_own(own, s)), (None, 0))
    return (e.b, -1) if isinstance(e, tirx.Sub) and is_own(e.a, s) else (None, 0)


def _masked(mask, sign: int, s: BufferStore):
    """What is left of an element to which a number is added: itself, or the number next to which no score counts. None if it is neither."""
    if not isinstance(mask, FloatImm):
        return None
    if mask.value == 0:
        return BufferLoad(s.buffer, list(s.indices))
    number = imm(sign * float(mask.value), dtype_of(s.buffer))
    return number if _hides(number) else None


def _hides(e) -> bool:
    return isinstance(e, FloatImm) and float(e.value) <= LARGEST_MASK


__all__ = ["choose_masks"]
