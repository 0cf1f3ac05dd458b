"""Products with vector work on their results, of which examples/ has none: softmax of rows, retention, the scores of an indexer."""

from __future__ import annotations

import tilelang_ascend.language as T

LOG2E = 1.44269504
F32 = "float32"


def product_softmax(m, n, k, *, dtype="float16", bM=32, bK=32, stages=2):
    """Softmax of the rows of A @ B."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, n), dtype)
            C_local = T.alloc_fragment((bM, n), F32)
            top = T.alloc_fragment((bM,), F32)
            total = T.alloc_fragment((bM,), F32)
            T.clear(C_local)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=stages):
                T.copy(A[bx * bM, kk * bK], A_shared)
                T.copy(B[kk * bK, 0], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.reduce_max(C_local, top, dim=1, clear=True)
            for i, j in T.Parallel(bM, n):
                C_local[i, j] = T.exp(C_local[i, j] - top[i])
            T.reduce_sum(C_local, total, dim=1)
            for i, j in T.Parallel(bM, n):
                C_local[i, j] = C_local[i, j] / total[i]
            T.copy(C_local, Y[bx * bM, 0])

    return main


def retention(batch, heads, seq, dim_qk, dim_v, *, dtype="float16", bM=32, bN=32, stages=1):
    """Scores weighted with powers of a decay of the head, and divided by the sum of their magnitudes."""

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim_qk), dtype),
        K: T.Tensor((batch, seq, heads, dim_qk), dtype),
        V: T.Tensor((batch, seq, heads, dim_v), dtype),
        mask: T.Tensor((heads, seq, seq), dtype),
        Output: T.Tensor((batch, seq, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, bM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([bM, dim_qk], dtype)
            K_shared = T.alloc_shared([bN, dim_qk], dtype)
            V_shared = T.alloc_shared([bN, dim_v], dtype)
            mask_shared = T.alloc_shared([bM, bN], dtype)
            acc_o_shared = T.alloc_shared([bM, dim_v], dtype)
            mask_local = T.alloc_fragment([bM, bN], F32)
            acc_s = T.alloc_fragment([bM, bN], F32)
            acc_s_1 = T.alloc_fragment([bM, bN], F32)
            acc_s_cast = T.alloc_fragment([bM, bN], dtype)
            acc_o = T.alloc_fragment([bM, dim_v], F32)
            abs_sum = T.alloc_fragment([bM], F32)
            r_wo_clamp = T.alloc_fragment([bM], F32)
            r = T.alloc_fragment([bM], F32)
            r_new = T.alloc_fragment([bM], F32)

            T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Q_shared)
            T.fill(r, 0)
            T.fill(r_new, 0)
            T.fill(r_wo_clamp, 0)
            T.fill(acc_o, 0)
            loop_range = T.ceildiv(seq, bN)
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(K[bz, k * bN : (k + 1) * bN, by, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(mask[by, bx * bM : (bx + 1) * bM, k * bN : (k + 1) * bN], mask_shared)
                T.copy(mask_shared, mask_local)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = acc_s[i, j] * mask_local[i, j]
                for i, j in T.Parallel(bM, bN):
                    acc_s_1[i, j] = T.abs(acc_s[i, j])
                T.reduce_sum(acc_s_1, abs_sum, dim=1)
                for i in T.Parallel(bM):
                    r_wo_clamp[i] = r_wo_clamp[i] + abs_sum[i]
                for i in T.Parallel(bM):
                    r_new[i] = T.max(r_wo_clamp[i], 1)
                for i, j in T.Parallel(bM, dim_v):
                    acc_o[i, j] = T.if_then_else(k > 0, acc_o[i, j] * r[i] / r_new[i], acc_o[i, j])
                T.copy(r_new, r)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = acc_s[i, j] / r_new[i]
                T.copy(acc_s, acc_s_cast)
                T.copy(V[bz, k * bN : (k + 1) * bN, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc_o, acc_o_shared)
            T.copy(acc_o_shared, Output[bz, bx * bM : (bx + 1) * bM, by, :])

    return main


def indexer(seq, seq_kv, heads, dim, *, viewed=False, dtype="float16", bN=32, bQ=2, stages=1):
    """Scores that choose keys: the weighted sum over heads of relu(q k), for the keys from cu_ks to cu_ke of every token.

    `viewed`: the scores of one head and token are written over the products.
    """

    @T.prim_func
    def main(
        IndexQ: T.Tensor((seq * heads, dim), dtype),
        IndexK: T.Tensor((seq_kv, dim), dtype),
        Logits: T.Tensor((seq, seq_kv), F32),
        Weights: T.Tensor((seq, heads), F32),
        CuSeqLenKS: T.Tensor((seq,), "int32"),
        CuSeqLenKE: T.Tensor((seq,), "int32"),
    ):
        with T.Kernel(T.ceildiv(seq, bQ), threads=128) as bx:
            index_q_shared = T.alloc_shared([bQ * heads, dim], dtype)
            index_k_shared = T.alloc_shared([bN, dim], dtype)
            s = T.alloc_fragment([bN, bQ * heads], F32)
            s_reshaped = T.reshape(s, (bN, bQ, heads)) if viewed else T.alloc_fragment([bN, bQ, heads], F32)
            logits = T.alloc_fragment([bN, bQ], F32)
            weights = T.alloc_fragment([bQ, heads], F32)

            seq_len_i = bx * bQ
            cu_k_s_min = T.alloc_var("int32")
            cu_k_e_max = T.alloc_var("int32")
            cu_k_s_min = 2147483647
            cu_k_e_max = -2147483648
            for bq_i in T.serial(bQ):
                cu_k_s_min = T.min(cu_k_s_min, T.min(CuSeqLenKS[seq_len_i + bq_i], seq_kv))
            for bq_i in T.serial(bQ):
                cu_k_e_max = T.max(cu_k_e_max, T.min(CuSeqLenKE[seq_len_i + bq_i], seq_kv))
            T.copy(IndexQ[seq_len_i * heads, 0], index_q_shared)
            T.copy(Weights[seq_len_i, 0], weights)
            for nbn_i in T.Pipelined(T.ceildiv(cu_k_e_max - cu_k_s_min, bN), num_stages=stages):
                T.copy(IndexK[cu_k_s_min + nbn_i * bN, 0], index_k_shared)
                T.gemm(index_k_shared, index_q_shared, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for bn_i, bq_i, h_i in T.Parallel(bN, bQ, heads):
                    s_reshaped[bn_i, bq_i, h_i] = T.max(s[bn_i, bq_i * heads + h_i], 0) * weights[bq_i, h_i]
                T.reduce_sum(s_reshaped, logits, dim=-1, clear=True)
                for bq_i, bn_i in T.Parallel(bQ, bN):
                    if cu_k_s_min + nbn_i * bN + bn_i < cu_k_e_max:
                        Logits[seq_len_i + bq_i, cu_k_s_min + nbn_i * bN + bn_i] = logits[bn_i, bq_i]

    return main


def channel_decay(batch, seq, heads, dim, *, dtype="float16", chunk=32, bK=32, stages=2):
    """Products of the queries and keys of a chunk whose channels decay each at a rate of its own (KDA): scores, and what a delta rule takes away.

    A step i of a chunk sees j through 2 ** (G[i] - G[j]) in every channel: rows are scaled from the first step on, columns back to it.
    """

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim), dtype),
        K: T.Tensor((batch, seq, heads, dim), dtype),
        G: T.Tensor((batch, seq, heads, dim), F32),
        Beta: T.Tensor((batch, seq, heads), dtype),
        Aqk: T.Tensor((batch, seq, heads, chunk), dtype),
        Akk: T.Tensor((batch, seq, heads, chunk), F32),
    ):
        with T.Kernel(T.ceildiv(seq, chunk), batch * heads, threads=128) as (bx, by):
            bb, bh = by // heads, by % heads
            q = T.alloc_shared((chunk, bK), dtype)
            k = T.alloc_shared((chunk, bK), dtype)
            g = T.alloc_shared((chunk, bK), F32)
            first = T.alloc_shared((bK,), F32)
            beta = T.alloc_shared((chunk,), dtype)
            q_up = T.alloc_shared((chunk, bK), dtype)
            k_up = T.alloc_shared((chunk, bK), dtype)
            k_down = T.alloc_shared((chunk, bK), dtype)
            scores = T.alloc_fragment((chunk, chunk), F32)
            taken = T.alloc_fragment((chunk, chunk), F32)

            T.clear(scores)
            T.clear(taken)
            T.copy(Beta[bb, bx * chunk : (bx + 1) * chunk, bh], beta)
            for i_k in T.Pipelined(T.ceildiv(dim, bK), num_stages=stages):
                T.copy(Q[bb, bx * chunk : (bx + 1) * chunk, bh, i_k * bK : (i_k + 1) * bK], q)
                T.copy(K[bb, bx * chunk : (bx + 1) * chunk, bh, i_k * bK : (i_k + 1) * bK], k)
                T.copy(G[bb, bx * chunk : (bx + 1) * chunk, bh, i_k * bK : (i_k + 1) * bK], g)
                T.copy(G[bb, bx * chunk, bh, i_k * bK : (i_k + 1) * bK], first)
                for i, j in T.Parallel(chunk, bK):
                    q_up[i, j] = q[i, j] * T.exp2(g[i, j] - first[j])
                    k_up[i, j] = k[i, j] * T.exp2(g[i, j] - first[j])
                    k_down[i, j] = k[i, j] * T.exp2(first[j] - g[i, j])
                T.gemm(q_up, k_down, scores, transpose_B=True)
                T.gemm(k_up, k_down, taken, transpose_B=True)
            for i, j in T.Parallel(chunk, chunk):
                scores[i, j] = T.if_then_else(i >= j, scores[i, j] * dim**-0.5, 0)
                taken[i, j] = T.if_then_else(i > j, taken[i, j] * beta[i], 0)
            T.copy(scores, Aqk[bb, bx * chunk : (bx + 1) * chunk, bh, :])
            T.copy(taken, Akk[bb, bx * chunk : (bx + 1) * chunk, bh, :])

    return main
