"""separate_products: a matrix product that is added to what vector statements made becomes a product of its own and an addition.

Before:  Parallel: acc_o[i, j] *= scale[i]; gemm(P_s, V_s, acc_o)
After:   Parallel: acc_o[i, j] *= scale[i]; fill(product, 0); gemm(P_s, V_s, product);
         Parallel: acc_o[i, j] = acc_o[i, j] + product[i, j]

Nothing moves a tile into L0C, so that only the cube core can have made what it adds to. What comes from where is a question of data flow:
a gemm is taken apart if on some way to it the last writer of its accumulator was no gemm (a fill with zero can be done on either side).
Products that follow each other without a look at the accumulator in between share one tile and one addition, and so do those of a loop
that does nothing else with it.

Requires: Tile IR without views, clears as fills where they can be. Ensures: no gemm accumulates on what a vector statement may have written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorRegion,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    full_region,
    imm,
    parallel_nest,
    scope_of,
    seq,
    statements,
    structural_equal,
    tirx,
)
from ...ir.grids import rewrite_grid_bodies
from ...tile import FILL, GEMM, is_op, with_args
from ...tile.clears import gemm_args, zero_fill
from ...tile.uses import covers_whole, is_parallel, own_uses, uses_of
from ...tileop.base.layout import ACCUMULATED_IN

CUBE, VECTOR = "cube", "vector"


class _Origins:
    """A walk in execution order. `of[c]`: kinds of statements that may have written the value of the accumulator c last."""

    def __init__(self, body: Stmt, apart: set):
        self.apart = apart
        self.accumulators = {s.value.args[2].source for s in statements(body) if is_op(s, GEMM)}
        self.of: dict = {}
        self.leaving: list = []
        self.found: set = set()

    def visit(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.visit(x)
        elif isinstance(s, (For, While)) and not is_parallel(s):
            self.loop(s)
        elif isinstance(s, IfThenElse):
            before = dict(self.of)
            self.visit(s.then_case)
            after, self.of = self.of, before
            if s.else_case is not None:
                self.visit(s.else_case)
            self.of = _joined(self.of, after)
        elif isinstance(s, (Break, Continue)):
            self.leaving[-1].append(dict(self.of))
        elif is_op(s, GEMM):
            self.gemm(s)
        elif is_op(s, FILL) and s.value.args[0].source in self.accumulators and _is_zero(s.value.args[1]):
            if covers_whole(s.value.args[0]):
                self.of[s.value.args[0].source] = frozenset()
        else:
            for c in uses_of(s).writes & self.accumulators:
                self.of[c] = frozenset({VECTOR})

    def gemm(self, s: Evaluate) -> None:
        _, _, c, clear = gemm_args(s)
        before = self.of.get(c.source, frozenset())
        starts_anew = const_int(clear) == 1 and covers_whole(c)
        if VECTOR in before and not starts_anew:
            self.found.add(s)
        self.of[c.source] = frozenset({VECTOR}) if s in self.apart else frozenset({CUBE}) if starts_anew else before | {CUBE}

    def loop(self, s) -> None:
        while True:
            before = dict(self.of)
            self.leaving.append([])
            self.visit(s.body)
            for way in (before, *self.leaving.pop()):
                self.of = _joined(self.of, way)
            if self.of == before:
                return


def _joined(a: dict, b: dict) -> dict:
    return {c: a.get(c, frozenset()) | b.get(c, frozenset()) for c in a.keys() | b.keys()}


def _is_zero(value) -> bool:
    return getattr(value, "value", None) == 0


def products_to_separate(body: Stmt) -> set:
    """The gemms that may find the work of a vector statement in their accumulators, if those found already are taken apart."""
    apart: set = set()
    while True:
        origins = _Origins(body, apart)
        origins.visit(body)
        if origins.found <= apart:
            return apart
        apart |= origins.found


@dataclass
class _Product:
    """A tile for products that are added to `target`, a region of an accumulator, together."""

    target: TensorRegion
    start: object
    """The clear condition of the first of them: under it the old value does not count."""
    buffer: object = field(init=False)

    def __post_init__(self):
        c = self.target.source
        shape = [const_int(r.extent) for r in self.target.region]
        self.buffer = decl_buffer(shape, ACCUMULATED_IN.get(dtype_of(c), dtype_of(c)), f"{c.name}_product", scope=scope_of(c))

    def add(self, span) -> Stmt:
        """The statement that adds it."""
        c, dtype = self.target.source, dtype_of(self.buffer)
        axes = [(tirx.Var(f"i{k}", "int32"), imm(n)) for k, n in enumerate(int(n) for n in self.buffer.ty.shape)]
        inner = [v for v, _ in axes]
        outer = [r.min + v for r, v in zip(self.target.region, inner)]
        old, new = _as(BufferLoad(c, outer), dtype), BufferLoad(self.buffer, inner)
        if const_int(self.start) is None:
            old = tirx.if_then_else(self.start, imm(0, dtype), old)
        value = _as(new if const_int(self.start) else old + new, dtype_of(c))
        return parallel_nest(axes, BufferStore(c, value, outer), span)


def _as(e, dtype: str):
    return e if dtype_of(e) == dtype else tirx.Cast(dtype, e)


class _Separate(StmtMutator):
    def __init__(self, apart: set):
        self.apart, self.allocs = apart, []

    def visit_SeqStmt(self, s: SeqStmt):
        return self.statements(list(s.seq))

    def statements(self, block: list) -> Stmt:
        out = []
        while block:
            target, taken = self.group(block)
            if target is None:
                out.append(self.visit(block.pop(0)))
            else:
                # What is left may hold products for other accumulators.
                block = self.separated(target, block[:taken]) + block[taken:]
        return seq(*out)

    def visit_Evaluate(self, s: Evaluate):
        return self.statements([s]) if s in self.apart else s

    def visit_For(self, s: For):
        return self.generic(s) if self.group([s])[0] is None else self.statements([s])

    visit_While = visit_For

    def group(self, block: list) -> tuple:
        """(region, n): the first n statements of a block do nothing with an accumulator but add products to one region of it, and the first
        of them is to be taken apart; statements in between may do what else they like. (None, 0) if there is no such region."""
        found = next((t for g in statements(block[0]) if g in self.apart and (t := only_target(block[0], g.value.args[2].source))), None)
        taken = 0
        for n, s in enumerate(block if found is not None else [], 1):
            other = only_target(s, found.source)
            if n == 1 or other is not None and _same_place(other, found) and _plain(s, found.source):
                taken = n
                if not _plain(s, found.source):
                    break
            elif found.source in uses_of(s).all or _variables(found) & _definitions(s):
                break
        return found, taken

    def separated(self, target: TensorRegion, block: list) -> list:
        start = imm(False, "bool") if _plain(block[0], target.source) else gemm_args(block[0])[3]
        product = _Product(target, start)
        self.allocs.append(AllocBuffer(product.buffer))
        retarget, span = _Retarget(target.source, product.buffer), block[-1].span
        return [zero_fill(full_region(product.buffer), span), *map(retarget.visit, block), product.add(span)]


class _Retarget(StmtMutator):
    """Gemms into an accumulator go to another buffer."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit_Evaluate(self, s: Evaluate):
        args = gemm_args(s)
        if args is None or not args[2].source.same_as(self.old):
            return s
        return with_args(s, [*args[:2], full_region(self.new), imm(False, "bool")])


def only_target(s: Stmt, c) -> TensorRegion | None:
    """The region of the accumulator `c` to which a gemm, or a loop, adds products if it does nothing else with it, and the region is the
    same all the time."""
    if not isinstance(s, (For, While)) and not is_op(s, GEMM):
        return None
    targets = []
    for x in statements(s):
        if is_op(x, GEMM) and x.value.args[2].source.same_as(c) and not any(r.source.same_as(c) for r in x.value.args[:2]):
            targets.append(x.value.args[2])
        elif c in own_uses(x).all:
            return None
    if not targets or any(not _same_place(t, targets[0]) for t in targets):
        return None
    if isinstance(s, (For, While)) and (not _plain(s, c) or _variables(targets[0]) & _definitions(s)):
        return None
    return targets[0]


def _plain(s: Stmt, c) -> bool:
    """True if all products for `c` in a statement add to what is there."""
    gemms = [g for g in statements(s) if is_op(g, GEMM) and g.value.args[2].source.same_as(c)]
    return all(const_int(g.value.args[3]) == 0 for g in gemms)


def _same_place(a: TensorRegion, b: TensorRegion) -> bool:
    return a.source.same_as(b.source) and all(
        structural_equal(x.min, y.min) and structural_equal(x.extent, y.extent) for x, y in zip(a.region, b.region)
    )


def _variables(r: TensorRegion) -> set:
    """Variables in the bounds of a region."""
    return set().union(*(free_vars(e) for x in r.region for e in (x.min, x.extent)))


def _definitions(s: Stmt) -> set:
    """Variables that a statement binds or changes."""
    inside = list(statements(s))
    loops, binds = {x.loop_var for x in inside if isinstance(x, For)}, {x.var for x in inside if isinstance(x, Bind)}
    return loops | binds | uses_of(s).writes


def separate_products(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""

    def rewrite(body):
        apart = products_to_separate(body)
        if not apart:
            return body
        separate = _Separate(apart)
        new = separate.visit(body)
        return seq(*separate.allocs, new)

    return rewrite_grid_bodies(func, rewrite)


__all__ = ["separate_products"]
