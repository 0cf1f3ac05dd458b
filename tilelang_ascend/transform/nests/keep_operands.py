"""keep_operands: one operand of a product stays in L1 while a block works through a row of tiles.

Before:  grid(64, 64):
           fill(c, 0); for k in 256: copy(A[by * 128 : +128, k * 32 : +32], a); copy(B[k * 32 : +32, bx * 128 : +128], b); gemm(a, b, c)
           copy(c, C[by * 128 : +128, bx * 128 : +128])
After:   grid(4, 64):
           for part in 8:
             for tile in 16:
               fill(c, 0)
               for k in 8:
                 if tile == 0: copy(A[by * 128 : +128, part * 1024 + k * 128 : +128], a[:, k * 128 : +128])
                 copy(B[part * 1024 + k * 128 : +128, (bx * 16 + tile) * 128 : +128], b)
                 gemm(a[:, k * 128 : +128], b, c)
               if part == 0: copy(c, sums[tile]) else: atomic_add(sums[tile], c)
           for tile in 16: copy(sums[tile], v); copy(v, C[by * 128 : +128, (bx * 16 + tile) * 128 : +128])

A tile as large as L0C takes two operands for its products, and transfers bring them more slowly than the cube core multiplies. Loaded for
many tiles, one of them costs next to nothing. It comes piece by piece, each in front of the first product that needs it: the place of a piece is free
as soon as the last tile of the part before is past it, so that one copy is enough, and no product waits for more than its own piece.
L1 does not hold all of K: the parts are added up in GM, by atomic stores of one core, in order. Two accumulators fit L0C, so that the next tile's products start while this one is stored.

Only kernels that are a product of tensors they do not write and a store of it; by the same model as coarsen_blocks, if that is faster.

Requires: Tile IR after normalize_clears, before coarsen_blocks. Ensures: same values but for the rounding of sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce

from ...analysis.tiles.k_steps import KStep, k_dimensions, match_copy
from ...analysis.tiles.owned_tiles import OwnedTiles
from ...analysis.tiles.split_axis import copy_dims
from ...ir import (
    AllocBuffer,
    Evaluate,
    IfThenElse,
    PrimFunc,
    Stmt,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    full_region,
    if_then,
    imm,
    itemsize,
    loop,
    region,
    scope_of,
    seq,
    stmts_of,
    substitute,
    substitute_expr,
    tirx,
)
from ...ir.functions import fixed_bytes
from ...isa.base import VECTOR_CORES_PER_BLOCK, Space
from ...tile import COPY, is_op, tile_op, with_args
from ...tile.clears import is_zero_fill
from ...tile.uses import covers_whole
from ...tileop.copy.cube import find_obstacles
from .product_grid import ACCUMULATOR_BYTES, GAIN, VERSIONS, ProductGrid, chain

SUMS = "float32"
"""Dtype in which parts are added up in GM."""
STREAMED_VERSIONS = 4
"""Of the operand that is loaded for every tile: enough for the time in which the other one is."""
STREAMED_BYTES = 256
"""Of its rows along K."""
LEAST_TILES = 2
PIECE = 32
"""Rows or columns that the cube core can work on alone, whatever the dtype."""
CLOSE = 1.03
"""As good as the fastest, if it loads less: transfers under way all the time leave nothing to make up for what the model does not know."""
SHARE_OF_L2 = 8
"""One part in so many of L2 may hold sums."""


def keep_operands(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with rows of tiles that share an operand in L1, if that is faster and `allowed`; what was done is told in `notes`."""
    grid = ProductGrid.of(func.body, chip) if allowed else None
    if grid is None or None in grid.extents:
        return func
    sizes, obstacles = chain(grid, chip), find_obstacles(func)
    ways = [way for size in sizes for way in _ways(size, func, chip, obstacles)]
    least = min((way.cycles(chip) for way in ways), default=math.inf)
    if least > GAIN * sizes[-1].cycles(chip):
        return func
    best = min((way for way in ways if way.cycles(chip) <= CLOSE * least), key=lambda way: way.loads(chip))
    notes.append(best.note())
    return func.with_body(best.rebuilt().rebuilt(func.body))


@dataclass(frozen=True)
class _Row:
    """A way to do it. `tiles` neighbours along `axis` of the grid become one block, which keeps `kept` for `part` iterations of the loop over K and
    loads `streamed` for `width` of them at a time, each tile in `pieces` along its dimension `dim`. `store`: the copy of the result. `owned`: no
    other block stores to where it goes."""

    grid: ProductGrid
    axis: int
    kept: KStep
    streamed: KStep
    store: Evaluate
    owned: bool
    part: int
    width: int
    tiles: int
    dim: int
    pieces: int

    @property
    def pieced(self) -> tuple[int, int]:
        """m and n of a piece."""
        sizes = list(self.grid.sizes[:2])
        sizes[self.dim] //= self.pieces
        return tuple(sizes)

    @property
    def steps(self) -> int:
        """Products of a row with a part of K that have an accumulator of their own."""
        return self.tiles * self.pieces

    @property
    def parts(self) -> int:
        return const_int(self.grid.loop.extent) // self.part

    @property
    def blocks(self) -> int:
        return math.prod(self.grid.extents) // self.tiles

    @property
    def adds(self) -> bool:
        """True if sums of parts are added up."""
        return self.parts > 1

    @property
    def through_sums(self) -> bool:
        """True if that happens in a workspace, and not in the tensor itself."""
        return self.adds and (dtype_of(self.store.value.args[1].source) != SUMS or not self.owned)

    @property
    def sums_bytes(self) -> int:
        return self.tiles * fixed_bytes(self.grid.accumulator)

    def cycles(self, chip) -> float:
        """An estimate for the whole grid: per core and part, products, transfers to L1 and to L0, or stores."""
        prices = chip.prices
        kept, streamed = self._transfers(chip)
        operands = zip(("a", "b"), (x.source for x in self.grid.gemm.value.args[:2]))
        again = {self.kept.tile: self.pieces}
        l0 = sum(
            prices[f"l1_to_l0{side}"].busy_cycles(self.part * fixed_bytes(tile) * again.get(tile, 1), "bytes") for side, tile in operands
        )
        written = ACCUMULATOR_BYTES if self.adds else itemsize(dtype_of(self.store.value.args[1].source))
        m, n, _ = self.grid.sizes
        store = prices["l0c_to_gm"].busy_cycles(m * n * written, "bytes")
        each = max(self.part * self.grid.products(chip), l0, streamed, store)
        longest = max(self.tiles * each, kept + self.tiles * streamed)
        return prices["gm_to_l1"].latency_cycles + self.grid.rounds(chip, self.blocks) * self.parts * longest + self._end(chip)

    def _transfers(self, chip) -> list[float]:
        """Cycles in which a part of the kept operand is loaded, and of the streamed one for one tile."""
        return [chip.prices["gm_to_l1"].busy_cycles(self.part * fixed_bytes(x.tile), "bytes") for x in (self.kept, self.streamed)]

    def loads(self, chip) -> float:
        """Cycles of all transfers to L1 of the busiest core."""
        kept, streamed = self._transfers(chip)
        return self.grid.rounds(chip, self.blocks) * self.parts * (kept + self.tiles * streamed)

    def _end(self, chip) -> float:
        """Cycles from the last store of sums to the end."""
        if not self.through_sums:
            return 0.0
        there, back = (chip.prices[name] for name in ("gm_to_ub", "ub_to_gm"))
        size = self.sums_bytes / VECTOR_CORES_PER_BLOCK
        return chip.cross_core_flag_cycles + there.latency_cycles + back.latency_cycles + there.busy_cycles(size, "bytes")

    def fits(self, chip) -> bool:
        m, n = self.pieced
        streamed = self.width * fixed_bytes(self.streamed.tile) // self.pieces
        operands = self.part * fixed_bytes(self.kept.tile) + STREAMED_VERSIONS * streamed
        room = (
            self.part // self.width <= STREAMED_VERSIONS
            and operands <= chip.capacity_bytes(Space.L1)
            and VERSIONS * m * n * ACCUMULATOR_BYTES <= chip.capacity_bytes(Space.L0C)
        )
        return room and (not self.through_sums or VERSIONS * self.sums_bytes * chip.num_aic <= chip.l2_bytes // SHARE_OF_L2)

    def note(self) -> str:
        m, n = self.pieced
        k = self.part * self.kept.extent
        sums = f"; sums of {k} products are added up in GM" if self.adds else ""
        return f"{self.tiles} neighbouring blocks are worked on together: {self.kept.tile.name} stays in L1 for {self.steps} tiles of {m} x {n}{sums}"

    def rebuilt(self) -> ProductGrid:
        part, span, old = tirx.Var("part", "int32"), self.grid.loop.span, self.grid.accumulator
        kept, c = self.kept.widened(self.part), decl_buffer(list(self.pieced), dtype_of(old), old.name, scope=scope_of(old))
        streamed = self._piece_of(self.streamed.widened(self.width), self.streamed.other_dim)
        workspace = decl_buffer([self.steps, *self.pieced], SUMS, f"{c.name}_sums") if self.through_sums else None

        def sums(block, piece):
            return region(workspace, [block * self.pieces + piece, 0, 0], [1, *self.pieced])

        def target(block, piece):
            return self._there(self.store.value.args[1], self.dim - 2, block, piece)

        def tile(block, piece) -> Stmt:
            zero = tile_op("fill", full_region(c), imm(0, dtype_of(c)), span=span)
            stored = self._stored(part, full_region(c), (sums if self.through_sums else target)(block, piece))
            return seq(zero, self._products(part, (block, piece), kept, streamed, c), stored)

        whole = self._for_each(tile)
        body = [AllocBuffer(x, span=span) for x in (kept, streamed, c)]
        body.append(loop(part, self.parts, whole, span=span) if self.adds else substitute(whole, {part: imm(0)}))
        if self.through_sums:
            out = decl_buffer(list(self.pieced), SUMS, f"{c.name}_out", scope=scope_of(c))
            body.insert(0, AllocBuffer(workspace, annotations={"workspace": 1}, span=span))
            body.append(AllocBuffer(out, span=span))
            body.append(self._for_each(lambda *at: _by_way_of(out, sums(*at), target(*at), self.store.span)))
        extents = tuple(n // self.tiles if k == self.axis else n for k, n in enumerate(self.grid.extents))
        return replace(self.grid, extents=extents, body=seq(body))

    def _for_each(self, work) -> Stmt:
        """`work(block, piece)` for all of a row."""
        block, piece = (tirx.Var(name, "int32") if n > 1 else imm(0) for name, n in (("tile", self.tiles), ("piece", self.pieces)))
        done = work(block, piece)
        for var, n in ((piece, self.pieces), (block, self.tiles)):
            done = loop(var, n, done, span=self.grid.loop.span) if n > 1 else done
        return done

    def _piece_of(self, tile, d: int):
        """A tile for a piece."""
        shape = [const_int(n) for n in tile.ty.shape]
        shape[d] //= self.pieces
        return decl_buffer(shape, dtype_of(tile), tile.name, scope=scope_of(tile))

    def _there(self, whole, d: int, block, piece):
        """The place of a piece in GM, where `whole` is that of a block; `d`: the dimension of the tensor along which there are pieces."""
        mins, extents = ([x for x in side] for side in zip(*((r.min, r.extent) for r in whole.region)))
        if self.pieces > 1:
            extents[d] = imm(const_int(extents[d]) // self.pieces)
            mins[d] = mins[d] + piece * extents[d]
        var = self.grid.axes[self.axis].loop_var
        return substitute_expr(region(whole.source, mins, extents), {var: var * self.tiles + block})

    def _products(self, part, at: tuple, kept, streamed, c) -> Stmt:
        """The loop over what a part has of K, for the piece `at`."""
        k, every = tirx.Var(self.grid.loop.loop_var.name, "int32"), self.grid.loop.loop_var
        step = {every: part * self.part + k * self.width}
        wide = self.streamed.load(self.streamed.widened(self.width), self.width)
        dim = next(theirs for theirs, ours in copy_dims(*wide.value.args) if ours == self.streamed.other_dim)
        there = self._there(wide.value.args[0], dim, *at)
        load = tile_op("copy", substitute_expr(there, step), full_region(streamed), span=wide.span)
        mins, extents = [imm(0) for _ in kept.ty.shape], [const_int(x) for x in kept.ty.shape]
        d = self.kept.tile_dim
        mins[d], extents[d] = k * (self.width * self.kept.extent), self.width * self.kept.extent
        slice_ = region(kept, mins, extents)
        source = substitute_expr(self.kept.load(self.kept.widened(self.width), self.width).value.args[0], step)
        first = [tirx.EQ(x, imm(0)) for x in at if isinstance(x, tirx.Var)]
        fetch = if_then(reduce(tirx.And, first), tile_op("copy", source, slice_, span=self.kept.stmt.span), span=self.kept.stmt.span)
        operands = {self.kept.tile: slice_, self.streamed.tile: full_region(streamed)}
        args = self.grid.gemm.value.args
        gemm = with_args(self.grid.gemm, [*(operands[x.source] for x in args[:2]), full_region(c), args[3]])
        return loop(k, self.part // self.width, seq(load, fetch, gemm), span=self.grid.loop.span, num_stages=STREAMED_VERSIONS)

    def _stored(self, part, source, target) -> Stmt:
        """An accumulator goes to `target`, or is added to what is there."""
        span = self.store.span
        first = tile_op("copy", source, target, span=span)
        if not self.adds:
            return first
        return IfThenElse(tirx.EQ(part, imm(0)), first, tile_op("atomic_add", target, source, span=span), span=span)


def _by_way_of(tile, source, target, span) -> Stmt:
    """Sums go where the results belong."""
    return seq(tile_op("copy", source, full_region(tile), span=span), tile_op("copy", full_region(tile), target, span=span))


def _ways(grid: ProductGrid, func: PrimFunc, chip, obstacles: dict) -> list[_Row]:
    """All that mean the same and fit."""
    found = _plain(grid, obstacles)
    if found is None:
        return []
    steps, store = found
    place = store.value.args[1].region
    owned = OwnedTiles(func.with_body(grid.rebuilt(func.body))).apart([r.min for r in place], [const_int(r.extent) for r in place])
    trips = const_int(grid.loop.extent)
    out = []
    for axis, extent in enumerate(grid.extents):
        var = grid.axes[axis].loop_var
        moving = [any(var in free_vars(r.min) for r in x.stmt.value.args[0].region) for x in steps]
        if sum(moving) != 1:
            continue
        kept, streamed = (steps[moving.index(x)] for x in (False, True))
        dim = [x.source for x in grid.gemm.value.args[:2]].index(streamed.tile)
        pieces = _pieces(grid, axis, dim, store, chip)
        for part in _divisors(trips):
            width = max(
                (w for w in _divisors(part) if w * streamed.extent * itemsize(dtype_of(streamed.tile)) <= STREAMED_BYTES), default=part
            )
            out += [
                _Row(grid, axis, kept, streamed, store, owned, part, width, n, dim, pieces)
                for n in _divisors(extent)
                if n * pieces >= LEAST_TILES
            ]
    exact = dtype_of(grid.accumulator) == SUMS
    return [way for way in out if way.fits(chip) and (exact or not way.adds)]


def _pieces(grid: ProductGrid, axis: int, dim: int, store: Evaluate, chip) -> int:
    """Into how many pieces a tile has to be cut along `dim`, so that L0C holds two; 1 if it cannot be: pieces lie in the tensor as a whole."""
    sizes, target, pieces = list(grid.sizes[:2]), store.value.args[1], 1
    while VERSIONS * math.prod(sizes) * ACCUMULATOR_BYTES > pieces * chip.capacity_bytes(Space.L0C):
        pieces *= 2
    lies_within = const_int(target.source.ty.shape[dim - 2]) == grid.extents[axis] * sizes[dim]
    return pieces if lies_within and sizes[dim] % (pieces * PIECE) == 0 else 1


def _plain(grid: ProductGrid, obstacles: dict) -> tuple[list[KStep], Evaluate] | None:
    """(loads of both operands, store of the result) of a kernel that has nothing else; None for any other."""
    body = [s for s in stmts_of(grid.body) if not isinstance(s, AllocBuffer)]
    inner, c = stmts_of(grid.loop.body), grid.accumulator
    if len(body) != 3 or not body[1].same_as(grid.loop) or len(inner) != 3 or not inner[2].same_as(grid.gemm):
        return None
    fill, _, store = body
    if not is_zero_fill(fill) or not all(is_op(s, COPY) for s in (store, *inner[:2])) or const_int(grid.loop.extent) is None:
        return None
    *operands, product, clear = grid.gemm.value.args
    if not all(map(covers_whole, (*operands, product, fill.value.args[0], store.value.args[0]))) or const_int(clear) != 0:
        return None
    if not all(x.source.same_as(c) for x in (product, fill.value.args[0], store.value.args[0])):
        return None
    if any(s in obstacles for s in (*inner[:2], store)):
        return None
    steps = [match_copy(s, grid.loop.loop_var, k_dimensions([grid.gemm])) for s in inner[:2]]
    if None in steps or {x.tile for x in steps} != {x.source for x in operands} or len({x.tile for x in steps}) != 2:
        return None
    return (steps, store) if _stores_matrix(grid, steps, store) else None


def _stores_matrix(grid: ProductGrid, steps: list[KStep], store: Evaluate) -> bool:
    """True if matrices are multiplied and the whole result goes to a tensor that is none of the operands."""
    target = store.value.args[1]
    written, matrices = target.source, [grid.accumulator, *(x.tile for x in steps)]
    if any(len(x.ty.shape) != 2 for x in matrices) or [const_int(r.extent) for r in target.region[-2:]] != list(grid.sizes[:2]):
        return False
    return scope_of(written) in ("global", "") and not any(x.stmt.value.args[0].source.same_as(written) for x in steps)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


__all__ = ["keep_operands"]
