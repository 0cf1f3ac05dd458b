"""Nests that do nothing but convert floats to a wider dtype."""

from __future__ import annotations

from ...analysis.index.coverage import whole_store
from ...ir import Stmt, TensorLoad, Var, const_int, dtype_of, tirx


def conversion_of(s: Stmt):
    """(tile, the narrower one whose elements a nest converts to it), None for other statements."""
    store = whole_store(s)
    if store is None or not isinstance(store.value, tirx.Cast) or not isinstance(store.value.value, TensorLoad):
        return None
    load, wide, narrow = store.value.value, dtype_of(store.buffer), dtype_of(store.value.value.source)
    same = len(load.indices) == len(store.indices) and all(isinstance(i, Var) and i.same_as(j) for i, j in zip(load.indices, store.indices))
    if not same or [const_int(n) for n in load.source.ty.shape] != [const_int(n) for n in store.buffer.ty.shape]:
        return None
    return (store.buffer, load.source) if wide == "float32" and narrow in ("float16", "bfloat16") else None


__all__ = ["conversion_of"]
