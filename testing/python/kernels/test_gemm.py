"""GEMM in every spelling, dtype, transposition and size class, run the strict way."""

import itertools

import ml_dtypes
import numpy as np
import programs
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

SIZES = (1, 15, 16, 17, 100, 129)
BF16 = ml_dtypes.bfloat16


def make(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape, dtype=np.float32).astype(BF16 if dtype == "bfloat16" else dtype)


def check(kernel, m, n, k, dtype="float16", out="float16", trans_a=False, trans_b=False, text=False):
    a = make((k, m) if trans_a else (m, k), dtype, 1)
    b = make((n, k) if trans_b else (k, n), dtype, 2)
    c = np.full((m, n), 77, BF16 if out == "bfloat16" else out)
    got = strict.run(kernel, {"A": a, "B": b, "C": c}, text=text)["C"]
    wide = np.int32 if dtype == "int8" else np.float64
    expected = (a.T if trans_a else a).astype(wide) @ (b.T if trans_b else b).astype(wide)
    scale = np.sqrt(k)
    limits = strict.tolerance(out, k)
    np.testing.assert_allclose(got.astype(np.float64) / scale, expected / scale, **limits)


@pytest.mark.parametrize(
    "m, n",
    [
        pytest.param(m, n, marks=pytest.mark.slow if (i + j) % 2 else [])
        for (i, m), (j, n) in itertools.product(enumerate(SIZES), enumerate(SIZES))
    ],
)
@pytest.mark.one_in(9)
def test_all_sizes(m, n):
    for k in SIZES:
        check(programs.matmul(m, n, k, 64, 64, 32), m, n, k)


@pytest.mark.parametrize("dtype,out", [("float16", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("bfloat16", "float16")])
@pytest.mark.parametrize("m,n,k", [(128, 128, 64), (100, 129, 17), (17, 1, 100)])
@pytest.mark.one_in(4)
def test_dtypes(dtype, out, m, n, k):
    check(programs.matmul(m, n, k, 64, 64, 32, dtype, out), m, n, k, dtype, out, text=True)


@pytest.mark.parametrize("trans_a,trans_b", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("m,n,k", [(128, 128, 128), (100, 129, 17), (1, 17, 129), (15, 100, 1)])
@pytest.mark.one_in(6)
def test_transposed(trans_a, trans_b, m, n, k):
    kernel = programs.matmul(m, n, k, 64, 64, 32, trans_A=trans_a, trans_B=trans_b)
    check(kernel, m, n, k, trans_a=trans_a, trans_b=trans_b, text=True)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("m,n,k", [(128, 128, 128), (100, 129, 17), (1, 17, 129), (33, 16, 64)])
@pytest.mark.one_in(2)
def test_int8(trans_b, m, n, k):
    kernel = programs.matmul(m, n, k, 64, 64, 64, "int8", "int32", "int32", trans_B=trans_b)
    check(kernel, m, n, k, "int8", "int32", trans_b=trans_b, text=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("block_m,block_n,block_k", [(128, 256, 64), (16, 16, 16), (128, 128, 128), (256, 128, 32), (48, 80, 96)])
def test_tiles(block_m, block_n, block_k):
    check(programs.matmul(300, 310, 200, block_m, block_n, block_k), 300, 310, 200, text=True)


@pytest.mark.parametrize("m,n,k", [(256, 384, 320), (100, 129, 17)])
def test_npu_spelling(m, n, k):
    check(programs.matmul_npu(m, n, k), m, n, k, text=True)


@pytest.mark.parametrize("m,n,k", [(256, 192, 320), (100, 129, 17)])
def test_eager_style(m, n, k):
    a, b = make((m, k), "float16", 1), make((k, n), "float16", 2)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    got = programs.matmul_eager(a, b)
    np.testing.assert_allclose(np.asarray(got) / np.sqrt(k), expected / np.sqrt(k), **strict.tolerance("float32", k))


def test_cube_only_kernels_are_not_mixed():
    artifact = programs.matmul(128, 128, 128).artifact
    assert artifact.steps[0].kernel_type == "aic_only" and "MIX" not in artifact.kernel_source


@pytest.mark.parametrize("m,n,k", [(128, 128, 128), (100, 129, 65)])
def test_a5(m, n, k):
    kernel = programs.matmul(m, n, k, 64, 64, 32).retarget("a5")
    check(kernel, m, n, k)


def test_every_flag_is_needed():
    kernel = programs.matmul(200, 136, 200, 64, 64, 32)
    a, b, c = make((200, 200), "float16", 1), make((200, 136), "float16", 2), np.zeros((200, 136), np.float16)
    assert strict.surviving_mutants(kernel, {"A": a, "B": b, "C": c}) == []


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_an_accumulator_cleared_in_a_branch(limit):
    """The clear has no gemm and no reader behind it in its own block."""

    @T.prim_func
    def main(A: T.Tensor((16, 48), "float16"), B: T.Tensor((48, 96), "float16"), C: T.Tensor((16, 96), "float32"), limit: T.int32):
        with T.Kernel(3, threads=128) as bx:
            a, b = T.alloc_shared((16, 48), "float16"), T.alloc_shared((48, 32), "float16")
            c = T.alloc_fragment((16, 32), "float32")
            T.copy(A, a)
            T.copy(B[0, bx * 32], b)
            T.clear(c)
            T.gemm(a, b, c)
            if bx < limit:
                T.clear(c)
            T.copy(c, C[0, bx * 32])

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 48), (48, 96)))
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((16, 96), np.float32)}, {"limit": limit})
    want = a.astype(np.float32) @ b.astype(np.float32)
    want[:, : 32 * limit] = 0
    np.testing.assert_array_equal(out["C"], want)


@pytest.mark.parametrize("way", ["stored", "added", "multiplied"])
def test_an_accumulator_of_16_bits_is_rounded_before_it_is_widened(way):
    n = 32

    @T.prim_func
    def kernel(A: T.Tensor((n, n), "float16"), B: T.Tensor((n, n), "float16"), Y: T.Tensor((n, n), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((n, n), "float16"), T.alloc_shared((n, n), "float16")
            c, d, e = T.alloc_fragment((n, n), "float16"), T.alloc_shared((n, n), "float32"), T.alloc_shared((n, n), "float32")
            f = T.alloc_fragment((n, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            if way == "stored":
                T.copy(c, Y)
            elif way == "added":
                T.atomic_add(Y, c)
            else:
                for i, j in T.Parallel(n, n):
                    e[i, j] = T.if_then_else(i == j, 1.0, 0.0)
                T.copy(c, d)
                T.gemm(d, e, f, clear_accum=True)
                T.copy(f, Y)

    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-20, 30, (n, n)) * 0.125).astype(np.float16) for _ in range(2))
    got = strict.run(tilelang.compile(kernel), {"A": a, "B": b, "Y": np.zeros((n, n), np.float32)})["Y"]
    np.testing.assert_array_equal(got, (a.astype(np.float64) @ b).astype(np.float16))
