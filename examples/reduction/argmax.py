"""Position of the first maximum of every row."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def argmax(M, N, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Index: T.Tensor((M,), "int32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), dtype)
            position = T.alloc_fragment((block_M, N), "int32")
            row_max = T.alloc_fragment((block_M,), dtype)
            index = T.alloc_fragment((block_M,), "int32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, row_max, dim=1)
            for i, j in T.Parallel(block_M, N):
                position[i, j] = T.if_then_else(x[i, j] == row_max[i], j, N)
            T.reduce_min(position, index, dim=1)
            T.copy(index, Index[bx * block_M])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=1000)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    index = argmax(args.m, args.n)(x)
    torch.testing.assert_close(index.long(), x.argmax(dim=1), rtol=0, atol=0)
    print(f"argmax of the rows of {args.m} x {args.n}: equals torch")


if __name__ == "__main__":
    main()
