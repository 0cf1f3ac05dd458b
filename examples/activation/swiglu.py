"""SwiGLU: silu of the left half of each row times the right half."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def silu_and_mul(X, block_M: int = 16, block_N: int = 128):
    M, N2 = T.const("M, N2")
    X: T.Tensor[[M, N2], T.bfloat16]
    N = N2 // 2
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        gate = T.alloc_fragment((block_M, block_N), T.float32)
        for i, j in T.Parallel(block_M, block_N):
            row, col = by * block_M + i, bx * block_N + j
            if row < M and col < N:
                gate[i, j] = X[row, col]
                gate[i, j] = gate[i, j] / (1.0 + T.exp(-gate[i, j]))
                Y[row, col] = gate[i, j] * X[row, col + N]
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    x = torch.randn(args.m, 2 * args.n, device="cuda", dtype=torch.bfloat16)
    left, right = x.float().chunk(2, dim=1)
    expected = (torch.nn.functional.silu(left) * right).bfloat16()
    torch.testing.assert_close(silu_and_mul(x), expected, rtol=2e-2, atol=2e-2)
    print(f"swiglu {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
