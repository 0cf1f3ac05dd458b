"""Scatter-add: row i of X is added to row Index[i] of Y; destinations repeat."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def scatter_add(M, N, R, block_M=16):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Index: T.Tensor((M,), "int32"), Y: T.Tensor((R, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                if bx * block_M + i < M:
                    T.atomic_add(Y[Index[bx * block_M + i], j], x[i, j])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--rows", type=int, default=16)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    index = torch.randint(0, args.rows, (args.m,), device="cuda", dtype=torch.int32)
    y = torch.zeros(args.rows, args.n, device="cuda")
    scatter_add(args.m, args.n, args.rows)(x, index, y)
    expected = torch.zeros_like(y).index_add_(0, index.long(), x)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    print(f"scatter-add of {args.m} rows into {args.rows}: matches torch")


if __name__ == "__main__":
    main()
