"""Numbers of the scalar unit as tiles of one element, so that several blocks can have theirs side by side."""

from __future__ import annotations

from ...analysis.tiles.split_globals import is_global
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    decl_buffer,
    dtype_of,
    expr_children,
    is_if_then_else,
    map_children,
    region,
    seq,
    tirx,
)
from ...tile import COPY, tile_op
from ...tile.uses import is_parallel, loads_in

DTYPES = ("float32", "float16", "bfloat16", "int32")
"""Of numbers that vector instructions work on as the scalar unit does."""


class ElementTiles(StmtMutator):
    """The same statements with tiles in place of `variables` and `names`. tensors: elements of tensors that single stores read come by way of tiles,
    too. made: the new tiles."""

    def __init__(self, variables=(), names=(), tensors: bool = False):
        self.tiles = {v: _element(dtype_of(v), v.name) for v in (*variables, *names)}
        self.tensors, self.made = tensors, list(self.tiles.values())
        self.loads: list | None = None
        self.span = None

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.tiles else s

    def visit_Bind(self, s: Bind):
        if s.var not in self.tiles:
            return self.generic(s)
        return self.store(BufferStore(self.tiles[s.var], s.value, [0], span=s.span))

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        tensors, self.tensors = self.tensors, False
        out = self.generic(s)
        self.tensors = tensors
        return out

    def visit_BufferStore(self, s: BufferStore):
        new = self.tiles.get(s.buffer)
        return self.store(s if new is None else BufferStore(new, s.value, [0], span=s.span))

    def store(self, s: BufferStore):
        """A single store, behind the loads of what it needs from tensors."""
        if not self.tensors or _chooses(s.value) or any(loads_in(i) for x in loads_in(s.value) for i in x.indices):
            return self.generic(s)
        self.loads, self.span = [], s.span
        out = self.generic(s)
        loads, self.loads = self.loads, None
        return [*loads, out]

    def expr(self, e):
        if isinstance(e, Var) and e in self.tiles:
            return BufferLoad(self.tiles[e], [0])
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            return BufferLoad(self.tiles[e.source], [0])
        if isinstance(e, TensorLoad) and self.loads is not None and is_global(e.source) and dtype_of(e) in DTYPES:
            place = _element(dtype_of(e), f"{e.source.name}_t")
            self.made.append(place)
            one = [1] * len(e.indices)
            self.loads.append(
                tile_op(COPY.name, region(e.source, [self.expr(i) for i in e.indices], one), region(place, [0], [1]), span=self.span)
            )
            return BufferLoad(place, [0])
        if isinstance(e, TensorRegion):
            new = self.tiles.get(e.source, e.source)
            return region(new, [self.expr(r.min) for r in e.region], [self.expr(r.extent) for r in e.region])
        return map_children(e, self.expr)


def _element(dtype: str, name: str):
    """A tile of one element in UB."""
    return decl_buffer([1], dtype, name, scope="shared.ub")


def _chooses(e) -> bool:
    """True if a part of an expression is not always worked out."""
    return isinstance(e, (tirx.Select, tirx.And, tirx.Or)) or is_if_then_else(e) or any(map(_chooses, expr_children(e)))


def declared(tiles, body: Stmt) -> Stmt:
    """`body` behind the declarations of `tiles`."""
    return seq([AllocBuffer(t) for t in tiles], body)


__all__ = ["DTYPES", "ElementTiles", "declared"]
