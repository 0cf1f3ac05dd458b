"""Tiles that are rows of smaller ones: whoever uses them uses the slice of the iteration it stands in."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Evaluate, For, ForKind, Stmt, TensorRegion, children, const_int, dtype_of, exprs, itemsize, scope_of, statements
from ...isa.units import FRACTAL_ROWS
from ...tile.uses import is_parallel, loads_in, own_uses
from ..index.affine import affine


@dataclass(frozen=True)
class OwnSlices:
    """A tile that is `count` slices of `width` along dimension `dim`. loops: those whose iterations tell which one is meant."""

    dim: int
    width: int
    count: int
    loops: tuple


def own_slices(body: Stmt) -> dict:
    """The tiles in L1 that fall apart, and how: every statement that uses one uses slice k of it in iteration k of a loop of as many iterations as
    there are slices. Only slices of whole fractals: others would be padded, and need more room than the tile has."""
    found: dict = {}
    _collect(body, [], found)
    return {b: _alike(uses) for b, uses in found.items() if uses and _alike(uses) is not None}


def _alike(uses: list) -> OwnSlices | None:
    """What all `uses` say, (dimension, width, number of slices) and the loop; None if they disagree."""
    loops: list = []
    for _, loop in uses:
        if not any(loop.same_as(x) for x in loops):
            loops.append(loop)
    if len({slice_ for slice_, _ in uses}) != 1 or any(x.same_as(y) for loop in loops for x in statements(loop.body) for y in loops):
        return None  # Inside of two loops, either number could be meant.
    return OwnSlices(*uses[0][0], tuple(loops))


def _collect(s: Stmt, around: list, found: dict) -> None:
    """Add to `found` what each use in `s` says, by tile; an empty list where one is no slice. `around`: serial loops around `s`."""
    if isinstance(s, For) and s.kind == ForKind.SERIAL and not is_parallel(s):
        around = [*around, s]
    for b in own_uses(s).all:
        if scope_of(b) != "shared.l1" or found.get(b) == []:
            continue
        regions = [a for a in s.value.args if isinstance(a, TensorRegion) and a.source.same_as(b)] if isinstance(s, Evaluate) else []
        elements = any(x.source.same_as(b) for e in exprs(s) for x in loads_in(e))
        slices = [_slice_of(r, b, around) for r in regions]
        found[b] = [] if elements or not slices or (None, None) in slices else [*found.get(b, ()), *slices]
    for c in children(s):
        _collect(c, around, found)


def _slice_of(r: TensorRegion, buffer, around: list) -> tuple:
    """((dimension, width, number of slices), the loop that counts them), None twice for another region."""
    unit = FRACTAL_ROWS * (2 if itemsize(dtype_of(buffer)) == 1 else 1)  # Squares that transposing loads work on are whole as well.
    for loop in around:
        count = const_int(loop.extent)
        for d, x in enumerate(r.region):
            width, size = const_int(x.extent), const_int(buffer.ty.shape[d])
            divided = count is not None and count > 1 and width is not None and count * width == size and width % unit == 0
            form = affine(x.min, [loop.loop_var]) if divided else None
            if form is not None and form.coeffs == {loop.loop_var: width} and const_int(form.base) == 0:
                return (d, width, count), loop
    return None, None


__all__ = ["OwnSlices", "own_slices"]
