"""Sum of every column: tiles are reduced along their rows."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def reduce_columns(X, block_M: int = 32, block_N: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float16]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
        X_shared = T.alloc_shared((block_M, block_N), T.float16)
        x = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_N,), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(M, block_M), num_stages=2):
            T.copy(X[k * block_M, bx * block_N], X_shared)
            T.copy(X_shared, x)
            T.reduce_sum(x, total, dim=0, clear=False)
        T.copy(total, Y[bx * block_N])
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=2048)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(reduce_columns(x), x.float().sum(dim=0), rtol=1e-3, atol=1e-3)
    print(f"column sums of {args.m} x {args.n}: match torch")


if __name__ == "__main__":
    main()
