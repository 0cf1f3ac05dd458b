"""merge_k_steps: let one iteration of a gemm loop load what several did.

GPU kernels walk K in steps of 32 or 64 elements, because shared memory is small. L1 holds 512 KiB, and GM rows of 64 bytes use a
fraction of the bandwidth that rows of 512 bytes do. The steps are merged where nothing but the size changes.

Before:  for k in range(32): copy(A[m, k * 32 : +32], A_s); copy(B[k * 32 : +32, n], B_s); gemm(A_s, B_s, C)
After:   for k in range(4): copy(A[m, k * 256 : +256], A_s); copy(B[k * 256 : +256, n], B_s); gemm(A_s, B_s, C)

Only loops whose body is copies from GM that advance by exactly their own extent along the K dimension, and gemms over whole tiles
that accumulate, all but the first of the loop.
The factor divides the trip count, so the loop covers the same range of K; sums are taken in the same order.

Requires: Tile IR after normalize_clears. Ensures: same values; at least two versions of every widened tile fit L1.
"""

from __future__ import annotations

from ...analysis.tiles.k_steps import KStep, k_dimensions, match_copy
from ...ir import (
    AllocBuffer,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    StmtMutator,
    const_int,
    dtype_of,
    expr_children,
    free_vars,
    full_region,
    itemsize,
    seq,
    statements,
    stmts_of,
    substitute,
)
from ...isa.base import Space
from ...tile import COPY, is_op, with_args
from ...tile.clears import gemm_args, is_first_iteration
from ...tile.uses import covers_whole, own_uses
from ...tileop.base.layout import l1_layout
from ...tileop.copy.cube import find_obstacles

# Bytes of one GM row of the widened tile along K: the unit in which the memory system serves requests (hardware facts: 512 B lines).
ROW_BYTES = 512
VERSIONS = 2


def match_loop(loop: For, uses: dict, obstacles: dict):
    """(steps, gemms) if the loop has the shape this pass widens, else None. Tiles that go through UB keep their size."""
    if loop.kind != ForKind.SERIAL or "num_stages" not in loop.annotations or const_int(loop.extent) is None:
        return None
    body = stmts_of(loop.body)
    gemms = [s for s in body if gemm_args(s) is not None]
    copies = [s for s in body if is_op(s, COPY)]
    if not gemms or len(gemms) + len(copies) != len(body) or any(s in obstacles for s in copies):
        return None
    if any(not _same_in_one_step(s, loop, gemms[:k]) for k, s in enumerate(gemms)):
        return None
    dims = k_dimensions(gemms)
    if any(not (covers_whole(s.value.args[0]) and covers_whole(s.value.args[1])) for s in gemms):
        return None
    steps = [match_copy(s, loop.loop_var, dims) for s in copies]
    if any(s is None for s in steps) or {s.tile for s in steps} != set(dims):
        return None
    if any(uses[s.tile] != 1 + sum(s.tile in own_uses(g).reads for g in gemms) for s in steps):
        return None
    return steps, gemms


def _same_in_one_step(s: Evaluate, loop: For, before: list) -> bool:
    """True if several products of the gemm may become one: all go to the same place, and none but the first of all starts from zero. What
    gemms `before` it in the body add is lost there, but for one step only."""
    *_, c, clear = s.value.args
    if any(loop.loop_var in free_vars(e) for e in expr_children(c)):
        return False
    if const_int(clear) == 0:
        return True
    return is_first_iteration(clear, loop) and not any(c.source.same_as(gemm_args(x)[2].source) for x in before)


def choose_factor(loop: For, steps: list[KStep], room: int) -> int:
    """Largest divisor of the trip count with rows of at most ROW_BYTES and tiles that fit."""
    trips = const_int(loop.extent)
    for f in range(trips, 1, -1):
        if trips % f or trips // f < VERSIONS or any(f * s.extent * itemsize(dtype_of(s.tile)) > ROW_BYTES for s in steps):
            continue
        if VERSIONS * sum(widened_bytes(s, f) for s in steps) <= room:
            return f
    return 1


def widened_bytes(step: KStep, factor: int) -> int:
    """Bytes of the tile in L1 after merging."""
    tile = step.widened(factor)
    return l1_layout([const_int(n) for n in tile.ty.shape], dtype_of(tile)).elements * itemsize(dtype_of(tile))


class _Merge(StmtMutator):
    def __init__(self, chip, uses: dict, obstacles: dict):
        self.room = chip.capacity_bytes(Space.L1)
        self.uses, self.obstacles = uses, obstacles
        self.new: dict = {}

    def visit_For(self, s: For):
        found = match_loop(s, self.uses, self.obstacles)
        if found is None:
            return self.generic(s)
        steps, _ = found
        factor = choose_factor(s, steps, self.room)
        if factor == 1:
            return s
        self.room -= VERSIONS * sum(widened_bytes(x, factor) for x in steps)
        return self.widen(s, steps, factor)

    def widen(self, loop: For, steps: list[KStep], factor: int) -> For:
        replaced = {}
        for step in steps:
            self.new[step.tile] = new = step.widened(factor)
            replaced[step.stmt] = step.load(new, factor)
        body = []
        for s in stmts_of(loop.body):
            if s in replaced:
                body.append(substitute(replaced[s], {loop.loop_var: loop.loop_var * factor}))
            else:
                args = gemm_args(s)
                ab = [full_region(self.new[x.source]) for x in args[:2]]
                body.append(with_args(s, [*ab, *args[2:]]))
        trips = const_int(loop.extent) // factor
        return For(loop.loop_var, loop.min, trips, loop.kind, seq(body), annotations=dict(loop.annotations), span=loop.span)


class _Redeclare(StmtMutator):
    def __init__(self, new: dict):
        self.new = new

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.new.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)


def merge_k_steps(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a Tile IR function; `chip` gives the room in L1."""
    uses: dict = {}
    for s in statements(func.body):
        for b in own_uses(s).all:
            uses[b] = uses.get(b, 0) + 1
    merge = _Merge(chip, uses, find_obstacles(func))
    body = merge(func.body)
    if not merge.new:
        return func
    return func.with_body(_Redeclare(merge.new)(body))


__all__ = ["merge_k_steps"]
