"""Linear attention by chunks: the state K^T V stays in a fragment, parts of the head size are added atomically."""

import argparse

import tilelang
import tilelang.language as T
import torch

F32 = "float32"


@tilelang.jit
def linear_attention(batch, seq, heads, dim_k, dim_v, *, dtype="float16", chunk=32, bK=32, bV=32, stages=2):
    NK, NV, NT = T.ceildiv(dim_k, bK), T.ceildiv(dim_v, bV), T.ceildiv(seq, chunk)
    scale = dim_k**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim_k), dtype),
        K: T.Tensor((batch, seq, heads, dim_k), dtype),
        V: T.Tensor((batch, seq, heads, dim_v), dtype),
        O: T.Tensor((batch, seq, heads, dim_v), F32),
        final_state: T.Tensor((batch, heads, dim_k, dim_v), F32),
    ):
        with T.Kernel(NV, NK, batch * heads) as (i_v, i_k, i_bh):
            i_b = i_bh // heads
            i_h = i_bh % heads

            q = T.alloc_shared([chunk, bK], dtype)
            k = T.alloc_shared([chunk, bK], dtype)
            v = T.alloc_shared([chunk, bV], dtype)
            h = T.alloc_fragment([bK, bV], F32)
            h_shared = T.alloc_shared([bK, bV], dtype)
            s = T.alloc_fragment([chunk, chunk], F32)
            s_shared = T.alloc_shared([chunk, chunk], dtype)
            o = T.alloc_fragment([chunk, bV], F32)
            o_shared = T.alloc_shared([chunk, bV], F32)

            T.annotate_layout({})
            T.use_swizzle(10)
            T.clear(h)
            for i in T.Pipelined(0, NT, num_stages=stages):
                for row, col in T.Parallel(chunk, bK):
                    q[row, col] = Q[i_b, i * chunk + row, i_h, i_k * bK + col] * scale
                T.copy(K[i_b, i * chunk : (i + 1) * chunk, i_h, i_k * bK : (i_k + 1) * bK], k)
                T.copy(V[i_b, i * chunk : (i + 1) * chunk, i_h, i_v * bV : (i_v + 1) * bV], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk, chunk):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, h_shared, o)
                T.copy(o, o_shared)
                T.atomic_add(O[i_b, i * chunk : (i + 1) * chunk, i_h, i_v * bV : (i_v + 1) * bV], o_shared)
            T.copy(h, final_state[i_b, i_h, i_k * bK : (i_k + 1) * bK, i_v * bV : (i_v + 1) * bV])

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    args = parser.parse_args()

    batch, seq, heads, dim = args.batch, args.seq, args.heads, args.dim
    q, k, v = (torch.randn(batch, seq, heads, dim, device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.zeros(batch, seq, heads, dim, device="cuda", dtype=torch.float32)
    state = torch.zeros(batch, heads, dim, dim, device="cuda", dtype=torch.float32)
    linear_attention(batch, seq, heads, dim, dim)(q, k, v, out, state)
    scores = torch.einsum("bihd,bjhd->bhij", q.float() * dim**-0.5, k.float()).tril()
    torch.testing.assert_close(out, torch.einsum("bhij,bjhd->bihd", scores, v.float()), rtol=1e-2, atol=1e-1)
    torch.testing.assert_close(state, torch.einsum("bshk,bshv->bhkv", k.float(), v.float()), rtol=1e-4, atol=1e-3)
    print(f"linear attention {seq} x {heads} x {dim}: matches torch")


if __name__ == "__main__":
    main()
