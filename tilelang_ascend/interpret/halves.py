"""Arrays of numbers of 4 bits, two in a byte of other memory."""

from __future__ import annotations

import math

import numpy as np


class Halves:
    """Looks like an array of `shape` whose elements are the halves of bytes `raw`; the one with the even index is the low one. Each row of the
    last dimension begins with a byte of its own (tensors), or one row follows the other (tiles). dtype: of the numbers; `None` are the codes."""

    def __init__(self, raw: np.ndarray, shape, dtype: str | None, by_rows: bool):
        self.shape = tuple(shape)
        self.ndim, self.size = len(self.shape), math.prod(self.shape)
        self.kind, self.dtype = dtype, _numpy(dtype)
        self.by_rows = by_rows or not self.shape[-1] % 2
        self.raw = raw.reshape(*self.shape[:-1], (self.shape[-1] + 1) // 2) if self.by_rows else raw.reshape(-1)

    # -- elements

    def __getitem__(self, index):
        if not self._is_element(index):
            return self._numbers(index[:-1])[(..., index[-1])] if self._has_rows(index) else np.asarray(self)[index]
        raw, high = self._byte(index)
        byte = self.raw[raw]
        return self._decoded(np.array(byte >> 4 if high else byte & 15, np.uint8))[()]

    def __setitem__(self, index, values) -> None:
        if not self._is_element(index):
            rows = index[:-1] if self._has_rows(index) else ()
            new = self._numbers(rows)
            new[(..., index[-1]) if self._has_rows(index) else index] = values
            self._assign(rows, new)
            return
        raw, high = self._byte(index)
        code = int(self._encoded(np.array(values).astype(self.dtype)))
        self.raw[raw] = self.raw[raw] & 15 | code << 4 if high else self.raw[raw] & 240 | code

    def _is_element(self, index) -> bool:
        return type(index) is tuple and len(index) == self.ndim and all(isinstance(i, (int, np.integer)) for i in index)

    def _has_rows(self, index) -> bool:
        return self.by_rows and type(index) is tuple and len(index) == self.ndim and all(isinstance(i, slice) for i in index)

    def _byte(self, index) -> tuple:
        """(place in `raw`, whether it is the high half) of an element."""
        if self.by_rows:
            return (*index[:-1], index[-1] // 2), index[-1] % 2
        number = int(np.ravel_multi_index(index, self.shape))
        return (number // 2,), number % 2

    def _numbers(self, rows: tuple) -> np.ndarray:
        """All numbers of some rows."""
        raw = self.raw[rows]
        codes = np.stack((raw & 15, raw >> 4), axis=-1).reshape(*raw.shape[:-1], 2 * raw.shape[-1])
        codes = codes[..., : self.shape[-1]] if self.by_rows else codes[: self.size].reshape(self.shape)
        return self._decoded(codes)

    def _assign(self, rows: tuple, numbers: np.ndarray) -> None:
        codes = self._encoded(numbers) if self.by_rows else self._encoded(numbers).reshape(-1)
        raw = self.raw[rows]
        odd = codes[..., 1::2]
        raw[...] = codes[..., ::2] | raw & 240
        raw[..., : odd.shape[-1]] = raw[..., : odd.shape[-1]] & 15 | odd << 4

    def _decoded(self, codes: np.ndarray) -> np.ndarray:
        if self.kind == "int4":
            return ((codes ^ 8) - 8).astype(np.uint8).view(np.int8)
        return codes.view(self.dtype)

    def _encoded(self, numbers: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(numbers).view(np.uint8).reshape(numbers.shape) & 15

    # -- what else arrays have

    def __array__(self, dtype=None, copy=None):
        found = self._numbers(())
        return found if dtype is None else found.astype(dtype)

    def astype(self, dtype) -> np.ndarray:
        """The numbers as another dtype."""
        return np.asarray(self).astype(dtype)


def _numpy(dtype: str | None) -> np.dtype:
    if dtype == "float4_e2m1fn":
        import ml_dtypes

        return np.dtype(ml_dtypes.float4_e2m1fn)
    return np.dtype("int8" if dtype == "int4" else "uint8")
