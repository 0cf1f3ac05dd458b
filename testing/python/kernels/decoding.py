"""Attention of one new token a sequence: split over the keys and combined, over pages, and with latent keys (MLA)."""

from __future__ import annotations

import tilelang_ascend.language as T

LOG2E = 1.44269504
F32 = "float32"


def split_kv(batch, heads, groups, seq_kv, dim, num_split, *, dtype="float16", bN=32, bH=16, stages=2):
    """Heads that share keys are the rows of a tile; every split attends to its part of the keys, a second kernel combines."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    kv_group_num = heads // groups
    valid_block_H = min(bH, kv_group_num)

    @T.prim_func
    def flash_attn_split(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, seq_kv, groups, dim), dtype),
        V: T.Tensor((batch, seq_kv, groups, dim), dtype),
        mask: T.Tensor((batch, seq_kv, groups), "uint8"),
        glse: T.Tensor((batch, heads, num_split), dtype),
        Output_partial: T.Tensor((batch, heads, num_split, dim), dtype),
    ):
        with T.Kernel(batch, heads // valid_block_H, num_split, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([bH, dim], dtype)
            K_shared = T.alloc_shared([bN, dim], dtype)
            V_shared = T.alloc_shared([bN, dim], dtype)
            O_shared = T.alloc_shared([valid_block_H, dim], dtype)
            acc_s = T.alloc_fragment([bH, bN], F32)
            acc_s_cast = T.alloc_fragment([bH, bN], dtype)
            mask_local = T.alloc_fragment([bN], "uint8")
            acc_o = T.alloc_fragment([bH, dim], F32)
            scores_max = T.alloc_fragment([bH], F32)
            scores_max_prev = T.alloc_fragment([bH], F32)
            scores_scale = T.alloc_fragment([bH], F32)
            scores_sum = T.alloc_fragment([bH], F32)
            logsum = T.alloc_fragment([bH], F32)

            bid = bx
            hid = by
            sid = bz
            cur_kv_head = hid // (kv_group_num // valid_block_H)

            T.copy(Q[bid, hid * valid_block_H : hid * valid_block_H + bH, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))

            loop_range = T.ceildiv((seq_kv // num_split), bN)
            for k in T.Pipelined(loop_range, num_stages=stages):
                first = (seq_kv // num_split) * sid + k * bN
                T.copy(K[bid, first : first + bN, cur_kv_head, :], K_shared)
                T.copy(mask[bid, first : first + bN, cur_kv_head], mask_local)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(bH, bN):
                    acc_s[i, j] = T.if_then_else(
                        (mask_local[j] != 0) & (j < seq_kv // num_split - k * bN), acc_s[i, j], -T.infinity(F32)
                    )
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(bH):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(bH):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(bH, bN):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(bH):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(bH, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bid, first : first + bN, cur_kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bH, dim):
                acc_o[i, j] /= logsum[i]
            for i in T.Parallel(bH):
                logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
            for i in T.Parallel(bH):
                if i < valid_block_H:
                    glse[bid, hid * valid_block_H + i, sid] = logsum[i]
            T.copy(acc_o[:valid_block_H, :], O_shared)
            T.copy(O_shared, Output_partial[bid, hid * valid_block_H : (hid + 1) * valid_block_H, sid, :])

    @T.prim_func
    def combine(
        glse: T.Tensor((batch, heads, num_split), dtype),
        Output_partial: T.Tensor((batch, heads, num_split, dim), dtype),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(heads, batch, threads=128) as (by, bz):
            po_local = T.alloc_fragment([dim], dtype)
            o_accum_local = T.alloc_fragment([dim], F32)
            lse_local = T.alloc_fragment([num_split], dtype)
            lse_local_split = T.alloc_local([1], F32)
            lse_logsum_local = T.alloc_local([1], F32)
            lse_max_local = T.alloc_fragment([1], F32)
            scale_local = T.alloc_local([1], F32)

            T.clear(lse_logsum_local)
            T.clear(o_accum_local)
            T.copy(glse[bz, by, :], lse_local)
            T.reduce_max(lse_local, lse_max_local, dim=0, clear=True)
            for k in T.Pipelined(num_split, num_stages=1):
                lse_local_split[0] = glse[bz, by, k]
                lse_logsum_local[0] += T.exp2(lse_local_split[0] - lse_max_local[0])
            lse_logsum_local[0] = T.log2(lse_logsum_local[0]) + lse_max_local[0]
            for k in T.serial(num_split):
                for i in T.Parallel(dim):
                    po_local[i] = Output_partial[bz, by, k, i]
                lse_local_split[0] = glse[bz, by, k]
                scale_local[0] = T.exp2(lse_local_split[0] - lse_logsum_local[0])
                for i in T.Parallel(dim):
                    o_accum_local[i] += po_local[i] * scale_local[0]
            for i in T.Parallel(dim):
                Output[bz, by, i] = o_accum_local[i]

    return flash_attn_split, combine


def paged_gqa(batch, heads, groups, pages, page, dim, max_pages, *, dtype="float16", bN=32, bH=16, stages=2):
    """Keys in pages of a pool; the block table and lengths of the sequences are data."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    per_group = heads // groups
    valid_block_H = min(bH, per_group)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((pages, page, groups, dim), dtype),
        V: T.Tensor((pages, page, groups, dim), dtype),
        block_table: T.Tensor((batch, max_pages), "int32"),
        cache_seqlens: T.Tensor((batch,), "int32"),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(batch, heads // valid_block_H, threads=128) as (bx, by):
            Q_shared = T.alloc_shared([bH, dim], dtype)
            K_shared = T.alloc_shared([bN, dim], dtype)
            V_shared = T.alloc_shared([bN, dim], dtype)
            acc_s = T.alloc_fragment([bH, bN], F32)
            acc_s_cast = T.alloc_fragment([bH, bN], dtype)
            acc_o = T.alloc_fragment([bH, dim], F32)
            scores_max = T.alloc_fragment([bH], F32)
            scores_max_prev = T.alloc_fragment([bH], F32)
            scores_scale = T.alloc_fragment([bH], F32)
            scores_sum = T.alloc_fragment([bH], F32)
            logsum = T.alloc_fragment([bH], F32)

            cur_kv_head = by // (per_group // valid_block_H)
            T.copy(Q[bx, by * valid_block_H : by * valid_block_H + bH, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            for k in T.Pipelined(T.ceildiv(cache_seqlens[bx], bN), num_stages=stages):
                page_index = block_table[bx, (k * bN) // page]
                row = (k * bN) % page
                T.copy(K[page_index, row : row + bN, cur_kv_head, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(bH, bN):
                    acc_s[i, j] = T.if_then_else(k * bN + j < cache_seqlens[bx], acc_s[i, j], -T.infinity(F32))
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(bH):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(bH, bN):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                T.copy(acc_s, acc_s_cast)
                for i in T.Parallel(bH):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(bH, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[page_index, row : row + bN, cur_kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bH, dim):
                acc_o[i, j] /= logsum[i]
            for i, j in T.Parallel(bH, dim):
                if i < valid_block_H:
                    Output[bx, by * valid_block_H + i, j] = acc_o[i, j]

    return main


def mla(batch, heads, seq_kv, dim=512, pe_dim=64, *, dtype="float16", bN=32, bH=16, stages=2):
    """One latent vector a key for all heads: scores are two products into one accumulator, and keys are values, too."""
    scale = float((1.0 / (dim + pe_dim)) ** 0.5 * LOG2E)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_pe: T.Tensor((batch, heads, pe_dim), dtype),
        KV: T.Tensor((batch, seq_kv, 1, dim), dtype),
        K_pe: T.Tensor((batch, seq_kv, 1, pe_dim), dtype),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(heads // bH, batch, threads=256) as (hid, bid):
            Q_shared = T.alloc_shared([bH, dim], dtype)
            S_shared = T.alloc_shared([bH, bN], dtype)
            Q_pe_shared = T.alloc_shared([bH, pe_dim], dtype)
            KV_shared = T.alloc_shared([bN, dim], dtype)
            K_pe_shared = T.alloc_shared([bN, pe_dim], dtype)
            O_shared = T.alloc_shared([bH, dim], dtype)
            acc_s = T.alloc_fragment([bH, bN], F32)
            acc_o = T.alloc_fragment([bH, dim], F32)
            scores_max = T.alloc_fragment([bH], F32)
            scores_max_prev = T.alloc_fragment([bH], F32)
            scores_scale = T.alloc_fragment([bH], F32)
            scores_sum = T.alloc_fragment([bH], F32)
            logsum = T.alloc_fragment([bH], F32)

            T.use_swizzle(10)
            T.copy(Q[bid, hid * bH : (hid + 1) * bH, :], Q_shared)
            T.copy(Q_pe[bid, hid * bH : (hid + 1) * bH, :], Q_pe_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            for k in T.Pipelined(T.ceildiv(seq_kv, bN), num_stages=stages):
                T.copy(KV[bid, k * bN : (k + 1) * bN, 0, :], KV_shared)
                T.copy(K_pe[bid, k * bN : (k + 1) * bN, 0, :], K_pe_shared)
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol, clear_accum=True)
                T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(bH):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(bH):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(bH, bN):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                T.copy(acc_s, S_shared)
                for i in T.Parallel(bH):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(bH, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(bH, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bid, hid * bH : (hid + 1) * bH, :])

    return main
