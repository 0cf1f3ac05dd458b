"""compare, compare_scalar, select: lanes as bits."""

from __future__ import annotations

import numpy as np

from ..units import REPEAT_BYTES
from .elementwise import constant
from .memory import Execution, Tensor
from .number import is_float, scalar_of, widen

_RELATIONS = {
    "lt": np.less, "gt": np.greater, "eq": np.equal, "le": np.less_equal, "ge": np.greater_equal,
    # A comparison with NaN is false in every mode, ne included.
    "ne": lambda a, b: (a < b) | (a > b),
}  # fmt: skip


def _holds(mode: str, dtype: str, a, b) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        if is_float(dtype):
            a, b = (widen(v) if np.ndim(v) else v for v in (a, b))
        return _RELATIONS[mode](a, b)


def _write_bits(d: Tensor, first: int, bits: np.ndarray) -> None:
    """Store bits from bit `first` on; other bits keep their value."""
    for position, bit in enumerate(np.asarray(bits, dtype=bool), first):
        byte = position // 8
        old = int(d.read([byte])[0])
        d.write([byte], [old | 1 << position % 8 if bit else old & ~(1 << position % 8)])


def compare(x: Execution) -> None:
    d, s0, s1 = x.operands
    count = x.a["count"]
    _write_bits(d, 0, _holds(x.attrs["mode"], s0.dtype, s0.read_n(count), s1.read_n(count)))


def compare_scalar(x: Execution) -> None:
    d, s = x.operands
    scalar = scalar_of(x.a["scalar"], s.dtype)
    _write_bits(d, 0, _holds(x.attrs["mode"], s.dtype, s.read_n(x.a["count"]), scalar))


def compare_mask(x: Execution) -> None:
    """Result bit r * lanes + i is lane i of repeat r; bits of masked-off lanes keep their value."""
    d, s0, s1 = x.operands
    per_repeat = REPEAT_BYTES // s0.itemsize
    lanes = np.nonzero(x.mask(per_repeat))[0]
    for repeat in range(x.a["repeat"]):
        bits = _holds(
            x.attrs["mode"],
            s0.dtype,
            s0.read(x.lane_offsets("s0", lanes, repeat)),
            s1.read(x.lane_offsets("s1", lanes, repeat)),
        )
        for lane, bit in zip(lanes, bits):
            _write_bits(d, repeat * per_repeat + int(lane), [bit])


def _mask_bits(mask: Tensor, count: int) -> np.ndarray:
    raw = mask.read_n(-(-count // 8)) if count else np.zeros(0, np.uint8)
    return np.unpackbits(raw.view(np.uint8), bitorder="little")[:count].astype(bool)


def select(x: Execution) -> None:
    d, mask, s0, s1 = x.operands
    count = x.a["count"]
    d.write_n(np.where(_mask_bits(mask, count), s0.read_n(count), s1.read_n(count)))


def select_scalar(x: Execution) -> None:
    d, mask, s0 = x.operands
    count = x.a["count"]
    other = constant(scalar_of(x.a["scalar"], d.dtype), d.dtype, count)
    d.write_n(np.where(_mask_bits(mask, count), s0.read_n(count), other))


SELECTION = {
    "compare": compare, "compare_mask": compare_mask, "compare_scalar": compare_scalar, "select": select,
    "select_scalar": select_scalar,
}  # fmt: skip
