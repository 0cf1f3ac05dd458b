"""Dropout with a mask that comes with the input."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def dropout(M, N, p, block_M=32, block_N=128, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Keep: T.Tensor((M, N), "uint8"), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x = T.alloc_fragment((block_M, block_N), dtype)
            keep = T.alloc_fragment((block_M, block_N), "uint8")
            T.copy(X[by * block_M, bx * block_N], x)
            T.copy(Keep[by * block_M, bx * block_N], keep)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.if_then_else(keep[i, j] != 0, x[i, j] * (1.0 / (1.0 - p)), 0.0)
            T.copy(x, Y[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    keep = (torch.rand(args.m, args.n, device="cuda") > 0.25).to(torch.uint8)
    y = dropout(args.m, args.n, 0.25)(x, keep)
    torch.testing.assert_close(y, x * keep / 0.75, rtol=1e-2, atol=1e-3)
    print(f"dropout {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
