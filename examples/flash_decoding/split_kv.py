"""One new token a sequence: the keys are divided among programs, and a second launch combines their results."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[6])
def flashattn(batch, heads, groups, seq_kv, dim, num_split, *, dtype="float16", bN=32, bH=16, stages=2):
    scale = (1.0 / dim) ** 0.5 * LOG2E
    kv_group_num = heads // groups
    valid_block_H = min(bH, kv_group_num)
    shape_q = [batch, heads, dim]
    shape_k = [batch, seq_kv, groups, dim]
    shape_lse = [batch, heads, num_split]
    shape_part = [batch, heads, num_split, dim]

    @T.macro
    def flash_attn_split(
        Q: T.Tensor(shape_q, dtype),
        K: T.Tensor(shape_k, dtype),
        V: T.Tensor(shape_k, dtype),
        mask: T.Tensor([batch, seq_kv, groups], "uint8"),
        glse: T.Tensor(shape_lse, dtype),
        Output_partial: T.Tensor(shape_part, dtype),
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
                    acc_s[i, j] = T.if_then_else((mask_local[j] != 0) & (j < seq_kv // num_split - k * bN), acc_s[i, j], -T.infinity(F32))
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

    @T.macro
    def combine(
        glse: T.Tensor(shape_lse, dtype),
        Output_partial: T.Tensor(shape_part, dtype),
        Output: T.Tensor(shape_q, dtype),
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

    @T.prim_func
    def flashattn_gqa_decode_split(
        Q: T.Tensor(shape_q, dtype),
        K: T.Tensor(shape_k, dtype),
        V: T.Tensor(shape_k, dtype),
        mask: T.Tensor([batch, seq_kv, groups], "uint8"),
        glse: T.Tensor(shape_lse, dtype),
        Output_partial: T.Tensor(shape_part, dtype),
        Output: T.Tensor(shape_q, dtype),
    ):
        flash_attn_split(Q, K, V, mask, glse, Output_partial)
        combine(glse, Output_partial, Output)

    return flashattn_gqa_decode_split


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--splits", type=int, default=4)
    args = parser.parse_args()

    batch, heads, kv_heads, seq, dim, splits = args.batch, args.heads, args.kv_heads, args.seq, args.dim, args.splits
    q = torch.randn(batch, heads, dim, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(batch, seq, kv_heads, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    mask = (torch.rand(batch, seq, kv_heads, device="cuda") < 0.9).to(torch.uint8)
    mask[:, ::8] = 1
    glse = torch.empty(batch, heads, splits, device="cuda", dtype=torch.float16)
    partial = torch.empty(batch, heads, splits, dim, device="cuda", dtype=torch.float16)
    out = flashattn(batch, heads, kv_heads, seq, dim, splits)(q, k, v, mask, glse, partial)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float()[:, :, None],
        k.float().transpose(1, 2),
        v.float().transpose(1, 2),
        attn_mask=mask.bool().transpose(1, 2).repeat_interleave(heads // kv_heads, 1)[:, :, None],
        enable_gqa=True,
    )[:, :, 0]
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    print(f"{batch} tokens, {seq} keys in {splits} parts: matches torch")


if __name__ == "__main__":
    main()
