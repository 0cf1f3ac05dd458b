"""C = A + B over two dimensions, staged through on-chip buffers; both sizes may leave a tail."""

import argparse

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def add(M, N, block_M, block_N, dtype="float32"):
    @T.prim_func
    def matrix_add(
        A: T.Tensor((M, N), dtype),
        B: T.Tensor((M, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), dtype)
            B_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), dtype)

            T.copy(A[by * block_M, bx * block_N], A_shared)
            T.copy(B[by * block_M, bx * block_N], B_shared)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = A_shared[i, j] + B_shared[i, j]
            T.copy(C_local, C[by * block_M, bx * block_N])

    return matrix_add


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=500)
    parser.add_argument("--n", type=int, default=1000)
    args = parser.parse_args(argv)

    kernel = add(args.m, args.n, 32, 256)
    a, b = torch.randn(args.m, args.n), torch.randn(args.m, args.n)
    c = kernel(a, b)
    torch.testing.assert_close(c, a + b, rtol=0, atol=0)
    print("check against torch: passed, equal bit for bit")
    print(kernel.simulate(a, b).summary())


if __name__ == "__main__":
    main()
