"""Accumulation inside a nest: several iterations update one element, ``acc[i] = acc[i] + x[i, j]`` over i and j.

The contributions of all lanes are computed as one tile, folded along the axes that `acc` lacks, and joined with the old value.
float16 and bfloat16 sums and products accumulate in float32 and are rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ....ir import BufferStore, TensorLoad, structural_equal, tirx, walk_expr
from ...base.unsupported import Unsupported
from ..emit.views import View
from ..graph.graph import Node, in_memory
from ..graph.operations import VectorOps
from ..graph.words import bit_and, bit_or, bit_xor
from ..schedule.store import store
from ..schedule.values import Values
from .fold import FOLD_DTYPE, Fold
from .pairs import fold_pairs, join
from .rows import fold

_BITS = {"and": bit_and, "or": bit_or, "xor": bit_xor}
_BIT_NODES = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}
_JOIN = {tirx.Add: "add", tirx.Sub: "sub", tirx.Mul: "mul", tirx.Max: "max", tirx.Min: "min"}


@dataclass(frozen=True)
class Update:
    """``element = element <operation> value``; `negate`: the folded sum is subtracted."""

    operation: str
    value: object
    negate: bool = False


def update_of(s: BufferStore) -> Update | None:
    """`s` as an update of the element it stores, None when it is something else."""
    return _peeled(s.value, s)


def _peeled(e, s: BufferStore) -> Update | None:
    name = _JOIN.get(type(e)) or _BIT_NODES.get(type(e).__name__)
    if name is None:
        return None
    if name == "sub":
        return Update("add", e.b, negate=True) if _is_element(e.a, s) and not _reads(e.b, s) else None
    for own, other in ((e.a, e.b), (e.b, e.a)):
        if _is_element(own, s) and not _reads(other, s):
            return Update(name, other)
    # (acc + x) + y is acc + (x + y)
    if name == "add":
        for own, other in ((e.a, e.b), (e.b, e.a)):
            inner = _peeled(own, s)
            if inner and inner.operation == "add" and not inner.negate and not _reads(other, s):
                return Update("add", inner.value + other)
    return None


def _is_element(e, s: BufferStore) -> bool:
    same = isinstance(e, TensorLoad) and e.source.same_as(s.buffer)
    return same and all(structural_equal(a, b) for a, b in zip(e.indices, s.indices))


def _reads(e, s: BufferStore) -> bool:
    found = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, TensorLoad) and x.source.same_as(s.buffer) else None)
    return bool(found)


def neutral(operation: str, dtype: str, negate: bool = False):
    """The number that does not change a result it is joined with or, with `negate`, that is subtracted from it."""
    if operation == "add":
        return 0 if "int" in dtype or negate else -0.0
    if operation == "mul":
        return 1
    if operation in _BITS:
        return 0 if operation != "and" else np.iinfo(dtype).max if dtype.startswith("uint") else -1
    if dtype.startswith("float"):
        return -math.inf if operation == "max" else math.inf
    info = np.iinfo(dtype)
    return info.min if operation == "max" else info.max


def fold_dtype(operation: str, dtype: str) -> str:
    """dtype in which the updates of an accumulator are folded."""
    if dtype not in FOLD_DTYPE[operation]:
        raise Unsupported(f"several iterations update the same {dtype} element")
    return FOLD_DTYPE[operation][dtype]


def fold_lanes(values: Values, value: Node, missing: tuple[int, ...], operation: str, span) -> Node:
    """`value` over all axes of the nest, folded along the axes `missing`: a leaf over the other axes."""
    if value.dtype == "int64":
        return fold_pairs(values, value, missing, operation, span)
    axes = tuple(range(len(values.extents)))
    view, extents = values.expand(value, axes), list(values.extents)
    for dim in sorted(missing, reverse=True):
        step = Fold(values.ctx, tuple(extents), dim, value.dtype, operation, span)
        view = fold(step, view)
        values.emitter.out += step.emitter.out
        extents[dim] = 1
    return in_memory(view, [a for a in axes if a not in missing and values.extents[a] > 1], value.dtype)


def accumulate(values: Values, place: View, old: Node | None, value: Node, update: Update, missing, finish, span) -> None:
    """Emit the update of `place`, whose present value is `old` (None: it does not count); `finish(node)` converts the total to the
    stored dtype."""
    total = fold_lanes(values, value, missing, update.operation, span)
    if old is not None:
        total = _joined(VectorOps(values.graph), "sub" if update.negate else update.operation, old, total)
    store(values, place, values.added(finish(total)), span)


def _joined(o: VectorOps, operation: str, a: Node, b: Node) -> Node:
    if b.dtype == "int64":
        return join(o, operation, a, b)
    return _BITS[operation](o.g, a, b) if operation in _BITS else o.g.binary(operation, a, b)


__all__ = ["Update", "accumulate", "fold_dtype", "fold_lanes", "neutral", "update_of"]
