"""Matrix products apart from what they are added to: a product of its own, and an element-wise addition."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from ..ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorRegion,
    While,
    as_dtype,
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
from . import GEMM, is_op, tile_op, with_args
from .clears import gemm_args, is_zero_fill, multiplies_own, zero_fill
from .jumps import may_leave
from .uses import covers_whole, own_uses, uses_of

ACCUMULATED_IN = {"float16": "float32", "bfloat16": "float32"}
"""L0C holds 32-bit numbers; the way out rounds them to the dtype the user gave the accumulator."""


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
        """The statement that adds it, or stores it where it is all there is."""
        if const_int(self.start) == 1:
            return tile_op("copy", full_region(self.buffer), self.target, span=span)
        c, dtype = self.target.source, dtype_of(self.buffer)
        axes = [(tirx.Var(f"i{k}", "int32"), imm(n)) for k, n in enumerate(int(n) for n in self.buffer.ty.shape)]
        inner = [v for v, _ in axes]
        outer = [r.min + v for r, v in zip(self.target.region, inner)]
        old, new = as_dtype(BufferLoad(c, outer), dtype), BufferLoad(self.buffer, inner)
        if const_int(self.start) is None:
            old = tirx.if_then_else(self.start, imm(0, dtype), old)
        return parallel_nest(axes, BufferStore(c, as_dtype(old + new, dtype_of(c)), outer), span)


class _Separate(StmtMutator):
    """alone: those of the products `apart` that do not go together with others of their loop."""

    def __init__(self, apart: set, alone: Set):
        self.apart, self.alone, self.allocs = apart, alone, []

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
                cleared = _cleared(out, target, block[:taken])
                block = self.separated(target, block[:taken], cleared is not None) + block[taken:]
                out = [s for s in out if s is not cleared]
        return seq(*out)

    def visit_Evaluate(self, s: Evaluate):
        return self.statements([s]) if s in self.apart else s

    def visit_For(self, s: For):
        return self.generic(s) if self.group([s])[0] is None else self.statements([s])

    visit_While = visit_For

    def group(self, block: list) -> tuple:
        """(region, n): the first n statements of a block do nothing with an accumulator but add products to one region of it, and the first
        of them is to be taken apart; statements in between may do what else they like but leave the iteration. (None, 0) if there is no such
        region."""
        inside = [g for g in statements(block[0]) if g in self.apart and (g is block[0] or g not in self.alone)]
        found = next((t for g in inside if (t := only_target(block[0], g.value.args[2].source))), None)
        taken = 0
        for n, s in enumerate(block if found is not None else [], 1):
            other = only_target(s, found.source)
            if n == 1 or other is not None and _same_place(other, found) and _plain(s, found.source) and not multiplies_own(s):
                taken = n
                if s in self.alone or not _plain(s, found.source):
                    break
            elif found.source in uses_of(s).all or _variables(found) & _definitions(s) or may_leave(s):
                break
        return found, taken

    def separated(self, target: TensorRegion, block: list, cleared: bool) -> list:
        """`block` with a tile of its own for the products, and what adds it; `cleared`: to zeros."""
        start = imm(cleared, "bool") if cleared or _plain(block[0], target.source) else gemm_args(block[0])[3]
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


def _cleared(front: list, target: TensorRegion, block: list) -> Stmt | None:
    """The fill with zero that nothing but the products of `block` finds: the statement in `front` of them that used their accumulator last."""
    c = target.source
    for s in reversed(front):
        if may_leave(s):
            return None
        if c in uses_of(s).all:
            alone = is_zero_fill(s) and covers_whole(s.value.args[0]) and covers_whole(target) and not any(map(multiplies_own, block))
            return s if alone else None
    return None


def only_target(s: Stmt, c) -> TensorRegion | None:
    """The region of the accumulator `c` to which a gemm, or a loop, adds products if it does nothing else with it, and the region is the
    same all the time. A single gemm may multiply what is in it, too."""
    if not isinstance(s, (For, While)) and not is_op(s, GEMM):
        return None
    targets = []
    for x in statements(s):
        if is_op(x, GEMM) and x.value.args[2].source.same_as(c) and (x is s or not multiplies_own(x)):
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


def separated(body: Stmt, apart: set, alone: Set = frozenset()) -> Stmt:
    """`body` with the gemms of `apart` taken apart, those that are `alone` each by itself in every iteration."""
    separate = _Separate(apart, alone)
    new = separate.visit(body)
    return seq(*separate.allocs, new)


__all__ = ["separated"]
