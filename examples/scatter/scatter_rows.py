"""Scatter: row i of X goes to row Index[i] of Y; all destinations differ."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def scatter_rows(M, N, block_M=16, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Index: T.Tensor((M,), "int32"), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            rows = T.alloc_shared((block_M, N), dtype)
            T.copy(X[bx * block_M, 0], rows)
            for i in T.serial(block_M):
                if bx * block_M + i < M:
                    T.copy(rows[i, 0:N], Y[Index[bx * block_M + i], 0:N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=256)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    index = torch.randperm(args.m, device="cuda").int()
    y = torch.empty_like(x)
    scatter_rows(args.m, args.n)(x, index, y)
    expected = torch.empty_like(x)
    expected[index.long()] = x
    torch.testing.assert_close(y, expected, rtol=0, atol=0)
    print(f"scatter of {args.m} rows of {args.n}: equals torch")


if __name__ == "__main__":
    main()
