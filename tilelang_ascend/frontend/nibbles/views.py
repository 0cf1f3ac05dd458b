"""resolve_byte_views: tiles whose storage is seen both as numbers of 4 bits and as something else are bytes.

Before:  v: int4 (16, 64); view(v, a)                             # a: uint8 (16, 32)
         Parallel(i, j): v[i, j] = v[i, j] + 1; n = v[0, 3]
After:   p: int4 (1024,), packed; view(p, a); v: int4 (16, 64); f: int4 (1024,); view(f, v)
         copy(p, f); Parallel(i, j): v[i, j] = v[i, j] + 1; copy(f, p); n = p[3]

Every statement gets the numbers it uses from the bytes, and leaves there what it changes. A nest that uses bytes under one name behind a change under
another works on the packed numbers. A tile of 4 bits that is seen as something else has its bytes in a tile of its own. What is packed has two numbers
in a byte, as tensors have (`unpack`).
"""

from __future__ import annotations

import math

from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    While,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    map_children,
    scope_of,
    statements,
    sym,
)
from ...runtime.dtypes import NIBBLES
from ...tile import VIEW, is_op, tile_op
from ...tile.uses import own_uses, uses_of
from ...tileop.base.layout import row_major
from .codes import BYTE
from .wide import in_gm

PACKED = "tl.packed"
"""Annotation of tiles of 4 bits that have two numbers in a byte."""


class _Storage:
    """A tile of 4 bits that is one name of memory with others: the numbers `packed`, and itself seen as one row."""

    def __init__(self, tile, packed):
        self.tile, self.packed = tile, packed
        size = math.prod(int(n) for n in tile.ty.shape)
        self.row = decl_buffer([size], dtype_of(tile), f"{tile.name}_row", scope=scope_of(tile))


class _Resolve(StmtMutator):
    def __init__(self, bytes_of: dict, own: dict, root: dict):
        self.root = root
        """Name of a tile -> the tile that is allocated."""
        self.in_nest = False
        self.own = own
        """Tile of 4 bits that is allocated as such -> the tile of its bytes."""
        self.bytes_of = bytes_of
        """Tile of 4 bits -> the tile its bytes are in."""
        self.names: dict = {}
        self.packed: dict = {}
        """(tile of bytes, dtype) -> its packed numbers."""
        self.analyzer = sym.Analyzer()

    # --- elements outside of nests

    def place(self, buffer, indices) -> tuple:
        name, linear = self.names[buffer], imm(0)
        for i, stride in zip(indices, row_major(buffer.ty.shape)):
            linear = linear + self.expr(i) * stride
        return name.packed, [self.analyzer.simplify(linear)]

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.names:
            return BufferLoad(*self.place(e.source, e.indices))
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        value = self.expr(s.value)
        if s.buffer in self.names:
            buffer, at = self.place(s.buffer, s.indices)
            return BufferStore(buffer, value, at, span=s.span)
        return BufferStore(s.buffer, value, [self.expr(i) for i in s.indices], span=s.span)

    # --- whole statements

    def synchronized(self, s: Stmt):
        """A statement between the copies of the numbers it uses."""
        uses = uses_of(s)
        used = [n for b, n in self.names.items() if b in uses.all]
        before = [tile_op("copy", full_region(n.packed), full_region(n.row), span=s.span) for n in used]
        after = [tile_op("copy", full_region(n.row), full_region(n.packed), span=s.span) for n in used if n.tile in uses.writes]
        return [*before, s, *after]

    def visit_For(self, s: For):
        if s.kind != ForKind.PARALLEL or self.in_nest:
            return self.generic(s)
        if not self.mixes_names(s):
            return self.synchronized(s)
        self.in_nest = True
        out = self.generic(s)
        self.in_nest = False
        return out

    def mixes_names(self, nest: For) -> bool:
        """True if iterations of a nest use a tile under one name behind a change under another."""
        inside, changed = statements(nest), {}
        again = any(isinstance(s, While) or isinstance(s, For) and s.kind != ForKind.PARALLEL for s in inside)
        for s in [*inside, *inside] if again else inside:
            uses = own_uses(s)
            if any(not changed.get(self.root.get(b, b), b).same_as(b) for b in uses.all):
                return True
            changed.update((self.root.get(b, b), b) for b in uses.writes)
        return False

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, VIEW):
            return self.synchronized(s)
        view, source = (r.source for r in s.value.args)
        if view in self.bytes_of:
            return self.named(view, s.span)
        data = self.bytes_of.get(source)
        return s if data is None else tile_op("view", full_region(view), full_region(data), span=s.span)

    def named(self, tile, span) -> list:
        """Declarations of another name of the bytes of a tile."""
        data, dtype, out = self.bytes_of[tile], dtype_of(tile), []
        packed = self.packed.get((data, dtype))
        if packed is None:
            size = math.prod(int(n) for n in tile.ty.shape)
            packed = self.packed[data, dtype] = decl_buffer([size], dtype, f"{tile.name}_packed", scope=scope_of(data))
            out += [
                AllocBuffer(packed, annotations={PACKED: 1}, span=span),
                tile_op("view", full_region(packed), full_region(data), span=span),
            ]
        name = self.names[tile] = _Storage(tile, packed)
        return [*out, AllocBuffer(name.row, span=span), tile_op("view", full_region(name.row), full_region(tile), span=span)]

    def visit_AllocBuffer(self, s: AllocBuffer):
        if s.buffer not in self.own:
            return s
        data = self.own[s.buffer]
        # A store to one half keeps the other, which has to have a value.
        clear = tile_op("fill", full_region(data), imm(0, BYTE), span=s.span)
        return [s, AllocBuffer(data, span=s.span), *self.named(s.buffer, s.span), clear]

    def visit_Bind(self, s: Bind):
        return Bind(s.var, self.expr(s.value), span=s.span)


def storages(body: Stmt) -> dict:
    """View -> the tensor or tile it is another name of, which is no view itself."""
    found: dict = {}
    for s in statements(body):
        if is_op(s, VIEW):
            view, source = (r.source for r in s.value.args)
            found[view] = found.get(source, source)
    return found


def resolve_byte_views(func: PrimFunc) -> PrimFunc:
    """Apply to a function with dtypes of 4 bits."""
    root = {view: storage for view, storage in storages(func.body).items() if not in_gm(view)}
    mixed = {b for view, b in root.items() if dtype_of(view) != dtype_of(b) and NIBBLES & {dtype_of(view), dtype_of(b)}}
    if not mixed:
        return func
    own = {
        b: decl_buffer([math.prod(int(n) for n in b.ty.shape) // 2], BYTE, f"{b.name}_bytes", scope=scope_of(b))
        for b in mixed
        if dtype_of(b) in NIBBLES
    }
    bytes_of = dict(own)
    bytes_of |= {view: own.get(b, b) for view, b in root.items() if b in mixed and dtype_of(view) in NIBBLES}
    return func.with_body(_Resolve(bytes_of, own, root)(func.body))


__all__ = ["PACKED", "resolve_byte_views", "storages"]
