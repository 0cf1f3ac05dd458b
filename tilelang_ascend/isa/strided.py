"""Strided footprints: operands that touch equal pieces at a regular pitch, with gaps no byte of which is touched.

`Intrinsic.footprint` gives the span from the first to the last byte. Instructions that interleave (fractals of
neighbouring columns, columns of a row-major tile) have overlapping spans and disjoint pieces; whoever asks whether two
accesses meet needs both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .base import Intrinsic
from .units import BLOCK_BYTES, FRACTAL_BYTES, REPEAT_BYTES


class Values(Protocol):
    """What a rule may ask about the arguments of a call."""

    def exact(self, *names: str) -> int | None:
        """Sum of the arguments, None when it is not a constant."""

    def bound(self, name: str) -> int | None:
        """A constant the argument never exceeds, None when there is none."""

    def itemsize(self, operand: int) -> int:
        """Bytes of one element of an operand."""


Piece = "tuple[int | None, int | None]"
"""(bytes of one piece, bytes from piece to piece); None where unknown."""


def _times(value, factor: int):
    return None if value is None else value * factor


def _plus(value, more: int):
    return None if value is None else value + more


def _up(value, unit: int):
    return None if value is None else -(-value // unit) * unit


def _gm_rows(gap: str) -> Callable:
    return lambda v, _: (v.bound("block_len"), v.exact("block_len", gap))


def _ub_rows(gap: str, padded: bool) -> Callable:
    def rule(v: Values, _):
        if padded and v.exact("is_pad") != 0:
            return None, None
        row, length = _up(v.bound("block_len"), BLOCK_BYTES), _up(v.exact("block_len"), BLOCK_BYTES)
        blocks = v.exact(gap)
        return row, None if None in (length, blocks) else length + blocks * BLOCK_BYTES

    return rule


def _block_runs(gap: str, blocks: str = "block_len") -> Callable:
    return lambda v, _: (_times(v.bound(blocks), BLOCK_BYTES), _times(v.exact(blocks, gap), BLOCK_BYTES))


def _fractals(stride: str, more: int) -> Callable:
    return lambda v, _: (FRACTAL_BYTES, _times(_plus(v.exact(stride), more), FRACTAL_BYTES))


def _elements(length: str, stride: str) -> Callable:
    return lambda v, i: (_times(v.bound(length), v.itemsize(i)), _times(v.exact(stride), v.itemsize(i)))


def _nz_columns(v: Values, _) -> Piece:
    if v.exact("nd_num") != 1 or v.exact("dst_nz_n_stride") != 1:
        return None, None
    return _times(v.bound("n_value"), BLOCK_BYTES), _times(v.exact("dst_nz_c0_stride"), BLOCK_BYTES)


def _nd_rows(v: Values, i: int) -> Piece:
    return _elements("d_value", "src_d_value")(v, i) if v.exact("nd_num") == 1 else (None, None)


def _square_bytes(v: Values, i: int) -> int:
    return 2 * FRACTAL_BYTES if v.itemsize(i) != 2 else FRACTAL_BYTES


def _squares_read(v: Values, i: int) -> Piece:
    return _square_bytes(v, i), _times(v.exact("src_stride"), _square_bytes(v, i))


def _squares_written(v: Values, i: int) -> Piece:
    """Whole squares at a pitch, or one run of fractals for each of the two halves of all squares."""
    if v.exact("dst_frac_gap") == 0:
        return _square_bytes(v, i), _times(_plus(v.exact("dst_gap"), 1), FRACTAL_BYTES)
    if v.exact("dst_gap") == 0:
        return _times(v.bound("repeat_times"), FRACTAL_BYTES), _times(_plus(v.exact("dst_frac_gap"), 1), FRACTAL_BYTES)
    return None, None


def _rows_of_half(v: Values, i: int):
    """Half of the columns with `dual` 2."""
    dual, columns = v.exact("dual"), v.bound("n_size")
    if dual is None or columns is None:
        return None, None
    return columns // (2 if dual == 2 else 1) * v.itemsize(i), _times(v.exact("dst_stride"), v.itemsize(i))


_RULES: dict[tuple[str, str], Callable] = {
    ("copy_gm_to_ub", "s"): _gm_rows("src_stride"),
    ("copy_gm_to_ub", "d"): _ub_rows("dst_stride", padded=True),
    ("copy_ub_to_gm", "d"): _gm_rows("dst_stride"),
    ("copy_ub_to_gm", "s"): _ub_rows("src_stride", padded=False),
    ("copy_gm_to_l1_nd2nz", "s"): _nd_rows,
    ("copy_gm_to_l1_nd2nz", "d"): _nz_columns,
    ("fill_l1", "d"): _block_runs("dst_gap", "block_num"),
    ("copy_ub_to_ub", "d"): _block_runs("dst_gap"),
    ("copy_ub_to_ub", "s"): _block_runs("src_gap"),
    ("copy_ub_to_l1", "d"): _block_runs("dst_gap"),
    ("copy_ub_to_l1", "s"): _block_runs("src_gap"),
    ("load_l0a", "d"): _fractals("dst_gap", 1),
    ("load_l0a", "s"): _fractals("src_stride", 0),
    ("load_l0b", "d"): _fractals("dst_gap", 1),
    ("load_l0b", "s"): _fractals("src_stride", 0),
    ("load_l0a_transpose", "d"): _squares_written,
    ("load_l0a_transpose", "s"): _squares_read,
    ("load_l0b_transpose", "d"): _squares_written,
    ("load_l0b_transpose", "s"): _squares_read,
    ("fixpipe_to_gm", "d"): _elements("n_size", "dst_stride"),
    ("fixpipe_to_ub", "d"): _rows_of_half,
}
"""(record, operand) -> rule."""


for _name in ("whole_reduce_sum", "whole_reduce_max", "whole_reduce_min"):
    # One element for each repeat.
    _RULES[_name, "d"] = lambda v, i: (v.itemsize(i), _times(v.exact("d_rep"), v.itemsize(i)))


def _lanes(record: Intrinsic, v: Values) -> int | None:
    """The highest active lane of a repeat plus one, None when the mask is not known."""
    scalars = {a.name for a in record.args}
    if "mask" in scalars:
        return v.bound("mask")
    if "mask_hi" not in scalars:
        return None
    mask = _mask(v)
    return None if mask is None else mask.bit_length()


def _mask(v: Values) -> int | None:
    high, low = v.exact("mask_hi"), v.exact("mask_lo")
    return None if None in (high, low) else (high & _WORD) << 64 | low & _WORD


_WORD = (1 << 64) - 1


def _repeats(record: Intrinsic, name: str) -> Callable:
    """Operand of a high-dimension vector form: a piece is the active lanes of one repeat, of eight blocks at most."""

    def rule(v: Values, i: int):
        block, lanes, size = v.exact(name + "_blk"), _lanes(record, v), v.itemsize(i)
        if block is None:
            return None, None
        bytes_used = REPEAT_BYTES if lanes is None else min(lanes * size, REPEAT_BYTES)
        blocks = max(1, -(-bytes_used // BLOCK_BYTES))
        last = bytes_used - (blocks - 1) * BLOCK_BYTES if block else min(bytes_used, BLOCK_BYTES)
        return (blocks - 1) * block * BLOCK_BYTES + last, _times(v.exact(name + "_rep"), BLOCK_BYTES)

    return rule


def _rule(record: Intrinsic, name: str) -> Callable | None:
    rule = _RULES.get((record.name, name))
    if rule is None and _has_blocks(record, name):
        rule = _repeats(record, name)
    return rule


def _has_blocks(record: Intrinsic, name: str) -> bool:
    """True for operands of high-dimension vector forms."""
    return name + "_rep" in record.arg_names and name + "_blk" in record.arg_names


def strided_footprint(record: Intrinsic, operand: int, values: Values) -> tuple[int, int] | None:
    """(piece bytes, pitch bytes) of one operand, None when its bytes are not known to be pieces with gaps."""
    rule = _rule(record, record.operands[operand].name)
    piece, pitch = rule(values, operand) if rule else (None, None)
    return None if None in (piece, pitch) or piece >= pitch else (piece, pitch)


def _turned_blocks(v: Values, i: int) -> bool:
    row, rep, repeats = (v.exact(n) for n in ("d_row", "d_rep", "repeat"))
    places = {k * row + r * rep for k in range(16) for r in range(repeats)}
    return v.itemsize(i) > 1 and len(places) == max(places, default=0) + 1


def _whole_repeats(v: Values, i: int) -> bool:
    return v.exact("d_rep") == 1 and v.exact("mask") * v.itemsize(1) >= REPEAT_BYTES


def _one_run(gap: str, count: str) -> Callable:
    return lambda v, _: v.exact(gap) == 0 or v.exact(count) <= 1


def _fractal_columns(v: Values, _) -> bool:
    return v.exact("dst_stride") == v.exact("k_step" if v.exact("if_transpose") else "m_step")


_WITHOUT_GAPS: dict[tuple[str, str], Callable] = {
    ("copy_gm_to_ub", "d"): _one_run("dst_stride", "block_count"),
    ("copy_ub_to_ub", "d"): _one_run("dst_gap", "block_count"),
    ("copy_ub_to_l1", "d"): _one_run("dst_gap", "block_count"),
    ("fill_l1", "d"): _one_run("dst_gap", "repeat_times"),
    ("fixpipe_to_l1", "d"): lambda v, _: v.exact("dst_stride") == v.exact("m_size"),
    ("load_l0a_v2", "d"): _fractal_columns,
    ("load_l0b_v2", "d"): _fractal_columns,
    ("trans_data_to_5hd", "d"): _turned_blocks,
    **{(f"block_reduce_{kind}", "d"): _whole_repeats for kind in ("sum", "max", "min")},
    ("pair_reduce_sum", "d"): _whole_repeats,
}
"""(record, operand) -> True if nothing lies between its pieces. Operands that neither have a rule nor pieces are one run of bytes."""


def fills(record: Intrinsic, operand: int, values: Values) -> bool:
    """True if a call whose arguments are all constants touches every byte of an operand that it writes: of its pieces (`strided_footprint`), or of its
    span if it has none."""
    name = record.operands[operand].name
    without_gaps = _WITHOUT_GAPS.get((record.name, name))
    if without_gaps is not None:
        return without_gaps(values, operand)
    has_blocks = _has_blocks(record, name)
    if "mask_hi" in record.arg_names and not (has_blocks and _first_lanes(values)):
        return False
    if has_blocks:
        return values.exact(name + "_blk") == 1 and None not in _rule(record, name)(values, operand)
    return _rule(record, name) is None or _touching(record, operand, values)


def _first_lanes(v: Values) -> bool:
    """The mask chooses lanes from the first one on, and all up to the last."""
    mask = _mask(v)
    return mask & (mask + 1) == 0


def _touching(record: Intrinsic, operand: int, v: Values) -> bool:
    piece, pitch = _rule(record, record.operands[operand].name)(v, operand)
    return None not in (piece, pitch) and piece >= pitch


__all__ = ["Values", "fills", "strided_footprint"]
