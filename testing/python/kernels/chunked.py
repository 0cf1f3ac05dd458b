"""Products in a row, and what carries a state over chunks: linear attention, retention, mamba2, the gated delta rule; experts."""

from __future__ import annotations

import tilelang_ascend.language as T

LOG2E = 1.44269504
F32 = "float32"


def three_products(m, n, k, p, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):
    """D = (A @ B) @ C: the product in the middle never leaves the chip."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((n, p), dtype), D: T.Tensor((m, p), dtype)
    ):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, bN), dtype)
            C_shared = T.alloc_shared((bN, p), dtype)
            P_shared = T.alloc_shared((bM, bN), dtype)
            P_local = T.alloc_fragment((bM, bN), F32)
            D_local = T.alloc_fragment((bM, p), F32)
            T.clear(D_local)
            for j in T.serial(T.ceildiv(n, bN)):
                T.clear(P_local)
                for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=stages):
                    T.copy(A[bx * bM, kk * bK], A_shared)
                    T.copy(B[kk * bK, j * bN], B_shared)
                    T.gemm(A_shared, B_shared, P_local)
                T.copy(P_local, P_shared)
                T.copy(C[j * bN, 0], C_shared)
                T.gemm(P_shared, C_shared, D_local)
            T.copy(D_local, D[bx * bM, 0])

    return main


def product_softmax(m, n, k, *, dtype="float16", bM=32, bK=32, stages=2):
    """Softmax of the rows of A @ B."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, n), dtype)
            C_local = T.alloc_fragment((bM, n), F32)
            top = T.alloc_fragment((bM,), F32)
            total = T.alloc_fragment((bM,), F32)
            T.clear(C_local)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=stages):
                T.copy(A[bx * bM, kk * bK], A_shared)
                T.copy(B[kk * bK, 0], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.reduce_max(C_local, top, dim=1, clear=True)
            for i, j in T.Parallel(bM, n):
                C_local[i, j] = T.exp(C_local[i, j] - top[i])
            T.reduce_sum(C_local, total, dim=1)
            for i, j in T.Parallel(bM, n):
                C_local[i, j] = C_local[i, j] / total[i]
            T.copy(C_local, Y[bx * bM, 0])

    return main


def linear_attention(batch, seq, heads, dim_k, dim_v, *, dtype="float16", chunk=32, bK=32, bV=32, stages=2):
    """O = tril(Q K^T) V by chunks; the state h = K^T V stays in a fragment, parts of the head size are added atomically."""
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


def retention(batch, heads, seq, dim_qk, dim_v, *, dtype="float16", bM=32, bN=32, stages=1):
    """Scores weighted with powers of a decay of the head, and divided by the sum of their magnitudes."""

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq, heads, dim_qk), dtype),
        K: T.Tensor((batch, seq, heads, dim_qk), dtype),
        V: T.Tensor((batch, seq, heads, dim_v), dtype),
        mask: T.Tensor((heads, seq, seq), dtype),
        Output: T.Tensor((batch, seq, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, bM), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared([bM, dim_qk], dtype)
            K_shared = T.alloc_shared([bN, dim_qk], dtype)
            V_shared = T.alloc_shared([bN, dim_v], dtype)
            mask_shared = T.alloc_shared([bM, bN], dtype)
            acc_o_shared = T.alloc_shared([bM, dim_v], dtype)
            mask_local = T.alloc_fragment([bM, bN], F32)
            acc_s = T.alloc_fragment([bM, bN], F32)
            acc_s_1 = T.alloc_fragment([bM, bN], F32)
            acc_s_cast = T.alloc_fragment([bM, bN], dtype)
            acc_o = T.alloc_fragment([bM, dim_v], F32)
            abs_sum = T.alloc_fragment([bM], F32)
            r_wo_clamp = T.alloc_fragment([bM], F32)
            r = T.alloc_fragment([bM], F32)
            r_new = T.alloc_fragment([bM], F32)

            T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Q_shared)
            T.fill(r, 0)
            T.fill(r_new, 0)
            T.fill(r_wo_clamp, 0)
            T.fill(acc_o, 0)
            loop_range = T.ceildiv(seq, bN)
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(K[bz, k * bN : (k + 1) * bN, by, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(mask[by, bx * bM : (bx + 1) * bM, k * bN : (k + 1) * bN], mask_shared)
                T.copy(mask_shared, mask_local)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = acc_s[i, j] * mask_local[i, j]
                for i, j in T.Parallel(bM, bN):
                    acc_s_1[i, j] = T.abs(acc_s[i, j])
                T.reduce_sum(acc_s_1, abs_sum, dim=1)
                for i in T.Parallel(bM):
                    r_wo_clamp[i] = r_wo_clamp[i] + abs_sum[i]
                for i in T.Parallel(bM):
                    r_new[i] = T.max(r_wo_clamp[i], 1)
                for i, j in T.Parallel(bM, dim_v):
                    acc_o[i, j] = T.if_then_else(k > 0, acc_o[i, j] * r[i] / r_new[i], acc_o[i, j])
                T.copy(r_new, r)
                for i, j in T.Parallel(bM, bN):
                    acc_s[i, j] = acc_s[i, j] / r_new[i]
                T.copy(acc_s, acc_s_cast)
                T.copy(V[bz, k * bN : (k + 1) * bN, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc_o, acc_o_shared)
            T.copy(acc_o_shared, Output[bz, bx * bM : (bx + 1) * bM, by, :])

    return main


def chunk_state(batch, seq, chunk, groups, heads, dim, dstate, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):
    """Mamba2: the state every chunk adds, x^T (decay dt B)."""
    nchunks = T.ceildiv(seq, chunk)
    p = LOG2E

    @T.prim_func
    def main(
        B: T.Tensor((batch, seq, groups, dstate), dtype),
        x: T.Tensor((batch, seq, heads, dim), dtype),
        dt: T.Tensor((batch, heads, nchunks, chunk), dtype),
        dA_cumsum: T.Tensor((batch, heads, nchunks, chunk), dtype),
        Output: T.Tensor((batch, nchunks, heads, dim, dstate), dtype),
    ):
        with T.Kernel(heads, T.ceildiv(dim, bM) * T.ceildiv(dstate, bN), batch * nchunks, threads=128) as (bz, bx, by):
            x_shared = T.alloc_shared((bK, bM), dtype)
            x_local = T.alloc_fragment((bK, bM), dtype)
            xt_local = T.alloc_fragment((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, bN), dtype)
            dt_shared = T.alloc_shared((bK,), dtype)
            dA_cumsum_shared = T.alloc_shared((bK,), dtype)
            acc_o = T.alloc_fragment((bM, bN), F32)
            acc_o_shared = T.alloc_shared((bM, bN), dtype)
            scale = T.alloc_fragment((bK,), F32)
            dA_cs_last = T.alloc_fragment((1,), F32)
            dA_cumsum_local = T.alloc_fragment((bK,), F32)
            dt_local = T.alloc_fragment((bK,), F32)

            loop_range = T.ceildiv(chunk, bK)
            batch_idx = by % batch
            chunk_idx = by // batch
            m_idx = bx // T.ceildiv(dstate, bN)
            n_idx = bx % T.ceildiv(dstate, bN)

            dA_cs_last[0] = dA_cumsum[batch_idx, bz, chunk_idx, chunk - 1]
            T.clear(acc_o)
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(
                    x[
                        batch_idx,
                        chunk_idx * chunk + k * bK : chunk_idx * chunk + (k + 1) * bK,
                        bz,
                        m_idx * bM : (m_idx + 1) * bM,
                    ],
                    x_shared,
                )
                T.copy(dA_cumsum[batch_idx, bz, chunk_idx, k * bK : (k + 1) * bK], dA_cumsum_shared)
                T.copy(dt[batch_idx, bz, chunk_idx, k * bK : (k + 1) * bK], dt_shared)
                T.copy(dA_cumsum_shared, dA_cumsum_local)
                T.copy(dt_shared, dt_local)
                for i in T.Parallel(bK):
                    scale[i] = T.exp2(dA_cs_last[0] * p - dA_cumsum_local[i] * p) * dt_local[i]
                T.copy(x_shared, x_local)
                for i, j in T.Parallel(bM, bK):
                    xt_local[i, j] = x_local[j, i] * scale[j]
                T.copy(
                    B[
                        batch_idx,
                        chunk_idx * chunk + k * bK : chunk_idx * chunk + (k + 1) * bK,
                        bz // (heads // groups),
                        n_idx * bN : (n_idx + 1) * bN,
                    ],
                    B_shared,
                )
                T.gemm(xt_local, B_shared, acc_o)
            T.copy(acc_o, acc_o_shared)
            T.copy(
                acc_o_shared,
                Output[
                    batch_idx, chunk_idx, bz, m_idx * bM : (m_idx + 1) * bM, n_idx * bN : (n_idx + 1) * bN
                ],
            )

    return main


def chunk_scan(batch, seq, chunk, groups, heads, dim, dstate, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):
    """Mamba2: outputs from the states in front of the chunks and from the chunks themselves, plus D x."""
    nchunks = T.ceildiv(seq, chunk)
    p = LOG2E

    @T.prim_func
    def main(
        cb: T.Tensor((batch, nchunks, groups, chunk, chunk), dtype),
        x: T.Tensor((batch, seq, heads, dim), dtype),
        dt: T.Tensor((batch, heads, nchunks, chunk), dtype),
        dA_cumsum: T.Tensor((batch, heads, nchunks, chunk), dtype),
        C: T.Tensor((batch, seq, groups, dstate), dtype),
        prev_states: T.Tensor((batch, nchunks, heads, dim, dstate), dtype),
        D: T.Tensor((heads,), dtype),
        Output: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(heads, T.ceildiv(chunk, bM) * T.ceildiv(dim, bN), batch * nchunks, threads=128) as (bz, bx, by):
            acc_o = T.alloc_fragment((bM, bN), F32)
            acc_o_shared = T.alloc_shared((bM, bN), dtype)
            cb_shared = T.alloc_shared((bM, bK), dtype)
            cb_local = T.alloc_fragment((bM, bK), dtype)
            dA_cs_k_shared = T.alloc_shared((bK,), dtype)
            dA_cs_k_local = T.alloc_fragment((bK,), F32)
            dA_cs_m_local = T.alloc_fragment((bM,), F32)
            dt_shared = T.alloc_shared((bK,), dtype)
            dt_local = T.alloc_fragment((bK,), F32)
            x_shared = T.alloc_shared((bK, bN), dtype)
            dA_cs_m_shared = T.alloc_shared((bM,), dtype)
            scale_m_local = T.alloc_fragment((bM,), F32)
            C_shared = T.alloc_shared((bM, dstate), dtype)
            prev_state_shared = T.alloc_shared((bN, dstate), dtype)
            D_local = T.alloc_fragment((1,), F32)
            x_residual_shared = T.alloc_shared((bM, bN), dtype)
            x_residual_local = T.alloc_fragment((bM, bN), F32)

            batch_idx = by % batch
            chunk_idx = by // batch
            m_idx = bx // T.ceildiv(dim, bN)
            n_idx = bx % T.ceildiv(dim, bN)

            T.no_set_max_nreg()
            T.copy(dA_cumsum[batch_idx, bz, chunk_idx, m_idx * bM : (m_idx + 1) * bM], dA_cs_m_shared)
            T.copy(dA_cs_m_shared, dA_cs_m_local)
            T.clear(acc_o)
            for i in T.Parallel(bM):
                scale_m_local[i] = T.exp2(dA_cs_m_local[i] * p)
            T.copy(
                C[
                    batch_idx,
                    chunk_idx * chunk + m_idx * bM : chunk_idx * chunk + (m_idx + 1) * bM,
                    bz // (heads // groups),
                    0:dstate,
                ],
                C_shared,
            )
            T.copy(prev_states[batch_idx, chunk_idx, bz, n_idx * bN : (n_idx + 1) * bN, 0:dstate], prev_state_shared)
            T.gemm(C_shared, prev_state_shared, acc_o, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                acc_o[i, j] *= scale_m_local[i]

            loop_range = T.ceildiv((m_idx + 1) * bM, bK)
            for k in T.Pipelined(loop_range, num_stages=stages):
                T.copy(
                    cb[
                        batch_idx,
                        chunk_idx,
                        bz // (heads // groups),
                        m_idx * bM : (m_idx + 1) * bM,
                        k * bK : (k + 1) * bK,
                    ],
                    cb_shared,
                )
                T.copy(cb_shared, cb_local)
                T.copy(dA_cumsum[batch_idx, bz, chunk_idx, k * bK : (k + 1) * bK], dA_cs_k_shared)
                T.copy(dA_cs_k_shared, dA_cs_k_local)
                for i, j in T.Parallel(bM, bK):
                    cb_local[i, j] = cb_local[i, j] * T.exp2(dA_cs_m_local[i] * p - dA_cs_k_local[j] * p)
                T.copy(dt[batch_idx, bz, chunk_idx, k * bK : (k + 1) * bK], dt_shared)
                T.copy(dt_shared, dt_local)
                for i, j in T.Parallel(bM, bK):
                    cb_local[i, j] *= dt_local[j]
                for i, j in T.Parallel(bM, bK):
                    cb_local[i, j] = T.if_then_else(m_idx * bM + i >= k * bK + j, cb_local[i, j], 0)
                T.copy(
                    x[
                        batch_idx,
                        chunk_idx * chunk + k * bK : chunk_idx * chunk + (k + 1) * bK,
                        bz,
                        n_idx * bN : (n_idx + 1) * bN,
                    ],
                    x_shared,
                )
                T.gemm(cb_local, x_shared, acc_o)

            D_local[0] = D[bz]
            T.copy(
                x[
                    batch_idx,
                    chunk_idx * chunk + m_idx * bM : chunk_idx * chunk + (m_idx + 1) * bM,
                    bz,
                    n_idx * bN : (n_idx + 1) * bN,
                ],
                x_residual_shared,
            )
            T.copy(x_residual_shared, x_residual_local)
            for i, j in T.Parallel(bM, bN):
                acc_o[i, j] += x_residual_local[i, j] * D_local[0]
            T.copy(acc_o, acc_o_shared)
            T.copy(
                acc_o_shared,
                Output[
                    batch_idx,
                    chunk_idx * chunk + m_idx * bM : chunk_idx * chunk + (m_idx + 1) * bM,
                    bz,
                    n_idx * bN : (n_idx + 1) * bN,
                ],
            )

    return main


def delta_kkt(batch, seq, heads, dim, *, dtype="float16", BS=32, bK=32, stages=2):
    """Gated delta rule: A = beta K K^T exp(g_i - g_j), strictly below the diagonal of every chunk."""

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


def delta_inverse(batch, seq, heads, *, dtype="float16", BS=32):
    """(I + A)^-1 of every chunk, A strictly below the diagonal: row after row."""

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


def delta_wy(batch, seq, heads, dim_k, dim_v, *, dtype="float16", BS=32, bK=32, bV=32, stages=2):
    """Gated delta rule: W = A (beta exp(g) K), U = A (beta V)."""

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


def delta_states(batch, seq, heads, dim_k, dim_v, *, per_channel=False, dtype="float16", BS=32, bV=32, stages=1):
    """States in front of the chunks: h = exp(g_last) h + K^T (exp(g_last - g) (U - W h)).

    `per_channel` (Kimi delta attention): the decay is a number for every channel of the keys, K comes scaled.
    """
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


def delta_output(batch, seq, heads, dim_k, dim_v, *, dtype="float16", BS=32, bK=32, bV=32, stages=1):
    """O = exp(g) Q h + tril(Q K^T exp(g_i - g_j)) V."""
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


def expert_up(tokens, d_hidden, d_expert, experts, blocks, *, dtype="float16", bM=32, bN=32, bK=32, stages=1):
    """Fused MoE, first half: silu(x W_gate^T) (x W_up^T) of the tokens of each expert; groups are padded to whole blocks."""

    @T.prim_func
    def main(
        input: T.Tensor((tokens, d_hidden), dtype),
        W_gate: T.Tensor((experts, d_expert, d_hidden), dtype),
        W_up: T.Tensor((experts, d_expert, d_hidden), dtype),
        group_sizes: T.Tensor((experts,), "int32"),
        group_offsets: T.Tensor((experts,), "int32"),
        group_padded_offsets: T.Tensor((experts,), "int32"),
        group_idx_for_bx: T.Tensor((blocks,), "int32"),
        up_logits: T.Tensor((tokens, d_expert), dtype),
    ):
        with T.Kernel(blocks, T.ceildiv(d_expert, bN), threads=128) as (bx, by):
            input_shared = T.alloc_fragment((bM, bK), dtype=dtype)
            W_gate_shared = T.alloc_shared((bN, bK), dtype=dtype)
            W_up_shared = T.alloc_shared((bN, bK), dtype=dtype)
            gate_logits_local = T.alloc_fragment((bM, bN), dtype=F32)
            up_logits_local = T.alloc_fragment((bM, bN), dtype=F32)

            T.use_swizzle(10, enable=True)
            m_start_padded = bx * bM
            cur_group_idx = group_idx_for_bx[bx]
            cur_group_size = group_sizes[cur_group_idx]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx] + group_offsets[cur_group_idx]
            actual_rows = T.max(
                0, T.min(bM, cur_group_size - (m_start_padded - group_padded_offsets[cur_group_idx]))
            )
            T.clear(gate_logits_local)
            T.clear(up_logits_local)
            for k in T.Pipelined(T.ceildiv(d_hidden, bK), num_stages=stages):
                T.copy(
                    input[m_start : m_start + bM, k * bK : (k + 1) * bK],
                    input_shared,
                    coalesced_width=8,
                )
                T.copy(W_gate[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_gate_shared)
                T.gemm(input_shared, W_gate_shared, gate_logits_local, transpose_B=True)
                T.copy(W_up[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_up_shared)
                T.gemm(input_shared, W_up_shared, up_logits_local, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                gate_logits_local[i, j] = gate_logits_local[i, j] * (
                    1.0 / (1.0 + T.exp2(-gate_logits_local[i, j] * LOG2E))
                )
                up_logits_local[i, j] = up_logits_local[i, j] * gate_logits_local[i, j]
            for i, j in T.Parallel(bM, bN):
                if i < actual_rows:
                    up_logits[m_start + i, by * bN + j] = up_logits_local[i, j]

    return main


def expert_down(tokens, d_hidden, d_expert, experts, blocks, *, dtype="float16", bM=32, bN=32, bK=32, stages=1):
    """Fused MoE, second half: the weighted product with W_down."""

    @T.prim_func
    def main(
        up_logits: T.Tensor((tokens, d_expert), dtype),
        W_down: T.Tensor((experts, d_hidden, d_expert), dtype),
        weights: T.Tensor((tokens,), dtype),
        group_sizes: T.Tensor((experts,), "int32"),
        group_offsets: T.Tensor((experts,), "int32"),
        group_padded_offsets: T.Tensor((experts,), "int32"),
        group_idx_for_bx: T.Tensor((blocks,), "int32"),
        output: T.Tensor((tokens, d_hidden), dtype),
    ):
        with T.Kernel(blocks, T.ceildiv(d_hidden, bN), threads=128) as (bx, by):
            up_logits_shared = T.alloc_fragment((bM, bK), dtype=dtype)
            W_down_shared = T.alloc_shared((bN, bK), dtype=dtype)
            output_local = T.alloc_fragment((bM, bN), dtype=F32)
            m_start_padded = bx * bM
            cur_group_idx = group_idx_for_bx[bx]
            cur_group_size = group_sizes[cur_group_idx]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx] + group_offsets[cur_group_idx]
            actual_rows = T.max(
                0, T.min(bM, cur_group_size - (m_start_padded - group_padded_offsets[cur_group_idx]))
            )
            T.clear(output_local)
            for k in T.Pipelined(T.ceildiv(d_expert, bK), num_stages=stages):
                T.copy(up_logits[m_start : m_start + bM, k * bK : (k + 1) * bK], up_logits_shared, coalesced_width=8)
                T.copy(W_down[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_down_shared)
                T.gemm(up_logits_shared, W_down_shared, output_local, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                if i < actual_rows:
                    output[m_start + i, by * bN + j] = output_local[i, j] * weights[m_start + i]

    return main


def indexer(seq, seq_kv, heads, dim, *, viewed=False, dtype="float16", bN=32, bQ=2, stages=1):
    """Scores that choose keys: the weighted sum over heads of relu(q k), for the keys from cu_ks to cu_ke of every token.

    `viewed`: the scores of one head and token are written over the products.
    """

    @T.prim_func
    def main(
        IndexQ: T.Tensor((seq * heads, dim), dtype),
        IndexK: T.Tensor((seq_kv, dim), dtype),
        Logits: T.Tensor((seq, seq_kv), F32),
        Weights: T.Tensor((seq, heads), F32),
        CuSeqLenKS: T.Tensor((seq,), "int32"),
        CuSeqLenKE: T.Tensor((seq,), "int32"),
    ):
        with T.Kernel(T.ceildiv(seq, bQ), threads=128) as bx:
            index_q_shared = T.alloc_shared([bQ * heads, dim], dtype)
            index_k_shared = T.alloc_shared([bN, dim], dtype)
            s = T.alloc_fragment([bN, bQ * heads], F32)
            s_reshaped = T.reshape(s, (bN, bQ, heads)) if viewed else T.alloc_fragment([bN, bQ, heads], F32)
            logits = T.alloc_fragment([bN, bQ], F32)
            weights = T.alloc_fragment([bQ, heads], F32)

            seq_len_i = bx * bQ
            cu_k_s_min = T.alloc_var("int32")
            cu_k_e_max = T.alloc_var("int32")
            cu_k_s_min = 2147483647
            cu_k_e_max = -2147483648
            for bq_i in T.serial(bQ):
                cu_k_s_min = T.min(cu_k_s_min, T.min(CuSeqLenKS[seq_len_i + bq_i], seq_kv))
            for bq_i in T.serial(bQ):
                cu_k_e_max = T.max(cu_k_e_max, T.min(CuSeqLenKE[seq_len_i + bq_i], seq_kv))
            T.copy(IndexQ[seq_len_i * heads, 0], index_q_shared)
            T.copy(Weights[seq_len_i, 0], weights)
            for nbn_i in T.Pipelined(T.ceildiv(cu_k_e_max - cu_k_s_min, bN), num_stages=stages):
                T.copy(IndexK[cu_k_s_min + nbn_i * bN, 0], index_k_shared)
                T.gemm(
                    index_k_shared, index_q_shared, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol
                )
                for bn_i, bq_i, h_i in T.Parallel(bN, bQ, heads):
                    s_reshaped[bn_i, bq_i, h_i] = T.max(s[bn_i, bq_i * heads + h_i], 0) * weights[bq_i, h_i]
                T.reduce_sum(s_reshaped, logits, dim=-1, clear=True)
                for bq_i, bn_i in T.Parallel(bQ, bN):
                    if cu_k_s_min + nbn_i * bN + bn_i < cu_k_e_max:
                        Logits[seq_len_i + bq_i, cu_k_s_min + nbn_i * bN + bn_i] = logits[bn_i, bq_i]

    return main
