"""resolve_views: accesses to a view (`T.view`, `T.reshape`) become accesses to the buffer whose storage it names.

Before:  view(v, a); Parallel(i, j, k): v[i, j, k] = v[i, j, k] * 2; reduce(v, m)         # a: 16x128, v: 16x4x32
After:   Parallel(i, j, k): a[i, j * 32 + k] = a[i, j * 32 + k] * 2; Parallel(i, j, k): v[i, j, k] = a[i, j * 32 + k]; reduce(v, m)

Elements are renamed. Tile ops work on whole shapes: they get a copy of the view, which is written back when they change it.
Rows of tiles are padded in UB, so two shapes of one storage do not exist there.

Requires: Tile IR. Ensures: no `tl.view`.
"""

from __future__ import annotations

import math

from ..analysis.tile_uses import ATOMIC_OPS, IN_ORDER, is_element_atomic, is_parallel, is_scalar_var, uses_of
from ..errors import UnsupportedConstruct
from ..ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    attrs_of,
    call,
    const_int,
    dtype_of,
    imm,
    itemsize,
    map_children,
    op_name,
    region,
    statements,
    sym,
    tirx,
)
from ..tileop.layout import row_major
from .stage_atomics import AtomicElements, updated


class _Resolve(StmtMutator):
    def __init__(self, sources: dict):
        self.sources = sources
        """View -> the buffer it was made of."""
        self.analyzer = sym.Analyzer()
        self.in_nest, self.in_order = False, None
        self.kept: set = set()
        """Views that tile ops work on."""

    # -- elements -----------------------------------------------------------------------------------------------

    def place(self, view, indices):
        """The element of the real buffer behind `view[indices]`, as (buffer, indices)."""
        while view in self.sources:
            source = self.sources[view]
            linear = imm(0)
            for i, stride in zip(indices, row_major(view.ty.shape)):
                linear = linear + i * stride
            indices = []
            for d, (n, stride) in enumerate(zip(source.ty.shape, row_major(source.ty.shape))):
                index = tirx.FloorDiv(linear, imm(const_int(stride)))
                index = index if d == 0 else tirx.FloorMod(index, imm(const_int(n)))
                indices.append(self.analyzer.simplify(index))
            view = source
        return view, indices

    def load(self, view, indices):
        buffer, real = self.place(view, indices)
        value, dtype = BufferLoad(buffer, real), dtype_of(view)
        return value if dtype_of(buffer) == dtype else tirx.reinterpret(dtype, value)

    def store(self, view, value, indices, span) -> BufferStore:
        buffer, real = self.place(view, indices)
        dtype = dtype_of(buffer)
        value = value if dtype_of(view) == dtype else tirx.reinterpret(dtype, value)
        return BufferStore(buffer, value, real, span=span)

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.sources:
            return self.load(e.source, [self.expr(i) for i in e.indices])
        return map_children(e, self.expr)

    # -- statements ---------------------------------------------------------------------------------------------

    def visit_For(self, s: For):
        self.analyzer.bind(s.loop_var, Range.from_min_extent(imm(0, dtype_of(s.loop_var)), s.extent))
        if self.in_nest or not is_parallel(s):
            return self.generic(s)
        self.in_nest, self.in_order = True, None
        out = self.generic(s)
        self.in_nest = False
        if self.in_order is None:
            return out
        notes = {**out.annotations, IN_ORDER: self.in_order}
        return For(out.loop_var, out.min, out.extent, out.kind, out.body, annotations=notes, span=out.span)

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer in self.sources:
            return self.store(s.buffer, value, indices, s.span)
        return BufferStore(s.buffer, value, indices, span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if op_name(s) == "tl.view":
            return None
        s = self.with_elements(s)
        if not isinstance(s, Evaluate):
            return s
        if self.in_nest and op_name(s) in ATOMIC_OPS and not is_element_atomic(s) and not uses_of(s).all.isdisjoint(self.sources):
            return self.visit(AtomicElements()(s))
        uses = uses_of(s)
        views = [v for v in self.sources if v in uses.reads or v in uses.writes]
        self.kept.update(views)
        before = [self.copied(v, True, s.span) for v in views]
        after = [self.copied(v, False, s.span) for v in views if v in uses.writes]
        return [*before, s if views else self.generic(s), *after]

    def with_elements(self, s: Evaluate) -> Stmt:
        """`s` with the numbers it is given read from the real buffers, and the element it updates named there. An update of what the real
        buffer holds as another dtype is a plain one, and iterations that do it run one after the other."""
        if not op_name(s):
            return s
        args = [self.expr(a) for a in s.value.args]
        if is_element_atomic(s) and args[0].source in self.sources and all(const_int(r.extent) == 1 for r in args[0].region):
            view = args[0].source
            at = [r.min for r in args[0].region]
            buffer, real = self.place(view, at)
            if dtype_of(buffer) != dtype_of(view):
                self.in_order = f"it updates `{view.name}` atomically, which is `{buffer.name}` as another dtype"
                return self.store(view, updated(s, self.load(view, at), args[1]), at, s.span)
            args[0] = region(buffer, real, [1] * len(real))
        return Evaluate(call(op_name(s), args, attrs_of(s), span=s.span), span=s.span)

    def copied(self, view, fetch: bool, span) -> For:
        """A nest that fetches the contents of a view from its storage, or writes them back."""
        loops = [Var(f"v{d}", "int32") for d in range(len(view.ty.shape))]
        for var, n in zip(loops, view.ty.shape):
            self.analyzer.bind(var, Range.from_min_extent(imm(0), n))
        if fetch:
            body: Stmt = BufferStore(view, self.load(view, loops), loops, span=span)
        else:
            body = self.store(view, BufferLoad(view, loops), loops, span)
        for d, (var, n) in reversed(list(enumerate(zip(loops, view.ty.shape)))):
            notes = {"tl.parallel": len(loops)} if d == 0 else {}
            body = For(var, imm(0), n, ForKind.PARALLEL, body, annotations=notes, span=span)
        return body


class _DropUnused(StmtMutator):
    def __init__(self, unused):
        self.unused = unused

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.unused else s


def resolve_views(func: PrimFunc) -> PrimFunc:
    """Apply. Raises `UnsupportedConstruct` for views whose elements have another size than those of the storage."""
    sources: dict = {}
    for s in statements(func.body):
        if op_name(s) != "tl.view":
            continue
        view, source = (r.source for r in s.value.args)
        if itemsize(dtype_of(view)) != itemsize(dtype_of(source)):
            raise UnsupportedConstruct(
                f"T.view of {source.name} ({dtype_of(source)}) as {dtype_of(view)}: elements of another size", at=s.span,
                hint="view it as a dtype of the same width, or convert with T.cast",
            )  # fmt: skip
        assert not is_scalar_var(source) and math.prod(map(int, view.ty.shape)) == math.prod(map(int, source.ty.shape))
        sources[view] = source
    if not sources:
        return func
    resolve = _Resolve(sources)
    body = resolve(func.body)
    return func.with_body(_DropUnused(set(sources) - resolve.kept)(body))


__all__ = ["resolve_views"]
