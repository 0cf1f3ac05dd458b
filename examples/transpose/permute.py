"""Exchange of the middle axes: (batch, sequence, heads, dim) to (batch, heads, sequence, dim)."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def permute(B, S, H, D, block_S=32, dtype="bfloat16"):
    @T.prim_func
    def kernel(X: T.Tensor((B, S, H, D), dtype), Y: T.Tensor((B, H, S, D), dtype)):
        with T.Kernel(T.ceildiv(S, block_S), H, B, threads=128) as (bx, h, b):
            tile = T.alloc_shared((block_S, D), dtype)
            T.copy(X[b, bx * block_S : (bx + 1) * block_S, h, :], tile)
            T.copy(tile, Y[b, h, bx * block_S : (bx + 1) * block_S, :])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=64)
    args = parser.parse_args()

    x = torch.randn(args.batch, args.seq, args.heads, args.dim, device="cuda", dtype=torch.bfloat16)
    y = permute(*x.shape)(x)
    torch.testing.assert_close(y, x.transpose(1, 2).contiguous(), rtol=0, atol=0)
    print(f"permute {tuple(x.shape)} to {tuple(y.shape)}: equals torch")


if __name__ == "__main__":
    main()
