"""Attention as users of GPU TileLang write it: forward, with groups, windows, sinks, ragged batches, caches; and backward."""

from __future__ import annotations

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

LOG2E = 1.44269504
F32 = "float32"


def forward(batch, heads, seq_q, dim, *, groups=1, seq_kv=None, dim_v=None, causal=False, window=None, sinks=False, lse=False,
            dtype="float16", bM=32, bN=32, stages=2):  # fmt: skip
    """Q (batch, heads, seq_q, dim), K and V (batch, heads / groups, seq_kv, ...); queries stand at the end of the keys."""
    seq_kv, dim_v = seq_kv or seq_q, dim_v or dim
    scale = (1.0 / dim) ** 0.5 * LOG2E
    past = seq_kv - seq_q
    kv_heads = heads // groups
    masked = causal or window is not None or seq_kv % bN

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq_q, dim), dtype),
        K: T.Tensor((batch, kv_heads, seq_kv, dim), dtype),
        V: T.Tensor((batch, kv_heads, seq_kv, dim_v), dtype),
        Sinks: T.Tensor((heads,), dtype),
        Output: T.Tensor((batch, heads, seq_q, dim_v), dtype),
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
                T.copy(V[bz, by // groups, k * bN : (k + 1) * bN, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            if sinks:
                for i in T.Parallel(bM):
                    logsum[i] += T.exp2(sink[i] * LOG2E - scores_max[i] * scale)
            for i, j in T.Parallel(bM, dim_v):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, by, bx * bM : (bx + 1) * bM, :])
            if lse:
                for i in T.Parallel(bM):
                    logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
                T.copy(logsum, Lse[bz, by, bx * bM : (bx + 1) * bM])

    return main


def ragged(batch, heads, dim, total_q, total_kv, max_q, *, groups=1, causal=False, dtype="float16", bM=32, bN=32, stages=1):
    """Sequences one below the other in Q (total_q, heads, dim), K and V (total_kv, heads / groups, dim); cu_seqlens say where they begin."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    kv_heads = heads // groups

    @T.prim_func
    def main(
        Q: T.Tensor((total_q, heads, dim), dtype),
        K: T.Tensor((total_kv, kv_heads, dim), dtype),
        V: T.Tensor((total_kv, kv_heads, dim), dtype),
        cu_q: T.Tensor((batch + 1,), "int32"),
        cu_kv: T.Tensor((batch + 1,), "int32"),
        Output: T.Tensor((total_q, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(max_q, bM), heads, batch, threads=128) as (bx, by, bz):
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

            head_idx = by
            kv_head_idx = head_idx // groups
            q_start_idx = cu_q[bz]
            kv_start_idx = cu_kv[bz]
            q_current_seqlen = cu_q[bz + 1] - q_start_idx
            kv_current_seqlen = cu_kv[bz + 1] - kv_start_idx

            T.copy(Q[q_start_idx + bx * bM : q_start_idx + (bx + 1) * bM, head_idx, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))

            offset = kv_current_seqlen - q_current_seqlen
            max_visible_k_idx = offset + (bx + 1) * bM
            loop_range = (
                T.min(T.ceildiv(max_visible_k_idx, bN), T.ceildiv(kv_current_seqlen, bN))
                if causal
                else T.ceildiv(kv_current_seqlen, bN)
            )
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(K[kv_start_idx + k * bN : kv_start_idx + (k + 1) * bN, kv_head_idx, :], K_shared)
                if causal:
                    for i, j in T.Parallel(bM, bN):
                        acc_s[i, j] = T.if_then_else(
                            (bx * bM + i + offset < k * bN + j)
                            or (bx * bM + i >= q_current_seqlen or k * bN + j >= kv_current_seqlen),
                            -1e9,
                            0,
                        )
                else:
                    for i, j in T.Parallel(bM, bN):
                        acc_s[i, j] = T.if_then_else(
                            (bx * bM + i >= q_current_seqlen or k * bN + j >= kv_current_seqlen), -1e9, 0
                        )
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(bM):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(bM):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(bM):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(bM, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[kv_start_idx + k * bN : kv_start_idx + (k + 1) * bN, kv_head_idx, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, dim):
                acc_o[i, j] = T.if_then_else(logsum[i] == 0, 0, acc_o[i, j] / logsum[i])
            T.copy(acc_o, O_shared)
            for i, d in T.Parallel(bM, dim):
                if bx * bM + i < q_current_seqlen:
                    Output[q_start_idx + bx * bM + i, head_idx, d] = O_shared[i, d]

    return main


def backward_delta(batch, heads, seq, dim, *, dtype="float16", blk=32):
    """Delta: the sums of O * dO over the head size."""

    @T.prim_func
    def main(
        O: T.Tensor((batch, heads, seq, dim), dtype),
        dO: T.Tensor((batch, heads, seq, dim), dtype),
        Delta: T.Tensor((batch, heads, seq), F32),
    ):
        with T.Kernel(heads, T.ceildiv(seq, blk), batch) as (bx, by, bz):
            o = T.alloc_fragment([blk, blk], dtype)
            do = T.alloc_fragment([blk, blk], dtype)
            acc = T.alloc_fragment([blk, blk], F32)
            delta = T.alloc_fragment([blk], F32)
            T.clear(acc)
            for k in range(T.ceildiv(dim, blk)):
                T.copy(O[bz, bx, by * blk : (by + 1) * blk, k * blk : (k + 1) * blk], o)
                T.copy(dO[bz, bx, by * blk : (by + 1) * blk, k * blk : (k + 1) * blk], do)
                for i, j in T.Parallel(blk, blk):
                    acc[i, j] += o[i, j] * do[i, j]
            T.reduce_sum(acc, delta, 1)
            T.copy(delta, Delta[bz, bx, by * blk : (by + 1) * blk])

    return main


def backward(batch, heads, seq, dim, *, groups=1, causal=False, dtype="float16", bM=32, bN=32, stages=2):
    """dQ (float32, added atomically), dK, dV of one block of keys; with groups dK and dV are added atomically, too."""
    sm_scale = (1.0 / dim) ** 0.5
    scale = sm_scale * LOG2E
    kv_heads = heads // groups
    d_kv = dtype if groups == 1 else F32

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq, dim), dtype),
        K: T.Tensor((batch, kv_heads, seq, dim), dtype),
        V: T.Tensor((batch, kv_heads, seq, dim), dtype),
        dO: T.Tensor((batch, heads, seq, dim), dtype),
        lse: T.Tensor((batch, heads, seq), F32),
        Delta: T.Tensor((batch, heads, seq), F32),
        dQ: T.Tensor((batch, heads, seq, dim), F32),
        dK: T.Tensor((batch, kv_heads, seq, dim), d_kv),
        dV: T.Tensor((batch, kv_heads, seq, dim), d_kv),
    ):
        with T.Kernel(heads, T.ceildiv(seq, bM), batch, threads=128) as (bx, by, bz):
            K_shared = T.alloc_shared([bM, dim], dtype)
            dsT_shared = T.alloc_shared([bM, bN], dtype)
            q = T.alloc_shared([bN, dim], dtype)
            V_shared = T.alloc_shared([bM, dim], dtype)
            qkT = T.alloc_fragment([bM, bN], F32)
            dsT = T.alloc_fragment([bM, bN], F32)
            qkT_cast = T.alloc_fragment([bM, bN], dtype)
            dsT_cast = T.alloc_fragment([bM, bN], dtype)
            lse_shared = T.alloc_shared([bN], F32)
            delta = T.alloc_shared([bN], F32)
            do = T.alloc_shared([bN, dim], dtype)
            dv = T.alloc_fragment([bM, dim], F32)
            dk = T.alloc_fragment([bM, dim], F32)
            dq = T.alloc_fragment([bN, dim], F32)
            dv_shared = T.alloc_shared([bM, dim], d_kv)
            dk_shared = T.alloc_shared([bM, dim], d_kv)

            T.copy(K[bz, bx // groups, by * bM : (by + 1) * bM, :], K_shared)
            T.copy(V[bz, bx // groups, by * bM : (by + 1) * bM, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            loop_st = T.floordiv(by * bM, bN) if causal else 0
            loop_ed = T.ceildiv(seq, bN)
            for k in T.Pipelined(loop_st, loop_ed, num_stages=stages):
                T.copy(Q[bz, bx, k * bN : (k + 1) * bN, :], q)
                T.clear(qkT)
                T.gemm(K_shared, q, qkT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(lse[bz, bx, k * bN : (k + 1) * bN], lse_shared)
                for i, j in T.Parallel(bM, bN):
                    qkT[i, j] = T.exp2(qkT[i, j] * scale - lse_shared[j])
                if causal:
                    for i, j in T.Parallel(bM, bN):
                        qkT[i, j] = T.if_then_else(by * bM + i <= k * bN + j, qkT[i, j], 0)
                T.copy(dO[bz, bx, k * bN : (k + 1) * bN, :], do)
                T.clear(dsT)
                T.gemm(V_shared, do, dsT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(qkT, qkT_cast)
                T.gemm(qkT_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, k * bN : (k + 1) * bN], delta)
                for i, j in T.Parallel(bM, bN):
                    dsT_cast[i, j] = qkT[i, j] * (dsT[i, j] - delta[j]) * sm_scale
                T.gemm(dsT_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dsT_cast, dsT_shared)
                T.clear(dq)
                T.gemm(dsT_shared, K_shared, dq, transpose_A=True)
                for i, j in T.Parallel(bN, dim):
                    if k * bN + i < seq:
                        T.atomic_add(dQ[bz, bx, k * bN + i, j], dq[i, j])
            T.copy(dv, dv_shared)
            T.copy(dk, dk_shared)
            if groups == 1:
                T.copy(dv_shared, dV[bz, bx, by * bM : (by + 1) * bM, :])
                T.copy(dk_shared, dK[bz, bx, by * bM : (by + 1) * bM, :])
            else:
                T.atomic_add(dV[bz, bx // groups, by * bM : (by + 1) * bM, :], dv_shared)
                T.atomic_add(dK[bz, bx // groups, by * bM : (by + 1) * bM, :], dk_shared)

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
                    softmax_step(
                        acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, bM, bN, scale
                    )
                    rescale(acc_o, scores_scale, bM, dim)
                    T.copy(V[bz, by, k * bN : (k + 1) * bN, :], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, by, bx * bM : (bx + 1) * bM, :])

    return main


def native_sparse(batch, heads, kv_heads, seq, dim, selected, *, dtype="float16", BS=32, stages=2):
    """NSA: every token attends to the blocks of keys it chose; the heads of a group are the rows."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    G = heads // kv_heads

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim), dtype),
        K: T.Tensor((batch, seq, kv_heads, dim), dtype),
        V: T.Tensor((batch, seq, kv_heads, dim), dtype),
        BlockIndices: T.Tensor((batch, seq, kv_heads, selected), "int32"),
        Output: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(seq, 1, batch * kv_heads, threads=32) as (bx, by, bz):
            Q_shared = T.alloc_shared([G, dim], dtype)
            K_shared = T.alloc_shared([BS, dim], dtype)
            V_shared = T.alloc_shared([BS, dim], dtype)
            O_shared = T.alloc_shared([G, dim], dtype)
            acc_s = T.alloc_fragment([G, BS], F32)
            acc_s_cast = T.alloc_shared([G, BS], dtype)
            acc_o = T.alloc_fragment([G, dim], F32)
            scores_max = T.alloc_fragment([G], F32)
            scores_max_prev = T.alloc_fragment([G], F32)
            scores_scale = T.alloc_fragment([G], F32)
            scores_sum = T.alloc_fragment([G], F32)
            logsum = T.alloc_fragment([G], F32)

            i_t, i_v, i_bh = bx, by, bz
            i_b, i_h = i_bh // kv_heads, i_bh % kv_heads
            T.copy(Q[i_b, i_t, i_h * G : (i_h + 1) * G, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            for i in T.Pipelined(selected, num_stages=stages):
                i_s = BlockIndices[i_b, i_t, i_h, i] * BS
                if i_s <= i_t and i_s >= 0:
                    T.copy(K[i_b, i_s : i_s + BS, i_h, :], K_shared)
                    for a, c in T.Parallel(G, BS):
                        acc_s[a, c] = T.if_then_else(i_t >= (i_s + c), 0, -T.infinity(F32))
                    T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    softmax_step(
                        acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, G, BS, scale
                    )
                    rescale(acc_o, scores_scale, G, dim)
                    T.copy(V[i_b, i_s : i_s + BS, i_h, i_v * dim : (i_v + 1) * dim], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(G, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[i_b, i_t, i_h * G : (i_h + 1) * G, i_v * dim : (i_v + 1) * dim])

    return main


def sparse_mla(batch, seq, seq_kv, heads, dim, tail, topk, *, dtype="float16", BI=32, stages=2):
    """Every token attends to the keys whose numbers a table lists; the keys are gathered row by row."""
    scale = (1.0 / (dim + tail)) ** 0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim + tail), dtype),
        KV: T.Tensor((batch, seq_kv, 1, dim + tail), dtype),
        Indices: T.Tensor((batch, seq, 1, topk), "int32"),
        Output: T.Tensor((batch, seq, heads, dim), dtype),
        Lse: T.Tensor((batch, seq, heads), F32),
    ):
        with T.Kernel(seq, batch, 1, threads=256) as (bx, by, bz):
            Q_shared = T.alloc_shared([heads, dim], dtype)
            Q_tail_shared = T.alloc_shared([heads, tail], dtype)
            KV_shared = T.alloc_shared([BI, dim], dtype)
            K_tail_shared = T.alloc_shared([BI, tail], dtype)
            O_shared = T.alloc_shared([heads, dim], dtype)
            Lse_shared = T.alloc_shared([heads], F32)
            mask = T.alloc_fragment([BI], "bool")
            acc_o = T.alloc_fragment([heads, dim], F32)
            acc_s = T.alloc_fragment([heads, BI], F32)
            S_shared = T.alloc_shared([heads, BI], dtype)
            sumexp = T.alloc_fragment([heads], F32)
            sumexp_i = T.alloc_fragment([heads], F32)
            alpha = T.alloc_fragment([heads], F32)
            m_i = T.alloc_fragment([heads], F32)
            m_i_prev = T.alloc_fragment([heads], F32)

            T.fill(acc_o, 0)
            T.fill(sumexp, 0)
            T.fill(m_i, -(2**30))
            b_i, g_i, s_i = by, bz, bx
            max_kv_i = s_i
            T.copy(Q[b_i, s_i, 0:heads, :dim], Q_shared)
            T.copy(Q[b_i, s_i, 0:heads, dim:], Q_tail_shared)
            for i_i in T.Pipelined(T.ceildiv(topk, BI), num_stages=stages):
                for bi_i in T.Parallel(BI):
                    mask[bi_i] = Indices[b_i, s_i, g_i, i_i * BI + bi_i] <= max_kv_i
                for bi_i, d_i in T.Parallel(BI, dim):
                    KV_shared[bi_i, d_i] = KV[b_i, Indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, d_i]
                for bi_i, d_i in T.Parallel(BI, tail):
                    K_tail_shared[bi_i, d_i] = KV[b_i, Indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, dim + d_i]
                for h_i, bi_i in T.Parallel(heads, BI):
                    acc_s[h_i, bi_i] = T.if_then_else(mask[bi_i], 0, -T.infinity(F32))
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(Q_tail_shared, K_tail_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m_i, m_i_prev)
                T.reduce_max(acc_s, m_i, dim=1, clear=False)
                for h_i in T.Parallel(heads):
                    m_i[h_i] = T.max(m_i[h_i], m_i_prev[h_i])
                for h_i in T.Parallel(heads):
                    alpha[h_i] = T.exp2((m_i_prev[h_i] - m_i[h_i]) * scale)
                for h_i, bi_i in T.Parallel(heads, BI):
                    acc_s[h_i, bi_i] = T.exp2(acc_s[h_i, bi_i] * scale - m_i[h_i] * scale)
                T.reduce_sum(acc_s, sumexp_i, dim=1)
                for h_i in T.Parallel(heads):
                    sumexp[h_i] = sumexp[h_i] * alpha[h_i] + sumexp_i[h_i]
                for h_i, d_i in T.Parallel(heads, dim):
                    acc_o[h_i, d_i] = acc_o[h_i, d_i] * alpha[h_i]
                T.copy(acc_s, S_shared)
                T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for h_i, d_i in T.Parallel(heads, dim):
                acc_o[h_i, d_i] /= sumexp[h_i]
            for h_i in T.Parallel(heads):
                sumexp[h_i] = T.log2(sumexp[h_i]) + m_i[h_i] * scale
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[b_i, s_i, 0:heads, :])
            T.copy(sumexp, Lse_shared)
            T.copy(Lse_shared, Lse[b_i, s_i, 0:heads])

    return main
