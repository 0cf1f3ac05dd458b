"""Barriers of the vector pipe: instructions on disjoint columns of the same rows need none."""

import re

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def softmax(M, N, block_M, dtype="float16"):
    """Softmax of whole rows, computed in float32."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest, total = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block_M, 0])

    return main


def first_barrier_inside(source: str, name: str) -> str | None:
    """The text between the first and the last call of `name` when it has a barrier, else None."""
    between = source[source.index(f"::{name}(") : source.rindex(f"::{name}(")]
    return between if "PipeBarrier" in between else None


@pytest.mark.parametrize("m, n, block", [(16, 128, 8), (16, 777, 8), (8, 4096, 4)])
def test_columns_of_one_row_are_independent(m, n, block):
    kernel = softmax(m, n, block)
    x = np.random.default_rng(n).standard_normal((m, n), dtype=np.float32).astype(np.float16)
    arrays = {"X": x, "Y": np.zeros_like(x)}
    source = kernel.artifact.kernel_source
    assert len(re.findall("::Sub", source)) > 1 and len(re.findall("::Div", source)) > 1
    assert first_barrier_inside(source, "Sub") is None and first_barrier_inside(source, "Div") is None
    out = strict.run(kernel, arrays, text=False)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out["Y"], e / e.sum(1, keepdims=True), rtol=2e-3, atol=1e-6)
    assert strict.surviving_mutants(kernel, arrays) == []


@tilelang.jit
def scaled_rows(R, N):
    """Y[r] = X[r] A[r] + B[r], each converted when it has come: every load has flags of its own."""

    @T.prim_func
    def main(
        X: T.Tensor((R, N), "bfloat16"),
        A: T.Tensor((R, N), "bfloat16"),
        B: T.Tensor((R, N), "bfloat16"),
        Y: T.Tensor((R, N), "float32"),
    ):
        with T.Kernel(R, threads=128) as bx:
            x, a, b = (T.alloc_fragment((N,), "float32") for _ in range(3))
            T.copy(X[bx, 0], x)
            T.copy(A[bx, 0], a)
            T.copy(B[bx, 0], b)
            for j in T.Parallel(N):
                x[j] = x[j] * a[j] + b[j]
            T.copy(x, Y[bx, 0])

    return main


def test_versions_of_tiles_give_way_to_flags():
    """Four versions of three tiles need more flags than there are: fewer versions are better than a barrier for all pipes."""
    kernel = scaled_rows(300, 64)
    assert not [note for note in kernel.artifact.notes if "flag" in note]
    x, a, b = np.random.default_rng(3).integers(-4, 5, (3, 300, 64)).astype(ml_dtypes.bfloat16)
    out = strict.run(kernel, {"X": x, "A": a, "B": b, "Y": np.zeros((300, 64), np.float32)})
    np.testing.assert_array_equal(out["Y"], x.astype(np.float32) * a.astype(np.float32) + b.astype(np.float32))
