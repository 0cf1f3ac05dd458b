"""bind_elements: elements of tiles that decide what a kernel does are read into scalars, and only where their conditions hold.

Before:  if s[0] > 0: copy(A[s[1], 0], t); while s[0] > 1: s[0] = s[0] / 2; if exp(y) < 2: …; if i < 5 and w[i] > 0: …
After:   a = s[0]; if a > 0: b = s[1]; copy(A[b, 0], t)
         c = s[0]; again = c > 1; while again: s[0] = s[0] / 2; d = s[0]; again = d > 1
         e = exp(y); if e < 2: …
         both = i < 5; if both: both = w[i] > 0; if both: …

Conditions, bounds of loops and regions and values of tile ops are computed by the scalar unit; what reads a tile, or is computed by the vector
unit, has to be a statement of its own: the tile is current there, and only vector cores do it. So has what reads a tensor that the kernel writes.
The second operand of `and`, `or` and the branches of `T.if_then_else` are evaluated only if they count: an element outside of its buffer is then never
read. What a condition reads of a tensor in GM is another element of it where it does not count, and needs no branch.

Requires: Tile IR. Ensures: elements of tiles are read by stores, lets, element-wise nests and output only; no scalar expression evaluates an
element that may lie outside of its buffer where it does not count.
"""

from __future__ import annotations

from ...analysis.index.data_names import DataNames
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Continue,
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
    Var,
    While,
    decl_buffer,
    dtype_of,
    free_vars,
    if_then,
    imm,
    is_if_then_else,
    map_children,
    seq,
    sym,
    tirx,
)
from ...tile import ASSUME, GEMM, IM2COL, is_op, tile_op_of, with_args
from ...tile.conditions import anywhere, can_be_anywhere
from ...tile.uses import is_output, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, uses_of
from ...tileop.scalar.loops import is_function
from ...tileop.vector.nest.expressions import has_function


def _elements(e) -> list[TensorLoad]:
    """Elements of memory an expression reads."""
    return [x for x in loads_in(e) if not is_scalar_var(x.source)]


class _Bind(StmtMutator):
    """written: tensors elements of which one core alone may be able to read at the right time, as those of tiles."""

    def __init__(self, body: Stmt):
        self.written, self.analyzer = uses_of(body).writes, sym.Analyzer(DataNames(body, variables=True))
        self.tests: list = []
        """For each loop around: statements that evaluate its condition again, None for loops that need none."""

    def named(self, buffer) -> bool:
        """True if what reads an element has to be a statement of its own."""
        return on_chip(buffer) or buffer in self.written

    # -- expressions --------------------------------------------------------------------------------------------
    def may_miss(self, e) -> bool:
        """True if an element `e` reads may lie outside of its buffer."""
        return any(not self.analyzer.can_prove(tirx.And(i >= 0, i < n)) for x in _elements(e) for i, n in zip(x.indices, x.source.ty.shape))

    def may_be_read(self, e, named) -> bool:
        """True if `e` may be evaluated whatever holds, with other elements for those outside of their tensors."""
        return can_be_anywhere(e) and not has_function(e) and not any(self.named(x.source) or named(x.source) for x in _elements(e))

    def scalar(self, e, out: list, span, named=lambda buffer: False, functions: bool = False):
        """`e` with elements of the buffers for which `named` holds as variables, with `functions` their values, too, and what is evaluated only
        sometimes in variables that branches set; all defined by statements appended to `out`."""

        def go(x):
            if isinstance(x, (int, float)) or not (_elements(x) or functions and has_function(x)):
                return x
            if functions and is_function(x):
                var = Var("computed", dtype_of(x))
                out.append(Bind(var, map_children(x, go), span=span))
                return var
            if isinstance(x, TensorLoad) and not is_scalar_var(x.source):
                load = BufferLoad(x.source, [go(i) for i in x.indices])
                if not named(x.source):
                    return load
                var = Var(f"{x.source.name}_v", dtype_of(x.source))
                out.append(Bind(var, load, span=span))
                return var
            if isinstance(x, (tirx.And, tirx.Or)) and self.may_miss(x.b):
                first = go(x.a)
                if self.may_be_read(x.b, named):
                    if loads_in(first):
                        out.append(Bind(name := Var("holds", "bool"), first, span=span))
                        first = name
                    counts = first if isinstance(x, tirx.And) else tirx.Not(first)
                    return type(x)(first, go(anywhere(x.b, counts)))
                return self.chosen("holds", "bool", first, x.b if isinstance(x, tirx.And) else None, x.b, out, span, named)
            if is_if_then_else(x) and any(self.may_miss(a) for a in x.args[1:]):
                # The choice is a branch: its condition is the scalar unit's, wherever its value goes.
                cond = self.scalar(x.args[0], out, span, self.named, functions=True)
                return self.selected(cond, x.args[1], x.args[2], dtype_of(x), out, span, named)
            return map_children(x, go)

        return go(e)

    def chosen(self, name: str, dtype: str, first, both, second, out: list, span, named):
        """`first and second` (where `both` is given) or `first or second`."""
        var, place = self.variable(name, dtype, out)
        inner: list = []
        value = self.scalar(second, inner, span, named)
        out.append(BufferStore(var, first, [imm(0)], span=span))
        out.append(
            if_then(place if both is not None else tirx.Not(place), seq(inner, BufferStore(var, value, [imm(0)], span=span)), span=span)
        )
        return place

    def selected(self, cond, yes, no, dtype: str, out: list, span, named):
        var, place = self.variable("chosen", dtype, out)
        sides = []
        for e in (yes, no):
            inner: list = []
            value = self.scalar(e, inner, span, named)
            sides.append(seq(inner, BufferStore(var, value, [imm(0)], span=span)))
        out.append(if_then(cond, *sides, span=span))
        return place

    @staticmethod
    def variable(name: str, dtype: str, out: list):
        var = decl_buffer((1,), dtype, name, scope="local.var")
        out.append(AllocBuffer(var))
        return var, BufferLoad(var, [imm(0)])

    # -- control flow -------------------------------------------------------------------------------------------
    def visit_For(self, s: For):
        out: list = []
        extent = self.scalar(s.extent, out, s.span, self.named, functions=not is_parallel(s))
        self.analyzer.bind(s.loop_var, Range.from_min_extent(imm(0, dtype_of(s.loop_var)), extent))
        if is_parallel(s):
            s = s if extent.same_as(s.extent) else _with(s, extent, s.body)
            nest = self.counted(s, out)
            return [*out, nest]
        body = self.inside(s.body, None)
        return [*out, s if body.same_as(s.body) and extent.same_as(s.extent) else _with(s, extent, body)]

    def counted(self, nest: For, out: list) -> For:
        """`nest` with extents that call functions or read memory in variables: later passes repeat them in bounds of transfers and masks."""
        body, extent = nest.body, nest.extent
        if isinstance(body, For) and body.kind == nest.kind and nest.loop_var not in free_vars(body.extent):
            body = self.counted(body, out)
        if has_function(extent) or _elements(extent):
            extent = Var("extent", dtype_of(extent))
            out.append(Bind(extent, nest.extent, span=nest.span))
        return nest if body is nest.body and extent is nest.extent else _with(nest, extent, body)

    def visit_IfThenElse(self, s: IfThenElse):
        out: list = []
        cond = self.scalar(s.condition, out, s.span, self.named, functions=True)
        then = self.block(s.then_case)
        other = self.block(s.else_case) if s.else_case is not None else None
        return [*out, IfThenElse(cond, then, other, span=s.span)]

    def visit_While(self, s: While):
        found, jumps = _elements(s.condition), _continues(s.body)
        lazy: list = []
        self.scalar(s.condition, lazy, s.span, functions=True)
        if not lazy and not any(self.named(x.source) for x in found) and not (found and jumps):
            return While(s.condition, self.inside(s.body, None), span=s.span)
        declared: list = []
        var, place = self.variable("again", "bool", declared)

        def test() -> list:
            out: list = []
            cond = self.scalar(s.condition, out, s.span, self.named, functions=True)
            return [*out, BufferStore(var, cond, [imm(0)], span=s.span)]

        return [*declared, *test(), While(place, seq(self.inside(s.body, test), test()), span=s.span)]

    def inside(self, body: Stmt, test) -> Stmt:
        self.tests.append(test)
        new = self.block(body)
        self.tests.pop()
        return new

    def visit_Continue(self, s: Continue):
        test = self.tests[-1] if self.tests else None
        return s if test is None else [*test(), s]

    # -- statements ---------------------------------------------------------------------------------------------
    def visit_Bind(self, s: Bind):
        out: list = []
        value = self.scalar(s.value, out, s.span)
        if dtype_of(s.var).startswith("int") and not loads_in(value):
            self.analyzer.bind(s.var, value)
        return [*out, Bind(s.var, value, span=s.span)] if out else s

    def visit_BufferStore(self, s: BufferStore):
        out: list = []
        value, indices = self.scalar(s.value, out, s.span), [self.scalar(i, out, s.span) for i in s.indices]
        return [*out, BufferStore(s.buffer, value, indices, span=s.span)] if out else s

    def visit_Evaluate(self, s: Evaluate):
        if tile_op_of(s) in (None, ASSUME):
            return s
        out: list = []
        # Transfers read what they need of GM themselves; output reads tiles.
        wanted = self.named if moved_regions(s) is not None else lambda b: not is_scalar_var(b)
        values, functions = (lambda b: False) if is_output(s) else wanted, is_op(s, GEMM, IM2COL)
        args = [
            self.region(a, out, s.span, wanted) if isinstance(a, TensorRegion) else self.scalar(a, out, s.span, values, functions)
            for a in s.value.args
        ]
        if all(a.same_as(b) for a, b in zip(args, s.value.args)):
            return s
        return [*out, with_args(s, args)]

    def region(self, r: TensorRegion, out: list, span, named) -> TensorRegion:
        if not any(_elements(e) or has_function(e) for x in r.region for e in (x.min, x.extent)):
            return r
        first, extent = ([self.scalar(e, out, span, named, True) for e in ends] for ends in zip(*((x.min, x.extent) for x in r.region)))
        return tirx.BufferRegion(r.source, [Range.from_min_extent(a, b) for a, b in zip(first, extent)])


def _with(s: For, extent, body: Stmt) -> For:
    return For(s.loop_var, s.min, extent, s.kind, body, annotations=dict(s.annotations), span=s.span)


def _continues(body: Stmt) -> bool:
    """True if `body` holds a `continue` of the loop whose body it is."""
    if isinstance(body, Continue):
        return True
    if isinstance(body, SeqStmt):
        return any(_continues(x) for x in body.seq)
    if isinstance(body, IfThenElse):
        return _continues(body.then_case) or body.else_case is not None and _continues(body.else_case)
    return False


def bind_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function; functions whose control flow reads no memory stay as they are."""
    return func.with_body(_Bind(func.body)(func.body))


__all__ = ["bind_elements"]
