"""`T.any_of` and `T.all_of` of tiles, slices and parts of tensors, in conditions of vector and of cube work."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(2)
BOTH = pytest.mark.parametrize("name", ["any_of", "all_of"])
NUMPY = {"any_of": np.any, "all_of": np.all}


def agree(func, arrays, expected, **scalars):
    names = [p.name for p in func.params]
    out = strict.run(tilelang.compile(func), arrays, scalars)
    np.testing.assert_array_equal(out[[n for n in names if n in arrays][-1]], expected)
    own = {n: a.copy() for n, a in arrays.items()}
    interpret.run(func, *[own[n] if n in own else scalars[n] for n in names])
    np.testing.assert_array_equal(own[[n for n in names if n in arrays][-1]], expected)


def block_sparse(holds, place):
    """Blocks of K are skipped by a mask in GM, in a tile that was loaded, or in one that a loop fills."""

    @T.prim_func
    def main(
        Mask: T.Tensor((2, 4, 8), "bool"),
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 32), "float16"),
        C: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(2) as by:
            a, b, c = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            loaded, filled = T.alloc_shared((4, 8), "bool"), T.alloc_local((8,), "bool")
            T.clear(c)
            if place == "loaded":
                T.copy(Mask[by, :, :], loaded)
            for k in T.Pipelined(4, num_stages=2):
                if place == "filled":
                    for i in T.serial(8):
                        filled[i] = Mask[by, k, i]
                if holds(Mask[by, k, :] if place == "gm" else loaded[k, :] if place == "loaded" else filled):
                    T.copy(A[by * 32, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * 32, 0])

    return main


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", ["gm", "loaded", "filled"])
@BOTH
def test_blocks_of_a_product_are_skipped(name, place):
    mask = RNG.random((2, 4, 8)) < 0.05
    mask[0, 1], mask[1, 3], mask[1, 0] = True, True, False
    a, b = (RNG.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 32)))
    taken = NUMPY[name](mask, -1).repeat(32, 0).repeat(32, 1)
    expected = np.where(taken, a, 0).astype(np.float32) @ b.astype(np.float32)
    agree(block_sparse(getattr(T, name), place), {"Mask": mask, "A": a, "B": b, "C": np.zeros_like(expected)}, expected)


def conditions(holds):
    @T.prim_func
    def main(X: T.Tensor((3, 32, 40), "float32"), Y: T.Tensor((3, 36), "int32"), n: T.int32):
        with T.Kernel(3) as bx:
            x, y = T.alloc_fragment((32, 40), "float32"), T.alloc_fragment((36,), "int32")
            T.clear(y)
            T.copy(X[bx, 0, 0], x)
            if holds(x):
                y[0] = 1
            if n > 2 and holds(x[3:n, 0:7]):
                y[1] = 1
            y[2] = T.if_then_else(holds(X[bx, 28:36, 0:4]), 1, 2)
            k = T.alloc_var("int32", init=0)
            while holds(x[k : k + 2, :]):
                k = k + 1
                if k > 20:
                    T.loop_break()
            y[3] = k
            for i in T.Parallel(32):
                if holds(x[i, :]):
                    y[4 + i] = 1
            T.copy(y, Y[bx, 0])

    return main


@BOTH
def test_conditions_of_tiles_slices_and_tensors(name):
    x, holds = np.ones((3, 32, 40), np.float32), NUMPY[name]
    x[0] = 0
    x[1, 5, 5] = x[1, 2:4] = x[2, 9] = x[2, 10] = 0
    y = np.zeros((3, 36), np.int32)
    padded = np.concatenate([x, np.zeros((3, 4, 40))], 1)
    for b in range(3):
        k = 0
        while k <= 20 and holds(x[b, k : k + 2]):
            k += 1
        y[b, :4] = holds(x[b]), holds(x[b, 3:9, :7]), 1 if holds(padded[b, 28:36, :4]) else 2, k
        y[b, 4:] = holds(x[b], axis=1)
    agree(conditions(getattr(T, name)), {"X": x, "Y": np.zeros_like(y)}, y, n=9)


def test_outside_of_a_tensor_its_safe_value_counts():
    @T.prim_func
    def k(A: T.Tensor((6,), "int32"), Z: T.Tensor((6,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: 5, Z: 0})
            C[0] = T.any_of(A[4:8])
            C[1] = T.all_of(A[6:8])
            C[2] = T.any_of(Z[6:8])
            C[3] = T.all_of(A[4:8])

    zero = np.zeros(6, np.int32)
    arrays = {"A": zero, "Z": zero + 1, "C": np.zeros(4, np.int32)}
    assert strict.run(tilelang.compile(k), arrays, text=False)["C"].tolist() == [1, 1, 0, 0]
    interpret.run(k, *arrays.values())
    assert arrays["C"].tolist() == [1, 1, 0, 0]
