"""What the statements of one step of a loop compute, element by element, as polynomials (`polynomials`) over what the step finds."""

from __future__ import annotations

import math

from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    attrs_of,
    const_int,
    dtype_of,
    expr_children,
    is_choice,
    op_name,
    statements,
    stmts_of,
    tirx,
)
from ...tile import ATOMIC_ADD, COPY, FILL, GEMM, REDUCE, is_op
from ...tile.nests import nest_of
from ...tile.uses import covers_whole, is_parallel, is_scalar_var, moved_regions, on_chip, own_uses, uses_of, work_of
from .polynomials import (
    INFINITY,
    KEY,
    ZERO,
    Atom,
    add,
    axis,
    const_of,
    constant,
    exponential,
    greatest,
    is_pure,
    of_atom,
    over_keys,
    product,
    renamed,
    scaled,
)
from .split_axis import SplitPlan, copy_dims, spans

EXPONENTIALS = ("tirx.exp", "tirx.exp2")
_ROUNDED = ("float16", "bfloat16", "float32", "float64")
"""What is converted to one of these stays what it is but for rounding; 8-bit floats lose weights that are small beside the largest."""


class NoRunningSum(Exception):
    """Why a loop is none. `span`: of the statement."""

    def __init__(self, reason: str, span=None):
        super().__init__(reason)
        self.reason, self.span = reason, span


def identity(b) -> tuple:
    """The index of an element of a buffer as the buffer counts."""
    return tuple(0 if const_int(n) == 1 else axis(d) for d, n in enumerate(b.ty.shape))


def _only_added_to(body: Stmt) -> set:
    """Tensors that `body` does nothing with but add tiles to them."""
    found = [(s, own_uses(s)) for s in statements(body)]
    tensors = {b for _, uses in found for b in uses.all if not on_chip(b) and not is_scalar_var(b)}
    return tensors - {b for s, uses in found if not (is_op(s, ATOMIC_ADD) and moved_regions(s) is not None) for b in uses.all}


class StepValues:
    """Values of tiles while the statements of one step are followed; an element is described by its index, in terms of `axis(d)`.

    of: tile -> value. written: what the loop writes. found_old: of it, what is read before.
    """

    def __init__(self, loop: For, keys: SplitPlan):
        self.keys, self.span = keys, loop.span
        added = _only_added_to(loop.body)
        self.written = [b for b in uses_of(loop.body).writes if b not in added]
        self.of: dict = {}
        self.found_old: set = set()
        self.numbers: dict = {}
        self.fresh = 0
        if any(not on_chip(b) and not is_scalar_var(b) for b in self.written):
            raise NoRunningSum("a step stores to global memory", loop.span)

    # -- atoms --------------------------------------------------------------------------------------------------
    def number(self, b) -> int:
        return self.numbers.setdefault(b, len(self.numbers))

    def token(self, v: Var) -> str:
        """A loop variable as an index."""
        return f"loop {self.number(v)}"

    def old(self, b, index: tuple) -> Atom:
        """An element of what the step before left."""
        return Atom("old", (self.number(b),), index)

    def buffer_of(self, old: Atom):
        return next(b for b, n in self.numbers.items() if n == old.args[0])

    def unknown(self, index, parts) -> tuple:
        """Something made of `parts`, of which nothing is known but whether steps change it."""
        self.fresh += 1
        kind = "known" if all(is_pure(p) for p in parts) else "mixed"
        return of_atom(Atom(kind, (self.fresh,), tuple(index)))

    def read(self, b, index: tuple) -> tuple:
        """The value of an element of a tile or variable."""
        if b in self.of:
            where = {axis(d): i for d, i in enumerate(index)}
            return renamed(self.of[b], lambda i: where.get(i, i))
        if b not in self.written:
            return of_atom(Atom("known", (f"b{self.number(b)}",), index))
        self.found_old.add(b)
        return of_atom(self.old(b, index))

    # -- statements ---------------------------------------------------------------------------------------------
    def statement(self, s: Stmt) -> None:
        if isinstance(s, AllocBuffer):
            return
        if isinstance(s, Bind):
            self.of[s.var] = self.value(s.value, ())
        elif is_parallel(s):
            loops, body = nest_of(s)
            self.block(body, tuple(self.token(v) for v, _ in loops), {self.token(v): const_int(n) for v, n in loops})
        elif is_op(s, COPY):
            self.copy(s)
        elif is_op(s, FILL):
            self.store(s, s.value.args[0], self.value(s.value.args[1], ()))
        elif is_op(s, REDUCE):
            self.reduce(s)
        elif is_op(s, GEMM):
            self.gemm(s)
        elif is_op(s, ATOMIC_ADD) and moved_regions(s) is not None:
            self.add_to_memory(s, *moved_regions(s))
        elif not (isinstance(s, Evaluate) and work_of(s) is None and not uses_of(s).all):
            raise NoRunningSum("a step does something else than transfers, element-wise work, reductions and products", s.span)

    def store(self, s: Stmt, region: TensorRegion, value) -> None:
        """`value` of the whole region."""
        b = region.source
        value = self.converted(value, dtype_of(b))
        self.of[b] = value if covers_whole(region) else self.unknown(identity(b), [value, self.read(b, identity(b))])

    def converted(self, value, dtype: str):
        """`value` as what `dtype` makes of it; what does not depend on steps does not afterwards."""
        if dtype in _ROUNDED or is_pure(value):
            return value
        return self.unknown(tuple({i for atoms, _ in value for a in atoms for i in a.index}), [value])

    def copy(self, s: Evaluate) -> None:
        src, dst = s.value.args
        if not on_chip(dst.source):
            raise NoRunningSum("a step stores to global memory", s.span)
        value = self.region(src)
        pairs = dict((a, b) for a, b in copy_dims(src, dst)) if covers_whole(src) and covers_whole(dst) and on_chip(src.source) else None
        sizes = [const_int(n) for n in src.source.ty.shape]
        if pairs is None or any(n != 1 and pairs.get(d) is None for d, n in enumerate(sizes)):
            value = self.unknown(identity(dst.source), [value])
        else:
            places = identity(dst.source)
            value = renamed(value, lambda i: next((places[pairs[d]] for d, n in enumerate(sizes) if n != 1 and i == axis(d)), i))
        self.store(s, dst, value)

    def add_to_memory(self, s: Stmt, src: TensorRegion, dst: TensorRegion) -> None:
        """Every key adds to elements of its own, when does not matter: but not what other steps change."""
        if dst.source in self.written or src.source not in self.keys.dims or not is_pure(self.region(src)):
            raise NoRunningSum("a step adds more to global memory than what its keys alone make", s.span)

    def region(self, r: TensorRegion) -> tuple:
        """The value of the elements of a region."""
        return self.read(r.source, identity(r.source)) if on_chip(r.source) else self.unknown((), [])

    def reduce(self, s: Evaluate) -> None:
        src, dst = s.value.args
        attrs, b = attrs_of(s), dst.source
        dim, kind = int(attrs["dim"]) % len(src.region), str(attrs["kind"])
        value = self.region(src)
        if self.keys.dims.get(src.source) != dim or not covers_whole(src):
            result = self.unknown(identity(b), [value])
            old = self.unknown(identity(b), [self.region(dst)]) if not int(attrs.get("clear", 1)) else None
            result = result if old is None else self.unknown(identity(b), [result, old])
            return self.store(s, dst, result)
        kept = [d for d in range(len(src.region)) if d != dim]
        same_rank = len(dst.region) == len(src.region)
        targets = kept if same_rank else list(range(len(dst.region)))
        if len(kept) != len(targets):
            raise NoRunningSum("a reduction has a result of another rank", s.span)
        place = {axis(dim): KEY} | {axis(d): identity(b)[t] for d, t in zip(kept, targets)}
        value = renamed(value, lambda i: place.get(i, i))
        if kind == "sum":
            result = of_atom(over_keys("key_sum", value))
        elif kind == "max":
            result = of_atom(over_keys("key_max", value))
        else:
            result = of_atom(over_keys("key_other", value))
        if not int(attrs.get("clear", 1)):
            old = self.region(dst)
            result = add(old, result) if kind == "sum" else greatest([old, result]) if kind == "max" else self.unknown((), [old, result])
        self.store(s, dst, result)

    def has_all_keys(self, r: TensorRegion) -> bool:
        """True if a region has every key of its tile, where that counts keys."""
        return r.source not in self.keys.dims or spans(r, self.keys.dims[r.source])

    def gemm(self, s: Evaluate) -> None:
        a, b, c, clear = s.value.args
        attrs = attrs_of(s)
        m, k_a = (1, 0) if int(attrs["transpose_A"]) else (0, 1)
        k_b, n = (1, 0) if int(attrs["transpose_B"]) else (0, 1)
        summed = self.keys.dims.get(a.source) == k_a
        if any(len(r.region) != 2 for r in (a, b, c)) or const_int(clear) is None or not covers_whole(c):
            raise NoRunningSum("a product ends in a part of a tile, or starts anew in some steps", s.span)
        if not all(map(covers_whole if summed else self.has_all_keys, (a, b))):
            raise NoRunningSum("a product is of parts of tiles", s.span)
        rows, columns = identity(c.source)
        old = ZERO if const_int(clear) else self.region(c)
        left, right = self.region(a), self.region(b)
        if summed:
            left = renamed(left, lambda i: {axis(m): rows, axis(k_a): KEY}.get(i, i))
            right = renamed(right, lambda i: {axis(n): columns, axis(k_b): KEY}.get(i, i))
            value = add(old, of_atom(over_keys("key_sum", product(left, right))))
        else:
            value = self.unknown((rows, columns), [left, right, old])
        self.store(s, c, value)

    def block(self, body: Stmt, loops: tuple, extents: dict, condition=None) -> None:
        """What one iteration of a nest does, for all of them."""
        for s in stmts_of(body):
            if isinstance(s, BufferStore):
                self.element(s, loops, extents, condition)
            elif isinstance(s, Bind):
                self.of[s.var] = self.value(s.value, loops)
            elif isinstance(s, IfThenElse):
                decides = [self.value(s.condition, loops), *([] if condition is None else [condition])]
                decides = self.unknown(loops, decides)
                self.block(s.then_case, loops, extents, decides)
                if s.else_case is not None:
                    self.block(s.else_case, loops, extents, decides)
            else:
                raise NoRunningSum("a nest does something else than to store elements", s.span)

    def element(self, s: BufferStore, loops: tuple, extents: dict, condition) -> None:
        b = s.buffer
        value = self.converted(self.value(s.value, loops), dtype_of(b))
        if is_scalar_var(b):
            self.of[b] = value if condition is None else self.unknown(loops, [value, condition, self.read(b, ())])
            return
        index = self.index(b, s.indices)
        used = [i for i in index if i in extents]
        if len({*used}) != len(used) or any(v not in used and extents[v] != 1 for v in loops):
            raise NoRunningSum("several iterations of a nest store to one element", s.span)
        whole = all(i == 0 or i in extents and extents[i] == const_int(n) for i, n in zip(index, b.ty.shape))
        place = dict(zip(index, identity(b)))
        new = renamed(value, lambda i: place.get(i, i) if i in extents else i)
        if whole and condition is None:
            self.of[b] = new
        else:
            parts = [new, self.read(b, identity(b)), *([] if condition is None else [condition])]
            self.of[b] = self.unknown(identity(b), parts)

    # -- expressions --------------------------------------------------------------------------------------------
    def value(self, e, loops: tuple) -> tuple:
        """The value of an expression in an iteration of a nest with these loop variables."""
        if isinstance(e, (tirx.IntImm, tirx.FloatImm)):
            return constant(float(e.value)) if dtype_of(e).startswith(("float", "bfloat")) else self.unknown(loops, [])
        if isinstance(e, Var) and e in self.of:
            return self.of[e]
        if isinstance(e, TensorLoad):
            return self.load(e, loops)
        if is_choice(e):
            return self.choice(e, loops)
        parts = [self.value(x, loops) for x in expr_children(e)]
        if dtype_of(e).startswith(("float", "bfloat")):
            known = self.arithmetic(e, parts)
            if known is not None:
                return known
        return self.unknown(loops, parts)

    def arithmetic(self, e, parts: list):
        """The value of a sum, product, maximum, exponential or conversion of `parts`; None if it is something else."""
        if isinstance(e, tirx.Max):
            return greatest(parts)
        if not all(math.isfinite(c) for p in parts for _, c in p):
            return None
        if isinstance(e, tirx.Add):
            return add(*parts)
        if isinstance(e, tirx.Sub):
            return add(parts[0], scaled(parts[1], -1.0))
        if isinstance(e, tirx.Mul):
            return product(*parts)
        if isinstance(e, tirx.Cast) and dtype_of(e.value).startswith(("float", "bfloat")):
            return self.converted(parts[0], dtype_of(e))
        if isinstance(e, tirx.Div) and const_of(parts[1]) not in (None, 0.0):
            return scaled(parts[0], 1.0 / const_of(parts[1]))
        if op_name(e) in EXPONENTIALS:
            return of_atom(exponential(op_name(e), parts[0]))
        return None

    def load(self, e: TensorLoad, loops: tuple) -> tuple:
        b = e.source
        index = self.index(b, e.indices)
        if on_chip(b) and all(i == 0 or i in loops for i in index):
            return self.read(b, index)
        if is_scalar_var(b):
            return self.read(b, ())
        inner = [self.value(i, loops) for i in e.indices]
        return self.unknown(loops, [*inner, *([self.read(b, identity(b))] if on_chip(b) else [])])

    def index(self, b, indices) -> tuple:
        """Indices of an element: loop variables, 0 where there is but one, None for anything else."""
        found = (0 if const_int(n) == 1 else self.token(i) if isinstance(i, Var) else None for i, n in zip(indices, b.ty.shape))
        return tuple(found)

    def choice(self, e, loops: tuple) -> tuple:
        """`c ? x : 0` multiplies by 0 or 1; `m == -inf ? a : m` stands for m where it is subtracted in an exponent."""
        condition, yes, no = expr_children(e)
        guarded = self.guard(condition, yes, no, loops)
        if guarded is not None:
            return guarded
        decides, a, b = (self.value(x, loops) for x in (condition, yes, no))
        if is_pure(decides) and ZERO in (a, b) and not is_pure(add(a, b)):
            return product(self.unknown(loops, [decides]), b if a == ZERO else a)
        return self.unknown(loops, [decides, a, b])

    def guard(self, condition, yes, no, loops: tuple):
        """The value of `m == -inf ? number : m`, or of the same with !=; None if it is something else."""
        if not isinstance(condition, (tirx.EQ, tirx.NE)):
            return None
        number, other = (yes, no) if isinstance(condition, tirx.EQ) else (no, yes)
        sides = [self.value(condition.a, loops), self.value(condition.b, loops)]
        instead, m = const_of(self.value(number, loops)), self.value(other, loops)
        if instead is None or not math.isfinite(instead) or constant(-INFINITY) not in sides or m not in sides or is_pure(m):
            return None  # Also of a score: its weight would not be 0.
        return of_atom(Atom("guard", (m,), ()))


__all__ = ["EXPONENTIALS", "NoRunningSum", "StepValues", "identity"]
