"""Wrong versions of a kernel, made from its Tile IR: the last tile dropped, a load off by one, operands swapped."""

from __future__ import annotations

from tilelang_ascend.ir import (
    BufferStore,
    Evaluate,
    For,
    StmtMutator,
    TensorLoad,
    const_int,
    is_buffer_var,
    op_name,
    region,
    scope_of,
    tile_op,
    tirx,
)
from tilelang_ascend.ir.visit import map_children

_ORDERED = (tirx.Sub, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


class _Once(StmtMutator):
    """A change at the first place where it applies."""

    def __init__(self):
        self.changed = False


class _DropLastTile(_Once):
    def visit_For(self, s: For):
        n = const_int(s.extent)
        if not self.changed and "tl.grid" in (s.annotations or {}) and n != 1:
            self.changed = True
            return For(s.loop_var, s.min, s.extent - 1, s.kind, s.body, annotations=s.annotations, span=s.span)
        return self.generic(s)


class _OffByOne(_Once):
    """The first load from global memory starts one element later along its last dimension."""

    def _load(self, x):
        if self.changed:
            return x
        if isinstance(x, TensorLoad) and scope_of(x.source) in ("global", "") and is_buffer_var(x.source):
            self.changed = True
            return tirx.BufferLoad(x.source, [*x.indices[:-1], x.indices[-1] + 1])
        return map_children(x, self._load)

    def visit_Evaluate(self, s: Evaluate):
        if self.changed or op_name(s) != "tl.copy" or scope_of(s.value.args[0].source) not in ("global", ""):
            return s
        src, dst = s.value.args
        mins, extents = [r.min for r in src.region], [r.extent for r in src.region]
        self.changed = True
        return tile_op("copy", region(src.source, [*mins[:-1], mins[-1] + 1], extents), dst, span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self._load(s.value), s.indices, span=s.span)


class _SwapOperands(_Once):
    """a - b becomes b - a; likewise for other operations whose order matters, in values (not in indices)."""

    def _swap(self, x):
        if self.changed or isinstance(x, TensorLoad):
            return x
        if isinstance(x, _ORDERED):
            self.changed = True
            return type(x)(x.b, x.a)
        return map_children(x, self._swap)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self._swap(s.value), s.indices, span=s.span)


MISTAKES = {"the last tile is dropped": _DropLastTile, "a load is off by one": _OffByOne, "operands are swapped": _SwapOperands}


def perturbed_functions(func):
    """(mistake, wrong Tile IR) for every mistake that can be made in `func`."""
    for mistake, mutator in MISTAKES.items():
        change = mutator()
        body = change(func.body)
        if change.changed:
            yield mistake, func.with_body(body)
