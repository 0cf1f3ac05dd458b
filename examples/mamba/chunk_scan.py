"""Mamba2 by chunks: states the chunks add, states in front of them, outputs; against the recurrence."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[4])
def chunk_state(batch, seq, chunk, groups, heads, dim, dstate, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):
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
                Output[batch_idx, chunk_idx, bz, m_idx * bM : (m_idx + 1) * bM, n_idx * bN : (n_idx + 1) * bN],
            )

    return main


@tilelang.jit(out_idx=[7])
def chunk_scan(batch, seq, chunk, groups, heads, dim, dstate, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):
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


def recurrence(x, dt, decay, b, c, d):
    """Token by token: state = exp(decay) state + dt x b, output = state c + d x."""
    state, out = torch.zeros(*x.shape[::2], x.shape[3], b.shape[-1], device=x.device), []
    for t in range(x.shape[1]):
        state = state * decay[:, t].exp()[..., None, None] + torch.einsum("bh,bhp,bn->bhpn", dt[:, t], x[:, t], b[:, t])
        out.append(torch.einsum("bhpn,bn->bhp", state, c[:, t]) + x[:, t] * d[:, None])
    return torch.stack(out, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--state", type=int, default=32)
    args = parser.parse_args()

    batch, seq, heads, dim, n, chunk = args.batch, args.seq, args.heads, args.dim, args.state, 64
    chunks = seq // chunk
    x = torch.randn(batch, seq, heads, dim, device="cuda", dtype=torch.float16)
    b, c = (torch.randn(batch, seq, 1, n, device="cuda", dtype=torch.float16) * 0.3 for _ in range(2))
    d = torch.randn(heads, device="cuda", dtype=torch.float16)
    dt = torch.rand(batch, heads, chunks, chunk, device="cuda", dtype=torch.float16)
    decay = (-torch.rand(batch, heads, chunks, chunk, device="cuda") * 0.1).half().float()
    sums = decay.cumsum(-1).half()

    added = chunk_state(batch, seq, chunk, 1, heads, dim, n)(b, x, dt, sums)
    states = [torch.zeros_like(added[:, 0])]
    for i in range(chunks - 1):
        states.append((states[-1] * sums[:, :, i, -1].float().exp()[..., None, None] + added[:, i]).half())
    cb = c.view(batch, chunks, chunk, n) @ b.view(batch, chunks, chunk, n).transpose(-1, -2)
    scan = chunk_scan(batch, seq, chunk, 1, heads, dim, n)
    out = scan(cb[:, :, None].contiguous(), x, dt, sums, c, torch.stack(states, 1), d)

    def by_token(y):
        return y.float().reshape(batch, heads, seq).transpose(1, 2)

    expected = recurrence(x.float(), by_token(dt), by_token(decay), b[:, :, 0].float(), c[:, :, 0].float(), d.float())
    torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=3e-2)
    print(f"mamba2 {seq} x {heads} x {dim}, state {n}: matches torch")


if __name__ == "__main__":
    main()
