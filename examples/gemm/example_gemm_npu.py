"""Matrix multiplication in the NPU dialect: one-dimensional grid, `initC`, copies with size lists."""

import argparse

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1], target="npuir")
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M) * T.ceildiv(N, block_N), is_npu=True) as (cid, _):
            by = cid // T.ceildiv(N, block_N)
            bx = cid % T.ceildiv(N, block_N)
            A_BUF = T.alloc_shared((block_M, block_K), dtype)
            B_BUF = T.alloc_shared((block_K, block_N), dtype)
            C_BUF = T.alloc_fragment((block_M, block_N), accum_dtype)

            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_BUF, [block_M, block_K])
                T.copy(B[k * block_K, bx * block_N], B_BUF, [block_K, block_N])
                T.gemm(A_BUF, B_BUF, C_BUF, initC=(k == 0))

            T.copy(C_BUF, C[by * block_M, bx * block_N], [block_M, block_N])

    return gemm


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args(argv)

    kernel = matmul(args.m, args.n, args.k, 128, 128, 32)
    a = torch.randn(args.m, args.k, dtype=torch.float16)
    b = torch.randn(args.k, args.n, dtype=torch.float16)
    c = kernel(a, b)
    ref = (a.float() @ b.float()).half()
    torch.testing.assert_close(c, ref, rtol=1e-2, atol=1e-2)
    print(f"check against torch: passed, largest difference {(c - ref).abs().max():.2e}")
    print(kernel.simulate(a, b).summary())


if __name__ == "__main__":
    main()
