"""resolve_views: accesses to a view (`T.view`, `T.reshape`) become accesses to the buffer whose storage it names.

Before:  view(v, a); Parallel(i, j, k): v[i, j, k] = v[i, j, k] * 2; reduce(v, m)         # a: 16x128, v: 16x4x32
After:   Parallel(i, j, k): a[i, j * 32 + k] = a[i, j * 32 + k] * 2; Parallel(i, j, k): v[i, j, k] = a[i, j * 32 + k]; reduce(v, m)

Elements are renamed. Tile ops work on whole shapes: they get a copy of the view, which is written back when they change it.
Rows of tiles are padded in UB, so two shapes of one storage do not exist there.

Before:  view(v, a); Parallel(i): v[i] = v[i] + 1                                                  # a: 64 float16, v: 32 int32
After:   Parallel(i): v[i] = a[i * 2] & 65535 | a[i * 2 + 1] << 16; Parallel(i): v[i] = v[i] + 1
         Parallel(i): a[i] = v[i // 2] >> i % 2 * 16                                               # each as the bits of its dtype

Elements of another size are put together from their parts, or cut. Nests work on a copy of such a view, too.

Requires: Tile IR. Ensures: no `tl.view`.
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
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    imm,
    itemsize,
    map_children,
    op_name,
    parallel_nest,
    region,
    same_bits,
    seq,
    statements,
    sym,
    tirx,
)
from ...tile import VIEW, is_op, with_args
from ...tile.atomics import AtomicElements, updated
from ...tile.uses import IN_ORDER, is_atomic, is_element_atomic, is_parallel, is_scalar_var, uses_of
from ...tileop.base.layout import row_major


class _Resolve(StmtMutator):
    def __init__(self, sources: dict):
        self.sources = sources
        """View -> the buffer it was made of."""
        self.analyzer = sym.Analyzer()
        self.in_nest, self.in_order = False, None
        self.kept: set = set()
        """Views that tile ops work on."""

    # -- elements -----------------------------------------------------------------------------------------------

    def number(self, view, indices):
        """Number of the element `view[indices]` in memory."""
        linear = imm(0)
        for i, stride in zip(indices, row_major(view.ty.shape)):
            linear = linear + i * stride
        return linear

    def indices(self, buffer, linear) -> list:
        """Indices of element number `linear`."""
        found = []
        for d, (n, stride) in enumerate(zip(buffer.ty.shape, row_major(buffer.ty.shape))):
            index = tirx.FloorDiv(linear, imm(const_int(stride)))
            found.append(self.analyzer.simplify(index if d == 0 else tirx.FloorMod(index, imm(const_int(n)))))
        return found

    def place(self, view, indices):
        """The element of the real buffer behind `view[indices]`, as (buffer, indices); all views between have elements of one size."""
        while view in self.sources:
            source = self.sources[view]
            view, indices = source, self.indices(source, self.number(view, indices))
        return view, indices

    def load(self, view, indices):
        source = self.sources.get(view)
        if source is None:
            return BufferLoad(view, indices)
        return same_bits(self.element(source, dtype_of(view), self.number(view, indices)), dtype_of(view))

    def element(self, source, dtype: str, linear):
        """Element number `linear` of the storage of `source`, of the size of `dtype`: a value of that size and any dtype."""
        have, want = itemsize(dtype_of(source)), itemsize(dtype)
        ratio = max(have, want) // min(have, want)
        if ratio == 1:
            return self.load(source, self.indices(source, linear))
        if want > have:
            return _joined([self.load(source, self.indices(source, linear * ratio + r)) for r in range(ratio)], want)
        whole = self.load(source, self.indices(source, tirx.FloorDiv(linear, imm(ratio))))
        return _part(whole, tirx.FloorMod(linear, imm(ratio)), want)

    def store(self, view, value, indices, span):
        """Statements that store `value` into `view[indices]`."""
        source = self.sources.get(view)
        if source is None:
            return BufferStore(view, value, indices, span=span)
        have, want, linear = itemsize(dtype_of(source)), itemsize(dtype_of(view)), self.number(view, indices)
        if have == want:
            return self.store(source, same_bits(value, dtype_of(source)), self.indices(source, linear), span)
        bits = Var("bits", _word(max(have, want)))
        bind = Bind(
            bits, tirx.Cast(dtype_of(bits), same_bits(value, _word(want))) if want < have else same_bits(value, dtype_of(bits)), span=span
        )
        ratio = max(have, want) // min(have, want)
        if want > have:
            parts = [
                (same_bits(_part(bits, imm(r), have), dtype_of(source)), self.indices(source, linear * ratio + r)) for r in range(ratio)
            ]
            return seq(bind, *(self.store(source, v, at, span) for v, at in parts))
        at = self.indices(source, tirx.FloorDiv(linear, imm(ratio)))
        shift = tirx.Cast(dtype_of(bits), tirx.FloorMod(linear, imm(ratio)) * (8 * want))
        mask = tirx.shift_left(imm((1 << (8 * want)) - 1, dtype_of(bits)), shift)
        old = tirx.bitwise_and(same_bits(self.load(source, at), dtype_of(bits)), tirx.bitwise_not(mask))
        new = tirx.bitwise_or(old, tirx.bitwise_and(tirx.shift_left(bits, shift), mask))
        return seq(bind, self.store(source, same_bits(new, dtype_of(source)), at, span))

    def resized(self, view) -> bool:
        """True if elements of a view have another size than those of what it is a view of."""
        source = self.sources[view]
        return itemsize(dtype_of(view)) != itemsize(dtype_of(source)) or (source in self.sources and self.resized(source))

    def met_otherwise(self, view, uses) -> bool:
        """True if a nest also reaches the storage of `view` under another name, and changes it under one of them."""
        names = [b for b in uses.all if self.root(b).same_as(self.root(view))]
        return len(names) > 1 and any(b in uses.writes for b in names)

    def root(self, buffer):
        while buffer in self.sources:
            buffer = self.sources[buffer]
        return buffer

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.sources:
            return self.load(e.source, [self.expr(i) for i in e.indices])
        return map_children(e, self.expr)

    # -- statements ---------------------------------------------------------------------------------------------

    def visit_For(self, s: For):
        self.analyzer.bind(s.loop_var, Range.from_min_extent(imm(0, dtype_of(s.loop_var)), s.extent))
        if self.in_nest or not is_parallel(s):
            return self.generic(s)
        uses = uses_of(s)
        resized = [v for v in self.sources if v in uses.all and self.resized(v)]
        if resized and not any(self.met_otherwise(v, uses) for v in resized):
            return self.with_copies(s, resized, uses)
        self.in_nest, self.in_order = True, None
        if resized:
            self.in_order = f"`{resized[0].name}` is `{self.root(resized[0]).name}` with elements of another size"
        out = self.generic(s)
        self.in_nest = False
        if self.in_order is None:
            return out
        notes = {**out.annotations, IN_ORDER: self.in_order}
        return For(out.loop_var, out.min, out.extent, out.kind, out.body, annotations=notes, span=out.span)

    def with_copies(self, nest: For, views: list, uses) -> list:
        """A nest on copies of views, written back where it changes them."""
        self.kept.update(views)
        hidden = {v: self.sources.pop(v) for v in views}
        body = self.visit(nest)
        self.sources.update(hidden)
        before = [self.copied(v, True, nest.span) for v in views]
        return [*before, body, *(self.copied(v, False, nest.span) for v in views if v in uses.writes)]

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer in self.sources:
            return self.store(s.buffer, value, indices, s.span)
        return BufferStore(s.buffer, value, indices, span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if is_op(s, VIEW):
            return None
        s = self.with_elements(s)
        if not isinstance(s, Evaluate):
            return s
        if self.in_nest and is_atomic(s) and not is_element_atomic(s) and not uses_of(s).all.isdisjoint(self.sources):
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
        return with_args(s, args)

    def copied(self, view, fetch: bool, span) -> For:
        """A nest that fetches the contents of a view from its storage, or writes them back."""
        source = self.sources[view]
        # What holds several elements is written as a whole.
        larger = not fetch and itemsize(dtype_of(source)) > itemsize(dtype_of(view))
        shape = source.ty.shape if larger else view.ty.shape
        loops = [Var(f"v{d}", "int32") for d in range(len(shape))]
        for var, n in zip(loops, shape):
            self.analyzer.bind(var, Range.from_min_extent(imm(0), n))
        if fetch:
            body: Stmt = BufferStore(view, self.load(view, loops), loops, span=span)
        elif larger:
            ratio, linear = itemsize(dtype_of(source)) // itemsize(dtype_of(view)), self.number(source, loops)
            parts = [BufferLoad(view, self.indices(view, linear * ratio + r)) for r in range(ratio)]
            value = same_bits(_joined(parts, itemsize(dtype_of(source))), dtype_of(source))
            body = self.store(source, value, list(loops), span)
        else:
            body = self.store(view, BufferLoad(view, loops), loops, span)
        return parallel_nest(list(zip(loops, shape)), body, span)


def _word(size: int) -> str:
    return f"int{8 * size}"


def _wide(value, size: int):
    """The bits of a value, without sign, in a word of at least four bytes that holds `size`."""
    own, word = itemsize(dtype_of(value)), _word(max(size, 4))
    bits = tirx.Cast(word, same_bits(value, _word(own)))
    return bits if own == itemsize(word) else tirx.bitwise_and(bits, imm((1 << (8 * own)) - 1, word))


def _joined(parts: list, size: int):
    """The value of `size` bytes that parts make up, lowest first."""
    total, own = None, itemsize(dtype_of(parts[0]))
    for r, part in enumerate(parts):
        bits = _wide(part, size)
        bits = bits if r == 0 else tirx.shift_left(bits, imm(8 * own * r, dtype_of(bits)))
        total = bits if total is None else tirx.bitwise_or(total, bits)
    return total if size >= 4 else tirx.Cast(_word(size), total)


def _part(whole, number, size: int):
    """Part `number` of `size` bytes of a value."""
    bits = _wide(whole, itemsize(dtype_of(whole)))
    return tirx.Cast(_word(size), tirx.shift_right(bits, tirx.Cast(dtype_of(bits), number * (8 * size))))


class _DropUnused(StmtMutator):
    def __init__(self, unused):
        self.unused = unused

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.unused else s


def resolve_views(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    sources: dict = {}
    for s in statements(func.body):
        if not is_op(s, VIEW):
            continue
        view, source = (r.source for r in s.value.args)
        bytes_ = [math.prod(map(int, x.ty.shape)) * itemsize(dtype_of(x)) for x in (view, source)]
        assert not is_scalar_var(source) and bytes_[0] == bytes_[1]
        sources[view] = source
    if not sources:
        return func
    resolve = _Resolve(sources)
    body = resolve(func.body)
    return func.with_body(_DropUnused(set(sources) - resolve.kept)(body))


__all__ = ["resolve_views"]
