"""`T.Parallel` inside of `T.Parallel`, and buffers that are made in front of `T.Kernel`."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.ir import For, ForKind, statements

X = np.random.default_rng(4).integers(-9, 10, (8, 64)).astype(np.float32)


def agree(func, expected, x=X):
    out = strict.run(tilelang.compile(func), {"X": x, "Y": np.zeros_like(expected)})["Y"]
    np.testing.assert_array_equal(out, expected)
    for seed in range(2):
        y = np.zeros_like(expected)
        interpret.run(func, x.copy(), y, seed=seed)
        np.testing.assert_array_equal(y, expected)


def test_loops_directly_inside_of_each_other_are_one_nest():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1):
            x = T.alloc_fragment((8, 64), "float32")
            T.copy(X, x)
            for i in T.Parallel(8):
                for j in T.Parallel(64):
                    x[i, j] = x[i, j] + i * 64 + j
            for i, j in T.Parallel(2, 4):
                for k in T.parallel(8):
                    for n in T.Parallel(8):
                        x[i * 4 + j, k * 8 + n] = x[i * 4 + j, k * 8 + n] * 2
            T.copy(x, Y)

    nests = [s for s in statements(main.body) if isinstance(s, For) and "tl.parallel" in s.annotations]
    assert [int(s.annotations["tl.parallel"]) for s in nests] == [2, 4]
    assert not any(isinstance(s, For) and s.kind == ForKind.SERIAL for n in nests for s in statements(n))
    agree(main, (X + np.arange(512).reshape(8, 64).astype(np.float32)) * 2)


def test_a_loop_among_other_statements_and_one_as_long_as_the_iteration_says():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1):
            x, s = T.alloc_fragment((8, 64), "float32"), T.alloc_fragment((8,), "float32")
            T.copy(X, x)
            for i in T.Parallel(8):
                s[i] = x[i, 0] * 2
                for j in T.Parallel(64):
                    if j > i:
                        x[i, j] = x[i, j] + s[i]
            for i in T.Parallel(8):
                for j in T.Parallel(i + 1):
                    x[i, j] = 7
            T.copy(x, Y)

    expected = X.copy()
    for i in range(8):
        expected[i, i + 1 :] += 2 * X[i, 0]
        expected[i, : i + 1] = 7
    agree(main, expected)


@pytest.mark.parametrize(
    "make", [T.alloc_global, T.alloc_buffer, lambda *a: T.alloc_buffer(*a, scope="global")], ids=["global", "buffer", "scope"]
)
def test_a_workspace_made_in_front_of_the_kernel(make):
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        W = make((8, 64), "float32")
        with T.Kernel(4) as bx:
            x = T.alloc_buffer((2, 64), "float32")
            T.copy(X[bx * 2, 0], x)
            for i, j in T.Parallel(2, 64):
                W[bx * 2 + i, j] = x[i, j] + 1
            T.copy(W[bx * 2, 0], x)
            T.copy(x, Y[bx * 2, 0])

    agree(main, X + 1)


@pytest.mark.parametrize("kind", ["solve", "bound of run time", "condition", "let", "outside", "guarded"])
def test_elements_of_tensors_that_are_the_same_for_all_lanes(kind):
    """Serial loops inside of a nest walk through a tensor that is too large for a tile: the scalar unit reads its elements."""
    rows, n, m = 32, 17, 8192

    @T.prim_func
    def main(X: T.Tensor((rows, n), "float32"), W: T.Tensor((n, m), "float32"), Y: T.Tensor((rows, n), "float32"), count: T.int32):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_shared((rows, n), "float32")
            T.copy(X, x)
            for i in T.Parallel(rows):
                for j in T.serial(n if kind == "solve" else 1):
                    for k in T.serial(j if kind == "solve" else count):
                        if kind == "solve":
                            x[i, j] = x[i, j] - W[j, k] * x[i, k]
                        elif kind == "condition":
                            if W[k, 0] > 0:
                                x[i, j] = x[i, j] + x[i, 1]
                        elif kind == "let":
                            w = W[k, 2] + 1
                            x[i, j] = x[i, j] + w * x[i, 1]
                        elif kind == "guarded":
                            x[i, j] = x[i, j] + T.if_then_else(k > 2, W[k - 3, 0], 1.0) * x[i, 1]
                        else:
                            x[i, j] = x[i, j] + W[k, k] * x[i, 1]
            T.copy(x, Y)

    count = {"outside": n + 3}.get(kind, 7)
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (rows, n)).astype(np.float32)
    w = (rng.integers(-1, 2, (n, m)) * (rng.random((n, m)) < (0.15 if kind == "solve" else 1))).astype(np.float32)
    expected, steps = x.copy(), np.arange(min(count, n))
    if kind == "solve":
        for j in range(n):
            for k in range(j):
                expected[:, j] -= w[j, k] * expected[:, k]
    else:
        factors = {"condition": w[:count, 0] > 0, "let": w[:count, 2] + 1, "guarded": np.append(np.ones(3), w[: count - 3, 0])}
        expected[:, 0] += x[:, 1] * factors.get(kind, w[steps, steps]).sum()
    got = strict.run(tilelang.compile(main), {"X": x, "W": w, "Y": np.zeros_like(x)}, {"count": count}, text=kind == "solve")
    np.testing.assert_array_equal(got["Y"], expected)
