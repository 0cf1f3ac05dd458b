"""Sum, maximum, minimum and largest magnitude of every row, tile by tile."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2, 3, 4])
def reduce_rows(M, N, block_M=16, block_N=256, dtype="float32"):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), dtype),
        Sum: T.Tensor((M,), dtype),
        Max: T.Tensor((M,), dtype),
        Min: T.Tensor((M,), dtype),
        AbsMax: T.Tensor((M,), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), dtype)
            row_sum = T.alloc_fragment((block_M,), dtype)
            row_max = T.alloc_fragment((block_M,), dtype)
            row_min = T.alloc_fragment((block_M,), dtype)
            row_absmax = T.alloc_fragment((block_M,), dtype)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity(dtype))
            T.fill(row_min, T.infinity(dtype))
            T.clear(row_absmax)
            for k in T.serial(N // block_N):
                T.copy(X[bx * block_M, k * block_N], x)
                T.reduce_sum(x, row_sum, dim=1, clear=False)
                T.reduce_max(x, row_max, dim=1, clear=False)
                T.reduce_min(x, row_min, dim=1, clear=False)
                T.reduce_absmax(x, row_absmax, dim=1, clear=False)
            T.copy(row_sum, Sum[bx * block_M])
            T.copy(row_max, Max[bx * block_M])
            T.copy(row_min, Min[bx * block_M])
            T.copy(row_absmax, AbsMax[bx * block_M])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=4096)
    args = parser.parse_args()

    assert args.n % 256 == 0, "--n must be a multiple of 256"
    x = torch.randn(args.m, args.n, device="cuda")
    results = reduce_rows(args.m, args.n)(x)
    expected = (x.sum(dim=1), x.amax(dim=1), x.amin(dim=1), x.abs().amax(dim=1))
    for ours, reference in zip(results, expected):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-4)
    print(f"reductions of the rows of {args.m} x {args.n}: match torch")


if __name__ == "__main__":
    main()
