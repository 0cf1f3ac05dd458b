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


def gathered_backward(seq, keys, heads, dim, tail, topk, *, dtype="float16", BS=32, split=2, reused=True):
    """Backward of attention of every token to the keys a table lists, which are values, too: dQ (seq, heads, dim + tail), and what is added
    atomically to dKV (keys, dim + tail).

    reused: the memory of keys that have been used up becomes that of sums on their way out.
    """
    rows = max(16, heads)
    scale = (dim + tail) ** -0.5

    @T.prim_func
    def main(
        Q: T.Tensor((seq, heads, dim + tail), dtype),
        KV: T.Tensor((keys, dim + tail), dtype),
        dO: T.Tensor((seq, heads, dim), dtype),
        Indices: T.Tensor((seq, topk), "int32"),
        Lse: T.Tensor((seq, heads), F32),
        Delta: T.Tensor((seq, heads), F32),
        dQ: T.Tensor((seq, heads, dim + tail), dtype),
        dKV: T.Tensor((keys, dim + tail), F32),
    ):
        with T.Kernel(seq, threads=128) as s:
            q, q_tail = T.alloc_shared([rows, dim], dtype), T.alloc_shared([rows, tail], dtype)
            kv, kv_tail = T.alloc_shared([BS, dim], dtype), T.alloc_shared([BS, tail], dtype)
            do = T.alloc_shared([rows, dim], dtype)
            mask = T.alloc_fragment([BS], "bool")
            p_cast, dp_cast = T.alloc_shared([rows, BS], dtype), T.alloc_shared([rows, BS], dtype)
            dq, dq_tail = T.alloc_shared([rows, dim], dtype), T.alloc_shared([rows, tail], dtype)
            acc_p, acc_dp = T.alloc_fragment([rows, BS], F32), T.alloc_fragment([rows, BS], F32)
            acc_dq, acc_dq_tail = T.alloc_fragment([rows, dim], F32), T.alloc_fragment([rows, tail], F32)
            acc_dkv, acc_dkv_tail = T.alloc_fragment([BS, dim], F32), T.alloc_fragment([BS, tail], F32)
            if reused:
                out = T.view(kv, [BS // split, dim], dtype=F32)
                out_tail = T.view(kv_tail, [BS // split, tail], dtype=F32)
            else:
                out, out_tail = T.alloc_shared([BS // split, dim], F32), T.alloc_shared([BS // split, tail], F32)

            T.copy(Q[s, :, :dim], q)
            T.copy(Q[s, :, dim:], q_tail)
            T.copy(dO[s, :, :], do)
            T.clear(acc_dq)
            T.clear(acc_dq_tail)
            for k in T.Pipelined(T.ceildiv(topk, BS), num_stages=0):
                for j in T.Parallel(BS):
                    mask[j] = Indices[s, k * BS + j] <= s
                for i, j in T.Parallel(rows, BS):
                    acc_p[i, j] = T.if_then_else(mask[j], 0, -T.infinity(F32))
                for j, d in T.Parallel(BS, dim):
                    kv[j, d] = KV[Indices[s, k * BS + j], d]
                T.gemm(q, kv, acc_p, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for j, d in T.Parallel(BS, tail):
                    kv_tail[j, d] = KV[Indices[s, k * BS + j], dim + d]
                T.gemm(q_tail, kv_tail, acc_p, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(rows, BS):
                    acc_p[i, j] = T.exp(acc_p[i, j] * scale - Lse[s, i])
                T.copy(acc_p, p_cast)
                T.gemm(do, kv, acc_dp, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                for i, j in T.Parallel(rows, BS):
                    acc_dp[i, j] = acc_p[i, j] * (acc_dp[i, j] - Delta[s, i]) * scale
                T.copy(acc_dp, dp_cast)
                T.gemm(dp_cast, kv, acc_dq, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(dp_cast, kv_tail, acc_dq_tail, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(dp_cast, q, acc_dkv, transpose_A=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                T.gemm(p_cast, do, acc_dkv, transpose_A=True, policy=T.GemmWarpPolicy.FullCol)
                T.clear(acc_dkv_tail)
                T.gemm(dp_cast, q_tail, acc_dkv_tail, transpose_A=True, policy=T.GemmWarpPolicy.FullCol)
                for part in range(split):
                    for j, d in T.Parallel(BS, dim):
                        if j < BS // split:
                            out[j, d] = acc_dkv[j + part * (BS // split), d]
                    for j, d in T.Parallel(BS, tail):
                        if j < BS // split:
                            out_tail[j, d] = acc_dkv_tail[j + part * (BS // split), d]
                    for j, d in T.Parallel(BS // split, dim):
                        T.atomic_add(dKV[Indices[s, k * BS + part * (BS // split) + j], d], out[j, d])
                    for j, d in T.Parallel(BS // split, tail):
                        T.atomic_add(dKV[Indices[s, k * BS + part * (BS // split) + j], dim + d], out_tail[j, d])
            T.copy(acc_dq, dq)
            T.copy(acc_dq_tail, dq_tail)
            T.copy(dq, dQ[s, :, :dim])
            T.copy(dq_tail, dQ[s, :, dim:])

    return main
