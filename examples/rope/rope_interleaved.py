"""Rotary position embedding of neighbouring pairs (even, odd)."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def rope(S, D, block_S=16, dtype="float32"):
    @T.prim_func
    def kernel(
        X: T.Tensor((S, D), dtype),
        Cos: T.Tensor((S, D // 2), dtype),
        Sin: T.Tensor((S, D // 2), dtype),
        Y: T.Tensor((S, D), dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_S), threads=128) as bx:
            x = T.alloc_shared((block_S, D), dtype)
            y = T.alloc_shared((block_S, D), dtype)
            cos = T.alloc_shared((block_S, D // 2), dtype)
            sin = T.alloc_shared((block_S, D // 2), dtype)
            T.copy(X[bx * block_S, 0], x)
            T.copy(Cos[bx * block_S, 0], cos)
            T.copy(Sin[bx * block_S, 0], sin)
            for i, j in T.Parallel(block_S, D // 2):
                y[i, 2 * j] = x[i, 2 * j] * cos[i, j] - x[i, 2 * j + 1] * sin[i, j]
                y[i, 2 * j + 1] = x[i, 2 * j + 1] * cos[i, j] + x[i, 2 * j] * sin[i, j]
            T.copy(y, Y[bx * block_S, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dim", type=int, default=128)
    args = parser.parse_args()

    x = torch.randn(args.seq, args.dim, device="cuda")
    inverse = 10000 ** (-torch.arange(args.dim // 2, device="cuda") / (args.dim // 2))
    angle = torch.arange(args.seq, device="cuda")[:, None] * inverse
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[:, 0::2], x[:, 1::2]
    expected = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(1)
    torch.testing.assert_close(rope(args.seq, args.dim)(x, cos, sin), expected, rtol=1e-4, atol=1e-4)
    print(f"interleaved rope {args.seq} x {args.dim}: matches torch")


if __name__ == "__main__":
    main()
