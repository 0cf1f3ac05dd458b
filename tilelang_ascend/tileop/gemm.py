"""gemm of a tile in L1 into an accumulator in L0C: cut to L0 sizes, double-buffered, any M, N, K, transposed or not.

For every step of K (and of M or N where a tile exceeds L0) the operands are loaded as fractals, L1 -> L0A and L0B, and multiplied by
one Mmad. L0A and L0B have two versions, so that MTE1 loads step s + 1 while M works on step s.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnsupportedConstruct
from ..ir import Evaluate, Stmt, const_int, imm, intrin, itemsize, loop, seq, tirx
from ..isa.base import Space
from .layout import FRACTAL_BYTES, FRACTAL_ROWS, NzLayout, ceil_div
from .state import LoweringState, Side, as_int, head

L0_VERSIONS = 2
MAX_REPEAT = 255


@dataclass(frozen=True)
class Operand:
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


def lower_gemm(s: Evaluate, state: LoweringState) -> Stmt:
    """Lower `tl.gemm(A, B, C, clear)`; A and B lie in L1, C in L0C."""
    a, b, c = (state.side(x) for x in s.value.args[:3])
    clear = s.value.args[3]
    ta, tb = int(s.value.attrs["transpose_A"]), int(s.value.attrs["transpose_B"])
    size = itemsize(a.dtype)
    k0 = 32 // size
    m_tile, n_tile = (const_int(e) for e in c.extents[-2:])
    k_tile = const_int(a.extents[-2 if ta else -1])
    left = Operand("a", a, a.tile.nz, ceil_div(m_tile, FRACTAL_ROWS), ceil_div(k_tile, k0), bool(ta), a.dtype)
    # Transposing loads of 8-bit types move 32x32 squares: two fractals of N at a time.
    n_fractals = ceil_div(n_tile, FRACTAL_ROWS) if size > 1 else ceil_div(n_tile, 2 * FRACTAL_ROWS) * 2
    right = Operand("b", b, b.tile.nz, n_fractals, ceil_div(k_tile, k0), not tb, b.dtype)
    for op in (left, right):
        _check_loadable(op, s)

    fractal_bytes = FRACTAL_BYTES
    room_a = state.chip.capacity_bytes(Space.L0A) // L0_VERSIONS // fractal_bytes
    room_b = state.chip.capacity_bytes(Space.L0B) // L0_VERSIONS // fractal_bytes
    mt, nt = min(left.outer, room_a), min(right.outer, room_b)
    kt = divisor_at_most(left.k, max(1, min(room_a // mt, room_b // nt)))
    m_chunks = [(i, min(mt, left.outer - i)) for i in range(0, left.outer, mt)]
    n_chunks = [(i, min(nt, right.outer - i)) for i in range(0, right.outer, nt)]
    k_steps = left.k // kt
    steps = len(m_chunks) * len(n_chunks) * k_steps
    parity = _parity(state, steps)

    l0a = state.declare([L0_VERSIONS, mt * kt * left.fractal], left.dtype, f"{a.tile.buffer.name}_l0a", "local.l0a")
    l0b = state.declare([L0_VERSIONS, nt * kt * right.fractal], right.dtype, f"{b.tile.buffer.name}_l0b", "local.l0b")
    out, done = [], 0
    for m_first, m_count in m_chunks:
        for n_first, n_count in n_chunks:
            ki = tirx.Var("k_l0", "int32") if k_steps > 1 else None
            version = _version(parity, done, ki)
            first_k = ki * kt if ki is not None else imm(0)
            body = [
                *load(left, l0a, version, m_first, m_count, first_k, kt, state, s.span),
                *load(right, l0b, version, n_first, n_count, first_k, kt, state, s.span),
            ]
            c_row, c_col = c.mins[-2] + m_first * FRACTAL_ROWS, c.mins[-1] + n_first * FRACTAL_ROWS
            init = clear if ki is None or const_int(clear) == 0 else tirx.And(clear, tirx.EQ(ki, imm(0)))
            body.append(
                intrin(
                    "mmad",
                    head(c.tile.buffer, c.version, state.simplify(c.tile.nz.offset(c_row, c_col))),
                    head(l0a, version, 0),
                    head(l0b, version, 0),
                    mmad_rows(m_tile, m_first, m_count),
                    min(n_count * FRACTAL_ROWS, n_tile - n_first * FRACTAL_ROWS) if size > 1 else n_count * FRACTAL_ROWS,
                    kt * k0,
                    0,
                    0,
                    as_int(state.simplify(init)),
                    span=s.span,
                )
            )
            out.append(loop(ki, k_steps, seq(body), span=s.span) if ki is not None else seq(body))
            done += k_steps
    return seq(out)


def mmad_rows(m_tile: int, first: int, count: int) -> int:
    """`m` of the Mmad for `count` fractal rows from `first`. One row would switch the unit to its vector mode, which wants A in
    another layout; such tiles are padded to a full fractal (the copy fills the rows)."""
    rows = min(count * FRACTAL_ROWS, m_tile - first * FRACTAL_ROWS)
    return rows if rows > 1 else FRACTAL_ROWS


def divisor_at_most(n: int, limit: int) -> int:
    """Largest divisor of `n` that is at most `limit`: all steps alike."""
    return next(d for d in range(min(n, limit), 0, -1) if n % d == 0)


def _parity(state: LoweringState, steps: int):
    """Version offset of the first step of one execution: successive executions in a loop continue to alternate."""
    if steps % L0_VERSIONS == 0 or not state.loops:
        return 0
    return state.loops[-1]


def _version(parity, done: int, ki):
    """Version of a step: (executions before + steps before) mod 2."""
    count = parity + done
    if ki is not None:
        count = ki + count
    if isinstance(count, int):
        return imm(count % L0_VERSIONS)
    return tirx.floormod(count, imm(L0_VERSIONS))


def _check_loadable(op: Operand, s: Evaluate) -> None:
    size = itemsize(op.dtype)
    if op.k_is_row and size == 4:
        raise UnsupportedConstruct(
            f"gemm of {op.dtype} needs K along the columns of {op.side.upper()}, here it runs along the rows",
            at=s.span,
            hint=f"store the operand the other way round and pass transpose_{op.side.upper()}",
        )
    if op.k_is_row and size == 1 and op.side == "a":
        raise UnsupportedConstruct(
            f"gemm of {op.dtype} with transpose_A: no load transposes 8-bit fractals into L0A",
            at=s.span,
            hint="store A as [M, K]",
        )


def load(op: Operand, l0, version, first: int, count: int, first_k, kt: int, state: LoweringState, span) -> list[Stmt]:
    """L1 -> L0: `count` outer fractals from `first`, `kt` fractals of K from `first_k`."""
    src = op.source
    row0, col0 = src.mins[-2] if len(src.mins) > 1 else imm(0), src.mins[-1]
    base = state.simplify(op.nz.offset(row0, col0))
    rows = op.nz.rows_padded // FRACTAL_ROWS
    if state.chip.generation == "3510":
        return _load_v2(op, l0, version, first, count, first_k, kt, base, rows, span)
    if op.k_is_row and itemsize(op.dtype) == 1:
        return _load_squares(op, l0, version, first, count, first_k, kt, base, rows, state, span)
    # Fractal (outer i, k j) of the source is `row + col * rows`; of L0A (Zz) `i * kt + j`, of L0B (Zn) `j * count + i`.
    step_k, step_outer = (1, rows) if op.k_is_row else (rows, 1)
    origin = state.simplify(first_k * step_k + first * step_outer)
    dst_k, dst_outer = (1, kt) if op.side == "a" else (count, 1)
    plans = [(count, step_outer, dst_outer, kt, step_k, dst_k), (kt, step_k, dst_k, count, step_outer, dst_outer)]
    loops, loop_src, loop_dst, repeat, rep_src, rep_dst = min(plans, key=lambda p: (p[3] > MAX_REPEAT, p[0]))
    if loop_src == repeat * rep_src and loop_dst == repeat * rep_dst and loops * repeat <= MAX_REPEAT:
        loops, repeat = 1, loops * repeat
    return _fractal_loop(op, l0, version, base, origin, loops, loop_src, loop_dst, repeat, rep_src, rep_dst, int(op.k_is_row), state, span)


def _fractal_loop(op, l0, version, base, origin, loops, loop_src, loop_dst, repeat, rep_src, rep_dst, transpose, state, span):
    out = []
    for start in range(0, repeat, MAX_REPEAT):
        n = min(MAX_REPEAT, repeat - start)
        i = tirx.Var("i_l0", "int32") if loops > 1 else None
        source = origin + start * rep_src + (i * loop_src if i is not None else 0)
        target = start * rep_dst + (i * loop_dst if i is not None else 0)
        call = intrin(
            f"load_l0{op.side}",
            head(l0, version, target * op.fractal),
            head(op.source.tile.buffer, op.source.version, state.simplify(base + source * op.fractal)),
            0,
            n,
            rep_src,
            rep_dst - 1,
            transpose,
            span=span,
        )
        out.append(loop(i, loops, call, span=span) if i is not None else call)
    return out


def _load_squares(op, l0, version, first, count, first_k, kt, base, rows, state, span):
    """8-bit B stored [K, N]: 32x32 squares, transposed on the way. One square is two fractals of N."""
    j = tirx.Var("k_sq", "int32") if kt > 1 else None
    squares_per_group = rows // 2
    k = first_k + (j if j is not None else 0)
    groups = ceil_div(count, 2)
    source = state.simplify(base + ((first // 2) * squares_per_group + k) * (2 * op.fractal))
    target = (j if j is not None else imm(0)) * (count * op.fractal)
    call = intrin(
        "load_l0b_transpose",
        head(l0, version, target),
        head(op.source.tile.buffer, op.source.version, source),
        0,
        groups,
        squares_per_group,
        1,
        0,
        span=span,
    )
    return [loop(j, kt, call, span=span) if j is not None else call]


def _load_v2(op, l0, version, first, count, first_k, kt, base, rows, span):
    """One instruction loads the whole rectangle of fractals; L0A is Nz and L0B Zn, both `k * count + outer`."""
    m_start, k_start, m_step, k_step = (first_k, first, kt, count) if op.k_is_row else (first, first_k, count, kt)
    return [
        intrin(
            f"load_l0{op.side}_v2",
            head(l0, version, 0),
            head(op.source.tile.buffer, op.source.version, base),
            m_start,
            k_start,
            m_step,
            k_step,
            rows,
            count,
            int(op.k_is_row),
            span=span,
        )
    ]


__all__ = ["lower_gemm"]
