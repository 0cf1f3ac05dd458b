"""Variables that go from one iteration of `T.Parallel` to the next: iterations run in their order, each of them once."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

I32 = "int32"
N = 16
RNG = np.random.default_rng(0)


def backwards(kind):
    """Stores walk backwards, a variable is carried (or leaves the last iteration)."""

    @T.prim_func
    def kernel(X: T.Tensor((N,), I32), Y: T.Tensor((N,), I32), Z: T.Tensor((1,), I32)):
        with T.Kernel(1):
            s = T.alloc_var(I32)
            s = 0
            y = T.alloc_shared((N,), I32)
            for i in T.Parallel(N):
                if kind == "last":
                    s = X[i]
                else:
                    s = s * 2 + X[i]
                if kind == "tile":
                    y[N - 1 - i] = s
                else:
                    Y[N - 1 - i] = s
            if kind == "tile":
                T.copy(y, Y)
            Z[0] = s

    return kernel


@pytest.mark.parametrize("kind", ["tensor", "tile", "last"])
def test_stores_that_walk_backwards(kind):
    x, y, s = RNG.integers(0, 5, N), np.zeros(N, np.int32), 0
    for i in range(N):
        s = x[i] if kind == "last" else s * 2 + x[i]
        y[N - 1 - i] = s
    got = strict.run(tilelang.compile(backwards(kind)), {"X": x.astype(I32), "Y": np.zeros(N, I32), "Z": np.zeros(1, I32)}, text=False)
    np.testing.assert_array_equal(got["Y"], y)
    assert got["Z"][0] == s


def counted_in_place(inner):
    """Elements are updated in place under a condition, and counted."""

    @T.prim_func
    def kernel(X: T.Tensor((2 * N,), I32), Y: T.Tensor((2 * N,), I32), Z: T.Tensor((2,), I32)):
        with T.Kernel(2) as bx:
            s = T.alloc_var(I32)
            s = 0
            for i in T.Parallel(N):
                v = T.alloc_var(I32)
                s = s + 1
                if inner:
                    v = v + 1
                if X[bx * N + i] > 2:
                    Y[bx * N + i] = Y[bx * N + i] + s + v
            for i in T.Parallel(N):
                Y[bx * N + i] = Y[bx * N + i] * 2
            Z[bx] = s

    return kernel


@pytest.mark.parametrize("inner", [False, True])
def test_updates_in_place_count_once(inner):
    x, y = RNG.integers(0, 6, 2 * N).astype(I32), RNG.integers(0, 6, 2 * N).astype(I32)
    got = strict.run(tilelang.compile(counted_in_place(inner)), {"X": x, "Y": y, "Z": np.zeros(2, I32)}, text=False)
    np.testing.assert_array_equal(got["Y"], 2 * np.where(x > 2, y + np.arange(2 * N) % N + 1 + inner, y))
    assert got["Z"].tolist() == [N, N]


@tilelang.jit
def counted_rows(rows):
    """Elements are numbered row by row, and the last positive one is remembered; `rows`: how many there are, None if that is not known."""

    @T.prim_func
    def kernel(X: T.Tensor((3, 600), I32), m: T.int32, n: T.int32, Y: T.Tensor((3, 600), I32), Z: T.Tensor((1,), I32)):
        with T.Kernel(1):
            s = T.alloc_var(I32)
            last = T.alloc_var(I32)
            for i, j in T.Parallel(rows or m, n):
                s = s + 1
                Y[i, j] = s
                if X[i, j] > 0:
                    last = i * 1000 + j
            Z[0] = last

    return kernel


@pytest.mark.parametrize("rows", [None, 3])
def test_parts_of_rows_run_in_order(rows):
    x = np.zeros((3, 600), np.int32)
    x[0, 590] = x[2, 10] = 1
    arrays = {"X": x, "Y": np.zeros((3, 600), I32), "Z": np.zeros(1, I32)}
    got = strict.run(counted_rows(rows), arrays, {"m": 3, "n": 600}, text=False)
    np.testing.assert_array_equal(got["Y"], 1 + np.arange(1800).reshape(3, 600))
    assert got["Z"][0] == 2010


@pytest.mark.parametrize("way", ["loop", "branch", "while"])
def test_a_fill_waits_for_what_is_assigned_inside_of_statements(way):
    """A fill is no constant because no assignment stands beside it."""

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), I: T.Tensor((4,), I32), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), "float32"), T.alloc_fragment((N,), "float32")
            filled, z = T.alloc_fragment((N,), "float32"), T.alloc_fragment((N,), "float32")
            v = T.alloc_var("float32")
            v = 1.0
            T.copy(X, x)
            for j in T.Parallel(N):
                y[j] = x[j] * 2.0
            T.copy(y, Y)
            if way == "loop":
                for _ in T.serial(3):
                    v = v * 2.0 + 1.0
            elif way == "branch":
                if I[1] > 0:
                    v = 15.0
            else:
                while v < 15.0:
                    v = v * 2.0 + 1.0
            T.fill(filled, v)
            for j in T.Parallel(N):
                z[j] = filled[j] + y[j]
            T.copy(z, Z)

    x, zero = RNG.integers(0, 5, N).astype("float32"), np.zeros(N, "float32")
    got, _ = strict.once(kernel, "a2", {"X": x, "I": np.ones(4, I32), "Y": zero, "Z": zero})
    np.testing.assert_array_equal(got["Z"], 2 * x + 15)


def test_elements_are_read_before_they_are_updated_by_one_core():
    """Both vector cores compute the scalar that goes to the cube core; neither may read what the other one has updated."""

    @T.prim_func
    def kernel(
        C: T.Tensor((48,), "float32"), D: T.Tensor((48,), "float32"), X: T.Tensor((48,), "float32"),
        A: T.Tensor((32, 32), "float16"), B: T.Tensor((16, 16), "float16"), O: T.Tensor((32, 16), "float32"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c, at = T.alloc_fragment((16, 16), "float32"), T.alloc_fragment((1,), "int32")
            for i in T.Parallel(24):
                D[bx * 24 + i] = C[bx * 24 + i]
                T.atomic_add(C[bx * 24 + i], X[bx * 24 + i])
            at[0] = T.min(bx * 2, 4)
            T.copy(A[(at[0] // 2) * 16, 16], a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, O[bx * 16, 0])

    rng = np.random.default_rng(3)
    given = {n: rng.integers(-3, 4, 48).astype(np.float32) for n in "CDX"}
    given |= {"A": rng.integers(-2, 3, (32, 32)).astype(np.float16), "B": rng.integers(-2, 3, (16, 16)).astype(np.float16)}
    out = strict.run(tilelang.compile(kernel), {**given, "O": np.zeros((32, 16), np.float32)})
    np.testing.assert_array_equal(out["D"], given["C"])
    np.testing.assert_array_equal(out["C"], given["C"] + given["X"])
    np.testing.assert_array_equal(out["O"], (given["A"][:, 16:].astype(np.float32) @ given["B"].astype(np.float32)))
