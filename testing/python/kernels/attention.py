"""Attention as users of GPU TileLang write it, beyond what examples/ has: one forward with every mask, and sparse blocks of keys."""

from __future__ import annotations

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

LOG2E = 1.44269504
F32 = "float32"


def forward(batch, heads, seq_q, dim, *, groups=1, seq_kv=None, dim_v=None, causal=False, window=None, sinks=False, lse=False,
            bshd=False, dtype="float16", bM=32, bN=32, stages=2):  # fmt: skip
    """Q (batch, heads, seq_q, dim), K and V (batch, heads / groups, seq_kv, ...); queries stand at the end of the keys.

    bshd: heads come behind the sequence in Q, K, V and Output.
    """
    seq_kv, dim_v = seq_q if seq_kv is None else seq_kv, dim_v or dim
    scale = (1.0 / dim) ** 0.5 * LOG2E
    past = seq_kv - seq_q
    kv_heads = heads // groups
    masked = causal or window is not None or seq_kv % bN

    def shape(heads, seq, dim):
        return (batch, seq, heads, dim) if bshd else (batch, heads, seq, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape(heads, seq_q, dim), dtype),
        K: T.Tensor(shape(kv_heads, seq_kv, dim), dtype),
        V: T.Tensor(shape(kv_heads, seq_kv, dim_v), dtype),
        Sinks: T.Tensor((heads,), dtype),
        Output: T.Tensor(shape(heads, seq_q, dim_v), dtype),
        Lse: T.Tensor((batch, heads, seq_q), F32),
    ):
        with T.Kernel(T.ceildiv(seq_q, bM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([bM, dim], dtype)
            K_shared = T.alloc_shared([bN, dim], dtype)
            V_shared = T.alloc_shared([bN, dim_v], dtype)
            O_shared = T.alloc_shared([bM, dim_v], dtype)
            acc_s = T.alloc_fragment([bM, bN], F32)
            acc_s_cast = T.alloc_fragment([bM, bN], dtype)
            acc_o = T.alloc_fragment([bM, dim_v], F32)
            scores_max = T.alloc_fragment([bM], F32)
            scores_max_prev = T.alloc_fragment([bM], F32)
            scores_scale = T.alloc_fragment([bM], F32)
            scores_sum = T.alloc_fragment([bM], F32)
            logsum = T.alloc_fragment([bM], F32)
            sink = T.alloc_fragment([bM], F32)

            T.annotate_layout({O_shared: tilelang.layout.make_swizzled_layout(O_shared)})
            if bshd:
                T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Q_shared)
            else:
                T.copy(Q[bz, by, bx * bM : (bx + 1) * bM, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            if sinks:
                for i in T.Parallel(bM):
                    sink[i] = Sinks[by]

            end = T.min(T.ceildiv(seq_kv, bN), T.ceildiv((bx + 1) * bM + past, bN)) if causal else T.ceildiv(seq_kv, bN)
            start = T.max(0, (bx * bM + past - window) // bN) if window is not None else 0
            for k in T.Pipelined(start, end, num_stages=stages):
                if bshd:
                    T.copy(K[bz, k * bN : (k + 1) * bN, by // groups, :], K_shared)
                else:
                    T.copy(K[bz, by // groups, k * bN : (k + 1) * bN, :], K_shared)
                if masked:
                    for i, j in T.Parallel(bM, bN):
                        q_idx = bx * bM + i + past
                        k_idx = k * bN + j
                        if causal and window is not None:
                            acc_s[i, j] = T.if_then_else(q_idx >= k_idx and q_idx < k_idx + window, 0, -T.infinity(F32))
                        elif causal:
                            acc_s[i, j] = T.if_then_else(q_idx >= k_idx, 0, -T.infinity(F32))
                        else:
                            acc_s[i, j] = T.if_then_else(k_idx >= seq_kv, -T.infinity(F32), 0)
                else:
                    T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(bM):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                if window is not None:
                    # A row whose keys are all masked so far has no maximum.
                    for i in T.Parallel(bM):
                        scores_max[i] = T.if_then_else(scores_max[i] == -T.infinity(F32), 0, scores_max[i])
                for i in T.Parallel(bM):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(bM):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(bM, dim_v):
                    acc_o[i, j] *= scores_scale[i]
                if bshd:
                    T.copy(V[bz, k * bN : (k + 1) * bN, by // groups, :], V_shared)
                else:
                    T.copy(V[bz, by // groups, k * bN : (k + 1) * bN, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            if sinks:
                for i in T.Parallel(bM):
                    logsum[i] += T.exp2(sink[i] * LOG2E - scores_max[i] * scale)
            for i, j in T.Parallel(bM, dim_v):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            if bshd:
                T.copy(O_shared, Output[bz, bx * bM : (bx + 1) * bM, by, :])
            else:
                T.copy(O_shared, Output[bz, by, bx * bM : (bx + 1) * bM, :])
            if lse:
                for i in T.Parallel(bM):
                    logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
                T.copy(logsum, Lse[bz, by, bx * bM : (bx + 1) * bM])

    return main


@T.macro
def softmax_step(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, rows, cols, scale):
    """Scores become weights; what the rows had so far is to be multiplied with `scores_scale`."""
    T.copy(scores_max, scores_max_prev)
    T.fill(scores_max, -T.infinity(F32))
    T.reduce_max(acc_s, scores_max, dim=1, clear=False)
    for i in T.Parallel(rows):
        scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
    for i in T.Parallel(rows):
        scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
    for i, j in T.Parallel(rows, cols):
        acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
    T.reduce_sum(acc_s, scores_sum, dim=1)
    for i in T.Parallel(rows):
        logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
    T.copy(acc_s, acc_s_cast)


@T.macro
def rescale(acc_o, scores_scale, rows, cols):
    for i, j in T.Parallel(rows, cols):
        acc_o[i, j] *= scores_scale[i]


def block_sparse(batch, heads, seq, dim, *, dtype="float16", bM=32, bN=32, stages=1):
    """Causal attention to the blocks of keys that a mask chooses."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    blocks = seq // bN

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), dtype),
        K: T.Tensor((batch, heads, seq, dim), dtype),
        V: T.Tensor((batch, heads, seq, dim), dtype),
        BlockSparseMask: T.Tensor((batch, heads, seq // bM, blocks), "bool"),
        Output: T.Tensor((batch, heads, seq, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, bM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([bM, dim], dtype)
            K_shared = T.alloc_shared([bN, dim], dtype)
            V_shared = T.alloc_shared([bN, dim], dtype)
            O_shared = T.alloc_shared([bM, dim], dtype)
            acc_s = T.alloc_fragment([bM, bN], F32)
            acc_s_cast = T.alloc_fragment([bM, bN], dtype)
            acc_o = T.alloc_fragment([bM, dim], F32)
            scores_max = T.alloc_fragment([bM], F32)
            scores_max_prev = T.alloc_fragment([bM], F32)
            scores_scale = T.alloc_fragment([bM], F32)
            scores_sum = T.alloc_fragment([bM], F32)
            logsum = T.alloc_fragment([bM], F32)
            block_mask = T.alloc_local([blocks], "bool")

            T.copy(Q[bz, by, bx * bM : (bx + 1) * bM, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            for vj in T.serial(blocks):
                block_mask[vj] = BlockSparseMask[bz, by, bx, vj]
            for k in T.Pipelined(T.ceildiv((bx + 1) * bM, bN), num_stages=stages):
                if block_mask[k]:
                    T.copy(K[bz, by, k * bN : (k + 1) * bN, :], K_shared)
                    for i, j in T.Parallel(bM, bN):
                        acc_s[i, j] = T.if_then_else(bx * bM + i >= k * bN + j, 0, -T.infinity(F32))
                    T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    softmax_step(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, bM, bN, scale)
                    rescale(acc_o, scores_scale, bM, dim)
                    T.copy(V[bz, by, k * bN : (k + 1) * bN, :], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, by, bx * bM : (bx + 1) * bM, :])

    return main
