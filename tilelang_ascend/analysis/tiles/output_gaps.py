"""Which elements at the end of an output does no store of the kernel reach?

A claim is a proof: every index is bounded from above over all iterations of the loops around it, conditions are taken to hold, and an index
that cannot be bounded counts as reaching the end. Tensors the kernel also reads are left alone: they may be updated in part.

Kernels with dynamic shapes are examined for one size that is a multiple of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from ...ir import (
    Bind,
    BufferStore,
    For,
    ForKind,
    IntImm,
    PrimFunc,
    Range,
    TensorRegion,
    children,
    const_int,
    dtype_of,
    free_vars,
    is_buffer_var,
    scope_of,
    substitute_expr,
    sym,
)
from ...ir.functions import shared_buffers
from ...tile.uses import uses_of, work_of
from ..index.affine import affine

_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)
_UNBOUNDED = 1 << 30


@dataclass(frozen=True)
class Gap:
    """Elements `[written, extent)` of dimension `axis` of `buffer` are never written.

    span: the store that comes closest to the end. sizes: {name: value} of the dynamic dimensions for which this holds, empty for
    static shapes.
    """

    buffer: str
    axis: int
    written: int
    extent: int
    span: object
    sizes: dict

    def text(self) -> str:
        """The finding in words."""
        when = "with " + ", ".join(f"{n} = {v}" for n, v in self.sizes.items()) + ": " if self.sizes else ""
        return (
            f"{when}elements {self.written} to {self.extent - 1} of dimension {self.axis} of {self.buffer} are never written, "
            f"the stores end at {self.written} of {self.extent}; T.ceildiv(n, tile) gives the number of tiles that cover n"
        )


@dataclass
class _Reach:
    """How far stores get along one dimension: `end` is exclusive, `tiled` if a loop over tiles moves some store along it."""

    end: int
    next_start: int
    tiled: bool
    span: object


def output_gaps(funcs: Sequence[PrimFunc], allocated: set[str] = frozenset()) -> list[Gap]:
    """Gaps of the tensors a kernel only writes; `funcs`: its launches, with the same parameters.

    For tensors in `allocated`, which nobody else fills, every end that is not reached counts. In others a part may be left alone on
    purpose: there one more tile of the loop that writes must begin inside of the tensor.
    """
    sizes = _sizes(funcs[0])
    finder = _Finder(sizes, _only_written(funcs))
    for func in funcs:
        finder.visit(func.body, {})
    found = []
    for p in finder.outputs:
        for axis, extent in enumerate(finder.shape(p)):
            reach = finder.reaches[p.name][axis]
            if reach is None or extent is None or reach.end >= extent:
                continue
            if p.name in allocated or (reach.tiled and reach.next_start < extent):
                found.append(Gap(p.name, axis, reach.end, extent, reach.span, {v.name: n.value for v, n in sizes.items()}))
    return found


def _only_written(funcs: Sequence[PrimFunc]) -> list:
    """Parameters of the first function that some launch writes, none reads, and all see in one shape."""
    uses, found = [uses_of(func.body) for func in funcs], []
    workspaces = shared_buffers(funcs[0])
    for names in zip(*(func.params for func in funcs)):
        if names[0] in workspaces:
            continue
        if not all(map(is_buffer_var, names)) or len({tuple(map(str, b.ty.shape)) for b in names}) > 1:
            continue
        if any(b in u.writes for b, u in zip(names, uses)) and not any(b in u.reads for b, u in zip(names, uses)):
            found.append(names[0])
    return found


def _sizes(func: PrimFunc) -> dict:
    """A value for every dynamic dimension: distinct primes."""
    names: list = []
    for p in func.params:
        if is_buffer_var(p):
            for d in p.ty.shape:
                names += [v for v in sorted(free_vars(d), key=lambda v: v.name) if not any(v.same_as(n) for n in names)]
    return {v: IntImm(dtype_of(v), _PRIMES[i % len(_PRIMES)]) for i, v in enumerate(names)}


class _Finder:
    """Walks the kernel with the ranges of its loops known to an analyzer."""

    def __init__(self, sizes: dict, outputs: list):
        self.sizes, self.analyzer = dict(sizes), sym.Analyzer()
        self.outputs = outputs
        self.reaches = {p.name: [None] * len(p.ty.shape) for p in outputs}
        """By name: another launch may have another buffer for a parameter."""
        self.loops: list = []

    def shape(self, buffer) -> list:
        return [const_int(self.simplified(d)) for d in buffer.ty.shape]

    def simplified(self, e):
        e = substitute_expr(e, self.sizes)
        return self.analyzer.simplify(e) if sym.constants_fit(e) else e

    def visit(self, stmt, loops: dict) -> None:
        """`loops`: extent of every loop around, None for a parallel one (which moves inside of a tile)."""
        if isinstance(stmt, Bind):
            self.sizes[stmt.var] = substitute_expr(stmt.value, self.sizes)
        elif isinstance(stmt, For):
            extent = self.analyzer.const_int_bound(self.simplified(stmt.extent)).max_value
            if 0 < extent < _UNBOUNDED:
                self.analyzer.bind(stmt.loop_var, _range_of(stmt.loop_var, extent))
            loops = {**loops, stmt.loop_var: stmt.kind != ForKind.PARALLEL}
        elif isinstance(stmt, BufferStore):
            self.store(stmt.buffer, [(i, 1) for i in stmt.indices], loops, stmt.span)
        elif (record := work_of(stmt)) is not None:
            for k in record.writes:
                target = stmt.value.args[k]
                if isinstance(target, TensorRegion):
                    self.store(target.source, [(r.min, r.extent) for r in target.region], loops, stmt.span)
        for s in children(stmt):
            self.visit(s, loops)

    def store(self, buffer, ranges: list, loops: dict, span) -> None:
        if scope_of(buffer) != "global" or buffer.name not in self.reaches:
            return
        for axis, (low, extent) in enumerate(ranges):
            reach, old = self.reach(low, extent, loops, span), self.reaches[buffer.name][axis]
            if old is not None and old.end > reach.end:
                reach, old = old, reach
            if old is not None:
                reach = _Reach(reach.end, max(reach.next_start, old.next_start), reach.tiled or old.tiled, reach.span)
            self.reaches[buffer.name][axis] = reach

    def reach(self, low, extent, loops: dict, span) -> _Reach:
        low, extent = self.simplified(low), self.simplified(extent)
        last = self.analyzer.const_int_bound(low + extent).max_value - 1
        used = [v for v in free_vars(low) if v in loops]
        form = affine(low, list(loops)) if loops else None
        step = gcd(*form.coeffs.values()) if form is not None and form.coeffs else 1
        if const_int(extent) != 1:
            step = 1
        return _Reach(last + 1, last + step, any(loops[v] for v in used), span)


def _range_of(var, extent: int):
    """`[0, extent)` in the dtype of `var`."""
    return Range.from_min_extent(IntImm(dtype_of(var), 0), IntImm(dtype_of(var), extent))


__all__ = ["Gap", "output_gaps"]
