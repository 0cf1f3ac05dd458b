"""Atomic updates of elements of tiles: they combine with what is there, whatever the index is."""

from __future__ import annotations

import ml_dtypes
import nest_cases
import numpy as np
import pytest
import strict

import tilelang_ascend
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.sim import reference

F32, I32 = "float32", "int32"


def numbers(shape, high=5, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def check(func, arrays: dict, want: dict, scalars=None, text=False):
    out = strict.run(tilelang_ascend.compile(func), {k: v.copy() for k, v in arrays.items()}, scalars, text=text)
    for name, value in want.items():
        np.testing.assert_array_equal(out[name].astype(np.float64), np.asarray(value).astype(np.float64), err_msg=name)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int64", "int8", "int16", "uint8", "bool"])
def test_shared_and_fragment(dtype):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), I: T.Tensor((64,), "int64"), C: T.Tensor((16,), dtype), D: T.Tensor((16,), dtype)):  # noqa: E741
        with T.Kernel(1):
            h, g, x = T.alloc_shared((16,), dtype), T.alloc_fragment((16,), dtype), T.alloc_shared((64,), dtype)
            T.copy(X, x)
            T.fill(h, 0)
            T.fill(g, 0)
            for i in T.Parallel(64):
                T.atomic_add(h[I[i]], x[i])
                T.atomic_max(g[i // 4], x[i])
            T.copy(h, C)
            T.copy(g, D)

    kind = {**nest_cases.NUMPY, "uint8": np.uint8}[dtype]
    x, at = numbers(64, 2 if dtype == "bool" else 5, kind), numbers(64, 16, np.int64, 1)
    sums, most = zeros(16, dtype=kind), zeros(16, dtype=kind)
    for i in range(64):
        sums[at[i]] = sums[at[i]] + x[i]
        most[i // 4] = max(most[i // 4], x[i])
    check(main, {"X": x, "I": at, "C": zeros(16, dtype=kind), "D": zeros(16, dtype=kind)}, {"C": sums, "D": most})


X, I, J = numbers((16, 32)), numbers((16, 32), 8, np.int32, 1), numbers((16, 32), 4, np.int32, 2)


def test_two_indices_under_a_condition():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), I: T.Tensor((16, 32), I32), J: T.Tensor((16, 32), I32), C: T.Tensor((8, 4), F32)):  # noqa: E741
        with T.Kernel(1):
            h = T.alloc_shared((8, 4), F32)
            T.fill(h, 1)
            for i, j in T.Parallel(16, 32):
                if X[i, j] > 1:
                    T.atomic_add(h[I[i, j], J[i, j]], X[i, j])
            T.copy(h, C)

    want = np.ones((8, 4), np.float32)
    np.add.at(want, (I, J), np.where(X > 1, X, 0))
    check(main, {"X": X, "I": I, "J": J, "C": zeros(8, 4)}, {"C": want}, text=True)


@pytest.mark.parametrize("view", [False, True])
def test_sums_of_variables(view):
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), C: T.Tensor((8, 6), F32)):
        with T.Kernel(1):
            h, x = T.alloc_shared((8, 6), F32), T.alloc_shared((16, 32), F32)
            v, xv = T.reshape(h, (48,)), T.view(x, (512,), F32)
            T.fill(h, 1)
            T.copy(X, x)
            for i, j in T.Parallel(16, 32):
                if view:
                    T.atomic_add(v[i + j], xv[i * 32 + j])
                else:
                    T.atomic_add(h[(i + j) // 6, (i + j) % 6], x[i, j])
            T.copy(h, C)

    want = np.ones(48, np.float32)
    np.add.at(want, np.add.outer(np.arange(16), np.arange(32)), X)
    check(main, {"X": X, "C": zeros(8, 6)}, {"C": want.reshape(8, 6)})


def test_view_as_another_dtype():
    @T.prim_func
    def main(X: T.Tensor((16, 32), I32), C: T.Tensor((48,), F32)):
        with T.Kernel(1):
            h = T.alloc_shared((48,), F32)
            v = T.view(h, (48,), I32)
            T.fill(h, 0)
            for i, j in T.Parallel(16, 32):
                T.atomic_max(v[i + j], X[i, j])
            T.copy(h, C)

    want, bits = np.zeros(48, np.int32), X.view(np.int32)
    np.maximum.at(want, np.add.outer(np.arange(16), np.arange(32)), bits)
    check(main, {"X": bits, "C": zeros(48)}, {"C": want.view(np.float32)})


def test_one_element():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), C: T.Tensor((4,), F32)):
        with T.Kernel(1):
            h, x = T.alloc_shared((4,), F32), T.alloc_shared((16, 32), F32)
            T.fill(h, 0)
            T.copy(X, x)
            for i, j in T.Parallel(16, 32):
                if x[i, j] > 2:
                    T.atomic_add(h[0], 1.0)
                T.atomic_add(h[1], x[i, j])
                T.atomic_max(h[2], x[i, j])
                T.atomic_add(h[3], 1)
            T.copy(h, C)

    check(main, {"X": X, "C": zeros(4)}, {"C": [(X > 2).sum(), X.sum(), X.max(), 512]})


def test_beside_plain_accesses():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), I: T.Tensor((16, 32), I32), C: T.Tensor((64,), F32), D: T.Tensor((32,), F32)):  # noqa: E741
        with T.Kernel(1):
            h, x, d = T.alloc_shared((64,), F32), T.alloc_shared((16, 32), F32), T.alloc_shared((32,), F32)
            T.fill(h, 1)
            T.copy(X, x)
            for j in T.Parallel(32):
                h[j] = x[0, j]
                T.atomic_add(h[j], x[1, j])
                d[j] = h[j] * 2
                T.atomic_add(h[32 + I[0, j]], x[1, j])
            T.copy(h, C)
            T.copy(d, D)

    want = np.ones(64, np.float32)
    want[:32] = X[0] + X[1]
    np.add.at(want, 32 + I[0], X[1])
    check(main, {"X": X, "I": I, "C": zeros(64), "D": zeros(32)}, {"C": want, "D": want[:32] * 2})


def test_extent_of_run_time():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), F32), I: T.Tensor((n,), I32), C: T.Tensor((16,), F32), D: T.Tensor((n,), F32)):  # noqa: E741
        with T.Kernel(1):
            h = T.alloc_shared((16,), F32)
            T.fill(h, 0)
            for i in T.Parallel(n):
                T.atomic_add(h[I[i]], X[i])
                T.atomic_add(D[i], X[i] * 2)
            T.copy(h, C)

    x, at, want = X.reshape(-1)[:301].copy(), I.reshape(-1)[:301].copy(), zeros(16)
    np.add.at(want, at, x)
    check(main, {"X": x, "I": at, "C": zeros(16), "D": x}, {"C": want, "D": 3 * x}, {"n": 301})


def test_loops_of_run_time_inside():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n, 32), F32), C: T.Tensor((32,), F32), E: T.Tensor((32,), F32)):
        with T.Kernel(1):
            h = T.alloc_shared((32,), F32)
            T.fill(h, 0)
            for j in T.Parallel(32):
                for i in T.serial(n):
                    T.atomic_add(E[j], X[i, j])
                    T.atomic_max(h[j // 2], X[i, j])
            T.copy(h, C)

    most = zeros(32)
    most[:16] = X.max(0).reshape(16, 2).max(1)
    check(main, {"X": X, "C": zeros(32), "E": zeros(32)}, {"C": most, "E": X.sum(0)}, {"n": 16})


def test_functions_in_an_ordered_nest():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), I: T.Tensor((16, 32), I32), C: T.Tensor((8,), F32)):  # noqa: E741
        with T.Kernel(1):
            h = T.alloc_shared((8,), F32)
            T.fill(h, 0)
            for i, j in T.Parallel(4, 32):
                y = T.exp(X[i, j] * 0)
                T.atomic_add(h[I[i, j]], y)
                h[I[i, j]] = h[I[i, j]] * 1
            T.copy(h, C)

    check(main, {"X": X, "I": I, "C": zeros(8)}, {"C": np.bincount(I[:4].reshape(-1), minlength=8)})


def test_neighbours_in_a_nest():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), C: T.Tensor((32,), F32)):
        with T.Kernel(1):
            x = T.alloc_shared((16, 32), F32)
            T.copy(X, x)
            for i in T.Parallel(16):
                T.atomic_addx2(C[2 * i], x[i, 0])
                T.atomic_add(C[0:4], 1.0)

    want = zeros(32)
    want[:] = X[:, 0:2].reshape(-1)
    want[0:4] += 16
    check(main, {"X": X, "C": zeros(32)}, {"C": want})


def test_whole_tiles():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), C: T.Tensor((16, 32), F32)):
        with T.Kernel(1):
            x, y = T.alloc_shared((16, 32), F32), T.alloc_fragment((16, 32), F32)
            T.copy(X, x)
            T.fill(y, 1)
            T.atomic_add(y, x)
            T.atomic_max(y[0:4, :], x[4:8, :])
            T.atomic_addx2(y[3, 2], x[0, 0])
            T.atomic_add(y[2:4, 0:8], 1.0)
            T.copy(y, C)

    want = X + 1
    want[0:4] = np.maximum(want[0:4], X[4:8])
    want[3, 2:4] += X[0, 0:2]
    want[2:4, 0:8] += 1
    check(main, {"X": X, "C": zeros(16, 32)}, {"C": want})


@pytest.mark.parametrize("kind", range(4))
def test_two_vector_cores(kind):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), I: T.Tensor((32,), I32), C: T.Tensor((32,), F32)):  # noqa: E741
        with T.Kernel(1):
            a, c, h = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), F32), T.alloc_shared((32,), F32)
            T.copy(A, a)
            T.clear(c)
            T.fill(h, 0)
            T.gemm(a, a, c)
            for i, j in T.Parallel(32, 32):
                if kind == 0:
                    T.atomic_add(h[I[i]], c[i, j])
                elif kind == 1:
                    T.atomic_add(h[i], c[i, j])
                elif kind == 2:
                    T.atomic_add(h[j // 2], c[i, j])
                else:
                    T.atomic_add(C[I[i]], c[i, j])
            if kind < 3:
                T.copy(h, C)

    a, at, want = numbers((32, 32), 3, np.float16), numbers(32, 32, np.int32, 3), zeros(32)
    i, j = np.indices((32, 32))
    np.add.at(want, [at[i], i, j // 2, at[i]][kind], a.astype(np.float32) @ a.astype(np.float32))
    check(main, {"A": a, "I": at, "C": zeros(32)}, {"C": want})


def test_previous_value():
    @T.prim_func
    def main(X: T.Tensor((64,), F32), C: T.Tensor((64,), F32), N: T.Tensor((1,), I32)):
        with T.Kernel(1):
            count, x = T.alloc_shared((1,), I32), T.alloc_shared((64,), F32)
            T.fill(count, 0)
            T.copy(X, x)
            for i in T.Parallel(64):
                if x[i] > 1:
                    place = T.atomic_add(count[0], 1, return_prev=True)
                    C[place] = x[i]
            T.copy(count, N)

    x, want = X.reshape(-1)[:64].copy(), zeros(64)
    chosen = x[x > 1]
    want[: len(chosen)] = chosen
    check(main, {"X": x, "C": zeros(64), "N": zeros(1, dtype=np.int32)}, {"C": want, "N": [len(chosen)]})


def test_variable():
    @T.prim_func
    def main(X: T.Tensor((16, 32), F32), C: T.Tensor((16,), F32)):
        with T.Kernel(1):
            for i in T.Parallel(16):
                v = T.alloc_var(F32)
                v = 0
                for k in T.serial(32):
                    T.atomic_add(v, X[i, k])
                C[i] = v

    check(main, {"X": X, "C": zeros(16)}, {"C": X.sum(1)})


@pytest.mark.parametrize("n", [600, 1030])
def test_column_of_a_tensor(n):
    """Elements that are apart in GM travel in parts of 512: no two parts may update the same ones."""

    @T.prim_func
    def main(X: T.Tensor((n,), F32), C: T.Tensor((n, 7), F32)):
        with T.Kernel(2):
            x = T.alloc_shared((n,), F32)
            T.copy(X, x)
            T.atomic_add(C[0:n, 3], x)

    x, c = numbers(n, seed=1), numbers((n, 7), seed=2)
    want = c.copy()
    want[:, 3] += 2 * x
    check(main, {"X": x, "C": c}, {"C": want})


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.one_in(2)
def test_every_update_of_a_small_float_is_rounded(dtype, chip):
    """Whatever the index is: by the program, in the order of the iterations, by Tile IR, and by Python, which has an order of its own."""
    kind = np.dtype(getattr(ml_dtypes, dtype))

    @T.prim_func
    def main(X: T.Tensor((64,), dtype), I: T.Tensor((64,), I32), Y: T.Tensor((4, 8), dtype)):  # noqa: E741
        with T.Kernel(1):
            x, at, h = T.alloc_shared((64,), dtype), T.alloc_shared((64,), I32), T.alloc_shared((4, 8), dtype)
            T.copy(X, x)
            T.copy(I, at)
            T.copy(Y, h)
            for i in T.Parallel(64):
                T.atomic_add(h[0, at[i]], x[i])
            for i, j in T.Parallel(8, 8):
                T.atomic_add(h[1, j], x[i * 8 + j])
            for j in T.Parallel(8):
                for i in T.serial(8):
                    T.atomic_add(h[2, j], x[i * 8 + j])
            for i, j in T.Parallel(8, 8):
                if at[i * 8 + j] > 2:
                    T.atomic_add(h[3, j], x[i * 8 + j])
            T.copy(h, Y)

    rng = np.random.default_rng(5)
    x, at = rng.choice([0.5, 1, 1.25, -0.75, 3], 64).astype(kind), rng.integers(0, 8, 64).astype(np.int32)
    y = rng.choice([8, 16, 24, -16], (4, 8)).astype(kind)
    want = y.copy()
    for i in range(64):
        for row, column in ((0, at[i]), (1, i % 8), (2, i % 8), (3, i % 8)):
            if row < 3 or at[i] > 2:
                want[row, column] = np.float32(want[row, column]) + np.float32(x[i])
    arrays = {"X": x, "I": at, "Y": y}
    found = [strict.run(tilelang_ascend.compile(main, target=chip), {k: v.copy() for k, v in arrays.items()})["Y"]]
    own = {k: v.copy() for k, v in arrays.items()}
    reference.run(main, *own.values())
    for got in (*found, own["Y"]):
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    # One number that is less than half of a step away: rounded once, the sum would be another.
    own = {"X": np.full(64, 1, kind), "I": np.arange(64, dtype=np.int32) % 8, "Y": np.full((4, 8), 32, kind)}
    interpret.run(main, *own.values())
    assert (own["Y"] == 32).all()
