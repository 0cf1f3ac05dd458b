"""Steps of an attention loop, whose tiles and nests count keys: what could count them, and several steps as one."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.tiles.same_work import different_statements
from ...analysis.tiles.split_axis import SplitPlan, copy_dims, find_split, plan_along, spans
from ...ir import (
    AllocBuffer,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    op_name,
    seq,
    statements,
    stmts_of,
    substitute,
    walk_expr,
)
from ...ir.wellformed import elements_of
from ...tile import ATOMIC_ADD, COPY, FILL, GEMM, REDUCE, is_op
from ...tile.uses import is_parallel, on_chip, own_uses
from .divided_body import DividedBody, LongerBody
from .keyed_body import KeyedBody
from .product_grid import ACCUMULATOR_BYTES


@dataclass(frozen=True)
class LongStep:
    """The work of several steps of a loop as one. body: in terms of the number of the long step. buffers: tile -> the longer one. keys: what counts
    keys in it."""

    body: Stmt
    buffers: dict
    keys: SplitPlan

    @staticmethod
    def of(loop: For, keys: SplitPlan, times: int, apart: bool = False) -> LongStep | None:
        """`times` steps in one; None if a longer statement does not surely do what the steps did. apart: what does not is written so that it looks for the
        keys of every step where these are."""
        k = loop.loop_var
        body = seq([AllocBuffer(b) for b in keys.dims], loop.body)
        longer = LongerBody(keys, times)
        wide = longer(substitute(body, {k: number_of(loop, k * times)}))
        again = plan_along(wide, longer.buffers[next(iter(keys.dims))], next(iter(keys.dims.values())))
        which = Var("part", dtype_of(k))
        part = substitute(body, {k: number_of(loop, k * times + which)})
        differ = different_statements(part, DividedBody(again, which, times)(wide), {which: times})
        if differ and apart:
            keyed = KeyedBody(loop, keys, times, longer.buffers)
            found = [keyed.of(x) if n in differ else y for n, (x, y) in enumerate(zip(stmts_of(body), stmts_of(wide)))]
            if None in found:
                return None
            wide = seq(found)
            again = plan_along(wide, longer.buffers[next(iter(keys.dims))], next(iter(keys.dims.values())))
            left = different_statements(part, DividedBody(again, which, times)(wide), {which: times})
            # A nest asks whose a key is, which is what its parts do, in other words.
            differ = None if left is None else {n for n in left if n not in differ or not is_parallel(stmts_of(wide)[n])}
        if differ or differ is None:
            return None
        return LongStep(seq(stmts_of(wide)[len(keys.dims) :]), longer.buffers, again)


def number_of(loop: For, n):
    """The value of the variable of `loop` in its step number `n`."""
    return n if const_int(loop.min) == 0 else loop.min + n


def products_of(loop: For) -> list[Evaluate]:
    """The products of a step."""
    return [s for s in stmts_of(loop.body) if is_op(s, GEMM)]


def used_outside(body: Stmt, loop: For) -> tuple[set, set]:
    """Buffers that are used, and read, out of a loop of `body`."""
    inside = set(statements(loop.body))
    uses = [own_uses(x) for x in statements(body) if x not in inside]
    return set().union(*(u.all for u in uses)), set().union(*(u.reads for u in uses))


def room_beside_sums(func: PrimFunc, loop: For, keys: SplitPlan, l0c: int) -> tuple[int, int] | None:
    """(bytes of L0C beside the sums over steps, bytes for what products of a step make) where nothing but products uses these sums, so that the length of a
    step is no matter of what crosses to the vector cores; None elsewhere. Where the sums leave no room, and parts of them can be worked on alone (`split_tiles`),
    those of a part."""
    made = {s.value.args[2].source for s in products_of(loop)}
    sums = made - set(keys.dims)
    if not sums or any(not is_op(s, GEMM) and not isinstance(s, AllocBuffer) and own_uses(s).all & sums for s in statements(loop.body)):
        return None

    def rest(parts: int, divided) -> tuple[int, int]:
        size = lambda b: ACCUMULATOR_BYTES * elements_of(b) // (parts if b in divided else 1)  # noqa: E731
        return l0c - sum(map(size, sums)), sum(size(b) for b in made & set(keys.dims))

    found = rest(1, ())
    for parts in (2, 4) if found[0] <= 0 else ():
        plan = find_split(func.body, parts, "local.fragment")
        if plan.refusal is not None or found[0] > 0:
            break
        found = rest(parts, plan.dims)
    return found


def key_plans(loop: For):
    """What could count keys: the plans along the dimensions of accumulators of which a step also sums up."""
    products = products_of(loop)
    seen: list = []
    for s in products:
        c = s.value.args[2]
        for dim in (1, 0) if len(c.region) == 2 else ():
            plan = plan_along(loop.body, c.source, dim)
            if plan.dims.get(c.source) == dim and plan.dims not in seen:
                seen.append(plan.dims)
                if any(_sums_over(x, plan) for x in products):
                    yield plan


def _sums_over(s: Evaluate, keys: SplitPlan) -> bool:
    """True for a product that sums up over keys."""
    a = s.value.args[0]
    return keys.dims.get(a.source) == len(a.region) - (2 if int(s.value.attrs["transpose_A"]) else 1)


def counts_otherwise(body: Stmt, keys: SplitPlan) -> bool:
    """True if some statement uses the keys of a step in another way than one by one, or all of them: it must not be made longer."""
    sizes = {const_int(b.ty.shape[d]) for b, d in keys.dims.items()} | set(keys.nest_vars.values())
    if len(sizes) != 1 or None in sizes:
        return True
    return any(_nest_otherwise(s, keys) if is_parallel(s) else _op_otherwise(s, keys) for s in stmts_of(body))


def _nest_otherwise(nest: For, keys: SplitPlan) -> bool:
    inside = statements(nest)
    counting = {s.loop_var for s in inside if isinstance(s, For) and s.loop_var in keys.nest_vars}
    if len(counting) > 1:
        return True
    accesses: list = []
    for s in inside:
        for e in exprs(s):
            walk_expr(e, lambda x: accesses.append((x.source, list(x.indices))) if isinstance(x, TensorLoad) else None)
        if isinstance(s, BufferStore):
            accesses.append((s.buffer, list(s.indices)))
            if counting and s.buffer not in keys.dims:
                return True  # every key would store to it
    for b, indices in accesses:
        for d, i in enumerate(indices if on_chip(b) else ()):
            alone = isinstance(i, Var) and i in counting
            if alone != (keys.dims.get(b) == d) or not alone and counting & free_vars(i):
                return True
    return False


def _op_otherwise(s: Stmt, keys: SplitPlan) -> bool:
    if not any(b in keys.dims for b in own_uses(s).all):
        return False
    regions = [a for a in s.value.args if isinstance(a, TensorRegion)] if isinstance(s, Evaluate) and op_name(s) else []
    if not regions or any(not spans(r, keys.dims[r.source]) for r in regions if r.source in keys.dims):
        return True
    for op, otherwise in (
        (GEMM, _product_otherwise),
        (COPY, _copy_otherwise),
        (ATOMIC_ADD, _copy_otherwise),
        (REDUCE, _reduction_otherwise),
    ):
        if is_op(s, op):
            return otherwise(s, regions, keys)
    return not is_op(s, FILL)


def _counts(r: TensorRegion, d: int, keys: SplitPlan) -> bool:
    return keys.dims.get(r.source) == d


def _differ(a: TensorRegion, b: TensorRegion, pairs, keys: SplitPlan) -> bool:
    return any(_counts(a, d, keys) != _counts(b, e, keys) for d, e in pairs)


def _product_otherwise(s: Evaluate, regions: list, keys: SplitPlan) -> bool:
    attrs, (a, b, c) = s.value.attrs, regions
    if any(len(r.region) != 2 for r in regions):
        return True
    m, k_a = (1, 0) if int(attrs["transpose_A"]) else (0, 1)
    k_b, n = (1, 0) if int(attrs["transpose_B"]) else (0, 1)
    return _differ(a, c, [(m, 0)], keys) or _differ(b, c, [(n, 1)], keys) or _differ(a, b, [(k_a, k_b)], keys)


def _copy_otherwise(s: Evaluate, regions: list, keys: SplitPlan) -> bool:
    src, dst = regions
    pairs = copy_dims(src, dst)
    if not on_chip(src.source) or not on_chip(dst.source):
        mine = 0 if on_chip(src.source) else 1
        return not any(_counts(regions[mine], pair[mine], keys) for pair in pairs)
    return _differ(src, dst, pairs, keys) or not any(_counts(src, a, keys) for a, _ in pairs)


def _reduction_otherwise(s: Evaluate, regions: list, keys: SplitPlan) -> bool:
    src, dst = regions
    dim = int(s.value.attrs["dim"]) % len(src.region)
    if _counts(src, dim, keys):
        return dst.source in keys.dims
    kept = [d for d in range(len(src.region)) if d != dim]
    targets = kept if len(dst.region) == len(src.region) else range(len(dst.region))
    return _differ(src, dst, zip(kept, targets), keys) or not any(_counts(src, a, keys) for a in kept)


__all__ = ["LongStep", "counts_otherwise", "key_plans", "number_of", "products_of", "room_beside_sums", "used_outside"]
