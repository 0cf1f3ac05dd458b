"""How often every value occurs: counters on the chip, added to the result atomically."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def histogram(N, bins, block=1024):
    @T.prim_func
    def kernel(X: T.Tensor((N,), "int32"), Count: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            x = T.alloc_shared((block,), "int32")
            hit = T.alloc_fragment((bins, block), "int32")
            count = T.alloc_fragment((bins,), "int32")
            T.copy(X[bx * block], x)
            for b, i in T.Parallel(bins, block):
                hit[b, i] = T.if_then_else(x[i] == b and bx * block + i < N, 1, 0)
            T.reduce_sum(hit, count, dim=1)
            for b in T.Parallel(bins):
                T.atomic_add(Count[b], count[b])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20000)
    parser.add_argument("--bins", type=int, default=16)
    args = parser.parse_args()

    x = torch.randint(0, args.bins, (args.n,), device="cuda", dtype=torch.int32)
    count = torch.zeros(args.bins, device="cuda", dtype=torch.int32)
    histogram(args.n, args.bins)(x, count)
    expected = torch.bincount(x.long(), minlength=args.bins).int()
    torch.testing.assert_close(count, expected, rtol=0, atol=0)
    print(f"histogram of {args.n} values in {args.bins} bins: equals torch")


if __name__ == "__main__":
    main()
