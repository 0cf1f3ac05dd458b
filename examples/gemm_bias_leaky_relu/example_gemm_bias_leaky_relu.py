"""C = leaky_relu(A @ B + bias): a matrix product with an element-wise epilogue."""

import argparse

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def matmul_bias_leaky_relu(M, N, K, block_M, block_N, block_K, alpha=0.001, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm_bias_leaky_relu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), accum_dtype),
        C: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            bias_shared = T.alloc_shared((block_N,), accum_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            T.copy(bias[bx * block_N], bias_shared)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = C_local[i, j] + bias_shared[j]
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], C_local[i, j] * alpha)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_bias_leaky_relu


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=640)
    parser.add_argument("--k", type=int, default=256)
    args = parser.parse_args(argv)

    kernel = matmul_bias_leaky_relu(args.m, args.n, args.k, 128, 128, 64)
    a = torch.randn(args.m, args.k, dtype=torch.float16)
    b = torch.randn(args.k, args.n, dtype=torch.float16)
    bias = torch.randn(args.n)
    c = kernel(a, b, bias)
    ref = torch.nn.functional.leaky_relu(a.float() @ b.float() + bias, 0.001)
    torch.testing.assert_close(c, ref, rtol=1e-3, atol=1e-3)
    print(f"check against torch: passed, largest difference {(c - ref).abs().max():.2e}")
    print(kernel.simulate(a, b, bias).summary())


if __name__ == "__main__":
    main()
