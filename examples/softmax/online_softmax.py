"""Softmax of long rows in two sweeps: running maximum and sum, then the result."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def online_softmax(X, block_M: int = 8, block_N: int = 512):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    log2e = 1.44269504
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        x = T.alloc_fragment((block_M, block_N), T.float32)
        tile_max = T.alloc_fragment((block_M,), T.float32)
        tile_sum = T.alloc_fragment((block_M,), T.float32)
        row_max = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)
        T.fill(row_max, -T.infinity(T.float32))
        T.clear(row_sum)
        for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            for i, j in T.Parallel(block_M, block_N):
                inside = bx * block_M + i < M and k * block_N + j < N
                x[i, j] = T.if_then_else(inside, X[bx * block_M + i, k * block_N + j], -T.infinity(T.float32))
            T.reduce_max(x, tile_max, dim=1)
            for i in T.Parallel(block_M):
                tile_max[i] = T.max(tile_max[i], row_max[i])
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp2((x[i, j] - tile_max[i]) * log2e)
            T.reduce_sum(x, tile_sum, dim=1)
            for i in T.Parallel(block_M):
                row_sum[i] = row_sum[i] * T.exp2((row_max[i] - tile_max[i]) * log2e) + tile_sum[i]
                row_max[i] = tile_max[i]
        for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            T.copy(X[bx * block_M, k * block_N], x)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.exp2((x[i, j] - row_max[i]) * log2e) / row_sum[i]
            T.copy(x, Y[bx * block_M, k * block_N])
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=8192)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    torch.testing.assert_close(online_softmax(x), torch.softmax(x, dim=1), rtol=1e-4, atol=1e-6)
    print(f"online softmax {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
