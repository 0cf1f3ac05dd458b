"""Multi-head latent attention, one new token: the keys of a sequence lie in pages, which are taken from the last, the only one with a mask, to the first."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[6])
def mla_paged(batch, heads, pages, page, max_pages, dim=512, pe_dim=64, *, dtype="float16", bN=32, bH=16, stages=2):
    assert page % bN == 0
    scale = float((1.0 / (dim + pe_dim)) ** 0.5 * LOG2E)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_pe: T.Tensor((batch, heads, pe_dim), dtype),
        KV: T.Tensor((pages * page, 1, dim), dtype),
        K_pe: T.Tensor((pages * page, 1, pe_dim), dtype),
        block_table: T.Tensor((batch, max_pages), "int32"),
        cache_seqlens: T.Tensor((batch,), "int32"),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(batch, heads // bH, threads=256) as (bx, by):
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
            T.copy(Q[bx, by * bH : (by + 1) * bH, :], Q_shared)
            T.copy(Q_pe[bx, by * bH : (by + 1) * bH, :], Q_pe_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(F32))
            blocks = T.ceildiv(cache_seqlens[bx], bN)
            for kr in T.Pipelined(blocks, num_stages=stages):
                k = blocks - 1 - kr
                first = block_table[bx, (k * bN) // page] * page + (k * bN) % page
                T.copy(KV[first : first + bN, 0, :], KV_shared)
                T.copy(K_pe[first : first + bN, 0, :], K_pe_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(F32))
                if kr == 0:
                    for i, j in T.Parallel(bH, bN):
                        acc_s[i, j] = T.if_then_else(k * bN + j >= cache_seqlens[bx], -T.infinity(F32), acc_s[i, j])
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
            T.copy(O_shared, Output[bx, by * bH : (by + 1) * bH, :])

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[200, 33, 129])
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--page", type=int, default=64)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--pe-dim", type=int, default=64)
    args = parser.parse_args()

    batch, page = len(args.lengths), args.page
    most = max(-(-n // page) for n in args.lengths)
    pages = batch * most + 3
    q = torch.randn(batch, args.heads, args.dim, device="cuda", dtype=torch.float16)
    q_pe = torch.randn(batch, args.heads, args.pe_dim, device="cuda", dtype=torch.float16)
    kv = torch.randn(pages * page, 1, args.dim, device="cuda", dtype=torch.float16)
    k_pe = torch.randn(pages * page, 1, args.pe_dim, device="cuda", dtype=torch.float16)
    table = torch.randperm(pages, device="cuda")[: batch * most].reshape(batch, most).to(torch.int32)
    lengths = torch.tensor(args.lengths, device="cuda", dtype=torch.int32)
    kernel = mla_paged(batch, args.heads, pages, page, most, args.dim, args.pe_dim)
    out = kernel(q, q_pe, kv, k_pe, table, lengths)
    for i, n in enumerate(args.lengths):
        rows = (table[i].long()[:, None] * page + torch.arange(page, device="cuda")).flatten()[:n]
        keys = torch.cat([kv[rows, 0], k_pe[rows, 0]], -1).float()
        scores = torch.cat([q[i], q_pe[i]], -1).float() @ keys.T
        expected = (scores / (args.dim + args.pe_dim) ** 0.5).softmax(-1) @ kv[rows, 0].float()
        torch.testing.assert_close(out[i].float(), expected, rtol=1e-2, atol=1e-2)
    print(f"sequences of {args.lengths} keys of {args.dim} + {args.pe_dim} in pages of {page}: matches torch")


if __name__ == "__main__":
    main()
