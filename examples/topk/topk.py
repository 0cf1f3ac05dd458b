"""The k largest values of every row and where they are, by k rounds of maximum and removal."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def topk(M, N, K, block_M=16):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        Values: T.Tensor((M, K), "float32"),
        Indices: T.Tensor((M, K), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            position = T.alloc_fragment((block_M, N), "int32")
            row_max = T.alloc_fragment((block_M,), "float32")
            index = T.alloc_fragment((block_M,), "int32")
            T.copy(X[bx * block_M, 0], x)
            for k in T.serial(K):
                T.reduce_max(x, row_max, dim=1, clear=True)
                for i, j in T.Parallel(block_M, N):
                    position[i, j] = T.if_then_else(x[i, j] == row_max[i], j, -1)
                T.reduce_max(position, index, dim=1, clear=True)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = T.if_then_else(j == index[i], -T.infinity("float32"), x[i, j])
                for i in T.Parallel(block_M):
                    Values[bx * block_M + i, k] = row_max[i]
                    Indices[bx * block_M + i, k] = index[i]

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--k", type=int, default=6)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    values, indices = topk(args.m, args.n, args.k)(x)
    expected_values, expected_indices = x.topk(args.k, dim=1)
    torch.testing.assert_close(values, expected_values, rtol=0, atol=0)
    torch.testing.assert_close(indices.long(), expected_indices, rtol=0, atol=0)
    print(f"top {args.k} of the rows of {args.m} x {args.n}: equals torch")


if __name__ == "__main__":
    main()
