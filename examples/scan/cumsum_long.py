"""Running sums of long rows: tile by tile, with a carry."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def cumsum(M, N, block_M=8, block_N=256, dtype="float32"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            carry = T.alloc_fragment((block_M,), dtype)
            T.clear(carry)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], x)
                T.cumsum(x, dim=1)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] += carry[i]
                for i in T.Parallel(block_M):
                    carry[i] = x[i, block_N - 1]
                T.copy(x, Y[bx * block_M, k * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=64)
    parser.add_argument("--n", type=int, default=4096)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    torch.testing.assert_close(cumsum(args.m, args.n)(x), x.cumsum(dim=1), rtol=1e-3, atol=1e-3)
    print(f"cumsum {args.m} x {args.n} with carry: matches torch")


if __name__ == "__main__":
    main()
