"""Sparse latent attention: every token attends to the keys whose numbers a table lists."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[3, 4])
def sparse_mla(batch, seq, seq_kv, heads, dim, tail, topk, *, dtype="float16", BI=32, block_H=None, stages=2):
    scale = (1.0 / (dim + tail)) ** 0.5 * LOG2E
    rows = block_H or heads
    blocks = heads // rows

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim + tail), dtype),
        KV: T.Tensor((batch, seq_kv, 1, dim + tail), dtype),
        Indices: T.Tensor((batch, seq, 1, topk), "int32"),
        Output: T.Tensor((batch, seq, heads, dim), dtype),
        Lse: T.Tensor((batch, seq, heads), F32),
    ):
        with T.Kernel(seq * blocks, batch, 1, threads=256) as (bx, by, bz):
            Q_shared = T.alloc_shared([rows, dim + tail], dtype)
            KV_shared = T.alloc_shared([BI, dim], dtype)
            K_tail_shared = T.alloc_shared([BI, tail], dtype)
            O_shared = T.alloc_shared([rows, dim], dtype)
            Lse_shared = T.alloc_shared([rows], F32)
            mask = T.alloc_fragment([BI], "bool")
            acc_o = T.alloc_fragment([rows, dim], F32)
            acc_s = T.alloc_fragment([rows, BI], F32)
            S_shared = T.alloc_shared([rows, BI], dtype)
            sumexp = T.alloc_fragment([rows], F32)
            sumexp_i = T.alloc_fragment([rows], F32)
            alpha = T.alloc_fragment([rows], F32)
            m_i = T.alloc_fragment([rows], F32)
            m_i_prev = T.alloc_fragment([rows], F32)

            T.fill(acc_o, 0)
            T.fill(sumexp, 0)
            T.fill(m_i, -(2**30))
            b_i, g_i, s_i = by, bz, bx // blocks
            h0 = bx % blocks * rows
            max_kv_i = s_i
            T.copy(Q[b_i, s_i, h0 : h0 + rows, :dim], Q_shared[:, :dim])
            T.copy(Q[b_i, s_i, h0 : h0 + rows, dim:], Q_shared[:, dim:])
            for i_i in T.Pipelined(T.ceildiv(topk, BI), num_stages=stages):
                for bi_i in T.Parallel(BI):
                    mask[bi_i] = Indices[b_i, s_i, g_i, i_i * BI + bi_i] <= max_kv_i
                for bi_i, d_i in T.Parallel(BI, dim):
                    KV_shared[bi_i, d_i] = KV[b_i, Indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, d_i]
                for bi_i, d_i in T.Parallel(BI, tail):
                    K_tail_shared[bi_i, d_i] = KV[b_i, Indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, dim + d_i]
                for h_i, bi_i in T.Parallel(rows, BI):
                    acc_s[h_i, bi_i] = T.if_then_else(mask[bi_i], 0, -T.infinity(F32))
                T.gemm(Q_shared[:, :dim], KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(Q_shared[:, dim:], K_tail_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m_i, m_i_prev)
                T.reduce_max(acc_s, m_i, dim=1, clear=False)
                for h_i in T.Parallel(rows):
                    m_i[h_i] = T.max(m_i[h_i], m_i_prev[h_i])
                for h_i in T.Parallel(rows):
                    alpha[h_i] = T.exp2((m_i_prev[h_i] - m_i[h_i]) * scale)
                for h_i, bi_i in T.Parallel(rows, BI):
                    acc_s[h_i, bi_i] = T.exp2(acc_s[h_i, bi_i] * scale - m_i[h_i] * scale)
                T.reduce_sum(acc_s, sumexp_i, dim=1)
                for h_i in T.Parallel(rows):
                    sumexp[h_i] = sumexp[h_i] * alpha[h_i] + sumexp_i[h_i]
                for h_i, d_i in T.Parallel(rows, dim):
                    acc_o[h_i, d_i] = acc_o[h_i, d_i] * alpha[h_i]
                T.copy(acc_s, S_shared)
                T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for h_i, d_i in T.Parallel(rows, dim):
                acc_o[h_i, d_i] /= sumexp[h_i]
            for h_i in T.Parallel(rows):
                sumexp[h_i] = T.log2(sumexp[h_i]) + m_i[h_i] * scale
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[b_i, s_i, h0 : h0 + rows, :])
            T.copy(sumexp, Lse_shared)
            T.copy(Lse_shared, Lse[b_i, s_i, h0 : h0 + rows])

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seq", type=int, default=48)
    parser.add_argument("--keys", type=int, default=128)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--tail", type=int, default=64)
    parser.add_argument("--topk", type=int, default=64)
    args = parser.parse_args()

    seq, keys, heads, dim, tail, topk = args.seq, args.keys, args.heads, args.dim, args.tail, args.topk
    q = torch.randn(1, seq, heads, dim + tail, device="cuda", dtype=torch.float16)
    kv = torch.randn(1, keys, 1, dim + tail, device="cuda", dtype=torch.float16)
    indices = torch.stack([torch.randperm(keys, device="cuda")[:topk] for _ in range(seq)]).to(torch.int32)
    indices[:, 0] = 0
    out, lse = sparse_mla(1, seq, keys, heads, dim, tail, topk)(q, kv, indices[None, :, None].contiguous())
    scores = (q[0].float() @ kv[0, :, 0].float().T / (dim + tail) ** 0.5).gather(2, indices.long()[:, None].expand(seq, heads, topk))
    scores = scores.masked_fill(indices[:, None] > torch.arange(seq, device="cuda")[:, None, None], float("-inf"))
    expected = scores.softmax(-1) @ kv[0, :, 0, :dim].float()[indices.long()]
    torch.testing.assert_close(out[0].float(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(lse[0], torch.logsumexp(scores, -1) * LOG2E, rtol=1e-4, atol=1e-4)
    print(f"{seq} tokens, {topk} of {keys} keys each: matches torch")


if __name__ == "__main__":
    main()
