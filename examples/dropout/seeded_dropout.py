"""Dropout whose mask is a hash of seed and position, so that it need not be stored."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def seeded_dropout(N, p, block=1024):
    threshold = int(p * 2**24)

    @T.prim_func
    def kernel(seed: T.int32, X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            x = T.alloc_fragment((block,), "float32")
            h = T.alloc_fragment((block,), "uint32")
            T.copy(X[bx * block], x)
            for i in T.Parallel(block):
                h[i] = T.cast(bx * block + i + seed * 7919, "uint32")
                h[i] = (h[i] ^ (h[i] >> 16)) * T.uint32(0x45D9F3B)
                h[i] = (h[i] ^ (h[i] >> 16)) * T.uint32(0x45D9F3B)
                h[i] = (h[i] ^ (h[i] >> 16)) >> 8
                x[i] = T.if_then_else(h[i] >= T.uint32(threshold), x[i] / (1.0 - p), 0.0)
            T.copy(x, Y[bx * block])

    return kernel


def mask(n, seed, p):
    h = (torch.arange(n, device="cuda") + seed * 7919) & 0xFFFFFFFF
    for _ in range(2):
        h = ((h ^ (h >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) >> 8) >= int(p * 2**24)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    x = torch.randn(args.n, device="cuda")
    y = seeded_dropout(args.n, 0.3)(args.seed, x)
    keep = mask(args.n, args.seed, 0.3)
    torch.testing.assert_close(y, torch.where(keep, x / 0.7, torch.zeros_like(x)))
    print(f"seeded dropout {args.n}: matches torch, {keep.float().mean():.3f} kept")


if __name__ == "__main__":
    main()
