"""Native sparse attention: every token attends to the blocks of keys it has chosen."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


def softmax_step(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, rows, cols, scale):
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


def rescale(acc_o, scores_scale, rows, cols):
    for i, j in T.Parallel(rows, cols):
        acc_o[i, j] *= scores_scale[i]


@tilelang.jit(out_idx=[4])
def native_sparse(batch, heads, kv_heads, seq, dim, selected, *, dtype="float16", BS=32, stages=2):
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
                    softmax_step(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum, G, BS, scale)
                    rescale(acc_o, scores_scale, G, dim)
                    T.copy(V[i_b, i_s : i_s + BS, i_h, i_v * dim : (i_v + 1) * dim], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(G, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[i_b, i_t, i_h * G : (i_h + 1) * G, i_v * dim : (i_v + 1) * dim])

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seq", type=int, default=96)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--selected", type=int, default=2)
    args = parser.parse_args()

    heads, seq, dim, block = args.heads, args.seq, args.dim, 32
    q = torch.randn(1, seq, heads, dim, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(1, seq, 1, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    chosen = torch.full((1, seq, 1, args.selected), -1, device="cuda", dtype=torch.int32)
    keep = torch.zeros(seq, seq, device="cuda", dtype=torch.bool)
    for t in range(seq):
        blocks = torch.randperm(t // block + 1)[: args.selected]
        chosen[0, t, 0, : len(blocks)] = blocks.to(torch.int32)
        for b in blocks.tolist():
            keep[t, b * block : min(t + 1, (b + 1) * block)] = True
    out = native_sparse(1, heads, 1, seq, dim, args.selected)(q, k, v, chosen)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.float().transpose(1, 2) for x in (q, k, v)), attn_mask=keep, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    print(f"{seq} tokens, {args.selected} blocks of {block} keys each: matches torch")


if __name__ == "__main__":
    main()
