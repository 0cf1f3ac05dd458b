"""Copies of which nothing is there from an index of the tensor on: loads read zeros behind it, stores leave what is there."""

import numpy as np
import pytest
import strict

import tilelang_ascend.language as T
from tilelang_ascend.ir import BufferLoad, Evaluate, StmtMutator, imm
from tilelang_ascend.tile import COPY, is_op, with_args
from tilelang_ascend.tile.uses import on_chip
from tilelang_ascend.tile.verify import verify_tile

CHIP = "Ascend910B1"


def kernel(rows, columns, in_l1):
    """Y is X through a tile in UB, or Z is X X^T by way of L1."""

    @T.prim_func
    def k(
        X: T.Tensor((64, columns), "float16"),
        Y: T.Tensor((64, columns), "float16"),
        Z: T.Tensor((rows, rows), "float32"),
        N: T.Tensor((2,), "int32"),
    ):
        with T.Kernel(1) as _:
            if in_l1:
                a, b = T.alloc_shared((rows, columns), "float16"), T.alloc_shared((rows, columns), "float16")
                z = T.alloc_fragment((rows, rows), "float32")
                T.copy(X[8, 0], a)
                T.copy(X[0, 0], b)
                T.gemm(a, b, z, transpose_B=True, clear_accum=True)
                T.copy(z, Z)
            else:
                x = T.alloc_fragment((rows, columns), "float16")
                T.copy(X[N[1], 0], x)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] = x[i, j] + 1
                T.copy(x, Y[N[1], 0])

    return k


class _Ends(StmtMutator):
    """The copies to and from tensors, the first loads or all stores, end at row N[0]."""

    def __init__(self, n, stores):
        self.n, self.stores, self.loads = n, stores, 0

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, COPY):
            return s
        load = not on_chip(s.value.args[0].source)
        self.loads += load
        return with_args(s, [*s.value.args, imm(0), self.n]) if load != self.stores and self.loads <= 1 else s


def ended(func, stores=False):
    n = BufferLoad(next(p for p in func.params if p.name == "N"), [imm(0)])
    return func.with_body(_Ends(n, stores)(func.body))


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("first, n", [(0, 0), (0, 5), (8, 8), (8, 20), (40, 200), (8, 3), (56, 60)])
def test_vector_cores(stores, first, n):
    rows, columns = 16, 48
    x = np.random.default_rng(n).integers(-9, 9, (64, columns)).astype(np.float16)
    arrays = {"X": x, "Y": np.full_like(x, 77), "Z": np.zeros((rows, rows), np.float32), "N": np.array([n, first], np.int32)}
    out, _ = strict.once(ended(kernel(rows, columns, False), stores), CHIP, arrays)
    want, row = arrays["Y"].copy(), np.arange(64)[:, None]
    here = (row >= first) & (row < first + rows)
    want = np.where(here & (row < n if stores else True), np.where((row < n) | stores, x, 0) + 1, want)
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("n", [0, 8, 9, 20, 24, 100])
def test_cube_core(n):
    rows, columns = 16, 32
    x = np.random.default_rng(n).integers(-4, 4, (64, columns)).astype(np.float16)
    arrays = {"X": x, "Y": np.zeros_like(x), "Z": np.full((rows, rows), 5, np.float32), "N": np.array([n, 0], np.int32)}
    out, _ = strict.once(ended(kernel(rows, columns, True)), CHIP, arrays)
    a = np.where(np.arange(8, 24)[:, None] < n, x[8:24], 0).astype(np.float32)
    np.testing.assert_array_equal(out["Z"], a @ x[:16].astype(np.float32).T)


@pytest.mark.parametrize("extra, wrong", [((imm(2), imm(4)), "dimension"), ((imm(0),), "dimension and an index")])
def test_ends_that_say_nothing_are_refused(extra, wrong):
    func = kernel(16, 48, False)

    class Wrong(StmtMutator):
        def visit_Evaluate(self, s):
            return with_args(s, [*s.value.args, *extra]) if is_op(s, COPY) else s

    found = verify_tile(func.with_body(Wrong()(func.body)))
    assert any(wrong in str(p) for p in found)
