"""Branches that are taken in all iterations of a loop but the first or the last few, as `rotate_loops` writes them."""

from __future__ import annotations

from ...ir import For, IfThenElse, Var, const_int, sym, tirx

_LESS = {tirx.LT: 1, tirx.LE: 0}
_SWAPPED = {tirx.GT: tirx.LT, tirx.GE: tirx.LE}


def window_of(branch: IfThenElse, loop: For) -> tuple[int, int] | None:
    """(first, last) iterations of `loop` in which alone `branch` is not taken; None if that is not what its condition says."""
    kind = type(branch.condition)
    if branch.else_case is not None or const_int(loop.min) != 0 or kind not in _LESS and kind not in _SWAPPED:
        return None
    a, b = branch.condition.a, branch.condition.b
    if kind in _SWAPPED:
        a, b = b, a
    strict = _LESS[_SWAPPED.get(kind, kind)]
    if isinstance(b, Var) and b.same_as(loop.loop_var):
        first = const_int(a)
        return None if first is None else (max(0, first + strict), 0)
    if isinstance(a, Var) and a.same_as(loop.loop_var):
        rest = const_int(sym.Analyzer().simplify(loop.extent - b))
        return None if rest is None else (0, max(0, rest - 1 + strict))
    return None


__all__ = ["window_of"]
