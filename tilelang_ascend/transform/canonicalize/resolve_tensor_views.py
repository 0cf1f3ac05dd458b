"""resolve_tensor_views: a tensor in GM seen as another shape or dtype (`T.Tensor(shape, dtype, X.data)`, `T.view`) is one tensor again.

Before:  view(V, X); Parallel(i): V[i] = V[i] * 2                    # X: a parameter of shape (16, 64), V: (1024,)
After:   Parallel(i): X[i] = X[i] * 2                                # X: a parameter of shape (1024,); the caller's memory is the same

A tensor the kernel accesses under one name only is declared as that name has it, if its shape is known outside of the kernel. Otherwise every access goes to the tensor as it was
declared: elements are renamed, regions where they are regions of the tensor, too. What lies outside of the view is outside, though the
memory there may be another row of the tensor: it reads zero and is not stored to.

Requires: Tile IR, first of all passes. Ensures: no `tl.view` of a tensor in GM.
"""

from __future__ import annotations

import math
from contextlib import ExitStack

from ...analysis.index.safe_values import safe_values
from ...analysis.index.value_facts import assume_rest, facts_about
from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    if_then,
    imm,
    is_if_then_else,
    itemsize,
    map_children,
    same_bits,
    scope_of,
    statements,
    substitute,
    sym,
    tirx,
)
from ...tile import ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN, COPY, FILL, PRINT, VIEW, is_op
from ...tile.uses import is_element_atomic, is_scalar_var, loads_in, own_uses
from ...tileop.base.tensor_bounds import all_of

_MOVES = (COPY, FILL, ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN, PRINT)
_INT32_ELEMENTS = 2**31


def resolve_tensor_views(func: PrimFunc) -> PrimFunc:
    """Apply. Raises `UnsupportedConstruct` for several names of one tensor that no common shape serves."""
    sources: dict = {}
    spans: dict = {}
    for s in statements(func.body):
        if is_op(s, VIEW) and scope_of(s.value.args[0].source) == "global":
            view, source = (r.source for r in s.value.args)
            sources[view], spans[view] = sources.get(source, source), s.span
    if not sources:
        return func
    used = _accessed(func.body, sources)
    body = _Drop(sources)(func.body)
    params, renamed, resolved = list(func.params), {}, {}
    own = {s.var for s in statements(body) if isinstance(s, Bind)}
    for source in dict.fromkeys(sources.values()):
        views = [v for v in sources if sources[v].same_as(source)]
        place = next((k for k, p in enumerate(params) if p.same_as(source)), None)
        if place is None:
            raise UnsupportedConstruct(
                f"{source.name}, a workspace, seen as another shape", at=spans[views[0]], hint="allocate it as it is used"
            )
        names = [n for n in [source, *views] if n in used]
        if not names or _alike([source, *names]):
            renamed |= {n: source for n in names}
        elif _alike(names) and not any(free_vars(n) & own for n in names[0].ty.shape):
            params[place] = decl_buffer(list(names[0].ty.shape), dtype_of(names[0]), source.name, scope="global")
            renamed |= {n: params[place] for n in names}
        else:
            resolved |= {n: (source, spans[n]) for n in names if not n.same_as(source)}
    if resolved:
        body = _Resolve(resolved, func.with_body(body))(body)
    return PrimFunc(params, substitute(body, renamed), span=func.span).with_attr(dict(func.attrs))


def _accessed(body: Stmt, sources: dict) -> set:
    """What is used but to say what it is a view of."""
    return set().union(*(own_uses(s).all for s in statements(body) if not (is_op(s, VIEW) and s.value.args[0].source in sources)))


def _alike(buffers: list) -> bool:
    first = buffers[0]
    return all(dtype_of(b) == dtype_of(first) and _same_shape(b.ty.shape, first.ty.shape) and not len(b.ty.strides) for b in buffers)


def _same_shape(a, b) -> bool:
    analyzer = sym.Analyzer()
    return len(a) == len(b) and all(analyzer.can_prove_equal(x, y) for x, y in zip(a, b))


def _as(e, dtype: str):
    """An index as an integer of `dtype`."""
    known = const_int(e)
    return imm(known, dtype) if known is not None else e if dtype_of(e) == dtype else tirx.Cast(dtype, e)


class _Drop(StmtMutator):
    """Removes the declarations of views."""

    def __init__(self, views):
        self.views = views

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.views else s

    def visit_Evaluate(self, s: Evaluate):
        return None if is_op(s, VIEW) and s.value.args[0].source in self.views else s


class _Resolve(StmtMutator):
    """Accesses to views become accesses to the tensors as they were declared."""

    def __init__(self, sources: dict, func: PrimFunc):
        self.sources = sources
        self.facts, self.beyond = facts_about(func), safe_values(func)
        self.analyzer = self.facts.analyzer
        self.own = {s.var for s in statements(func.body) if isinstance(s, Bind)}
        self.span = None
        for view, (source, span) in sources.items():
            if itemsize(dtype_of(view)) != itemsize(dtype_of(source)):
                raise UnsupportedConstruct(
                    f"{source.name} ({dtype_of(source)}) is used as it is declared and as {dtype_of(view)}: elements of another size",
                    at=span, hint=f"use {source.name} under one name only, or take it as two arguments",
                )  # fmt: skip

    # --- places --------------------------------------------------------------------------------------------------------

    def _linear(self, shape, indices):
        """Number of an element, as an int64 where the tensor may have too many for an int32."""
        if len(shape) == 1:
            return indices[0]
        sizes = [const_int(n) for n in shape]
        dtype = "int64" if None in sizes or math.prod(sizes) >= _INT32_ELEMENTS or "int64" in map(dtype_of, indices) else "int32"
        linear = imm(0, dtype)
        for i, n in zip(indices, shape):
            linear = linear * _as(n, dtype) + _as(i, dtype)
        return linear

    def _indices(self, shape, linear) -> list:
        out: list = []
        for d in reversed(range(len(shape))):
            n = _as(shape[d], dtype_of(linear))
            out.insert(0, self.analyzer.simplify(linear if d == 0 else tirx.FloorMod(linear, n)))
            linear = tirx.FloorDiv(linear, n)
        return [_as(i, dtype_of(n)) for i, n in zip(out, shape)]

    def head(self, view) -> int:
        """Number of dimensions of a view that its tensor does not have."""
        return len(view.ty.shape) - self._common(view.ty.shape, self.sources[view][0].ty.shape)

    def place(self, view, indices):
        """The element of the tensor behind `view[indices]`, as (tensor, indices)."""
        source, _ = self.sources[view]
        head = self.head(view)
        common, tail = len(view.ty.shape) - head, list(indices[head:])
        linear = self._linear(view.ty.shape[:head], indices[:head])
        return source, self._indices(source.ty.shape[: len(source.ty.shape) - common], linear) + tail

    def inside(self, view, indices, data: bool = True):
        """The condition under which `view[indices]` is no element of another row of its tensor, None if it surely is none. Without `data`
        indices that are data are the user's word."""
        terms = []
        for i, n in list(zip(indices, view.ty.shape))[1 : self.head(view)]:
            if data or not loads_in(i):
                terms += [c for c in (i >= imm(0, dtype_of(i)), i < _as(n, dtype_of(i))) if not self.facts.proves(c)]
        return all_of(terms)

    @staticmethod
    def _common(a, b) -> int:
        """Trailing dimensions two shapes share; at least one dimension of each is left."""
        analyzer, count = sym.Analyzer(), 0
        while count < min(len(a), len(b)) - 1 and analyzer.can_prove_equal(a[-1 - count], b[-1 - count]):
            count += 1
        return count

    def region(self, r: TensorRegion) -> TensorRegion:
        """`r` as a region of the tensor. Refuses one that is none, or that cannot be proved to be one."""
        view = r.source
        source, _ = self.sources[view]
        mins, extents = [self.expr(x.min) for x in r.region], [self.expr(x.extent) for x in r.region]
        _, places = self.place(view, mins)
        head = self.head(view)
        last = len(source.ty.shape) - (len(mins) - head) - 1
        ends = [places[last] + extents[head - 1] <= source.ty.shape[last]]
        if head > 1:
            ends += [mins[head - 1] >= 0, mins[head - 1] + extents[head - 1] <= view.ty.shape[head - 1]]
        one = const_int(extents[head - 1]) == 1
        if any(const_int(e) != 1 for e in extents[: head - 1]) or not (one or all(map(self.facts.proves, ends))):
            why = "computes its shape" if self.own & {v for n in view.ty.shape for v in free_vars(n)} else "uses both names"
            raise UnsupportedConstruct(
                f"{view.name}[…] is no region of {source.name} as it is declared, and the kernel {why}", at=self.span,
                hint=f"use {source.name} under one name only, or access its elements inside T.Parallel",
            )  # fmt: skip
        inside = self.inside(view, mins)
        if inside is not None:
            # What is outside of the view is outside of the tensor.
            places[0] = tirx.if_then_else(inside, places[0], _as(source.ty.shape[0], dtype_of(places[0])))
        sizes = [imm(1)] * last + extents[head - 1 :]
        return tirx.BufferRegion(source, [Range.from_min_extent(m, e) for m, e in zip(places, sizes)])

    # --- statements ----------------------------------------------------------------------------------------------------

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.sources:
            indices = [self.expr(i) for i in e.indices]
            (source, place), inside = self.place(e.source, indices), self.inside(e.source, indices, data=False)
            value, dtype = BufferLoad(source, place), dtype_of(e)
            if inside is not None:
                value = tirx.if_then_else(inside, value, imm(self.beyond.get(source, 0), dtype_of(source)))
            return same_bits(value, dtype)
        if is_if_then_else(e):
            cond = self.expr(e.args[0])
            with self.facts.assume(e.args[0]):
                yes = self.expr(e.args[1])
            with self.facts.assume(tirx.Not(e.args[0])):
                return tirx.if_then_else(cond, yes, self.expr(e.args[2]))
        if isinstance(e, tirx.And):
            first = self.expr(e.a)
            with self.facts.assume(e.a):
                return tirx.And(first, self.expr(e.b))
        if isinstance(e, TensorRegion) and e.source in self.sources:
            return self.region(e)
        return map_children(e, self.expr)

    def visit_SeqStmt(self, s: SeqStmt):
        out = []
        with ExitStack() as stack:
            for x in s.seq:
                out.append(self.visit(x))
                assume_rest(x, self.facts, stack)
        return out

    def visit_For(self, s: For):
        with self.facts.loop(s.loop_var, s.extent, s.body):
            return self.generic(s)

    def visit_While(self, s: While):
        with self.facts.repeat(s.condition, s.body):
            return self.generic(s)

    def visit_IfThenElse(self, s: IfThenElse):
        cond, other = self.expr(s.condition), None
        with self.facts.assume(s.condition):
            then = self.block(s.then_case)
        if s.else_case is not None:
            self.facts.wrote_in(s.then_case)
            with self.facts.assume(tirx.Not(s.condition)):
                other = self.block(s.else_case)
        self.facts.wrote_in(s)
        return IfThenElse(cond, then, other, span=s.span)

    def visit_Bind(self, s: Bind):
        self.facts.bind(s.var, s.value)
        if "int" in dtype_of(s.var) and not loads_in(s.value):
            self.analyzer.bind(s.var, s.value)
        return self.generic(s)

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer not in self.sources:
            if is_scalar_var(s.buffer):
                self.facts.wrote(s.buffer)
            return BufferStore(s.buffer, value, indices, span=s.span)
        inside = self.inside(s.buffer, indices, data=False)
        source, indices = self.place(s.buffer, indices)
        store = BufferStore(source, same_bits(value, dtype_of(source)), indices, span=s.span)
        return store if inside is None else if_then(inside, store, span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        self.span = s.span
        views = [v for v in own_uses(s).all if v in self.sources]
        regions = {a.source for a in s.value.args if isinstance(a, TensorRegion)} if views else set()
        for v in views:
            other_type = dtype_of(v) != dtype_of(self.sources[v][0])
            if v in regions and (not is_op(s, *_MOVES) or other_type):
                raise UnsupportedConstruct(
                    f"{v.name} is another name of {self.sources[v][0].name}, which the kernel uses, too", at=s.span,
                    hint="copy it into a tile first" if not other_type else "use the tensor under one name only",
                )  # fmt: skip
        target = s.value.args[0] if is_element_atomic(s) else None
        if target is not None and target.source in self.sources and all(const_int(r.extent) == 1 for r in target.region):
            inside = self.inside(target.source, [self.expr(r.min) for r in target.region], data=False)
            if inside is not None:
                with self.facts.assume(inside):
                    return if_then(inside, self.generic(s), span=s.span)
        return self.generic(s)


__all__ = ["resolve_tensor_views"]
