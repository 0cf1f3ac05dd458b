"""Tensors with more elements than an int32 can number: indices and what is compared with them are what the compiler makes of them."""

import both  # noqa: F401
import numpy as np
import pytest
from test_large_tensors import BLOCKS, CASES, ELEMENTS, LANES, STEP, chosen_by_data, some, stores

import tilelang_ascend.language as T
from tilelang_ascend import interpret


class Sparse(np.ndarray):
    """`ELEMENTS` int8, of which the first ones of every `STEP` are those of `places`; the others are nowhere."""

    @classmethod
    def of(cls, places: np.ndarray) -> "Sparse":
        self = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (ELEMENTS,), (0,)).view(cls)
        self.places = places
        return self

    def __array_finalize__(self, other):
        self.places = getattr(other, "places", None)

    def __getitem__(self, index):
        return np.asarray(self.places)[self.place(index)]

    def __setitem__(self, index, value):
        self.places[self.place(index)] = value

    def place(self, index) -> tuple:
        (index,) = index
        if isinstance(index, slice):
            row, first = divmod(index.start, STEP)
            return row, slice(first, first + index.stop - index.start)
        return divmod(index, STEP)


@pytest.mark.parametrize("case", CASES)
def test_indices_are_numbers_without_end(case):
    y = np.zeros((BLOCKS, LANES), np.int8)
    interpret.run(case(), Sparse.of(some()), y)
    np.testing.assert_array_equal(y, some())


def test_data_may_name_any_element():
    order, y = np.arange(BLOCKS, dtype=np.int32)[::-1].copy(), np.zeros((BLOCKS, LANES), np.int8)
    interpret.run(chosen_by_data(), Sparse.of(some()), order, y)
    np.testing.assert_array_equal(y, some()[::-1])


def test_stores_reach_any_element():
    places = np.zeros((BLOCKS, LANES), np.int8)
    interpret.run(stores(), Sparse.of(places), some())
    np.testing.assert_array_equal(places, some())


def test_values_wrap_as_everywhere():
    """So do bits, what variables hold, and products with the factors of hashes where they are compared or divided."""

    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, 5), "int32")):
        with T.Kernel(BLOCKS) as b:
            start = b * STEP
            v = T.alloc_var("int32")
            v = start
            Y[b, 0] = start
            Y[b, 1] = X[start]
            Y[b, 2] = X[v]
            Y[b, 3] = T.if_then_else(b * 1103515245 < 0, 1, 0)
            Y[b, 4] = X[b * 1103515245 % 7 // 4]

    y = np.zeros((BLOCKS, 5), np.int32)
    interpret.run(main, Sparse.of(some()), y)
    b = np.arange(BLOCKS, dtype=np.int32)
    with np.errstate(over="ignore"):
        start, product = b * np.int32(STEP), b * np.int32(1103515245)
    assert (start < 0).any()
    held = np.where(start < 0, 0, some()[np.abs(start) // STEP, np.minimum(np.abs(start) % STEP, LANES - 1)])
    want = [start, some()[:, 0], held, product < 0, some()[0][product % 7 // 4]]
    np.testing.assert_array_equal(y, np.stack(want, 1))
