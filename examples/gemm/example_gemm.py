"""Matrix multiplication as it is written for a GPU; only the import lines name another package."""

import argparse
from pathlib import Path

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--k", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=Path("out/gemm"), help="folder for the Ascend C and the trace")
    args = parser.parse_args(argv)

    kernel = matmul(args.m, args.n, args.k, 128, 256, 64)
    a = torch.randn(args.m, args.k, dtype=torch.float16)
    b = torch.randn(args.k, args.n, dtype=torch.float16)

    c = kernel(a, b)
    ref = (a.float() @ b.float()).half()
    torch.testing.assert_close(c, ref, rtol=1e-2, atol=1e-2)
    print(f"check against torch: passed, largest difference {(c - ref).abs().max():.2e}")

    report = kernel.simulate(a, b)
    print(report.summary())

    args.out.mkdir(parents=True, exist_ok=True)
    kernel.export_sources(args.out / "gemm_kernel.cpp", args.out / "gemm_host.cpp")
    report.save_trace(args.out / "gemm_trace.json")
    print(f"Ascend C written to {args.out}/gemm_kernel.cpp and {args.out}/gemm_host.cpp")
    print(f"trace written to {args.out}/gemm_trace.json (open in chrome://tracing or Perfetto)")


if __name__ == "__main__":
    main()
