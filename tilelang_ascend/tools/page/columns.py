"""Arrays in JSON."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Mapping

import numpy as np


def pack(values: np.ndarray) -> dict[str, str]:
    """A one-dimensional array of numbers as text: its dtype, and its bytes deflated and in base64. Integers take the smallest dtype that holds
    them."""
    if values.dtype.kind in "iu":
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        kinds = ("u1", "u2", "u4") if low >= 0 else ("i1", "i2", "i4")
        values = values.astype(next((k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max), "i8"))
    values = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": values.dtype.str, "data": base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()}


def unpack(packed: Mapping[str, str]) -> np.ndarray:
    """Inverse of `pack`.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    dtype = np.dtype(packed["dtype"])
    if dtype.kind not in "iuf":
        raise ValueError(f"a column of dtype {dtype}")
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(packed["data"], validate=True)), dtype)
    except zlib.error as error:
        raise ValueError(f"a column that is not deflated: {error}") from None


def pack_rows(rows: np.ndarray, names: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a structured array, each packed."""
    return {name: pack(np.ascontiguousarray(rows[name])) for name in names}
