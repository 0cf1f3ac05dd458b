"""Gated delta rule by chunks, five kernels, against the recurrence token by token."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[3])
def delta_kkt(batch, seq, heads, dim, *, dtype="float16", BS=32, bK=32, stages=2):

    @T.prim_func
    def main(
        K: T.Tensor((batch, seq, heads, dim), dtype),
        Beta: T.Tensor((batch, seq, heads), dtype),
        G: T.Tensor((batch, seq, heads), F32),
        A: T.Tensor((batch, seq, heads, BS), F32),
    ):
        with T.Kernel(T.ceildiv(seq, BS), batch * heads, threads=128) as (bx, by):
            bb, bh = by // heads, by % heads
            Beta_shared = T.alloc_shared((BS,), dtype, scope="shared")
            K_shared = T.alloc_shared((BS, bK), dtype)
            A_shared = T.alloc_shared((BS, BS), F32)
            Beta_K_fragment = T.alloc_fragment((BS, bK), dtype)
            A_fragment = T.alloc_fragment((BS, BS), F32)
            G_shared = T.alloc_shared((BS,), F32, scope="shared")
            G_diff_local = T.alloc_fragment((BS, BS), F32)

            T.fill(A_fragment, 0)
            T.no_set_max_nreg()
            for i_s in T.Parallel(BS):
                Beta_shared[i_s] = Beta[bb, bx * BS + i_s, bh]
            for i_k in T.Pipelined(T.ceildiv(dim, bK), num_stages=stages):
                T.copy(K[bb, bx * BS : (bx + 1) * BS, bh, i_k * bK : (i_k + 1) * bK], K_shared)
                for i_s, i_k2 in T.Parallel(BS, bK):
                    Beta_K_fragment[i_s, i_k2] = K_shared[i_s, i_k2] * Beta_shared[i_s]
                T.gemm(Beta_K_fragment, K_shared, A_fragment, transpose_B=True)
            for i_s in T.Parallel(BS):
                G_shared[i_s] = G[bb, bx * BS + i_s, bh]
            for i_s1, i_s2 in T.Parallel(BS, BS):
                G_diff_local[i_s1, i_s2] = G_shared[i_s1] - G_shared[i_s2]
            for i_s1, i_s2 in T.Parallel(BS, BS):
                if G_diff_local[i_s1, i_s2] <= 0 and i_s1 > i_s2:
                    A_fragment[i_s1, i_s2] = A_fragment[i_s1, i_s2] * T.exp(G_diff_local[i_s1, i_s2])
                else:
                    A_fragment[i_s1, i_s2] = 0
            T.copy(A_fragment, A_shared)
            T.copy(A_shared, A[bb, bx * BS : (bx + 1) * BS, bh, :])

    return main


@tilelang.jit(out_idx=[1])
def delta_inverse(batch, seq, heads, *, dtype="float16", BS=32):

    @T.prim_func
    def main(A: T.Tensor((batch, seq, heads, BS), F32), Ai: T.Tensor((batch, seq, heads, BS), dtype)):
        with T.Kernel(T.ceildiv(seq, BS), batch * heads, threads=128) as (bx, by):
            bb, bh = by // heads, by % heads
            a = T.alloc_shared((BS, BS), F32)
            row = T.alloc_fragment((BS,), F32)
            terms = T.alloc_fragment((BS, BS), F32)
            total = T.alloc_fragment((BS,), F32)
            T.copy(A[bb, bx * BS : (bx + 1) * BS, bh, :], a)
            for i, j in T.Parallel(BS, BS):
                a[i, j] = -a[i, j]
            for i in T.serial(1, BS):
                for j in T.Parallel(BS):
                    row[j] = a[i, j]
                for k, j in T.Parallel(BS, BS):
                    terms[k, j] = T.if_then_else(k < i, row[k] * a[k, j], 0)
                T.reduce_sum(terms, total, dim=0)
                for j in T.Parallel(BS):
                    a[i, j] = row[j] + total[j]
            for i, j in T.Parallel(BS, BS):
                if i == j:
                    a[i, j] = 1.0
            T.copy(a, Ai[bb, bx * BS : (bx + 1) * BS, bh, :])

    return main


@tilelang.jit(out_idx=[5, 6])
def delta_wy(batch, seq, heads, dim_k, dim_v, *, dtype="float16", BS=32, bK=32, bV=32, stages=2):

    @T.prim_func
    def main(
        K: T.Tensor((batch, seq, heads, dim_k), dtype),
        V: T.Tensor((batch, seq, heads, dim_v), dtype),
        Beta: T.Tensor((batch, seq, heads), dtype),
        G: T.Tensor((batch, seq, heads), F32),
        A: T.Tensor((batch, seq, heads, BS), dtype),
        W: T.Tensor((batch, seq, heads, dim_k), dtype),
        U: T.Tensor((batch, seq, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, BS), batch * heads, threads=128) as (bx, by):
            bb, bh = by // heads, by % heads
            Beta_shared = T.alloc_shared((BS,), dtype, scope="shared")
            K_shared = T.alloc_shared((BS, bK), dtype)
            V_shared = T.alloc_shared((BS, bV), dtype)
            G_shared = T.alloc_shared((BS,), F32, scope="shared")
            A_shared = T.alloc_shared((BS, BS), dtype)
            W_fragment = T.alloc_fragment((BS, bK), F32)
            U_fragment = T.alloc_fragment((BS, bV), F32)
            W_shared = T.alloc_shared((BS, bK), dtype)
            U_shared = T.alloc_shared((BS, bV), dtype)
            W_Beta_shared = T.alloc_shared((BS, bK), dtype)
            U_Beta_shared = T.alloc_shared((BS, bV), dtype)

            T.disable_warp_group_reg_alloc()
            for i_s in T.Parallel(BS):
                Beta_shared[i_s] = Beta[bb, bx * BS + i_s, bh]
                G_shared[i_s] = T.exp(G[bb, bx * BS + i_s, bh])
            T.copy(A[bb, bx * BS : (bx + 1) * BS, bh, :], A_shared)
            for i_v in T.Pipelined(T.ceildiv(dim_v, bV), num_stages=stages):
                T.copy(V[bb, bx * BS : (bx + 1) * BS, bh, i_v * bV : (i_v + 1) * bV], V_shared)
                for i_s, i_v2 in T.Parallel(BS, bV):
                    U_Beta_shared[i_s, i_v2] = V_shared[i_s, i_v2] * Beta_shared[i_s]
                T.gemm(A_shared, U_Beta_shared, U_fragment, clear_accum=True)
                T.copy(U_fragment, U_shared)
                T.copy(U_shared, U[bb, bx * BS : (bx + 1) * BS, bh, i_v * bV : (i_v + 1) * bV])
            for i_k in T.Pipelined(T.ceildiv(dim_k, bK), num_stages=stages):
                T.copy(K[bb, bx * BS : (bx + 1) * BS, bh, i_k * bK : (i_k + 1) * bK], K_shared)
                for i_s, i_k2 in T.Parallel(BS, bK):
                    W_Beta_shared[i_s, i_k2] = K_shared[i_s, i_k2] * Beta_shared[i_s] * G_shared[i_s]
                T.gemm(A_shared, W_Beta_shared, W_fragment, clear_accum=True)
                T.copy(W_fragment, W_shared)
                T.copy(W_shared, W[bb, bx * BS : (bx + 1) * BS, bh, i_k * bK : (i_k + 1) * bK])

    return main


@tilelang.jit(out_idx=[5, 6, 7])
def delta_states(batch, seq, heads, dim_k, dim_v, *, per_channel=False, dtype="float16", BS=32, bV=32, stages=1):
    NT = T.ceildiv(seq, BS)
    g_shape = (batch, seq, heads, dim_k) if per_channel else (batch, seq, heads)

    @T.prim_func
    def main(
        K: T.Tensor((batch, seq, heads, dim_k), dtype),
        W: T.Tensor((batch, seq, heads, dim_k), dtype),
        U: T.Tensor((batch, seq, heads, dim_v), dtype),
        G: T.Tensor(g_shape, F32),
        initial_state: T.Tensor((batch, heads, dim_k, dim_v), dtype),
        h: T.Tensor((batch, NT, heads, dim_k, dim_v), dtype),
        final_state: T.Tensor((batch, heads, dim_k, dim_v), F32),
        V_new: T.Tensor((batch, seq, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(dim_v, bV), batch * heads, threads=128) as (bv, bbh):
            bb, bh = bbh // heads, bbh % heads
            b_h_shared = T.alloc_shared((dim_k, bV), dtype)
            b_h_fragment = T.alloc_fragment((dim_k, bV), F32)
            U_shared = T.alloc_shared((BS, bV), dtype)
            U_fragment = T.alloc_fragment((BS, bV), F32)
            W_shared = T.alloc_shared((BS, dim_k), dtype)
            V_new_fragment = T.alloc_fragment((BS, bV), F32)
            V_new_shared = T.alloc_shared((BS, bV), dtype)
            K_shared = T.alloc_shared((BS, dim_k), dtype)
            G_last_local = T.alloc_var(F32)
            G_shared = T.alloc_shared((BS, bV), F32)
            G_fragment = T.alloc_fragment((BS, bV), F32)
            GK_last = T.alloc_fragment((dim_k,), F32)

            T.use_swizzle(10)
            T.copy(initial_state[bb, bh, 0:dim_k, bv * bV : (bv + 1) * bV], b_h_shared)
            T.copy(b_h_shared, b_h_fragment)
            for i_s in T.Pipelined(NT, num_stages=stages):
                T.copy(b_h_shared, h[bb, i_s, bh, 0:dim_k, bv * bV : (bv + 1) * bV])
                T.copy(W[bb, i_s * BS : (i_s + 1) * BS, bh, 0:dim_k], W_shared)
                T.gemm(W_shared, b_h_shared, V_new_fragment, clear_accum=True)
                T.copy(U[bb, i_s * BS : (i_s + 1) * BS, bh, bv * bV : (bv + 1) * bV], U_shared)
                T.copy(U_shared, U_fragment)
                for i_s2, i_v in T.Parallel(BS, bV):
                    V_new_fragment[i_s2, i_v] = -V_new_fragment[i_s2, i_v] + U_fragment[i_s2, i_v]
                T.copy(V_new_fragment, V_new_shared)
                T.copy(V_new_shared, V_new[bb, i_s * BS : (i_s + 1) * BS, bh, bv * bV : (bv + 1) * bV])
                T.copy(K[bb, i_s * BS : (i_s + 1) * BS, bh, 0:dim_k], K_shared)
                if per_channel:
                    last = T.min((i_s + 1) * BS, seq) - 1
                    T.copy(G[bb, last, bh, :], GK_last)
                    for i_k, i_v in T.Parallel(dim_k, bV):
                        b_h_fragment[i_k, i_v] *= T.exp2(GK_last[i_k])
                else:
                    G_last_local = G[bb, (i_s + 1) * BS - 1, bh]
                    for i_s2, i_v in T.Parallel(BS, bV):
                        G_shared[i_s2, i_v] = G[bb, i_s * BS + i_s2, bh]
                    T.copy(G_shared, G_fragment)
                    for i_s2, i_v in T.Parallel(BS, bV):
                        V_new_fragment[i_s2, i_v] = T.if_then_else(
                            G_last_local - G_fragment[i_s2, i_v] <= 0,
                            V_new_fragment[i_s2, i_v] * T.exp2((G_last_local - G_fragment[i_s2, i_v]) * LOG2E),
                            0,
                        )
                    G_last_local = T.exp2(G_last_local * LOG2E)
                    for i_k, i_v in T.Parallel(dim_k, bV):
                        b_h_fragment[i_k, i_v] *= G_last_local
                T.copy(V_new_fragment, V_new_shared)
                T.gemm(K_shared, V_new_shared, b_h_fragment, transpose_A=True)
                T.copy(b_h_fragment, b_h_shared)
            T.copy(b_h_fragment, final_state[bb, bh, 0:dim_k, bv * bV : (bv + 1) * bV])

    return main


@tilelang.jit(out_idx=[5])
def delta_output(batch, seq, heads, dim_k, dim_v, *, dtype="float16", BS=32, bK=32, bV=32, stages=1):
    NT = T.ceildiv(seq, BS)
    scale = dim_k**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim_k), dtype),
        K: T.Tensor((batch, seq, heads, dim_k), dtype),
        V: T.Tensor((batch, seq, heads, dim_v), dtype),
        HIDDEN: T.Tensor((batch, NT, heads, dim_k, dim_v), dtype),
        G: T.Tensor((batch, seq, heads), F32),
        O: T.Tensor((batch, seq, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(dim_v, bV), T.ceildiv(seq, BS), batch * heads, threads=128) as (bv, bs, bbh):
            bb, bh = bbh // heads, bbh % heads
            Q_shared = T.alloc_shared((BS, bK), dtype)
            K_shared = T.alloc_shared((BS, bK), dtype)
            V_shared = T.alloc_shared((BS, bV), dtype)
            H_shared = T.alloc_shared((bK, bV), dtype)
            A_shared = T.alloc_shared((BS, BS), dtype)
            O_shared = T.alloc_shared((BS, bV), dtype)
            A_fragment = T.alloc_fragment((BS, BS), F32)
            O_fragment = T.alloc_fragment((BS, bV), F32)
            G_shared = T.alloc_shared((BS,), F32, scope="shared")
            G_diff_local = T.alloc_fragment((BS, BS), F32)

            T.clear(A_fragment)
            T.clear(O_fragment)
            T.disable_warp_group_reg_alloc()
            for i_k in T.Pipelined(T.ceildiv(dim_k, bK), num_stages=stages):
                T.copy(Q[bb, bs * BS : (bs + 1) * BS, bh, i_k * bK : (i_k + 1) * bK], Q_shared)
                T.copy(K[bb, bs * BS : (bs + 1) * BS, bh, i_k * bK : (i_k + 1) * bK], K_shared)
                T.copy(HIDDEN[bb, bs, bh, i_k * bK : (i_k + 1) * bK, bv * bV : (bv + 1) * bV], H_shared)
                T.gemm(Q_shared, H_shared, O_fragment)
                T.gemm(Q_shared, K_shared, A_fragment, transpose_B=True)
            for i_s in T.Parallel(BS):
                G_shared[i_s] = G[bb, bs * BS + i_s, bh]
            for i_s, i_v in T.Parallel(BS, bV):
                O_fragment[i_s, i_v] = O_fragment[i_s, i_v] * T.exp(G_shared[i_s])
            for i_s1, i_s2 in T.Parallel(BS, BS):
                G_diff_local[i_s1, i_s2] = G_shared[i_s1] - G_shared[i_s2]
            for i_s1, i_s2 in T.Parallel(BS, BS):
                if G_diff_local[i_s1, i_s2] <= 0:
                    A_fragment[i_s1, i_s2] = A_fragment[i_s1, i_s2] * T.exp(G_diff_local[i_s1, i_s2])
                else:
                    A_fragment[i_s1, i_s2] = 0
            for i_s1, i_s2 in T.Parallel(BS, BS):
                if i_s1 < i_s2:
                    A_fragment[i_s1, i_s2] = 0
            T.copy(V[bb, bs * BS : (bs + 1) * BS, bh, bv * bV : (bv + 1) * bV], V_shared)
            T.copy(A_fragment, A_shared)
            T.gemm(A_shared, V_shared, O_fragment)
            for i_s, i_v in T.Parallel(BS, bV):
                O_fragment[i_s, i_v] = O_fragment[i_s, i_v] * scale
            T.copy(O_fragment, O_shared)
            T.copy(O_shared, O[bb, bs * BS : (bs + 1) * BS, bh, bv * bV : (bv + 1) * bV])

    return main


def recurrence(q, k, v, beta, g):
    """Token by token; `g` is the logarithm of the decay of every token."""
    batch, seq, heads, dim = k.shape
    state, out = torch.zeros(batch, heads, dim, v.shape[-1], device=k.device), []
    for t in range(seq):
        state = state * g[:, t].exp()[..., None, None]
        old = torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], (v[:, t] - old) * beta[:, t, :, None])
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) * dim**-0.5)
    return torch.stack(out, 1), state


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    args = parser.parse_args()

    batch, seq, heads, dim, chunk = args.batch, args.seq, args.heads, args.dim, 32
    q, v = (torch.randn(batch, seq, heads, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    k = torch.nn.functional.normalize(torch.randn(batch, seq, heads, dim, device="cuda"), dim=-1).half()
    beta = torch.rand(batch, seq, heads, device="cuda", dtype=torch.float16)
    decay = -torch.rand(batch, seq, heads, device="cuda") * 0.3
    g = decay.reshape(batch, seq // chunk, chunk, heads).cumsum(2).reshape(batch, seq, heads)

    a = delta_kkt(batch, seq, heads, dim)(k, beta, g)
    inverse = delta_inverse(batch, seq, heads)(a)
    w, u = delta_wy(batch, seq, heads, dim, dim)(k, v, beta, g, inverse)
    start = torch.zeros(batch, heads, dim, dim, device="cuda", dtype=torch.float16)
    h, final, v_new = delta_states(batch, seq, heads, dim, dim)(k, w, u, g, start)
    out = delta_output(batch, seq, heads, dim, dim)(q, k, v_new, h, g)

    expected, state = recurrence(q.float(), k.float(), v.float(), beta.float(), decay)
    torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(final, state, rtol=2e-2, atol=2e-2)
    print(f"gated delta rule {seq} x {heads} x {dim}: matches torch")


if __name__ == "__main__":
    main()
