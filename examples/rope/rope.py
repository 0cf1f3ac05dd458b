"""Rotary position embedding: the halves of every head are rotated by angles of the position."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def rope(S, H, D, block_S=16, dtype="float16"):
    half = D // 2

    @T.prim_func
    def kernel(
        X: T.Tensor((S, H, D), dtype),
        Cos: T.Tensor((S, half), "float32"),
        Sin: T.Tensor((S, half), "float32"),
        Y: T.Tensor((S, H, D), dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_S), H, threads=128) as (bx, h):
            x = T.alloc_fragment((block_S, D), "float32")
            y = T.alloc_fragment((block_S, D), "float32")
            cos = T.alloc_fragment((block_S, half), "float32")
            sin = T.alloc_fragment((block_S, half), "float32")
            T.copy(X[bx * block_S : (bx + 1) * block_S, h, 0:D], x)
            T.copy(Cos[bx * block_S, 0], cos)
            T.copy(Sin[bx * block_S, 0], sin)
            for i, j in T.Parallel(block_S, half):
                y[i, j] = x[i, j] * cos[i, j] - x[i, j + half] * sin[i, j]
                y[i, j + half] = x[i, j + half] * cos[i, j] + x[i, j] * sin[i, j]
            T.copy(y, Y[bx * block_S : (bx + 1) * block_S, h, 0:D])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=128)
    args = parser.parse_args()

    half = args.dim // 2
    x = torch.randn(args.seq, args.heads, args.dim, device="cuda", dtype=torch.float16)
    inverse = 10000 ** (-torch.arange(half, device="cuda") / half)
    angle = torch.arange(args.seq, device="cuda")[:, None] * inverse
    cos, sin = angle.cos(), angle.sin()
    left, right = x.float().split(half, dim=-1)
    c, s = cos[:, None], sin[:, None]
    expected = torch.cat((left * c - right * s, right * c + left * s), dim=-1).half()
    y = rope(args.seq, args.heads, args.dim)(x, cos, sin)
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-3)
    print(f"rope {args.seq} x {args.heads} x {args.dim}: matches torch")


if __name__ == "__main__":
    main()
