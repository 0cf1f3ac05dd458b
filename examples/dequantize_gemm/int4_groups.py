"""C = A @ dequant(B)^T: float16 activations, int4 weights with one scale and one zero point for each group of a row."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, group, block_M=64, block_N=64, block_K=64, dtype="float16"):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), T.int4),
        Scale: T.Tensor((N, K // group), dtype),
        Zero: T.Tensor((N, K // group), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), T.int4)
            B_dequant = T.alloc_fragment((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                for i, j in T.Parallel(block_N, block_K):
                    n, g = bx * block_N + i, (k * block_K + j) // group
                    B_dequant[i, j] = (B_shared[i, j].astype(dtype) - Zero[n, g]) * Scale[n, g]
                T.gemm(A_shared, B_dequant, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=128)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=512)
    parser.add_argument("--group", type=int, default=128)
    args = parser.parse_args()

    assert args.k % args.group == 0 and args.group % 2 == 0, "--k must be a multiple of --group, which is even"
    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.float16)
    b = torch.randint(-8, 8, (args.n, args.k), device="cuda", dtype=torch.int8)
    packed = (b[:, ::2] & 15) | (b[:, 1::2] << 4)
    groups = (args.n, args.k // args.group)
    scale = (torch.rand(groups, device="cuda") / 16).half()
    zero = torch.randint(-8, 8, groups, device="cuda").half()
    c = matmul(args.m, args.n, args.k, args.group)(a, packed, scale, zero)
    weight = (b.half() - zero.repeat_interleave(args.group, 1)) * scale.repeat_interleave(args.group, 1)
    expected = (a.float() @ weight.float().T).half()
    torch.testing.assert_close(c, expected, rtol=1e-2, atol=1e-2)
    print(f"matmul with int4 weights in groups of {args.group}, {args.m} x {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
