"""Flash attention of sequences of different length that stand one below the other (`cu_seqlens`)."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[5])
def flash_attention_varlen(batch, heads, dim, total_q, total_kv, max_q, *, groups=1, causal=False, dtype="float16", bM=32, bN=32, stages=1):
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
                T.min(T.ceildiv(max_visible_k_idx, bN), T.ceildiv(kv_current_seqlen, bN)) if causal else T.ceildiv(kv_current_seqlen, bN)
            )
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(K[kv_start_idx + k * bN : kv_start_idx + (k + 1) * bN, kv_head_idx, :], K_shared)
                if causal:
                    for i, j in T.Parallel(bM, bN):
                        acc_s[i, j] = T.if_then_else(
                            (bx * bM + i + offset < k * bN + j) or (bx * bM + i >= q_current_seqlen or k * bN + j >= kv_current_seqlen),
                            -1e9,
                            0,
                        )
                else:
                    for i, j in T.Parallel(bM, bN):
                        acc_s[i, j] = T.if_then_else((bx * bM + i >= q_current_seqlen or k * bN + j >= kv_current_seqlen), -1e9, 0)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1, 333])
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    args = parser.parse_args()

    total, heads, dim = sum(args.lengths), args.heads, args.dim
    q, k, v = (torch.randn(total, heads, dim, device="cuda", dtype=torch.float16) for _ in range(3))
    cu_seqlens = torch.tensor([0, *args.lengths], device="cuda").cumsum(0).to(torch.int32)
    kernel = flash_attention_varlen(len(args.lengths), heads, dim, total, total, max(args.lengths), causal=args.causal)
    out = kernel(q, k, v, cu_seqlens, cu_seqlens)
    parts = []
    for one in zip(*(x.float().transpose(0, 1).split(args.lengths, 1) for x in (q, k, v))):
        parts.append(torch.nn.functional.scaled_dot_product_attention(*one, is_causal=args.causal))
    torch.testing.assert_close(out.float(), torch.cat(parts, 1).transpose(0, 1), rtol=1e-2, atol=1e-2)
    print(f"attention of sequences of {args.lengths}: matches torch")


if __name__ == "__main__":
    main()
