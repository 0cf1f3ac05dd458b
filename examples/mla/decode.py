"""Multi-head latent attention, one new token: scores from two products, keys are values, too."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[4])
def mla_decode(batch, heads, seq_kv, dim=512, pe_dim=64, *, dtype="float16", bN=32, bH=16, stages=2):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--pe-dim", type=int, default=64)
    args = parser.parse_args()

    q = torch.randn(args.batch, args.heads, args.dim, device="cuda", dtype=torch.float16)
    q_pe = torch.randn(args.batch, args.heads, args.pe_dim, device="cuda", dtype=torch.float16)
    kv = torch.randn(args.batch, args.seq, 1, args.dim, device="cuda", dtype=torch.float16)
    k_pe = torch.randn(args.batch, args.seq, 1, args.pe_dim, device="cuda", dtype=torch.float16)
    out = mla_decode(args.batch, args.heads, args.seq, args.dim, args.pe_dim)(q, q_pe, kv, k_pe)
    scores = torch.cat([q, q_pe], -1).float() @ torch.cat([kv, k_pe], -1)[:, :, 0].float().transpose(-1, -2)
    expected = (scores / (args.dim + args.pe_dim) ** 0.5).softmax(-1) @ kv[:, :, 0].float()
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    print(f"{args.batch} tokens, {args.seq} keys of {args.dim} + {args.pe_dim}: matches torch")


if __name__ == "__main__":
    main()
