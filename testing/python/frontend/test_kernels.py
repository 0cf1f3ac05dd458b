"""Whole kernels as their authors write them, traced and judged by values."""

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.sim.reference import run


def flash_attention(batch, heads, seq_len, dim, is_causal, block_M, block_N, num_stages=2):
    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e)
    shape = [batch, seq_len, heads, dim]
    dtype, accum_dtype = T.float16, T.float32

    @T.macro
    def MMA0(K: T.Tensor(shape, dtype), Q_shared: T.SharedBuffer([block_M, dim], dtype), K_shared: T.SharedBuffer([block_N, dim], dtype),
             acc_s: T.FragmentBuffer([block_M, block_N], accum_dtype), k: T.int32, bx: T.int32, by: T.int32, bz: T.int32):  # fmt: skip
        T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
        if is_causal:
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
        else:
            T.clear(acc_s)
        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), Output: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_M], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
            scores_scale = T.alloc_fragment([block_M], accum_dtype)
            scores_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))
            loop_range = (
                T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N)) if is_causal else T.ceildiv(seq_len, block_N)
            )
            for k in T.Pipelined(loop_range, num_stages=num_stages):
                MMA0(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(causal):
    B, H, S, D = 1, 2, 32, 16
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, B, S, H, D)).astype(np.float16)
    out = np.zeros_like(q)
    run(flash_attention(B, H, S, D, causal, 16, 8), q, k, v, out)
    scores = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float32), k.astype(np.float32)) / np.sqrt(D)
    if causal:
        scores = np.where(np.tril(np.ones((S, S), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v.astype(np.float32))
    np.testing.assert_allclose(out.astype(np.float32), want, rtol=2e-2, atol=2e-3)


def unpack_nibble(nbit: int, val, pos, dtype: str):
    """A plain helper on expressions, with checks of its argument's type and the methods of an expression."""
    assert nbit == 4
    assert dtype == T.float16
    assert val.dtype == T.uint8
    mask = T.cast((1 << nbit) - 1, T.uint8)
    nibble = (val >> (pos.astype("uint8") * T.cast(nbit, T.uint8))) & mask
    return (nibble.astype("int32") - 8).astype(dtype)


def test_dequantisation_helper():
    @T.prim_func
    def k(A: T.Tensor((8,), T.uint8), B: T.Tensor((16,), T.float16)):
        with T.Kernel(1):
            local = T.alloc_local((8,), T.uint8)
            for i in T.vectorized(8):
                local[i] = A[i]
            for i in T.serial(16):
                B[i] = unpack_nibble(4, local[i // 2], i % 2, dtype=T.float16)

    a, b = np.arange(8, dtype=np.uint8) * 37, np.zeros(16, np.float16)
    run(k, a, b)
    assert b.tolist() == [(int(a[i // 2]) >> (4 * (i % 2)) & 15) - 8 for i in range(16)]


@pytest.mark.parametrize("n", [1, 7, 64, 100])
@pytest.mark.parametrize("staged", [False, True])
def test_elementwise_add_with_tails(n, staged):
    block = 16

    @T.prim_func
    def direct(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    @T.prim_func
    def copies(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            a, b, c = (
                T.alloc_shared(block, "float32"),
                T.alloc_shared(block, "float32"),
                T.alloc_fragment(block, "float32"),
            )
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                c[i] = a[i] + b[i]
            T.copy(c, C[bx * block])

    a, b = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    c = np.zeros(n, np.float32)
    run(copies if staged else direct, a, b, c)
    assert (c == a + b).all()


def test_gemm_bias_leaky_relu():
    M, N, K, bm, bn, bk, alpha = 32, 48, 40, 16, 16, 16, 0.01

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a, b = T.alloc_shared((bm, bk), "float16"), T.alloc_shared((bk, bn), "float16")
            bias_s, c = T.alloc_shared((bn,), "float32"), T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            T.copy(bias[bx * bn], bias_s)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(bm, bn):
                x = c[i, j] + bias_s[j]
                c[i, j] = x if x >= 0 else x * alpha
            T.copy(c, C[by * bm, bx * bn])

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((K, N)).astype(np.float16)
    bias, c = rng.standard_normal(N).astype(np.float32), np.zeros((M, N), np.float32)
    run(main, a, b, bias, c)
    want = a.astype(np.float32) @ b.astype(np.float32) + bias
    np.testing.assert_allclose(c, np.where(want >= 0, want, want * alpha), rtol=1e-4, atol=1e-4)


def test_argmax_idiom():
    @T.prim_func
    def k(A: T.Tensor((4, 9), "float32"), I: T.Tensor((4,), "int32")):  # noqa: E741
        with T.Kernel(4) as row:
            best = -T.infinity("float32")
            at = 0
            for j in T.serial(9):
                v = A[row, j]
                if v > best:
                    best, at = v, j
            I[row] = at

    a = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    out = np.zeros(4, np.int32)
    run(k, a, out)
    assert out.tolist() == a.argmax(1).tolist()


def test_sparse_decode_flag_idiom():
    """A Python flag set under a run-time condition and tested later."""

    @T.prim_func
    def k(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4) as row:
            has_valid_block = False
            total = T.alloc_var("int32", init=0)
            for j in T.serial(8):
                if A[row, j] >= 0:
                    has_valid_block = True
                    total += A[row, j]
            if has_valid_block:
                B[row] = total
            else:
                B[row] = -1

    a = np.where(np.arange(32).reshape(4, 8) % 3 == 0, np.arange(32).reshape(4, 8), -5).astype(np.int32)
    a[2] = -5
    b = np.zeros(4, np.int32)
    run(k, a, b)
    assert b.tolist() == [r[r >= 0].sum() if (r >= 0).any() else -1 for r in a]
