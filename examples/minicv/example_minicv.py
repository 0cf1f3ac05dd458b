"""C = A @ B and D = exp(C) in one kernel: a cube half and a vector half that no line of the source mentions."""

import argparse

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-2, -1], target="npuir")
def minicv(M, N, K, block_M, block_N, dtype="float16", accum_dtype="float32"):
    """Element-wise half as a tile operator, copies with size lists."""

    @T.prim_func
    def minicv(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), accum_dtype),
        D: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M) * T.ceildiv(N, block_N), is_npu=True) as (cid, _):
            bx = cid // T.ceildiv(N, block_N) * block_M
            by = cid % T.ceildiv(N, block_N) * block_N
            A_BUF = T.alloc_shared((block_M, K), dtype)
            B_BUF = T.alloc_shared((K, block_N), dtype)
            C_BUF = T.alloc_fragment((block_M, block_N), accum_dtype)
            D_BUF = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.copy(A[bx, 0], A_BUF, [block_M, K])
            T.copy(B[0, by], B_BUF, [K, block_N])
            T.gemm(A_BUF, B_BUF, C_BUF, [block_M, K, block_N], initC=True)
            T.exp(C_BUF, D_BUF)
            T.copy(C_BUF, C[bx, by], [block_M, block_N])
            T.copy(D_BUF, D[bx, by], [block_M, block_N])

    return minicv


@tilelang.jit(out_idx=[-2, -1])
def minicv_parallel(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float32"):
    """The same as a GPU kernel: pipelined over K, element-wise half with `T.Parallel`."""

    @T.prim_func
    def minicv_parallel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), accum_dtype),
        D: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            D_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                D_local[i, j] = T.exp(C_local[i, j])
            T.copy(C_local, C[by * block_M, bx * block_N])
            T.copy(D_local, D[by * block_M, bx * block_N])

    return minicv_parallel


def check(kernel, a, b):
    c, d = kernel(a, b)
    ref = a.float() @ b.float()
    assert torch.isfinite(ref.exp()).all(), "scale the inputs: exp overflows"
    torch.testing.assert_close(c, ref, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(d, ref.exp(), rtol=1e-2, atol=1e-3)
    print("check against torch: passed for C and D")
    print(kernel.simulate(a, b).summary())


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args(argv)

    # Inputs of this size keep C within a few units, so that exp(C) is finite and its error means something.
    scale = args.k**-0.25
    a = torch.randn(args.m, args.k).mul(scale).half()
    b = torch.randn(args.k, args.n).mul(scale).half()
    check(minicv(args.m, args.n, args.k, 128, 256), a, b)
    check(minicv_parallel(args.m, args.n, args.k, 128, 256, 64), a, b)


if __name__ == "__main__":
    main()
