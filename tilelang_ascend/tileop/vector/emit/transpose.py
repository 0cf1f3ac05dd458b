"""Transposed access: lanes that follow each other lie whole rows apart, and those of another axis lie next to each other.

    v[p, q] = x[q, p]        p contiguous in x, q contiguous in the result

`trans_data_to_5hd` turns sixteen rows of one 32-byte block: squares of 16 x 16 elements of 16 bits straight into the result; 16 x 8 of
32 bits into columns of sixteen, which block copies take to their rows. A gather moves a twentieth of that in a cycle (hardware facts: 5
lanes against 64 of 32 and 128 of 16 bits), and needs a table.
"""

from __future__ import annotations

from dataclasses import replace

from ....analysis.index.sums import add, constant
from ....ir import itemsize
from ....isa.units import MAX_REPEAT
from .views import View, offset_by

ROWS = 16
"""Rows that one instruction turns."""
TURNED_AS = {2: "uint16", 4: "uint32"}
"""What the instruction calls elements of dtypes it does not know."""
TURNED = ("int16", "uint16", "float16", "int32", "uint32", "float32")


def transposed_view(values, view: View, axes: tuple[int, ...]) -> View | None:
    """The lanes of `view` in a canonical temporary over `axes`; None if they are not whole blocks of whole groups of rows."""
    real = [a for a in axes if values.extents[a] > 1]
    across = [a for a in real if view.strides[a] == 1]
    if len(real) < 2 or len(across) != 1 or across[0] == real[-1] or itemsize(view.dtype) not in TURNED_AS:
        return None
    p, q = across[0], real[-1]
    rows = [view.strides[a] for a in real if a != p]
    whole = values.extents[p] % view.block == 0 and values.extents[q] % ROWS == 0
    if not whole or view.strides[q] < 0 or any(s % view.block for s in rows) or not view.base.multiple_of(view.block):
        return None
    out = values.temporary(view.dtype, axes, "transposed")
    if view.dtype not in TURNED:
        view = view.retyped(TURNED_AS[itemsize(view.dtype)])
    target = out.retyped(view.dtype)
    turn = _turn_words if itemsize(view.dtype) == 4 else _turn

    def planes(others: list[int], source, at):
        if not others:
            turn(values, target, view, p, q, source, at)
            return
        a, *rest = others

        def one(i):
            planes(rest, add(source, offset_by(i, view.strides[a])), add(at, offset_by(i, out.strides[a])))

        values.emitter.repeat(values.extents[a], one)

    planes([a for a in real if a not in (p, q)], constant(0), constant(0))
    return out


def _turn(values, out: View, view: View, p: int, q: int, source, at) -> None:
    """16-bit elements: row q of a square becomes column q."""
    counts = values.extents[q] // ROWS, values.extents[p] // view.block
    turn_squares(
        values.emitter, _moved(out, at), _moved(view, source), counts, view.strides[q], out.strides[p], (ROWS, ROWS * out.strides[p])
    )


def _turn_words(values, out: View, view: View, p: int, q: int, source, at) -> None:
    """32-bit elements: sixteen rows become columns of two blocks, one behind the other, which is what the result is for sixteen rows."""
    groups, columns = values.extents[q] // ROWS, values.extents[p]
    counts = groups, columns // view.block
    # Elements from one group of columns to the next, and from a block of columns to the next.
    steps = columns * ROWS, view.block * ROWS
    if groups == 1 and out.strides[p] == ROWS:
        turn_squares(values.emitter, _moved(out, at), _moved(view, source), counts, view.strides[q], view.block, steps)
        return
    packed = values.temporary_lanes(view.dtype, groups * columns * ROWS, "columns")
    turn_squares(values.emitter, packed, _moved(view, source), counts, view.strides[q], view.block, steps)
    blocks = ROWS // view.block

    def one(g):
        heads = [out.head(add(at, offset_by(g, ROWS))), packed.head(offset_by(g, steps[0]))]
        values.emitter.issue("copy_ub_to_ub", *heads, columns, blocks, 0, out.strides[p] // view.block - blocks)

    values.emitter.repeat(groups, one)


def _moved(view: View, offset) -> View:
    return replace(view, base=add(view.base, offset))


def turn_squares(emitter, out: View, view: View, counts, row: int, out_row: int, steps) -> None:
    """Turn `counts` (groups of sixteen rows, blocks of them). Elements: `row` from row to row of the source, `out_row` of the result;
    `steps` from square to square of the result, by groups and by blocks."""
    block = view.block
    by_group = (counts[0], ROWS * row, steps[0])
    by_block = (counts[1], block, steps[1])
    loop, repeat = (by_group, by_block) if counts[0] < counts[1] else (by_block, by_group)

    def one(i, start: int, n: int):
        move = [add(offset_by(i, loop[k]), constant(start * repeat[k])) for k in (1, 2)]
        heads = [out.head(move[1]), view.head(move[0])]
        reps = (repeat[2] // block, repeat[1] // block) if n > 1 else (0, 0)
        emitter.issue("trans_data_to_5hd", *heads, out_row // block, row // block, 0, 0, n, *reps)

    for start in range(0, repeat[0], MAX_REPEAT):
        n = min(MAX_REPEAT, repeat[0] - start)
        emitter.repeat(loop[0], lambda i, start=start, n=n: one(i, start, n))


__all__ = ["transposed_view", "turn_squares"]
