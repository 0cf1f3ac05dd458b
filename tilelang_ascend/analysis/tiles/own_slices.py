"""Tiles that are rows of smaller ones: whoever uses them uses the slice of the iteration it stands in."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Evaluate, For, ForKind, Stmt, TensorRegion, children, const_int, exprs, scope_of, statements
from ...tile.uses import is_parallel, loads_in, own_uses
from ..index.affine import affine


@dataclass(frozen=True)
class OwnSlices:
    """A tile that is `count` slices of `width` along dimension `dim`. loops: those whose iterations tell which one is meant."""

    dim: int
    width: int
    count: int
    loops: tuple


def own_slices(body: Stmt, buffer) -> OwnSlices | None:
    """How `buffer` falls apart: every statement that uses it uses slice k of it in iteration k of a loop of as many iterations as there are slices.
    None if there is another use. Only tiles in L1, whose slices do not share fractals with anybody else's when they lie apart."""
    if scope_of(buffer) != "shared.l1":
        return None
    found: set = set()
    loops: list = []
    if not _collect(body, buffer, [], found, loops) or len(found) != 1:
        return None
    if any(x.same_as(y) for loop in loops for x in statements(loop.body) for y in loops):
        return None  # Inside of both, either number could be meant.
    ((dim, width, count),) = found
    return OwnSlices(dim, width, count, tuple(loops))


def _collect(s: Stmt, buffer, around: list, found: set, loops: list) -> bool:
    """Add what each use in `s` says; False if one of them is no slice. `around`: serial loops around it."""
    if isinstance(s, For) and s.kind == ForKind.SERIAL and not is_parallel(s):
        around = [*around, s]
    if buffer in own_uses(s).all:
        regions = [a for a in s.value.args if isinstance(a, TensorRegion) and a.source.same_as(buffer)] if isinstance(s, Evaluate) else []
        if not regions or any(x.source.same_as(buffer) for e in exprs(s) for x in loads_in(e)):
            return False
        for r in regions:
            slice_, loop = _slice_of(r, buffer, around)
            if slice_ is None:
                return False
            found.add(slice_)
            if not any(loop.same_as(x) for x in loops):
                loops.append(loop)
    return all(_collect(c, buffer, around, found, loops) for c in children(s))


def _slice_of(r: TensorRegion, buffer, around: list) -> tuple:
    """((dimension, width, number of slices), the loop that counts them), None twice for another region."""
    for loop in around:
        count = const_int(loop.extent)
        for d, x in enumerate(r.region):
            width, size = const_int(x.extent), const_int(buffer.ty.shape[d])
            form = (
                affine(x.min, [loop.loop_var]) if count is not None and count > 1 and width is not None and count * width == size else None
            )
            if form is not None and form.coeffs == {loop.loop_var: width} and const_int(form.base) == 0:
                return (d, width, count), loop
    return None, None


__all__ = ["OwnSlices", "own_slices"]
