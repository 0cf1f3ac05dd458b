"""Batched matmul: one grid axis runs over the batch."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def batched_matmul(batch, M, N, K, block_M=64, block_N=64, block_K=32, dtype="bfloat16"):
    @T.prim_func
    def kernel(
        A: T.Tensor((batch, M, K), dtype),
        B: T.Tensor((batch, K, N), dtype),
        C: T.Tensor((batch, M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bz, by * block_M, k * block_K], A_shared)
                T.copy(B[bz, k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[bz, by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=256)
    args = parser.parse_args()

    a = torch.randn(args.batch, args.m, args.k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(args.batch, args.k, args.n, device="cuda", dtype=torch.bfloat16)
    c = batched_matmul(args.batch, args.m, args.n, args.k)(a, b)
    torch.testing.assert_close(c, torch.bmm(a, b), rtol=2e-2, atol=2e-2)
    print(f"{args.batch} matmuls {args.m} x {args.n} x {args.k}: match torch")


if __name__ == "__main__":
    main()
