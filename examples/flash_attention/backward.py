"""Flash attention backward: sums of O * dO first, then dQ (added atomically), dK and dV of every block of keys."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[2])
def backward_delta(batch, heads, seq, dim, *, dtype="float16", blk=32):

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


@tilelang.jit
def backward(batch, heads, seq, dim, *, groups=1, causal=False, dtype="float16", bM=32, bN=32, stages=2):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    args = parser.parse_args()

    batch, heads, seq, dim = args.batch, args.heads, args.seq, args.dim
    q, k, v, do = (torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.float16) for _ in range(4))
    inputs = [x.float().requires_grad_() for x in (q, k, v)]
    scores = inputs[0] @ inputs[1].transpose(-1, -2) / dim**0.5
    if args.causal:
        scores = scores.masked_fill(torch.ones(seq, seq, device="cuda", dtype=torch.bool).triu(1), float("-inf"))
    out = scores.softmax(-1) @ inputs[2]
    out.backward(do.float())
    lse = torch.logsumexp(scores.detach(), -1) * LOG2E

    delta = backward_delta(batch, heads, seq, dim)(out.detach().half(), do)
    dq = torch.zeros(batch, heads, seq, dim, device="cuda", dtype=torch.float32)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    backward(batch, heads, seq, dim, causal=args.causal)(q, k, v, do, lse, delta, dq, dk, dv)
    for got, x in zip((dq, dk, dv), inputs):
        torch.testing.assert_close(got.float(), x.grad, rtol=1e-2, atol=1e-2)
    print(f"gradients of attention {heads} x {seq} x {dim}: match torch")


if __name__ == "__main__":
    main()
