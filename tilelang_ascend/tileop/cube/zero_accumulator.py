"""`tl.zero_accumulator`: an accumulator becomes zero.

No instruction fills L0C; a Mmad of zeros does. One fractal of zeros in L1 serves all fractals of L0A and L0B (source
stride 0), and K is a single fractal, so this is a handful of instructions.
"""

from __future__ import annotations

from ...analysis.index.value_facts import ValueFacts
from ...ir import Evaluate, Stmt, const_int, imm, intrin, itemsize, reinterpret, seq
from ...isa import lookup
from ...isa.units import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, ceil_div
from ..base.layout import head
from ..base.output import Output
from ..base.placement import Placement, Side
from .gemm import check_fractals, divisor_at_most


def lower_zero_accumulator(s: Evaluate, placement: Placement, facts: ValueFacts, out: Output) -> Stmt:
    """Lower `tl.zero_accumulator(C)`; the region, of the version of the tile it names, becomes zero."""
    c = placement.side(s.value.args[0])
    check_fractals(c, facts, s, "T.clear")
    dtype = "int8" if c.dtype == "int32" else "float16"
    fractal = FRACTAL_BYTES // itemsize(dtype)
    runs, total = _runs(c)
    mt = divisor_at_most(total, out.l0.room("a"))
    columns = total // mt
    nt = divisor_at_most(columns, out.l0.room("b"))
    rectangles = lookup("load_l0a_v2").runs_on(placement.chip.generation)
    fractals = max(mt, nt) if rectangles else 1
    name = c.tile.buffer.name
    zeros = out.declare([1, fractals * fractal], dtype, f"{name}_zeros", "shared.l1", s.span)
    # The fill knows no 8-bit types; zero bytes are zero in any.
    filled = reinterpret(head(zeros, imm(0), 0), "int16")
    stmts = [intrin("fill_l1", filled, 1, fractals * FRACTAL_BYTES // BLOCK_BYTES, 0, 0, span=s.span)]
    # Zeros are made once in many iterations, or never: they do not decide whose turn it is in the others.
    sources, slot = [], out.l0.take(0)
    for side, count in (("a", mt), ("b", nt)):
        out.l0.reserve(side, count, dtype)
        heads = [out.l0.operand(side, slot, 0, dtype), head(zeros, imm(0), 0)]
        if rectangles:
            stmts.append(intrin(f"load_l0{side}_v2", *heads, 0, 0, count, 1, fractals, count, 0, span=s.span))
        else:
            stmts.append(intrin(f"load_l0{side}", *heads, 0, count, 0, 0, 0, span=s.span))
        sources.append(heads[0])
    rows, cols, k = mt * FRACTAL_ROWS, nt * FRACTAL_ROWS, BLOCK_BYTES // itemsize(dtype)
    for first in runs:
        for i in range(columns // nt):
            target = head(c.tile.buffer, c.version, facts.simplify(first + i * rows * cols))
            stmts.append(intrin("mmad", target, *sources, rows, cols, k, 0, 0, 1, span=s.span))
    return seq(stmts)


def _runs(c: Side) -> tuple[list, int]:
    """(first elements, number of fractals of each) of the runs of fractals that are a region of an accumulator."""
    nz = c.tile.nz
    rows, cols = (const_int(n) for n in c.extents[-2:])
    row, col = c.mins[-2:]
    if const_int(row) == 0 and const_int(col) == 0 and (rows, cols) == (nz.rows, const_int(c.tile.shape[-1])):
        # The fractals of a tile are contiguous: any shape with as many of them will do.
        return [imm(0)], nz.elements // FRACTAL_ROWS**2
    groups, down = ceil_div(cols, nz.c0), ceil_div(rows, FRACTAL_ROWS)
    if down * FRACTAL_ROWS == nz.rows_padded:
        return [nz.offset(row, col)], groups * down
    return [nz.offset(row, col + g * nz.c0) for g in range(groups)], down


__all__ = ["lower_zero_accumulator"]
