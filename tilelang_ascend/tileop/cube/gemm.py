"""gemm of a tile in L1 into an accumulator in L0C: split to L0 sizes, double-buffered, any M, N, K, transposed or not.

For every step of K (and of M or N where a tile exceeds L0) the operands are loaded as fractals, L1 -> L0A and L0B, and multiplied by
one Mmad. Steps alternate between the two slots of `L0Slots`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...analysis.index.value_facts import ValueFacts
from ...errors import DtypeMismatch, UnsupportedConstruct, UnsupportedOnChip
from ...ir import Evaluate, Stmt, const_int, imm, intrin, itemsize, loop, reinterpret, seq, tirx
from ...isa import lookup
from ...isa.units import FRACTAL_BYTES, FRACTAL_ROWS, MAX_REPEAT, ceil_div
from ..base.l0_slots import L0Slots
from ..base.layout import NzLayout, head
from ..base.output import Output
from ..base.placement import Placement, Side

SQUARE_SIDE = {1: 32, 2: 16, 4: 16}
"""Rows and columns of what a transposing load takes at a time, by bytes of an element."""


@dataclass(frozen=True)
class Factor:
    """A or B of a gemm. `outer` = M or N in fractal rows of 16, `k` in fractals of k0; K runs along rows if `k_is_row`."""

    side: str
    source: Side
    nz: NzLayout
    outer: int
    k: int
    k_is_row: bool
    dtype: str

    @property
    def fractal(self) -> int:
        """Elements of one fractal."""
        return FRACTAL_BYTES // itemsize(self.dtype)


@dataclass(frozen=True)
class _Split:
    """How a product is split to fit L0: fractals of M, N and K in one step. `spare`: fractals of K by which loads may reach beyond the tile;
    `by_column`: an Mmad writes one column of fractals only."""

    mt: int
    nt: int
    kt: int
    spare: int
    by_column: bool


@dataclass(frozen=True)
class Part:
    """What a step loads of an operand, in fractals: `count` of M or N from `first` on, `kt` of K from `first_k` on, into a slot of L0."""

    slot: object
    first: int
    count: int
    first_k: object
    kt: int

    def steps_in_l0(self, side: str) -> tuple[int, int]:
        """Fractals from one to the next along K, and along M or N."""
        return (1, self.kt) if side == "a" else (self.count, 1)


def lower_gemm(s: Evaluate, placement: Placement, facts: ValueFacts, out: Output) -> Stmt:
    """Lower `tl.gemm(A, B, C, clear)`; A and B lie in L1, C in L0C."""
    a, b, c = (placement.side(x) for x in s.value.args[:3])
    ta, tb = int(s.value.attrs["transpose_A"]), int(s.value.attrs["transpose_B"])
    k0 = 32 // itemsize(a.dtype)
    m_tile, n_tile = (const_int(e) for e in c.extents[-2:])
    k_tile = const_int(a.extents[-2 if ta else -1])
    left = Factor("a", a, a.tile.nz, ceil_div(m_tile, FRACTAL_ROWS), ceil_div(k_tile, k0), bool(ta), a.dtype)
    # Transposing loads of 8-bit types move 32x32 squares: two fractals of N at a time.
    unit = 2 if itemsize(a.dtype) == 1 and not tb else 1
    right = Factor("b", b, b.tile.nz, ceil_div(n_tile, unit * FRACTAL_ROWS) * unit, ceil_div(k_tile, k0), not tb, b.dtype)
    _check_product(c.dtype, a.dtype, placement.chip, s)
    for op in (left, right):
        _check_loadable(op, placement.chip, facts, s)
    check_fractals(c, facts, s, "T.gemm")
    by_column = _by_column(c, min(left.outer, out.l0.room("a")), right, placement, facts)
    split = _split_to_l0(left, right, by_column, out.l0, s)
    out.l0.reserve("a", split.mt * split.kt + split.spare, left.dtype)
    out.l0.reserve("b", split.nt * (split.kt + split.spare), right.dtype)
    product = _Product(s, placement, facts, out.l0, c, left, right, split)
    rows, columns = ([(i, min(step, op.outer - i)) for i in range(0, op.outer, step)] for op, step in ((left, split.mt), (right, split.nt)))
    return seq([product.block(m, n) for m in rows for n in columns])


def _split_to_l0(left: Factor, right: Factor, by_column: bool, l0: L0Slots, s: Evaluate) -> _Split:
    room_a, room_b = l0.room("a"), l0.room("b")
    mt, nt = min(left.outer, room_a), min(right.outer, room_b)
    if by_column:
        nt = 2 if _loads_squares(right) and itemsize(right.dtype) == 1 else 1
    # Squares of 32-bit elements are two fractals of K; the last one may reach one fractal beyond the tile.
    pairs = itemsize(left.dtype) == 4 and (_loads_squares(left) or _loads_squares(right))
    spare = left.k % 2 if pairs else 0
    # Fractals of a pair are neighbours in L0B in every step of K: those of one alone are in one step.
    most = 1 if by_column and nt > 1 else max(1, min((room_a - spare) // mt, (room_b - spare * nt) // nt))
    return _Split(mt, nt, _k_fractals(left.k, most, pairs, s), spare, by_column)


@dataclass(frozen=True)
class _Product:
    """One gemm: its accumulator, its operands and how they are split."""

    s: Evaluate
    placement: Placement
    facts: ValueFacts
    l0: L0Slots
    c: Side
    left: Factor
    right: Factor
    split: _Split

    def block(self, rows: tuple[int, int], columns: tuple[int, int]) -> Stmt:
        """All steps of K for a rectangle of C; `rows`, `columns`: (first, number) of its fractals."""
        s, split, clear = self.s, self.split, self.s.value.args[3]
        k_steps = self.left.k // split.kt
        ki = tirx.Var("k_l0", "int32") if k_steps > 1 else None
        slot = self.l0.take(k_steps, ki)
        first_k = ki * split.kt if ki is not None else imm(0)
        loads = [
            *load(self.left, Part(slot, *rows, first_k, split.kt), self.placement.chip, self.facts, self.l0, s.span),
            *load(self.right, Part(slot, *columns, first_k, split.kt), self.placement.chip, self.facts, self.l0, s.span),
        ]
        init = clear if ki is None or const_int(clear) == 0 else tirx.And(clear, tirx.EQ(ki, imm(0)))
        body = seq(loads, [self.mmad(slot, rows, columns[0], piece, init) for piece in self.pieces(*columns)])
        return loop(ki, k_steps, body, span=s.span) if ki is not None else body

    def pieces(self, first: int, count: int) -> list[tuple[int, int]]:
        """What each Mmad writes of `count` columns of fractals from `first` on: (fractal it begins with, elements)."""
        n_tile = const_int(self.c.extents[-1])
        columns = min(count * FRACTAL_ROWS, n_tile - first * FRACTAL_ROWS)
        if self.split.by_column:
            return [(i, min(FRACTAL_ROWS, columns - i * FRACTAL_ROWS)) for i in range(count) if (first + i) * FRACTAL_ROWS < n_tile]
        if ceil_div(columns, FRACTAL_ROWS) < count:
            return [
                (0, count * FRACTAL_ROWS)
            ]  # Both fractals of the last pair: steps of K are as many fractals apart as there are columns.
        return [(0, columns)]

    def mmad(self, slot, rows: tuple[int, int], first_column: int, piece: tuple[int, int], init) -> Stmt:
        """Multiply what lies in `slot` into a piece of C."""
        c, facts, l0, (i, n) = self.c, self.facts, self.l0, piece
        m_first, m_count = rows
        c_row, c_col = c.mins[-2] + m_first * FRACTAL_ROWS, c.mins[-1] + first_column * FRACTAL_ROWS
        return intrin(
            "mmad",
            head(c.tile.buffer, c.version, facts.simplify(c.tile.nz.offset(c_row, c_col + i * FRACTAL_ROWS))),
            l0.operand("a", slot, 0, self.left.dtype),
            l0.operand("b", slot, i, self.right.dtype),
            m_count * FRACTAL_ROWS if self.all_rows else mmad_rows(const_int(c.extents[-2]), m_first, m_count),
            n,
            self.split.kt * (32 // itemsize(self.left.dtype)),
            0,
            0,
            _as_int(facts.simplify(init)),
            span=self.s.span,
        )

    @property
    def all_rows(self) -> bool:
        """Where others add a single row of C, and with it a whole fractal, all of that fractal has to have a value."""
        single = self.c.tile in self.placement.mixed and const_int(self.c.extents[-2]) % FRACTAL_ROWS == 1
        return single and self.left.source.tile in self.placement.zero_rows and _ends_in_zeros(self.left)


def _by_column(c: Side, mt: int, right: Factor, placement: Placement, facts: ValueFacts) -> bool:
    """True if an Mmad writes one column of fractals only: it leaves nothing out between two of them, where C has further rows, and the
    second one of a square of 8-bit elements may belong to others, of C or of B."""
    nz, columns = c.tile.nz, ceil_div(const_int(c.extents[-1]), FRACTAL_ROWS)
    if right.outer > 1 and mt * FRACTAL_ROWS != nz.rows_padded:
        return True
    end = c.mins[-1] + columns * FRACTAL_ROWS
    spare = right.outer > columns and facts.proves(end >= c.tile.shape[-1]) and facts.proves(end < nz.col_groups * nz.c0)
    # Columns of padding are zero; those behind a part of B are anything, or nothing.
    b = right.source
    spare = spare and c.tile not in placement.mixed
    return right.outer > columns and not (spare and facts.proves(b.mins[-1] + b.extents[-1] >= b.tile.shape[-1]))


def check_fractals(c: Side, facts: ValueFacts, s: Evaluate, what: str) -> None:
    """Raise unless the part of an accumulator consists of whole fractals: nothing writes less of one."""
    for name, first, n, size in zip(("row", "column"), c.mins[-2:], c.extents[-2:], c.tile.shape[-2:]):
        starts = facts.proves(tirx.EQ(tirx.floormod(first, imm(FRACTAL_ROWS)), imm(0)))
        if starts and (const_int(n) % FRACTAL_ROWS == 0 or facts.proves(first + n >= size)):
            continue
        raise UnsupportedConstruct(
            f"{what}: {name}s {first} to {facts.simplify(first + n - 1)} of accumulator '{c.tile.buffer.name}', which has {size}, are not whole "
            f"pieces of {FRACTAL_ROWS}: the cube core writes no less of a tile",
            at=s.span,
            hint=f"start at a multiple of {FRACTAL_ROWS} and take a multiple of {FRACTAL_ROWS} {name}s, or give that part a tile of its own",
        )


def mmad_rows(m_tile: int, first: int, count: int) -> int:
    """`m` of the Mmad for `count` fractal rows from `first`. One row would switch the unit to its vector mode, which wants A in
    another layout; such tiles are padded to a full fractal (the copy fills the rows)."""
    rows = min(count * FRACTAL_ROWS, m_tile - first * FRACTAL_ROWS)
    return rows if rows > 1 else FRACTAL_ROWS


def divisor_at_most(n: int, limit: int) -> int:
    """Largest divisor of `n` that is at most `limit`: all steps alike."""
    return next(d for d in range(min(n, limit), 0, -1) if n % d == 0)


def _k_fractals(k: int, limit: int, pairs: bool, s: Evaluate) -> int:
    """Fractals of K in one step: a divisor of `k`, even where loads take pairs and there is more than one step."""
    if not pairs or k <= limit:
        return divisor_at_most(k, limit)
    if k % 2:
        raise UnsupportedConstruct(
            f"gemm of float32 with K along the rows of an operand: a K of {8 * k - 7} to {8 * k} is more than L0 holds and cannot be split "
            "into steps of 16",
            at=s.span,
            hint="make the K of the tile a multiple of 16",
        )
    return 2 * divisor_at_most(k // 2, max(1, limit // 2))


def _ends_in_zeros(op: Factor) -> bool:
    """True if zeros follow what a gemm reads of a tile along M or N, to the end of the fractal: the padding of the tile. Transfers fill that
    of columns up to 32 bytes."""
    d = -1 if op.k_is_row else -2
    first, size = (const_int(x) for x in (op.source.mins[d], op.source.extents[d]))
    to_the_end = first is not None and first % FRACTAL_ROWS == 0 and first + size == const_int(op.source.tile.shape[d])
    return to_the_end and not (op.k_is_row and itemsize(op.dtype) == 4)


def _loads_squares(op: Factor) -> bool:
    """True if the operand is transposed by loads of squares: 32x32 of 8-bit, 16x16 of 32-bit elements (16-bit fractals are squares)."""
    return op.k_is_row and itemsize(op.dtype) != 2


def _check_product(c: str, a: str, chip, s: Evaluate) -> None:
    """Raise unless the cube multiplies this dtype and accumulates in that of C."""
    rows = lookup("mmad").signatures[chip.generation]
    accumulators = [row[0] for row in rows if row[1:] == (a, a)]
    if c in accumulators:
        return
    if accumulators:
        raise DtypeMismatch(
            f"gemm of {a} accumulates in {accumulators[0]}, here C is {c}", at=s.span, hint=f"declare C as {accumulators[0]}"
        )
    known = ", ".join(dict.fromkeys(row[1] for row in rows))
    raise UnsupportedOnChip(
        f"the cube core of {chip.name} does not multiply {a}; it multiplies {known}",
        at=s.span,
        hint="copy the operands into float16 or float32 tiles first; T.copy converts",
    )


def _check_loadable(op: Factor, chip, facts: ValueFacts, s: Evaluate) -> None:
    """Raise unless the operand starts where the loads of the chip can."""
    side = op.side.upper()
    if not _loads_squares(op):
        _check_start(op.source, side, FRACTAL_ROWS if op.nz.by_rows else 1, op.nz.c0, facts, s)
        return
    assert _loaded_as(op.dtype) in lookup(f"load_l0{op.side}_transpose").dtypes(chip.generation), "see fit_operands"
    unit = SQUARE_SIDE[itemsize(op.dtype)]
    _check_start(op.source, side, unit, unit, facts, s)


def _check_start(source: Side, side: str, row_unit: int, column_unit: int, facts: ValueFacts, s: Evaluate) -> None:
    """Raise unless the part of a tile that a gemm works on starts where its layout can be entered."""
    for what, first, unit in zip(("column", "row"), reversed(source.mins[-2:]), (column_unit, row_unit)):
        if not facts.proves(tirx.EQ(tirx.floormod(first, imm(unit)), imm(0))):
            raise UnsupportedConstruct(
                f"T.gemm: {side} starts at {what} {first} of its tile, the cube core reads and writes tiles of {source.dtype} from "
                f"{what}s that are multiples of {unit}",
                at=s.span,
                hint=f"start {side} at a multiple of {unit}, or copy that part into a tile of its own",
            )


def _as_int(cond):
    """0/1 of a condition."""
    value = const_int(cond)
    return imm(int(value)) if value is not None else tirx.Cast("int32", cond)


def _loaded_as(dtype: str) -> str:
    """Loads move bytes: the 8-bit type the API knows stands for all of them."""
    return "int8" if itemsize(dtype) == 1 else dtype


def load(op: Factor, part: Part, chip, facts: ValueFacts, l0: L0Slots, span) -> list[Stmt]:
    """L1 -> L0: one part of an operand."""
    src = op.source
    row0, col0 = src.mins[-2] if len(src.mins) > 1 else imm(0), src.mins[-1]
    base = facts.simplify(op.nz.offset(row0, col0))
    if _loads_squares(op):
        return _load_squares(op, part, base, facts, l0, span)
    if lookup(f"load_l0{op.side}_v2").runs_on(chip.generation):
        return _load_v2(op, part, base, l0, span)
    # Fractal (outer i, k j) of L0A (Zz) is `i * kt + j`, of L0B (Zn) `j * count + i`.
    down, right = op.nz.fractal_steps
    step_k, step_outer = (down, right) if op.k_is_row else (right, down)
    origin = facts.simplify(part.first_k * step_k + part.first * step_outer)
    dst_k, dst_outer = part.steps_in_l0(op.side)
    along_outer, along_k = (part.count, step_outer, dst_outer), (part.kt, step_k, dst_k)
    plans = [_Runs(*along_outer, *along_k).joined(), _Runs(*along_k, *along_outer).joined()]
    runs = min(plans, key=lambda p: (p.repeat > MAX_REPEAT, p.loops))
    return _load_runs(op, part.slot, runs, base, origin, facts, l0, span)


@dataclass(frozen=True)
class _Runs:
    """`loops` runs of `repeat` fractals each, and how many fractals both are apart in L1 (`src`) and in L0 (`dst`)."""

    loops: int
    loop_src: int
    loop_dst: int
    repeat: int
    rep_src: int
    rep_dst: int

    def joined(self) -> _Runs:
        """One run where they follow each other and one instruction takes them all."""
        follow = self.loop_src == self.repeat * self.rep_src and self.loop_dst == self.repeat * self.rep_dst
        return replace(self, loops=1, repeat=self.loops * self.repeat) if follow and self.loops * self.repeat <= MAX_REPEAT else self


def _load_runs(op: Factor, slot, runs: _Runs, base, origin, facts: ValueFacts, l0: L0Slots, span) -> list[Stmt]:
    """`base`: element of the tile where the operand begins, `origin`: fractal of it where the runs do."""
    loops, repeat = runs.loops, runs.repeat
    out = []
    for start in range(0, repeat, MAX_REPEAT):
        n = min(MAX_REPEAT, repeat - start)
        i = tirx.Var("i_l0", "int32") if loops > 1 else None
        source = origin + start * runs.rep_src + (i * runs.loop_src if i is not None else 0)
        target = start * runs.rep_dst + (i * runs.loop_dst if i is not None else 0)
        call = intrin(
            f"load_l0{op.side}",
            l0.operand(op.side, slot, target, op.dtype),
            head(op.source.tile.buffer, op.source.version, facts.simplify(base + source * op.fractal)),
            0,
            n,
            runs.rep_src,
            runs.rep_dst - 1,
            int(op.k_is_row),
            span=span,
        )
        out.append(loop(i, loops, call, span=span) if i is not None else call)
    return out


def _load_squares(op: Factor, part: Part, base, facts: ValueFacts, l0: L0Slots, span) -> list[Stmt]:
    """An operand with K along the rows whose squares are more than one fractal, transposed on the way.

    8 bits: a square holds two fractals of N at one k. 32 bits: two fractals of k at one place of M or N.
    """
    count, kt, byte = part.count, part.kt, itemsize(op.dtype) == 1
    down, right = op.nz.fractal_steps
    outer_per_square, k_per_square = (2, 1) if byte else (1, 2)
    # Squares from one to the next along K and along M or N; two fractals make a square.
    step_k, step_outer = (down * 2 // 2, right // 2) if byte else (down // 2, right * 2 // 2)
    k_steps, repeat = ceil_div(kt, k_per_square), ceil_div(count, outer_per_square)
    dst_k, dst_outer = part.steps_in_l0(op.side)
    j = tirx.Var("k_sq", "int32") if k_steps > 1 else None
    # A last square that reaches one fractal too far, into the next row of L0A, comes first. With a single fractal of K it meets the
    # next square of the same instruction, so that there is one instruction for each.
    k = imm(0) if j is None else j if kt % k_per_square == 0 else k_steps - 1 - j
    i = tirx.Var("outer_sq", "int32") if k_per_square > kt and op.side == "a" and repeat > 1 else None
    at = i if i is not None else imm(0)
    square = (part.first // outer_per_square + at) * step_outer + (tirx.floordiv(part.first_k, imm(k_per_square)) + k) * step_k
    source = head(op.source.tile.buffer, op.source.version, facts.simplify(base + square * (2 * op.fractal)))
    fractal = facts.simplify(k * (k_per_square * dst_k) + at * (outer_per_square * dst_outer))
    source, target = reinterpret(source, _loaded_as(op.dtype)), l0.operand(op.side, part.slot, fractal, _loaded_as(op.dtype))
    gaps = outer_per_square * dst_outer - 1, (dst_outer if byte else dst_k) - 1
    body = intrin(f"load_l0{op.side}_transpose", target, source, 0, 1 if i is not None else repeat, step_outer, *gaps, span=span)
    for var, extent in ((i, repeat), (j, k_steps)):
        body = loop(var, extent, body, span=span) if var is not None else body
    return [body]


def _load_v2(op: Factor, part: Part, base, l0: L0Slots, span) -> list[Stmt]:
    """One instruction loads the whole rectangle of fractals; L0A is Nz and L0B Zn, both `k * count + outer`."""
    first, count, first_k, kt = part.first, part.count, part.first_k, part.kt
    down, right = op.nz.fractal_steps

    def rectangle(target, m_start, k_start, m_step, k_step, stride):
        return intrin(
            f"load_l0{op.side}_v2",
            l0.operand(op.side, part.slot, target, op.dtype),
            head(op.source.tile.buffer, op.source.version, base),
            m_start, k_start, m_step, k_step, stride, count, int(op.k_is_row),
            span=span,
        )  # fmt: skip

    if op.k_is_row:
        return [rectangle(0, first_k, first, kt, count, right)]
    if not op.nz.by_rows:
        return [rectangle(0, first, first_k, count, kt, right)]
    # Fractals lie row by row: one instruction for each row.
    i = tirx.Var("i_l0", "int32")
    return [loop(i, count, rectangle(i, (first + i) * down + first_k, 0, 1, kt, 1), span=span)]


__all__ = ["lower_gemm"]
