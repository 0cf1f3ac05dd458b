"""Reductions and scans of which each part of a row goes on where the one before it has stopped."""

from __future__ import annotations

from typing import Any, Callable

from ..ir import (
    BufferLoad,
    BufferStore,
    Evaluate,
    Stmt,
    Var,
    as_dtype,
    attrs_of,
    const_int,
    dtype_of,
    full_region,
    imm,
    itemsize,
    parallel_nest,
    renew,
    seq,
    tirx,
)
from .reductions import start
from .table import CUMMAX, tile_op, tile_op_of, with_args

Declare = Callable[[list, str, str], Any]
"""(shape, dtype, name) -> a tile, declared where all parts see it."""


def reduction_in_parts(s: Evaluate, dtype: str, declare: Declare) -> tuple[list[Stmt], Stmt, list[Stmt]]:
    """(what stands in front of the first part, the reduction of each part, what stands behind the last) for a reduction `s`, of which each part
    continues what those before it found, in `dtype` (`reductions.carried_in`)."""
    src, dst = s.value.args
    attrs = attrs_of(s)
    clear, kind = bool(int(attrs.get("clear", 1))), str(attrs["kind"])
    before: list[Stmt] = []
    behind: list[Stmt] = []
    total = dst
    if dtype != dtype_of(dst.source):
        total = full_region(declare([r.extent for r in dst.region], dtype, f"{dst.source.name}_total"))
        behind.append(tile_op("copy", total, dst, span=s.span))
    if clear:
        before.append(tile_op("fill", total, start(kind, dtype), span=s.span))
    elif total is not dst:
        before.append(tile_op("copy", dst, total, span=s.span))
    return before, tile_op("reduce", src, total, span=s.span, **attrs | {"clear": 0}), behind


def scan_so_far(s: Evaluate, dtype: str, declare: Declare) -> tuple[Any, Stmt]:
    """(a tile of `dtype` for what the scan `s` has come to, the statement that makes it nothing)."""
    dst, dim = s.value.args[1], int(attrs_of(s)["dim"])
    shape = [imm(1) if d == dim else r.extent for d, r in enumerate(dst.region)]
    tile = declare(shape, dtype, f"{dst.source.name}_so_far")
    return tile, tile_op("fill", full_region(tile), start(tile_op_of(s).name.removeprefix("cum"), dtype), span=s.span)


def scan_of_part(s: Evaluate, so_far, declare: Declare) -> Stmt:
    """The scan `s` of one of the parts, and all of them joined with what those before it have come to."""
    src, dst = s.value.args
    attrs, dtype, result = attrs_of(s), dtype_of(so_far), dst
    dim, join = int(attrs["dim"]), _joined_by(tile_op_of(s))
    sizes = [const_int(r.extent) for r in dst.region]
    if dtype != dtype_of(dst.source):
        result = full_region(declare(sizes, dtype, f"{dst.source.name}_scan"))
    every = [Var(f"i{d}", "int32") for d in range(len(sizes))]

    def element(r, at: list):
        return BufferLoad(r.source, [x.min + i for x, i in zip(r.region, at)])

    def nest(target, value, at: list, over: list) -> Stmt:
        body = BufferStore(target.source, as_dtype(value, dtype_of(target.source)), element(target, at).indices, span=s.span)
        return renew(parallel_nest([(every[d], imm(sizes[d] if d in over else 1)) for d in range(len(sizes))], body, s.span))

    before = element(full_region(so_far), [imm(0) if d == dim else v for d, v in enumerate(every)])
    last = imm(0 if int(attrs.get("reverse", 0)) else sizes[dim] - 1)
    ends = element(result, [last if d == dim else v for d, v in enumerate(every)])
    others, all_of = [d for d in range(len(sizes)) if d != dim], range(len(sizes))
    return seq(
        with_args(s, [src, result]),
        nest(dst, join(element(result, every), before), every, all_of),
        nest(full_region(so_far), ends if result is dst else join(ends, before), list(before.indices), others),
    )


def _joined_by(op) -> Callable:
    """How running sums or maxima (`op`) of neighbouring parts are joined."""

    def join(a, b):
        if op is CUMMAX:
            return tirx.Or(a, b) if dtype_of(a) == "bool" else tirx.Max(a, b)
        narrow = "int" in dtype_of(a) and itemsize(dtype_of(a)) < 4
        return tirx.Cast("int32", a) + tirx.Cast("int32", b) if narrow else a + b

    return join


__all__ = ["reduction_in_parts", "scan_of_part", "scan_so_far"]
