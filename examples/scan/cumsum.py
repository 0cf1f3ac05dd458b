"""Running sums along rows, forwards and backwards."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def cumsum(M, N, reverse=False, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, N), dtype)
            T.copy(X[bx * block_M, 0], x)
            T.cumsum(x, dim=1, reverse=reverse)
            T.copy(x, Y[bx * block_M, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    torch.testing.assert_close(cumsum(args.m, args.n)(x), x.cumsum(dim=1), rtol=1e-3, atol=1e-3)
    expected = x.flip(1).cumsum(dim=1).flip(1)
    torch.testing.assert_close(cumsum(args.m, args.n, reverse=True)(x), expected, rtol=1e-3, atol=1e-3)
    print(f"cumsum {args.m} x {args.n}, both directions: matches torch")


if __name__ == "__main__":
    main()
