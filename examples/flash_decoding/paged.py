"""One new token a sequence, keys and values in pages of a pool: block table and lengths are data."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[5])
def paged_attention(batch, heads, groups, pages, page, dim, max_pages, *, dtype="float16", bN=32, bH=16, stages=2):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[200, 33, 129])
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--page", type=int, default=64)
    parser.add_argument("--dim", type=int, default=64)
    args = parser.parse_args()

    batch, page, dim = len(args.lengths), args.page, args.dim
    most = max(-(-n // page) for n in args.lengths)
    pages = batch * most + 3
    q = torch.randn(batch, args.heads, dim, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(pages, page, args.kv_heads, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    table = torch.randperm(pages, device="cuda")[: batch * most].reshape(batch, most).to(torch.int32)
    lengths = torch.tensor(args.lengths, device="cuda", dtype=torch.int32)
    out = paged_attention(batch, args.heads, args.kv_heads, pages, page, dim, most)(q, k, v, table, lengths)
    for i, n in enumerate(args.lengths):
        keys, values = (x[table[i].long()].flatten(0, 1)[:n].transpose(0, 1).float() for x in (k, v))
        expected = torch.nn.functional.scaled_dot_product_attention(q[i].float()[None, :, None], keys[None], values[None], enable_gqa=True)
        torch.testing.assert_close(out[i].float(), expected[0, :, 0], rtol=1e-2, atol=1e-2)
    print(f"sequences of {args.lengths} keys in pages of {page}: matches torch")


if __name__ == "__main__":
    main()
