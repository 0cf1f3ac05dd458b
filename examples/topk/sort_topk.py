"""Top-k and sort with T.topk and T.sort, an extension of TileLang for the sorter of the vector core.

It runs on Ascend only; `topk.py` beside it needs no extension. Long rows are read in pieces whose best compete with the best so far.
"""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def topk(M, N, K, block_M=8, piece=1024):
    piece = min(piece, N)

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "float32"),
        Values: T.Tensor((M, K), "float32"),
        Indices: T.Tensor((M, K), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, piece), "float32")
            # The best so far on the left, the best of this piece on the right.
            values = T.alloc_fragment((block_M, 2 * K), "float32")
            indices = T.alloc_fragment((block_M, 2 * K), "int32")
            best = T.alloc_fragment((block_M, K), "float32")
            place = T.alloc_fragment((block_M, K), "int32")
            T.fill(values, -T.infinity("float32"))
            T.fill(indices, 0)
            for p in T.serial(T.ceildiv(N, piece)):
                T.copy(X[bx * block_M, p * piece], x)
                for i, j in T.Parallel(block_M, piece):
                    x[i, j] = T.if_then_else(p * piece + j < N, x[i, j], -T.infinity("float32"))
                T.topk(x, best, place)
                for i, j in T.Parallel(block_M, K):
                    values[i, K + j] = best[i, j]
                    indices[i, K + j] = place[i, j] + p * piece
                T.topk(values, best, place)
                for i, j in T.Parallel(block_M, K):
                    place[i, j] = indices[i, place[i, j]]
                T.copy(best, values[:, 0:K])
                T.copy(place, indices[:, 0:K])
            T.copy(best, Values[bx * block_M, 0])
            T.copy(place, Indices[bx * block_M, 0])

    return kernel


@tilelang.jit(out_idx=[1, 2])
def sort(M, N, descending=False, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Indices: T.Tensor((M, N), "int32")):
        with T.Kernel(M, threads=128) as bx:
            x = T.alloc_shared((1, N), dtype)
            places = T.alloc_fragment((1, N), "int32")
            T.copy(X[bx, 0], x)
            T.sort(x, descending=descending, indices=places)
            T.copy(x, Y[bx, 0])
            T.copy(places, Indices[bx, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=64)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--k", type=int, default=16)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda").argsort(dim=1).float()
    values, indices = topk(args.m, args.n, args.k)(x)
    expected_values, expected_indices = x.topk(args.k, dim=1)
    torch.testing.assert_close(values, expected_values, rtol=0, atol=0)
    torch.testing.assert_close(indices.long(), expected_indices, rtol=0, atol=0)

    x = torch.randint(-8, 8, (args.m, min(args.n, 2048)), device="cuda").half()
    for descending in (False, True):
        values, indices = sort(*x.shape, descending)(x)
        expected_values, expected_indices = torch.sort(x, dim=1, descending=descending, stable=True)
        torch.testing.assert_close(values, expected_values, rtol=0, atol=0)
        torch.testing.assert_close(indices.long(), expected_indices, rtol=0, atol=0)
    print(f"top {args.k} of the rows of {args.m} x {args.n}, sort of the rows of {x.shape[0]} x {x.shape[1]}: equals torch")


if __name__ == "__main__":
    main()
