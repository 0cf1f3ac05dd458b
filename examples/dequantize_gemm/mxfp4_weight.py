"""C = A @ dequant(B)^T: bfloat16 activations, weights of the MXFP4 format: float4_e2m1fn with one power of two for each 32 numbers of a row."""

import argparse

import tilelang
import tilelang.language as T
import torch

GROUP = 32


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=64, dtype="bfloat16"):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), T.float4_e2m1fn),
        Scale: T.Tensor((N, K // GROUP), T.float8_e8m0fnu),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), T.float4_e2m1fn)
            scale = T.alloc_shared((block_N, block_K // GROUP), T.float8_e8m0fnu)
            B_dequant = T.alloc_fragment((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.copy(Scale[bx * block_N, k * (block_K // GROUP)], scale)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequant[i, j] = B_shared[i, j] * scale[i, j // GROUP]
                T.gemm(A_shared, B_dequant, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=128)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    assert args.k % GROUP == 0, f"--k must be a multiple of {GROUP}"
    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.bfloat16)
    codes = torch.randint(0, 16, (args.n, args.k), device="cuda", dtype=torch.uint8)
    packed = codes[:, ::2] | codes[:, 1::2] << 4
    exponents = torch.randint(-8, 2, (args.n, args.k // GROUP), device="cuda")
    scale = torch.exp2(exponents.float()).to(torch.float8_e8m0fnu)
    c = matmul(args.m, args.n, args.k)(a, packed, scale)
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
    weight = torch.cat((sizes, -sizes))[codes.int()] * torch.exp2(exponents.float()).repeat_interleave(GROUP, 1)
    expected = (a.float() @ weight.T).bfloat16()
    torch.testing.assert_close(c, expected, rtol=2e-2, atol=2e-2)
    print(f"matmul with MXFP4 weights {args.m} x {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
