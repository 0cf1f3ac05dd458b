"""Which indices of an access to a GM tensor may lie outside of it: what such an access reads is zero, what it stores is dropped.

Only indices that are arithmetic of loop variables are looked at. An index that is data is the user's word: memcheck reports it when
it is wrong.
"""

from __future__ import annotations

from ...ir import Range, TensorLoad, const_int, dtype_of, imm, sym, tirx, walk_expr


def reads_memory(e) -> bool:
    """True if an expression loads from a tensor or a tile."""
    found = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, TensorLoad) else None)
    return bool(found)


def unproven(buffer, indices, analyzer, extents: dict | None = None, unknown=reads_memory) -> list[tuple[int, object]]:
    """(dimension, condition) for every bound of the tensor that is not known to hold.

    `extents`: sizes of loop variables the analyzer does not know. `unknown`: tells indices that are data.
    """
    analyzer = analyzer or sym.Analyzer()
    for v, n in (extents or {}).items():
        analyzer.bind(v, Range.from_min_extent(imm(0), imm(n)))
    terms = []
    for d, (i, n) in enumerate(zip(indices, buffer.ty.shape)):
        if isinstance(i, int) or unknown(i):
            continue
        size = n if dtype_of(n) == dtype_of(i) else tirx.Cast(dtype_of(i), n)
        if const_int(i) is None or const_int(n) is None:
            terms += [(d, c) for c in (i < size, i >= imm(0, dtype_of(i))) if not analyzer.can_prove(c)]
        elif not 0 <= const_int(i) < const_int(n):
            terms.append((d, imm(False, "bool")))
    return terms


def all_of(conditions):
    """The conjunction of conditions, or None when there are none."""
    out = None
    for c in conditions:
        out = c if out is None else tirx.And(out, c)
    return out


__all__ = ["all_of", "reads_memory", "unproven"]
