"""Atomic updates of elements as what they do: the old value, an operation, a store."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..ir import (
    BufferLoad,
    BufferStore,
    Evaluate,
    Stmt,
    StmtMutator,
    TensorRegion,
    const_int,
    dtype_of,
    imm,
    loop,
    region,
    tirx,
)
from ..isa.semantics.memory import np_dtype
from . import tile_op_of, with_args
from .uses import is_atomic


def neutral(kind: str, dtype: str):
    """The value whose combination changes nothing: of float sums -0, as 0 would make 0 of -0."""
    if dtype == "bool":
        return imm(kind == "min", dtype)
    if kind == "sum":
        return imm(0 if "int" in dtype else -0.0, dtype)
    if "int" in dtype:
        return tirx.min_value(dtype) if kind == "max" else tirx.max_value(dtype)
    return imm(outermost(kind, dtype), dtype)


def outermost(kind: str, dtype: str) -> float:
    """What no maximum (`kind`) of floats of `dtype` is below, or no minimum above: an infinity, the last number of a dtype that has none."""
    end = np.float32("-inf" if kind == "max" else "inf")
    if np.isnan(end.astype(np_dtype(dtype))):
        info = ml_dtypes.finfo(np_dtype(dtype))
        return float(info.min if kind == "max" else info.max)
    return float(end)


def updated(s: Evaluate, old, value):
    """What an atomic update makes of `old`."""
    kind = tile_op_of(s).combine
    if dtype_of(old) == "bool":
        return tirx.And(old, value) if kind == "min" else tirx.Or(old, value)
    if kind == "sum":
        return old + value
    return tirx.Max(old, value) if kind == "max" else tirx.Min(old, value)


def plain_update(s: Evaluate) -> BufferStore:
    """An atomic update of one element of a tile as an update by its only block."""
    target, value = s.value.args
    at = [r.min for r in target.region]
    return BufferStore(target.source, updated(s, BufferLoad(target.source, at), value), at, span=s.span)


class AtomicElements(StmtMutator):
    """Atomic updates of regions as loops over updates of elements."""

    def visit_Evaluate(self, s: Evaluate):
        if not is_atomic(s):
            return s
        target, value = s.value.args
        sizes = [r.extent for r in target.region]
        moved = isinstance(value, TensorRegion)
        if not moved and all(const_int(n) == 1 for n in sizes):
            return s
        variables = [None if const_int(n) == 1 else tirx.Var(f"e{d}", "int32") for d, n in enumerate(sizes)]
        at = [r.min if v is None else r.min + v for v, r in zip(variables, target.region)]
        if moved:
            steps = [v for v in variables if v is not None]
            long = [d for d, r in enumerate(value.region) if const_int(r.extent) != 1]
            from_ = [r.min for r in value.region]
            for d, v in zip(long[len(long) - len(steps) :], steps[len(steps) - len(long) :]):
                from_[d] = from_[d] + v
            value = BufferLoad(value.source, from_)
            if dtype_of(value) != dtype_of(target.source):
                value = tirx.Cast(dtype_of(target.source), value)
        out: Stmt = with_args(s, [region(target.source, at, [1] * len(at)), value])
        for v, n in reversed(list(zip(variables, sizes))):
            out = out if v is None else loop(v, n, out, span=s.span)
        return out
