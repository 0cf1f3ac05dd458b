"""Wrong versions of a kernel, made from its Tile IR: the last tile dropped, a load off by one, operands swapped."""

from __future__ import annotations

from tilelang_ascend.ir import (
    BufferStore,
    Call,
    Evaluate,
    For,
    StmtMutator,
    TensorLoad,
    const_int,
    is_buffer_var,
    op_name,
    region,
    scope_of,
    tirx,
)
from tilelang_ascend.ir.visit import exprs, map_children, statements, walk_expr
from tilelang_ascend.tile import tile_op

_ORDERED = (tirx.Sub, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_UNORDERED = (tirx.Add, tirx.Mul, tirx.Min, tirx.Max)


def _loads(x) -> bool:
    """`x` reads a buffer."""
    found = []
    walk_expr(x, lambda e: found.append(e) if isinstance(e, TensorLoad) else None)
    return bool(found)


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
        if op_name(s) != "tl.copy":
            call = s.value
            if self.changed or not isinstance(call, Call) or not call.args:
                return s
            # The first argument of an atomic update names what is written.
            args = [call.args[0], *(self._load(a) for a in call.args[1:])]
            return Evaluate(Call(call.op, args, attrs=call.attrs, ty_args=list(call.ty_args), span=call.span, ret_ty=call.ty), span=s.span)
        if self.changed or scope_of(s.value.args[0].source) not in ("global", ""):
            return s
        src, dst = s.value.args
        mins, extents = [r.min for r in src.region], [r.extent for r in src.region]
        self.changed = True
        return tile_op("copy", region(src.source, [*mins[:-1], mins[-1] + 1], extents), dst, span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self._load(s.value), s.indices, span=s.span)


class _FirstOperandTwice(_Once):
    """a + b becomes a + a; likewise for other operations in which the order of the operands does not show."""

    def _double(self, x):
        if self.changed or isinstance(x, TensorLoad):
            return x
        if isinstance(x, _UNORDERED) and _loads(x.a) and _loads(x.b) and str(x.a) != str(x.b):
            self.changed = True
            return type(x)(x.a, x.a)
        return map_children(x, self._double)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self._double(s.value), s.indices, span=s.span)


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


def skeleton(func) -> str:
    """What a kernel does, without sizes and dtypes: kinds of statements and expressions in order."""
    kinds = []
    for stmt in statements(func.body):
        kinds.append(f"{type(stmt).__name__} {op_name(stmt) or ''}")
        for e in exprs(stmt):
            walk_expr(e, lambda x: kinds.append(f"{type(x).__name__} {getattr(getattr(x, 'op', None), 'name', '')}"))
    return "\n".join(kinds)


MISTAKES = {
    "the last tile is dropped": _DropLastTile,
    "a load is off by one": _OffByOne,
    "operands are swapped": _SwapOperands,
    "an operand is read twice": _FirstOperandTwice,
}


def perturbed_functions(func, mistakes=tuple(MISTAKES)):
    """(mistake, wrong Tile IR) for every one of `mistakes` that can be made in `func`."""
    for mistake in mistakes:
        change = MISTAKES[mistake]()
        body = change(func.body)
        if change.changed:
            yield mistake, func.with_body(body)
