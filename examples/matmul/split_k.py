"""C = A @ B with K divided among programs, which add their partial results atomically."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul(M, N, K, split_K, block_M=64, block_N=64, block_K=32, dtype="float16"):
    steps = T.ceildiv(T.ceildiv(K, split_K), block_K)

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_K, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=2):
                k = (bz * steps + step) * block_K
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.float16)
    b = torch.randn(args.k, args.n, device="cuda", dtype=torch.float16)
    c = torch.zeros(args.m, args.n, device="cuda", dtype=torch.float32)
    matmul(args.m, args.n, args.k, split_K=4)(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    print(f"split-K matmul {args.m} x {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
