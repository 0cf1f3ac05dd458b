"""C = A + B over one dimension of any length, straight from and to global memory."""

import argparse

import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def add(N, block_N, dtype="float32"):
    @T.prim_func
    def vector_add(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            for i in T.Parallel(block_N):
                C[bx * block_N + i] = A[bx * block_N + i] + B[bx * block_N + i]

    return vector_add


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_003)
    args = parser.parse_args(argv)

    kernel = add(args.n, 4096)
    a, b = torch.randn(args.n), torch.randn(args.n)
    c = kernel(a, b)
    torch.testing.assert_close(c, a + b, rtol=0, atol=0)
    print("check against torch: passed, equal bit for bit")
    print(kernel.simulate(a, b).summary())


if __name__ == "__main__":
    main()
