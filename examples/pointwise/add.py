"""C = A + B, eager style, staged in shared memory."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def add(A, B, block_M: int = 32, block_N: int = 128):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[M, N], T.float32]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_N), T.float32)
        B_shared = T.alloc_shared((block_M, block_N), T.float32)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.copy(A[by * block_M, bx * block_N], A_shared)
        T.copy(B[by * block_M, bx * block_N], B_shared)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = A_shared[i, j] + B_shared[i, j]
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    a = torch.randn(args.m, args.n, device="cuda")
    b = torch.randn(args.m, args.n, device="cuda")
    torch.testing.assert_close(add(a, b), a + b, rtol=0, atol=0)
    print(f"add {args.m} x {args.n}: equals torch")


if __name__ == "__main__":
    main()
