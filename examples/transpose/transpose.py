"""Transpose of a matrix through tiles in shared memory."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def transpose(X, block_M: int = 32, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float16]
    Y = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        tile = T.alloc_shared((block_M, block_N), T.float16)
        turned = T.alloc_shared((block_N, block_M), T.float16)
        T.copy(X[by * block_M, bx * block_N], tile)
        for i, j in T.Parallel(block_N, block_M):
            turned[i, j] = tile[j, i]
        T.copy(turned, Y[bx * block_N, by * block_M])
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(transpose(x), x.T.contiguous(), rtol=0, atol=0)
    print(f"transpose {args.m} x {args.n}: equals torch")


if __name__ == "__main__":
    main()
