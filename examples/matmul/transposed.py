"""C = op(A) @ op(B): every combination of transposed operands."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, trans_A, trans_B, block_M=64, block_N=64, block_K=32, dtype="float16"):
    A_shape, A_tile = ((K, M), (block_K, block_M)) if trans_A else ((M, K), (block_M, block_K))
    B_shape, B_tile = ((N, K), (block_N, block_K)) if trans_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def kernel(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared(A_tile, dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    m, n, k = args.m, args.n, args.k
    for trans_a in (False, True):
        for trans_b in (False, True):
            a = torch.randn((k, m) if trans_a else (m, k), device="cuda", dtype=torch.float16)
            b = torch.randn((n, k) if trans_b else (k, n), device="cuda", dtype=torch.float16)
            c = matmul(m, n, k, trans_a, trans_b)(a, b)
            expected = (a.T if trans_a else a) @ (b.T if trans_b else b)
            torch.testing.assert_close(c, expected, rtol=1e-2, atol=1e-2)
    print(f"matmul {m} x {n} x {k}, nn, nt, tn, tt: matches torch")


if __name__ == "__main__":
    main()
