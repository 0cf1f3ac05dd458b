"""Which indices of an access to a GM tensor may lie outside of it: what such an access reads is zero (or the tensor's safe value), what it
stores is dropped. That holds for indices that are data, too: tables of blocks or tokens have -1, or their length, where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.index.magnitude import long_size
from ...ir import Range, TensorLoad, dtype_of, imm, itemsize, sym, tirx, walk_expr


def reads_memory(e) -> bool:
    """True if an expression loads from a tensor or a tile."""
    found = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, TensorLoad) else None)
    return bool(found)


@dataclass(frozen=True)
class Bound:
    """One end of one dimension of a tensor. `size`: of the dimension, None for its beginning."""

    dim: int
    size: object | None

    def holds(self, indices):
        """The condition that `indices` of an element do not pass this end."""
        i = indices[self.dim]
        if itemsize(dtype_of(i)) < 4:  # The size may have no number of that dtype.
            i = tirx.Cast("int32", i)
        if self.size is None:
            return i >= imm(0, dtype_of(i))
        if itemsize(dtype_of(self.size)) > itemsize(dtype_of(i)):
            return tirx.Cast(dtype_of(self.size), i) < self.size
        if dtype_of(i) == "int64":
            return i < long_size(self.size)
        return i < (self.size if dtype_of(self.size) == dtype_of(i) else tirx.Cast(dtype_of(i), self.size))


def unproven(buffer, indices, analyzer, extents: dict | None = None) -> list[Bound]:
    """The bounds of the tensor that `indices` are not known to keep. `extents`: sizes of loop variables the analyzer does not know."""
    analyzer = analyzer or sym.Analyzer()
    for v, n in (extents or {}).items():
        analyzer.bind(v, Range.from_min_extent(imm(0), imm(n)))
    indices = [imm(i) if isinstance(i, int) else i for i in indices]
    bounds = [Bound(d, end) for d, n in enumerate(buffer.ty.shape) for end in (n, None)]
    return [b for b in bounds if not analyzer.can_prove(b.holds(indices))]


def all_of(conditions):
    """The conjunction of conditions, or None when there are none."""
    out = None
    for c in conditions:
        out = c if out is None else tirx.And(out, c)
    return out


__all__ = ["Bound", "all_of", "reads_memory", "unproven"]
