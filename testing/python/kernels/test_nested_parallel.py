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
