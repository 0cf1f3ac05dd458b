"""GELU with the tanh approximation."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def gelu(M, N, block_M=16, block_N=256, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(X[by * block_M, bx * block_N], x)
            for i, j in T.Parallel(block_M, block_N):
                inner = 0.79788456 * (x[i, j] + 0.044715 * x[i, j] * x[i, j] * x[i, j])
                x[i, j] = 0.5 * x[i, j] * (1.0 + T.tanh(inner))
            T.copy(x, Y[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    y = gelu(args.m, args.n)(x)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"), rtol=1e-2, atol=1e-3)
    print(f"gelu {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
