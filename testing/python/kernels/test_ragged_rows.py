"""Copies of a number of elements known at run time, from and to places known at run time: ragged batches, sequences of any length."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

BLOCK, LENGTH = 32, 100
OFFSETS = np.array([0, 13, 13, 40, 71], np.int32)


@pytest.mark.parametrize("start, count", [(5, 70), (0, LENGTH), (99, 1), (7, 0)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_range_between_two_scalars(dynamic, start, count):
    n = T.dynamic("n") if dynamic else LENGTH

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), start: T.int32, count: T.int32, C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, BLOCK)) as bx:
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < count:
                    C[start + bx * BLOCK + i] = A[start + bx * BLOCK + i] * 2

    A = np.random.default_rng(0).standard_normal(LENGTH).astype(np.float32)
    scalars = {"start": start, "count": count, **({"n": LENGTH} if dynamic else {})}
    got = strict.run(tilelang.compile(main), {"A": A, "C": np.full(LENGTH, 7, np.float32)}, scalars, text=start == 5)
    want = np.full(LENGTH, 7, np.float32)
    want[start : start + count] = A[start : start + count] * 2
    np.testing.assert_array_equal(got["C"], want)


@pytest.mark.parametrize("dtype, to", [("float32", "same place"), ("float16", "padded"), ("int8", "packed"), ("int8", "same place")])
def test_sequences(dtype, to):
    """Offsets of sequences lie in a tensor. `to`: sequences stay where they are, get rows of their own, or come from such."""
    shape = {"A": (LENGTH,), "C": (LENGTH,)}
    shape |= {"padded": {"C": (4, BLOCK)}, "packed": {"A": (4, BLOCK)}}.get(to, {})

    @T.prim_func
    def main(A: T.Tensor(shape["A"], dtype), Off: T.Tensor((5,), "int32"), C: T.Tensor(shape["C"], dtype)):
        with T.Kernel(4) as bx:
            for i in T.Parallel(BLOCK):
                if i < Off[bx + 1] - Off[bx]:
                    if to == "same place":
                        C[Off[bx] + i] = A[Off[bx] + i]
                    elif to == "padded":
                        C[bx, i] = A[Off[bx] + i]
                    else:
                        C[Off[bx] + i] = A[bx, i]

    A = np.random.default_rng(1).integers(-9, 10, shape["A"]).astype(dtype)
    got = strict.run(tilelang.compile(main), {"A": A, "Off": OFFSETS, "C": np.full(shape["C"], 7, dtype)}, text=False)
    want = np.full(shape["C"], 7, dtype)
    for b, (first, end) in enumerate(zip(OFFSETS, OFFSETS[1:])):
        n = min(BLOCK, end - first)
        target = want[b] if to == "padded" else want[first:]
        target[:n] = A[b, :n] if to == "packed" else A[first : first + n]
    np.testing.assert_array_equal(got["C"], want)


@pytest.mark.parametrize("order", ["i, j", "j, i"])
def test_rows_of_sequences(order):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), Off: T.Tensor((5,), "int32"), C: T.Tensor((n, 64), "float32")):
        with T.Kernel(4) as bx:
            if order == "i, j":
                for i, j in T.Parallel(BLOCK, 64):
                    if i < Off[bx + 1] - Off[bx]:
                        C[Off[bx] + i, j] = A[Off[bx] + i, j] * 2
            else:
                for j, i in T.Parallel(64, BLOCK):
                    if i < Off[bx + 1] - Off[bx]:
                        C[Off[bx] + i, j] = A[Off[bx] + i, j] * 2

    A = np.random.default_rng(2).standard_normal((LENGTH, 64)).astype(np.float32)
    got = strict.run(
        tilelang.compile(main), {"A": A, "Off": OFFSETS, "C": np.zeros((LENGTH, 64), np.float32)}, {"n": LENGTH}, text=order == "i, j"
    )
    want = np.zeros((LENGTH, 64), np.float32)
    for first, end in zip(OFFSETS, OFFSETS[1:]):
        end = min(end, first + BLOCK)
        want[first:end] = A[first:end] * 2
    np.testing.assert_array_equal(got["C"], want)
