"""Gather along rows: Y[i, j] = X[i, Index[i, j]]."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def gather(M, N, K, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Index: T.Tensor((M, K), "int32"), Y: T.Tensor((M, K), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, N), dtype)
            index = T.alloc_shared((block_M, K), "int32")
            y = T.alloc_fragment((block_M, K), dtype)
            T.copy(X[bx * block_M, 0], x)
            T.copy(Index[bx * block_M, 0], index)
            for i, j in T.Parallel(block_M, K):
                y[i, j] = x[i, index[i, j]]
            T.copy(y, Y[bx * block_M, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=64)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    index = torch.randint(0, args.n, (args.m, args.k), device="cuda", dtype=torch.int32)
    y = gather(args.m, args.n, args.k)(x, index)
    torch.testing.assert_close(y, x.gather(1, index.long()), rtol=0, atol=0)
    print(f"gather of {args.k} from {args.n} in {args.m} rows: equals torch")


if __name__ == "__main__":
    main()
