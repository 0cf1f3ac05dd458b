"""C = A @ B^T of 8-bit integers, exact in 32 bits."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=64):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "int8"), B: T.Tensor((N, K), "int8"), C: T.Tensor((M, N), "int32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "int8")
            B_shared = T.alloc_shared((block_N, block_K), "int8")
            C_local = T.alloc_fragment((block_M, block_N), "int32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    a = torch.randint(-128, 128, (args.m, args.k), device="cuda", dtype=torch.int8)
    b = torch.randint(-128, 128, (args.n, args.k), device="cuda", dtype=torch.int8)
    c = matmul(args.m, args.n, args.k)(a, b)
    expected = (a.cpu().double() @ b.cpu().double().T).int().to(c.device)
    torch.testing.assert_close(c, expected, rtol=0, atol=0)
    print(f"int8 matmul {args.m} x {args.n} x {args.k}: equals torch")


if __name__ == "__main__":
    main()
