"""y = A @ x with K divided among programs."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def gemv(A, x, y, block_N: int = 32, block_K: int = 256):
    N, K = T.const("N, K")
    A: T.Tensor[[N, K], T.float32]
    x: T.Tensor[[K], T.float32]
    y: T.Tensor[[N], T.float32]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(K, block_K), threads=128) as (bn, bk):
        tile = T.alloc_fragment((block_N, block_K), T.float32)
        part = T.alloc_fragment((block_K,), T.float32)
        acc = T.alloc_fragment((block_N,), T.float32)
        T.copy(A[bn * block_N, bk * block_K], tile)
        T.copy(x[bk * block_K], part)
        for i, j in T.Parallel(block_N, block_K):
            tile[i, j] *= part[j]
        T.reduce_sum(tile, acc, dim=1)
        for i in T.Parallel(block_N):
            T.atomic_add(y[bn * block_N + i], acc[i])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--k", type=int, default=4096)
    args = parser.parse_args()

    a = torch.randn(args.n, args.k, device="cuda")
    x = torch.randn(args.k, device="cuda")
    y = torch.zeros(args.n, device="cuda")
    gemv(a, x, y)
    torch.testing.assert_close(y, a @ x, rtol=1e-3, atol=1e-3)
    print(f"split-K gemv {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
