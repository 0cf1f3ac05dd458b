"""C = A @ dequant(B)^T with two unsigned 4-bit weights in every byte."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=64, dtype="float16"):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K // 2), "uint8"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_dequant = T.alloc_fragment((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequant[i, j] = ((B_local[i, j // 2] >> (j % 2 * 4)) & 15).astype(dtype) - 8.0
                T.gemm(A_shared, B_dequant, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=128)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    assert args.k % 2 == 0, "--k must be even"
    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.float16)
    b = torch.randint(0, 256, (args.n, args.k // 2), device="cuda", dtype=torch.uint8)
    weight = torch.stack((b & 15, b >> 4), dim=-1).reshape(args.n, args.k).half() - 8
    c = matmul(args.m, args.n, args.k)(a, b)
    torch.testing.assert_close(c, a @ weight.T, rtol=1e-2, atol=1e-1)
    print(f"matmul with int4 weights {args.m} x {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
