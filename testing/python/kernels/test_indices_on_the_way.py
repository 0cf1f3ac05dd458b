"""Elements of tiles as indices of copies in the pipelined body that loads them, and bounds of loops that are wider than their variables."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(12)


def agree(func, arrays, expected, **scalars):
    out = strict.run(tilelang.compile(func, pass_configs=strict.SERIAL), arrays, scalars)["Y"]
    np.testing.assert_array_equal(out, expected)
    own = {n: a.copy() for n, a in arrays.items()}
    interpret.run(func, *[own[p.name] if p.name in own else scalars[p.name] for p in func.params])
    np.testing.assert_array_equal(own["Y"], expected)


def test_rows_chosen_by_a_tile_of_the_same_iteration():
    @T.prim_func
    def main(X: T.Tensor((16, 64), "float32"), I: T.Tensor((8,), "int32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1):
            i, x = T.alloc_shared((4,), "int32"), T.alloc_shared((4, 64), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(I[k * 4], i)
                for r in T.serial(4):
                    T.copy(X[i[r], 0:64], x[r, 0:64])
                T.copy(x, Y[k * 4, 0])

    x, i = RNG.integers(-9, 9, (16, 64)).astype(np.float32), RNG.permutation(16)[:8].astype(np.int32)
    agree(main, {"X": x, "I": i, "Y": np.zeros((8, 64), np.float32)}, x[i])


@pytest.mark.parametrize("rows", [1, 8])
def test_operands_of_products_chosen_by_a_tile(rows):
    @T.prim_func
    def main(
        X: T.Tensor((16, 16, 64), "float16"), I: T.Tensor((8,), "int32"), W: T.Tensor((64, 32), "float16"), Y: T.Tensor((16, 32), "float32")
    ):
        with T.Kernel(1):
            i, x = T.alloc_shared((rows,), "int32"), T.alloc_shared((16, 64), "float16")
            w, y = T.alloc_shared((64, 32), "float16"), T.alloc_fragment((16, 32), "float32")
            T.clear(y)
            T.copy(W, w)
            if rows == 8:
                T.copy(I, i)
            for k in T.Pipelined(8, num_stages=2):
                if rows == 1:
                    T.copy(I[k : k + 1], i)
                T.copy(X[i[k if rows == 8 else 0], :, :], x)
                T.gemm(x, w, y)
            T.copy(y, Y)

    x, w = RNG.integers(-3, 4, (16, 16, 64)).astype(np.float16), RNG.integers(-3, 4, (64, 32)).astype(np.float16)
    i = RNG.permutation(16)[:8].astype(np.int32)
    expected = (x[i].astype(np.float32) @ w.astype(np.float32)).sum(0)
    agree(main, {"X": x, "I": i, "W": w, "Y": np.zeros_like(expected)}, expected)


def test_bounds_of_64_bits():
    @T.prim_func
    def main(X: T.Tensor((4, 16), "float32"), L: T.Tensor((4,), "int64"), Y: T.Tensor((4, 16), "float32"), m: T.int64):
        with T.Kernel(4) as bx:
            x = T.alloc_fragment((16,), "float32")
            T.copy(X[bx, 0], x)
            n = L[bx]
            for k in T.serial(n):
                if k + bx < n:
                    x[k] = x[k] + 1
            for k in T.serial(bx, n):
                x[k] = x[k] + 2
            for k in range(0, m, 2):
                x[k] = x[k] + 4
            for k in T.Pipelined(m // 2, num_stages=2):
                x[k] = x[k] + 8
            for i in T.Parallel(16):
                if i < n:
                    x[i] = x[i] + 16
            for i in T.Parallel(n):
                x[i] = x[i] + 32
            T.copy(x, Y[bx, 0])

    x, lengths, m = RNG.integers(-9, 9, (4, 16)).astype(np.float32), np.array([0, 3, 16, 7]), 11
    y = x.copy()
    for b, n in enumerate(lengths):
        y[b, : max(n - b, 0)] += 1
        y[b, b:n] += 2
        y[b, 0:m:2] += 4
        y[b, : m // 2] += 8
        y[b, :n] += 48
    agree(main, {"X": x, "L": lengths, "Y": np.zeros_like(x)}, y, m=m)


@pytest.mark.parametrize("load", [False, True])
def test_a_tensor_says_where_the_part_of_a_tile_begins_that_a_converting_copy_moves(load):
    @T.prim_func
    def main(X: T.Tensor((5, 17), "int32"), I: T.Tensor((2,), "int32"), Y: T.Tensor((5, 17), "float32")):
        with T.Kernel(1):
            if load:
                y = T.alloc_shared((5, 17), "float32")
                T.fill(y, 0)
                T.copy(X[I[0], I[1] : I[1] + 6], y[4, I[0] : I[0] + 6])
                T.copy(y, Y)
            else:
                x = T.alloc_shared((5, 17), "int32")
                T.copy(X, x)
                T.fill(Y, 0)
                T.copy(x[I[0], I[1] : I[1] + 6], Y[4, I[0] : I[0] + 6])

    x, y = RNG.integers(-9, 9, (5, 17)).astype(np.int32), np.zeros((5, 17), np.float32)
    y[4, 3:9] = x[3, 8:14]
    agree(main, {"X": x, "I": np.array([3, 8], np.int32), "Y": np.zeros_like(y)}, y)


@pytest.mark.parametrize("dtype, plus", [("uint8", 230), ("int8", 100), ("uint16", 65500)])
@pytest.mark.parametrize("loop", [T.Parallel, T.serial])
def test_indices_of_few_bits_wrap_where_they_are_computed(dtype, plus, loop):
    """The sum wraps in its dtype, which need not hold the size of the tensor."""
    last = min(511, np.iinfo(dtype).max)

    @T.prim_func
    def main(X: T.Tensor((512,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in loop(64):
                Y[i] = X[T.max(T.min(T.cast(T.cast(i, dtype) + plus, dtype), last), T.cast(0, dtype))]

    x = RNG.integers(-9, 9, 512).astype(np.float32)
    at = (np.arange(64) + plus).astype(dtype).astype(int).clip(0, last)
    agree(main, {"X": x, "Y": np.zeros(64, np.float32)}, x[at])


@pytest.mark.parametrize("dtype", [T.uint8, T.uint32, T.int64, T.uint64], ids=str)
def test_parts_of_tiles_begin_at_numbers_of_any_dtype(dtype):
    @T.prim_func
    def main(X: T.Tensor((512,), "float32"), Y: T.Tensor((64,), "float32"), n: dtype):
        with T.Kernel(1):
            y = T.alloc_shared((64,), "float32")
            T.copy(X[0:64], y)
            T.copy(X[n : n + 8], y[0:8])
            T.copy(X[n], y[n : n + 8])
            T.copy(X[n * 2 : n * 2 + 16], y[n + 8])
            T.fill(y[n + 24 : n + 26], 7.0)
            T.copy(X[T.cast(3, dtype)], y[T.cast(56, dtype) : T.cast(60, dtype)])
            T.copy(y, Y)

    x = RNG.integers(-9, 9, 512).astype(np.float32)
    y = x[:64].copy()
    y[:8], y[16:24], y[24:40], y[40:42], y[56:60] = x[16:24], x[16:24], x[32:48], 7, x[3:7]
    agree(main, {"X": x, "Y": np.zeros(64, np.float32)}, y, n=16)


@pytest.mark.parametrize("dtype", [T.uint32, T.int64, T.uint64], ids=str)
def test_parts_of_tensors_begin_behind_their_end(dtype):
    """Sizes less an unsigned number wrapped: the whole part was loaded from behind the tensor."""

    @T.prim_func
    def main(X: T.Tensor((512,), "float32"), Y: T.Tensor((2, 64), "float32"), n: dtype, m: dtype):
        with T.Kernel(1):
            y = T.alloc_shared((2, 64), "float32")
            T.copy(X[n * m : n * m + 64], y[0, :])
            T.copy(X[n], y[1, :])
            T.copy(y, Y)

    x = np.arange(1, 513, dtype=np.float32)
    behind = np.concatenate([x, np.zeros(4096, np.float32)])
    for n, m in ((3, 5), (500, 1), (511, 3), (600, 2), (0, 0)):
        agree(main, {"X": x, "Y": np.zeros((2, 64), np.float32)}, np.stack([behind[k : k + 64] for k in (n * m, n)]), n=n, m=m)


@pytest.mark.parametrize("dtype", [T.uint8, T.uint32, T.uint64], ids=str)
@pytest.mark.parametrize("n", [1, 3, 7])
@pytest.mark.one_in(3)
def test_ranges_between_unsigned_numbers_may_be_empty(dtype, n):
    @T.prim_func
    def main(Y: T.Tensor((4,), "int32"), n: dtype):
        with T.Kernel(1):
            y = T.alloc_shared((4,), "int32")
            T.clear(y)
            for i in range(5, n):
                y[0] = y[0] * 10 + i
            for i in range(n, 2):
                y[1] = y[1] * 10 + i
            for i in range(n, 2, -1):
                y[2] = y[2] * 10 + i
            for i in range(2, n, -1):
                y[3] = y[3] * 10 + i
            T.copy(y, Y)

    expected = np.zeros(4, np.int32)
    for k, numbers in enumerate((range(5, n), range(n, 2), range(n, 2, -1), range(2, n, -1))):
        for i in numbers:
            expected[k] = expected[k] * 10 + i
    agree(main, {"Y": np.zeros(4, np.int32)}, expected, n=n)


def test_what_moves_in_front_moves_no_further_than_what_says_where():
    """A table that begins at a column an element names was loaded before the element; a maximum of converted numbers was found in front of the
    statement that names or changes its place."""

    @T.prim_func
    def main(E: T.Tensor((9, 24), "float16"), S: T.Tensor((4,), "int32"), Y: T.Tensor((2, 24), "float32")):
        with T.Kernel(2) as bx:
            i, raw, x = T.alloc_shared((4,), "int32"), T.alloc_shared((4, 16), "float16"), T.alloc_fragment((4, 16), "float32")
            most, k = T.alloc_fragment((24,), "float32"), T.alloc_var("int32")
            k = 0
            T.fill(most, 0)
            T.copy(S, i)
            for r, j in T.Parallel(4, 16):
                raw[r, j] = E[i[r] * 2, j + S[bx]]
            for r, j in T.Parallel(4, 16):
                x[r, j] = T.cast(raw[r, j], "float32")
            at = S[2]
            T.reduce_max(x, most[at * 8 : at * 8 + 4], dim=1)
            for r, j in T.Parallel(4, 16):
                x[r, j] = T.cast(raw[r, j], "float32")
            k = k + S[3]
            T.reduce_min(x, most[k * 4 : k * 4 + 4], dim=1)
            T.copy(most, Y[bx, :])

    e, s = RNG.integers(-99, 99, (9, 24)).astype(np.float16), np.array([3, -2, 1, 4], np.int32)
    expected = np.zeros((2, 24), np.float32)
    for b, first in enumerate(s[:2]):
        columns = np.arange(first, first + 16)
        found = np.where((s[:, None] >= 0) & (columns >= 0), e[np.maximum(s, 0)[:, None] * 2, np.maximum(columns, 0)], 0)
        expected[b, 8:12], expected[b, 16:20] = found.max(1), found.min(1)
    agree(main, {"E": e, "S": s, "Y": np.zeros_like(expected)}, expected)
