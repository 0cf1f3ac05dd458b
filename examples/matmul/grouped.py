"""Grouped matmul: rows of A belong to groups of different length, each with its own B."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def grouped_matmul(rows, groups, N, K, tiles, block_M=64, block_N=64, block_K=32, dtype="float16"):
    @T.prim_func
    def kernel(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        tile_group: T.Tensor((tiles,), "int32"),
        tile_start: T.Tensor((tiles,), "int32"),
        tile_rows: T.Tensor((tiles,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            group = tile_group[by]
            start = tile_start[by]
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[start, k * block_K], A_shared)
                T.copy(B[group, k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                if i < tile_rows[by] and bx * block_N + j < N:
                    C[start + i, bx * block_N + j] = C_local[i, j]

    return kernel


def tile_tables(sizes, block_M):
    """For every tile of rows: its group, its first row, its number of rows."""
    table, start = [], 0
    for group, size in enumerate(sizes):
        table += [(group, start + r, min(block_M, size - r)) for r in range(0, size, block_M)]
        start += size
    return [torch.tensor(column, device="cuda", dtype=torch.int32) for column in zip(*table)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 64, 300, 1])
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=256)
    args = parser.parse_args()

    rows, groups = sum(args.sizes), len(args.sizes)
    a = torch.randn(rows, args.k, device="cuda", dtype=torch.float16)
    b = torch.randn(groups, args.k, args.n, device="cuda", dtype=torch.float16)
    tables = tile_tables(args.sizes, 64)
    c = grouped_matmul(rows, groups, args.n, args.k, len(tables[0]))(a, b, *tables)
    expected = torch.cat([part @ b[i] for i, part in enumerate(a.split(args.sizes))])
    torch.testing.assert_close(c, expected, rtol=1e-2, atol=1e-2)
    print(f"grouped matmul {args.sizes} x {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
