"""T.annotate_safe_value: what lies outside of a tensor reads as another number than 0."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import ir
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.sim import reference


@tilelang.jit
def window(M, N, value, dtype="float32", out="float32", block=16):
    """Tiles of A, shifted by 5 up and 3 to the left, as one large array."""

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((32, 48), out)):
        with T.Kernel(48 // block, 32 // block, threads=128) as (bx, by):
            T.annotate_safe_value({A: value})
            tile = T.alloc_shared((block, block), out)
            T.copy(A[by * block - 5, bx * block - 3], tile)
            T.copy(tile, B[by * block, bx * block])

    return main


def expected(a, value, out):
    whole = np.full((32, 48), value, a.dtype)
    whole[5 : 5 + a.shape[0], 3 : 3 + a.shape[1]] = a
    return whole.astype(out)


@pytest.mark.parametrize("value, dtype, out", [(-7, "float32", "float32"), (float("-inf"), "float16", "float32"), (9, "int32", "int32")])
def test_copies(value, dtype, out):
    a = np.random.default_rng(0).integers(-8, 9, (21, 37)).astype(dtype)
    kernel = window(21, 37, value, dtype, out)
    got = strict.run(kernel, {"A": a, "B": np.zeros((32, 48), out)})
    np.testing.assert_array_equal(got["B"], expected(a, value, out))
    assert ir.same_program(ir.parse(kernel.artifact.tile_ir.script()), kernel.artifact.tile_ir)
    b = np.zeros((32, 48), out)
    reference.run(kernel.artifact.tile_ir, a, b)
    np.testing.assert_array_equal(b, expected(a, value, out))


@tilelang.jit
def row_sums(M, K, block=32):
    """A @ ones, where the rows of A are continued by ones, and another tensor by zeros."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), W: T.Tensor((64, 32), "float16"), C: T.Tensor((M, 32), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=128) as by:
            T.annotate_safe_value({A: 1})
            a, w, c = T.alloc_shared((block, 64), "float16"), T.alloc_shared((64, 32), "float16"), T.alloc_fragment((block, 32), "float32")
            T.copy(A[by * block, 0], a)
            T.copy(W, w)
            T.clear(c)
            T.gemm(a, w, c)
            T.copy(c, C[by * block, 0])

    return main


def test_gemm_operands():
    a = np.random.default_rng(1).integers(-4, 5, (40, 50)).astype(np.float16)
    out = strict.run(row_sums(40, 50), {"A": a, "W": np.ones((64, 32), np.float16), "C": np.zeros((40, 32), np.float32)})
    np.testing.assert_array_equal(out["C"], np.repeat(a.sum(1, dtype=np.float32)[:, None] + 14, 32, 1))


def annotate(what):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            x = T.alloc_shared((8,), "float32")
            T.annotate_safe_value(what(A, x))
            T.copy(A, x)


@pytest.mark.parametrize(
    "what, text",
    [(lambda a, x: {x: 1}, "no tensor argument"), (lambda a, x: {a: x[0]}, "must be a constant"), (lambda a, x: [a], "needs a dictionary")],
)
def test_bad_arguments(what, text):
    with pytest.raises(InvalidArgument, match=text) as info:
        annotate(what)
    assert info.value.location.file == __file__
