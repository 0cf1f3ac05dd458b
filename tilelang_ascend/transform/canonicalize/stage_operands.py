"""stage_operands: tile ops on tensors in global memory, or on scalar variables, work on tiles in between.

Before:  fill(C[0:100000], 1); reduce(A[b, 0:64], R[b : +1]); cumsum(X, X); copy(A, B)                # A, B, C, R, X in GM
After:   fill(t, 1); for c in range(12): copy(t, C[c * 8192 : +8192]); copy(t[0:1696], C[98304 : +1696])
         copy(A[b, 0:64], a); reduce(a, r); copy(r, R[b : +1])
         copy(X, x); cumsum(x, y); copy(y, X)
         for c in range(…): copy(A[…], u); copy(u, B[…])

What an op reads is copied in, what it writes is copied out; the copies clip what hangs over the edge of a tensor. Regions too large for a
tile are worked off in parts: copies and fills along all dimensions, other ops along those whose elements do not meet. Where a row is too long,
reductions and scans go on from part to part:

Before:  reduce(A[b, 0:100000], R[b : +1], sum)
After:   fill(r, 0); for c in range(3): copy(A[b, c * 32768 : +32768], a); reduce(a, r, sum, clear=0)
         copy(A[b, 98304 : +1696], a); reduce(a[0:1696], r, sum, clear=0); copy(r, R[b : +1])

Requires: Tile IR, placed or not. Ensures: operands in GM and scalar variables occur in copies and atomic updates whose other side is a tile, and in output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.tiles.split_axis import continued, scanned
from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorRegion,
    Var,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    loop,
    op_name,
    region,
    seq,
    structural_equal,
    tirx,
)
from ...isa.base import Space
from ...isa.units import BLOCK_BYTES, round_up
from ...tile import FILL, REDUCE, TileOp, is_op, tile_op, with_args
from ...tile.continued import reduction_in_parts, scan_of_part, scan_so_far
from ...tile.uses import is_atomic, is_parallel, is_scalar_var, moved_regions, on_chip, with_regions, work_of

COPIED_SHARE = 1 / 8
"""Share of UB of the tile of a copy or fill in parts: several versions of it are under way at the same time."""
WORKED_SHARE = 1 / 4
"""Share of UB of the tiles of another op; it has temporaries, too."""
SHORTEST_ROW = 64
"""Elements of a row below which columns that are reduced are cut rather than rows: transfers of less take as long."""
WIDE = itemsize("float32")
OPEN_ROW = 512
"""Elements of a part along a dimension whose extent is known at run time, unless it is the outermost one."""


def _free_dimensions(record: TileOp, attrs: dict, rank: int) -> list[int]:
    """Dimensions of the source along which an op is many independent ones."""
    along = record.whole(attrs, rank) if record.whole else None
    return [d for d in range(rank) if d != along]


def _bytes(shape, dtype: str, least: int = 1, narrowest: int | None = None) -> int:
    """Bytes of a tile in UB, of elements of at least `least` bytes. Its rows have as many lanes as whole blocks of elements of `narrowest` bytes, if
    tiles of such elements are made of it."""
    lanes = round_up(shape[-1], BLOCK_BYTES // min(narrowest or itemsize(dtype), itemsize(dtype)))
    return math.prod(shape[:-1]) * lanes * max(least, itemsize(dtype))


def _computed_bytes(s: Evaluate) -> int:
    """Bytes of the elements an op computes with, at least: all but the greatest and the least of float16 are widened, and bits go through two
    further tiles."""
    kind = str(attrs_of(s).get("kind", ""))
    if kind in ("max", "min") and dtype_of(s.value.args[0].source) == "float16":
        return 1
    return 2 * WIDE if kind.startswith("bit") else WIDE


def part_sizes(extents: list, free: list[int], fits, shortest: int = 1) -> list[int | None]:
    """For every dimension the constant extent of one part, such that `fits(sizes)`; dimensions that are not `free` stay whole, and so does the last
    one if it is not longer than `shortest`. None where a dimension that stays whole is known at run time only."""
    sizes = [const_int(e) for e in extents]
    open_ = [d for d in free if sizes[d] is None]
    for d in open_:
        sizes[d] = OPEN_ROW if d == free[-1] else 1
    if None in sizes:
        return sizes
    for d in free:
        while not fits(sizes) and sizes[d] > (shortest if d == len(sizes) - 1 else 1):
            sizes[d] = _smaller(sizes[d], const_int(extents[d]))
    if open_ and open_[0] == free[-1] and len(extents) == 1:
        # Alone, such a dimension takes what there is.
        while fits([2 * sizes[0]]):
            sizes[0] *= 2
    return sizes


def _smaller(n: int, whole: int | None) -> int:
    """The next part to try: half, of equal parts where possible."""
    half = -(-n // 2)
    if whole is None:
        return half
    return next((k for k in range(half, half // 2, -1) if whole % k == 0), half)


def in_parts(extents: list, sizes: list[int], span, body, backwards: bool = False) -> Stmt:
    """Loops over parts of `sizes` of a box; `body(offsets, counts)` is the work on one part, whose counts are at most its sizes. backwards: from the
    last part on."""

    def over(d: int, offsets: list, counts: list) -> Stmt:
        if d == len(extents):
            return body(offsets, counts)
        extent, size, n = extents[d], sizes[d], const_int(extents[d])
        if n is not None and n <= size:
            return over(d + 1, [*offsets, 0], [*counts, n])
        var = Var("part", "int32")
        if n is None:
            wide = extent if dtype_of(extent) == "int32" else tirx.Cast("int32", extent)
            count = imm(1) if size == 1 else tirx.min(imm(size), wide - var * size)
            # Not rounded up by a sum: there may be as many as an int32 counts, or fewer than none.
            trips = wide if size == 1 else tirx.floordiv(tirx.max(wide, imm(0)) - 1, imm(size)) + 1
            return loop(var, trips, over(d + 1, [*offsets, var * size], [*counts, count]), span=span, num_stages=2)
        at = (imm(n // size - 1) - var if backwards else var) * size
        whole = loop(var, n // size, over(d + 1, [*offsets, at], [*counts, size]), span=span, num_stages=2)
        rest = over(d + 1, [*offsets, n // size * size], [*counts, n % size]) if n % size else None
        return seq(rest, whole) if backwards else seq(whole, rest)

    return over(0, [], [])


class _Operand:
    """A region as the dimensions that are walked along (`kept`), with the others fixed."""

    def __init__(self, r: TensorRegion, whole_rank: bool = False):
        self.source, self.mins = r.source, [x.min for x in r.region]
        self.extents = [x.extent for x in r.region]
        self.kept = [d for d, e in enumerate(self.extents) if whole_rank or const_int(e) != 1] or [len(self.extents) - 1]

    @property
    def shape(self) -> list:
        return [self.extents[d] for d in self.kept]

    def part(self, offsets, counts) -> TensorRegion:
        mins, extents = list(self.mins), [imm(1)] * len(self.mins)
        for d, offset, count in zip(self.kept, offsets, counts):
            mins[d] = mins[d] if const_int(offset) == 0 else mins[d] + offset
            extents[d] = imm(count) if isinstance(count, int) else count
        return region(self.source, mins, extents)


@dataclass(frozen=True)
class _Matched:
    """Along which dimensions of its source an op may be split (`free`), and which of these each dimension of its target follows."""

    free: list[int]
    source_of: dict

    def of_target(self, along_source: list, others: list) -> list:
        """Numbers along the dimensions of the target: those of the source where it follows one, else `others`."""
        return [along_source[self.source_of[k]] if k in self.source_of else n for k, n in enumerate(others)]


def _matched(s: Evaluate, src: _Operand, dst: _Operand) -> _Matched:
    """For an op with a source and a target."""
    record, attrs = work_of(s), attrs_of(s)
    source, target = s.value.args[:2]
    rank = len(src.kept)
    free = _free_dimensions(record, attrs, rank)
    follows = {d: d for d in free} if len(dst.kept) == rank else dict(enumerate(free))
    # The side on chip is whole, and parts of one side may not change what others have still to read.
    if (
        on_chip(target.source)
        or on_chip(source.source)
        or any(k >= len(dst.kept) for k in follows)
        or _overlap(record, attrs, source, target)
    ):
        return _Matched([], {})
    return _Matched(free, follows)


class _Stage(StmtMutator):
    def __init__(self, ub_bytes: int, scope: str):
        self.copied, self.worked, self.scope = int(ub_bytes * COPIED_SHARE), int(ub_bytes * WORKED_SHARE), scope

    def visit_For(self, s: For):
        return s if is_parallel(s) else self.generic(s)

    def visit_Evaluate(self, s: Evaluate):
        record = work_of(s)
        if record is None or not (record.independent or record.whole):
            return s  # It knows places in GM itself, or none.
        regions = [a for a in s.value.args if isinstance(a, TensorRegion)]
        if is_atomic(s) and len(regions) == 1:
            return s  # An element: `stage_atomics`.
        if any(is_scalar_var(r.source) for r in regions):
            return self.through_scalars(s)
        if all(on_chip(r.source) for r in regions):
            return self.apart(s) if record.whole and _overlap(record, attrs_of(s), *regions) else s
        if record is FILL:
            return self.fill(s)
        if moved_regions(s) is not None:
            return s if any(on_chip(r.source) for r in regions) else self.move(s)
        return self.work(s)

    # -- scalar variables ---------------------------------------------------------------------------------------
    def through_scalars(self, s: Evaluate):
        """Variables are elements: they go through tiles of one element, or are plain loads and stores."""
        record = work_of(s)
        if is_op(s, FILL):
            return BufferStore(s.value.args[0].source, s.value.args[1], [imm(0)], span=s.span)
        args, before, after = list(s.value.args), [], []
        for k, a in enumerate(args):
            if not isinstance(a, TensorRegion) or not is_scalar_var(a.source):
                continue
            tile = self.tile(a.source, [1], before, s.span)
            if k in record.reads:
                before.append(BufferStore(tile, BufferLoad(a.source, [imm(0)]), [imm(0)], span=s.span))
            if k in record.writes:
                after.append(BufferStore(a.source, BufferLoad(tile, [imm(0)]), [imm(0)], span=s.span))
            args[k] = full_region(tile)
        staged = with_args(s, args)
        return [*before, self.visit(staged), *after]

    # -- copies and fills ---------------------------------------------------------------------------------------
    def fill(self, s: Evaluate):
        dst, value = _Operand(s.value.args[0]), s.value.args[1]
        dtype = dtype_of(dst.source)
        sizes = part_sizes(dst.shape, list(range(len(dst.kept))), lambda n: _bytes(n, dtype) <= self.copied)
        out: list = []
        tile = self.tile(dst.source, sizes, out, s.span)
        out.append(tile_op("fill", full_region(tile), value, span=s.span))

        def store(offsets, counts):
            return tile_op("copy", region(tile, [0] * len(counts), counts), dst.part(offsets, counts), span=s.span)

        return [*out, in_parts(dst.shape, sizes, s.span, store)]

    def move(self, s: Evaluate):
        """A copy or an atomic update between two tensors."""
        src, dst = map(_Operand, moved_regions(s))
        if len(src.kept) != len(dst.kept):
            return s
        extents = [b if const_int(a) is None else a for a, b in zip(src.shape, dst.shape)]
        dtype = max(dtype_of(src.source), dtype_of(dst.source), key=itemsize)  # A part becomes one of the other dtype on its way.
        sizes = part_sizes(extents, list(range(len(extents))), lambda n: _bytes(n, dtype) <= self.copied)

        def one(offsets, counts):
            out: list = []
            # What a part reads beyond an extent of run time stays in the tile.
            known = [n if isinstance(n, int) else size for n, size in zip(counts, sizes)]
            tile = self.tile(src.source, known, out, s.span, dtype)
            load = tile_op("copy", src.part(offsets, known), full_region(tile), span=s.span)
            return seq(out, load, with_regions(s, region(tile, [0] * len(counts), counts), dst.part(offsets, counts)))

        return in_parts(extents, sizes, s.span, one)

    def apart(self, s: Evaluate):
        """A part of a tile that an op changes while it reads another one is read from a copy."""
        source, *others = s.value.args
        shape = [const_int(r.extent) for r in source.region]
        if None in shape:
            raise UnsupportedConstruct(
                f"T.{_language_name(op_name(s), attrs_of(s))} of parts of '{source.source.name}' that overlap, of a size known only at run time",
                at=s.span, hint="use another tile for the result",
            )  # fmt: skip
        out: list = []
        tile = self.tile(source.source, shape, out, s.span)
        out.append(tile_op("copy", source, full_region(tile), span=s.span))
        return [*out, with_args(s, [full_region(tile), *others])]

    # -- everything else ----------------------------------------------------------------------------------------
    def work(self, s: Evaluate):
        """Ops that are neither copies nor fills: rows in parts where they do not fit."""
        record, attrs = work_of(s), attrs_of(s)
        source, target = s.value.args[:2]
        src, dst = _Operand(source, whole_rank=True), _Operand(target, whole_rank=True)
        match, dtype = _matched(s, src, dst), _goes_on(s, source, target)
        w = None if dtype is None else record.whole(attrs, len(src.kept))
        if w is not None and record is not REDUCE:
            match = _Matched(match.free, match.source_of | {w: w})  # Each part has results of its own.
        least, narrowest = _computed_bytes(s), min(itemsize(dtype_of(r.source)) for r in (source, target))

        def fits(n):
            shapes = [(n, source), ([const_int(x) or 1 for x in match.of_target(n, dst.shape)], target)]
            return sum(_bytes(shape, dtype_of(r.source), least, narrowest) for shape, r in shapes if not on_chip(r.source)) <= self.worked

        sizes = part_sizes(src.shape, match.free, fits, 1 if dtype is None else SHORTEST_ROW)
        if None in sizes or any(const_int(e) is None for k, e in enumerate(dst.shape) if k not in match.source_of):
            raise UnsupportedConstruct(
                f"T.{_language_name(record, attrs)} of a part of a tensor in global memory whose size is known only at run time",
                at=s.span, hint="load a tile of constant size (T.copy fills what hangs over the edge with zeros) and work on that",
            )  # fmt: skip

        if w is not None and not fits(sizes):
            length = sizes[w]
            while not fits(sizes) and sizes[w] > 1:
                sizes[w] = _smaller(sizes[w], length)
            rows = _Rows(self, s, src, dst, match, w, sizes[w], dtype)
            return in_parts(src.shape, [*sizes[:w], length, *sizes[w + 1 :]], s.span, rows.on)

        def one(offsets, counts):
            known = [n if isinstance(n, int) else size for n, size in zip(counts, sizes)]
            before, after, args = [], [], list(s.value.args)
            if not on_chip(source.source):
                args[0] = self.loaded(src, offsets, known, before, s.span)
            if not on_chip(target.source):
                args[1] = self.target(s, dst, match, (offsets, known, counts), before, after)
            return seq(before, with_args(s, args), after)

        return in_parts(src.shape, sizes, s.span, one)

    def loaded(self, src: _Operand, offsets: list, counts: list, before: list, span) -> TensorRegion:
        """A tile with a part of `src`."""
        tile = self.tile(src.source, counts, before, span)
        before.append(tile_op("copy", src.part(offsets, counts), full_region(tile), span=span))
        return full_region(tile)

    def target(self, s: Evaluate, dst: _Operand, match: _Matched, part: tuple, before: list, after: list) -> TensorRegion:
        """A tile for the results of a `part` of the source (where it begins, the size of its tile, how much of it there is), which `after` stores."""
        zero, attrs = [0] * len(dst.shape), attrs_of(s)
        starts, most, number = (match.of_target(along, others) for along, others in zip(part, (zero, dst.shape, dst.shape)))
        tile = self.tile(dst.source, [const_int(n) for n in most], before, s.span)
        if "clear" in attrs and not int(attrs["clear"]):
            before.append(tile_op("copy", dst.part(starts, most), full_region(tile), span=s.span))
        after.append(tile_op("copy", region(tile, zero, number), dst.part(starts, number), span=s.span))
        return full_region(tile)

    def tile(self, of, shape, out: list, span, dtype: str | None = None):
        """A tile of its own for a part of the buffer `of`, in the dtype of that if none is given, declared by a statement appended to `out`. `span`: of
        the statement it is for."""
        return self.declared(f"{of.name}_p", shape, dtype or dtype_of(of), out, span)

    def declared(self, name: str, shape, dtype: str, out: list, span):
        """A tile of a name of its own."""
        tile = decl_buffer(list(shape), dtype, name, scope=self.scope)
        out.append(AllocBuffer(tile, span=span))
        return tile


@dataclass(frozen=True)
class _Rows:
    """A reduction or scan `s` of rows of which not even one fits: along dimension `w` of the source parts of `size` elements, of which each goes on in
    `dtype` where the one before it has stopped. All extents are constants."""

    stage: _Stage
    s: Evaluate
    src: _Operand
    dst: _Operand
    match: _Matched
    w: int
    size: int
    dtype: str

    def on(self, offsets: list, counts: list[int]) -> Stmt:
        """On so many rows at `offsets`."""
        before: list = []
        after: list = []

        def declare(shape, dtype: str, name: str):
            return self.stage.declared(name, shape, dtype, before, self.s.span)

        of_rows = self.reduced if is_op(self.s, REDUCE) else self.scanned
        work = of_rows(declare, (offsets, counts, counts), before, after)

        def one(offset, count):
            at, size = ([*rows[: self.w], *mine, *rows[self.w + 1 :]] for mine, rows in ((offset, offsets), (count, counts)))
            loads: list = []
            source = self.stage.loaded(self.src, at, size, loads, self.s.span)
            return seq(loads, work(source, at, size))

        backwards = bool(int(attrs_of(self.s).get("reverse", 0)))
        return seq(before, in_parts([self.src.shape[self.w]], [self.size], self.s.span, one, backwards), after)

    def reduced(self, declare, part: tuple, before: list, after: list):
        """What the reduction does with a part of the source."""
        source, target = self.s.value.args
        if not on_chip(target.source):
            target = self.stage.target(self.s, self.dst, self.match, part, before, after)
        first, work, last = reduction_in_parts(with_args(self.s, [source, target]), self.dtype, declare)
        before += first
        after[:0] = last
        return lambda loaded, *_: with_args(work, [loaded, work.value.args[1]])

    def scanned(self, declare, part: tuple, before: list, after: list):
        """What the scan does with one: sums of its own, which are stored at once."""
        so_far, nothing = scan_so_far(self.s, self.dtype, declare)
        before.append(nothing)

        def work(loaded, offsets, counts):
            target, inside, behind = self.dst.part(offsets, counts), [], []
            if not on_chip(target.source):
                tile = full_region(self.stage.tile(target.source, counts, inside, self.s.span))
                behind.append(tile_op("copy", tile, target, span=self.s.span))
                target = tile
            return seq(inside, scan_of_part(with_args(self.s, [loaded, target]), so_far, declare), behind)

        return work


def _goes_on(s: Evaluate, source: TensorRegion, target: TensorRegion) -> str | None:
    """dtype in which a reduction or scan of a tensor goes on from part to part of its rows; None if it is something else, or if the results of a part may
    stand where later parts are."""
    whole = work_of(s).whole
    if whole is None or on_chip(source.source) or any(const_int(r.extent) is None for r in (*source.region, *target.region)):
        return None
    along = whole(attrs_of(s), len(source.region))
    if source.source.same_as(target.source):
        same = all(structural_equal(a.min, b.min) for a, b in zip(source.region, target.region))
        return scanned(s, lambda b: [along]) if same else None
    dims = {source.source: [along]} | ({} if is_op(s, REDUCE) else {target.source: [along]})
    return continued(s, lambda b: dims.get(b, [])) or scanned(s, lambda b: dims.get(b, []))


def _overlap(record: TileOp, attrs: dict, source: TensorRegion, target: TensorRegion) -> bool:
    """True if an op may change elements of `source` that it has still to read for other results."""
    if not source.source.same_as(target.source):
        return False
    a, b = source.region, target.region
    for x, y in zip(a, b):
        ends = [[const_int(r.min), const_int(r.extent)] for r in (x, y)]
        if None not in ends[0] + ends[1] and (sum(ends[0]) <= ends[1][0] or sum(ends[1]) <= ends[0][0]):
            return False
    # Results of a reduction stand in the row they are made of.
    along = _free_dimensions(record, attrs, len(a)) if record is REDUCE else range(len(a))
    return not all(structural_equal(a[d].min, b[d].min) for d in along)


def _language_name(record: TileOp, attrs: dict) -> str:
    return f"reduce_{attrs['kind']}" if record is REDUCE else record.name


def stage_operands(func: PrimFunc, chip, placed: bool = False) -> PrimFunc:
    """Apply to a Tile IR function; `placed`: its tiles have places. Raises `UnsupportedConstruct` for parts of tensors whose size no tile can have."""
    return func.with_body(_Stage(chip.capacity_bytes(Space.UB), "shared.ub" if placed else "shared")(func.body))


__all__ = ["stage_operands"]
