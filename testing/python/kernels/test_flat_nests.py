"""Nests that count the elements of tiles with several dimensions, as GPU kernels deal them out to threads."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F32 = "float32"
RNG = np.random.default_rng(0)


def whole(*shape, dtype=F32):
    return RNG.integers(-9, 10, shape).astype(dtype)


def run(kernel, vectors=True, scalars=None, **arrays):
    """The strict run of a kernel all of whose stores to tiles are (or are not) by vector instructions."""
    compiled = tilelang.compile(kernel)
    assert (".SetValue(" not in compiled.get_kernel_source()) == vectors
    return strict.run(compiled, arrays, scalars)


@pytest.mark.parametrize("r, c", [(16, 32), (7, 13), (1, 40), (40, 1)])
def test_rows_and_columns_of_a_number(r, c):
    @T.prim_func
    def kernel(X: T.Tensor((r, c), F32), S: T.Tensor((r,), F32), Z: T.Tensor((r * c,), F32), Y: T.Tensor((r, c), F32)):
        with T.Kernel(1):
            x, s, z = T.alloc_shared((r, c), F32), T.alloc_shared((r,), F32), T.alloc_shared((r * c,), F32)
            T.copy(X, x)
            T.copy(S, s)
            T.copy(Z, z)
            for i in T.Parallel(r * c):
                row = i // c
                x[row, i % c] = x[i // c, i % c] * s[row] + z[i]
            T.copy(x, Y)

    x, s, z = whole(r, c), whole(r), whole(r * c)
    got = run(kernel, X=x, S=s, Z=z, Y=np.zeros_like(x))["Y"]
    np.testing.assert_array_equal(got, x * s[:, None] + z.reshape(r, c))


@pytest.mark.parametrize("dtype", [F32, "float16", "int8"])
def test_a_tile_seen_as_one_row(dtype):
    r, c = 8, 64

    @T.prim_func
    def kernel(X: T.Tensor((r, c), dtype), Y: T.Tensor((r, c), dtype), Z: T.Tensor((r * c,), dtype)):
        with T.Kernel(1):
            x, y, z = T.alloc_shared((r, c), dtype), T.alloc_shared((r, c), dtype), T.alloc_fragment((r * c,), dtype)
            flat, flat_y = T.reshape(x, (r * c,)), T.reshape(y, (r * c,))
            T.copy(X, x)
            for i in T.Parallel(r * c):
                z[i] = flat[i] * 2
                flat_y[i] = flat[i] + 1
            T.copy(y, Y)
            T.copy(z, Z)

    x = whole(r, c, dtype=dtype)
    out = run(kernel, X=x, Y=np.zeros_like(x), Z=np.zeros(r * c, dtype))
    np.testing.assert_array_equal(out["Y"], x + np.ones((), dtype))
    np.testing.assert_array_equal(out["Z"], (x * 2).reshape(-1).astype(dtype))


def test_three_dimensions_and_the_number_itself():
    r, c = 4, 32

    @T.prim_func
    def kernel(X: T.Tensor((r, 8, c), F32), Y: T.Tensor((r * 8 * c,), F32), Z: T.Tensor((r, 8, c), F32)):
        with T.Kernel(1):
            x, y, z = T.alloc_shared((r, 8, c), F32), T.alloc_shared((r * 8 * c,), F32), T.alloc_shared((r, 8, c), F32)
            T.copy(X, x)
            for i in T.Parallel(r * 8 * c):
                y[i] = x[i // (8 * c), i // c % 8, i % c] + T.cast(i, F32)
            for i in T.Parallel(r * 8 * c):
                row = i // c
                z[row // 8, row % 8, i % c] = y[i] + T.cast(i % 8, F32)
            T.copy(y, Y)
            T.copy(z, Z)

    x, number = whole(r, 8, c), np.arange(r * 8 * c)
    out = run(kernel, X=x, Y=np.zeros(r * 8 * c, F32), Z=np.zeros_like(x))
    np.testing.assert_array_equal(out["Y"], x.reshape(-1) + number)
    np.testing.assert_array_equal(out["Z"].reshape(-1), x.reshape(-1) + number + number % 8)


def test_columns_in_front_of_rows_and_neighbours():
    r, c = 16, 32

    @T.prim_func
    def kernel(X: T.Tensor((r, c), F32), Y: T.Tensor((r, c), F32)):
        with T.Kernel(1):
            x, t = T.alloc_shared((r, c), F32), T.alloc_shared((c, r), F32)
            T.copy(X, x)
            for i in T.Parallel(r * c):
                t[i % c, i // c] = x[i // c, i % c] * 2.0
            for i in T.Parallel(r * c):
                x[i // c, i % c] = t[i % c, i // c] + t[(i % c + 1) % c, i // c]
            T.copy(x, Y)

    x = whole(r, c)
    np.testing.assert_array_equal(run(kernel, X=x, Y=np.zeros_like(x))["Y"], x * 2 + np.roll(x * 2, -1, 1))


@pytest.mark.parametrize("n", [0, 1, 999, 1024, 5000])
def test_tensors_and_a_bound(n):
    r, c = 16, 64

    @T.prim_func
    def kernel(X: T.Tensor((r, c), F32), n: T.int32, Y: T.Tensor((r, c), F32)):
        with T.Kernel(1):
            for i in T.Parallel(r * c):
                if i < n:
                    Y[i // c, i % c] = X[i // c, i % c] + 1.0

    x, y = whole(r, c), whole(r, c)
    want = np.where(np.arange(r * c) < n, (x + 1).reshape(-1), y.reshape(-1)).reshape(r, c)
    np.testing.assert_array_equal(run(kernel, X=x, Y=y.copy(), scalars={"n": n})["Y"], want)


def test_loops_and_updates_inside():
    """Loops inside whose bounds are made of the number, and updates that meet."""
    r, c = 6, 32

    @T.prim_func
    def kernel(X: T.Tensor((r, c), F32), Y: T.Tensor((r, c), F32), H: T.Tensor((c,), F32)):
        with T.Kernel(1):
            x, y, h = T.alloc_shared((r, c), F32), T.alloc_shared((r, c), F32), T.alloc_shared((c,), F32)
            T.copy(X, x)
            T.clear(h)
            T.clear(y)
            for i in T.Parallel(r * c):
                for k in T.serial(i // c, r):
                    if x[k, i % c] == 3:
                        break
                    y[i // c, i % c] += x[k, i % c]
            for i in T.Parallel(r * c):
                T.atomic_add(h[i % c], x[i // c, i % c])
            T.copy(y, Y)
            T.copy(h, H)

    x, want = whole(r, c), np.zeros((r, c), np.float32)
    for i in range(r):
        for j in range(c):
            for k in range(i, r):
                if x[k, j] == 3:
                    break
                want[i, j] += x[k, j]
    out = strict.run(tilelang.compile(kernel), dict(X=x, Y=np.zeros_like(x), H=np.zeros(c, F32)))
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["H"], x.sum(0))


def test_groups_of_rows_stay_as_they_are():
    """Scales of groups, as of weights of few bits: rows are not counted through."""
    k, n, group = 64, 32, 16

    @T.prim_func
    def kernel(W: T.Tensor((k, n), F32), S: T.Tensor((k // group, n), F32), Y: T.Tensor((k, n), F32)):
        with T.Kernel(1):
            w, s = T.alloc_shared((k, n), F32), T.alloc_shared((k // group, n), F32)
            T.copy(W, w)
            T.copy(S, s)
            for i, j in T.Parallel(k, n):
                w[i, j] = w[i, j] * s[i // group, j]
            T.copy(w, Y)

    w, s = whole(k, n), whole(k // group, n)
    np.testing.assert_array_equal(run(kernel, W=w, S=s, Y=np.zeros_like(w))["Y"], w * s.repeat(group, 0))


def test_sums_with_data_still_wrap():
    r, c = 8, 16

    @T.prim_func
    def kernel(X: T.Tensor((r * c,), "int32"), Y: T.Tensor((r, c), "int32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((r * c,), "int32"), T.alloc_shared((r, c), "int32")
            T.copy(X, x)
            for i in T.Parallel(r * c):
                y[i // c, i % c] = (i * 64 + x[i]) // 16
            T.copy(y, Y)

    x, i = RNG.integers(2**31 - 2000, 2**31, r * c).astype(np.int32), np.arange(r * c, dtype=np.int32)
    with np.errstate(over="ignore"):
        want = ((i * 64 + x) // 16).reshape(r, c)
    got = strict.run(tilelang.compile(kernel), dict(X=x, Y=np.zeros((r, c), "int32")))["Y"]
    np.testing.assert_array_equal(got, want)
