"""RMS normalisation of bfloat16 rows, computed in float32."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def rms_norm(X, W, eps: float = 1e-6, block_M: int = 8):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    W: T.Tensor[[N], T.bfloat16]
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        X_shared = T.alloc_shared((block_M, N), T.bfloat16)
        x = T.alloc_fragment((block_M, N), T.float32)
        w = T.alloc_fragment((N,), T.float32)
        square = T.alloc_fragment((block_M, N), T.float32)
        scale = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], X_shared)
        T.copy(X_shared, x)
        T.copy(W, w)
        for i, j in T.Parallel(block_M, N):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, scale, dim=1)
        for i in T.Parallel(block_M):
            scale[i] = T.rsqrt(scale[i] / N + eps)
        for i, j in T.Parallel(block_M, N):
            x[i, j] = x[i, j] * scale[i] * w[j]
        T.copy(x, Y[bx * block_M, 0])
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(args.n, device="cuda", dtype=torch.bfloat16)
    wide = x.float()
    expected = (wide * torch.rsqrt(wide.pow(2).mean(dim=1, keepdim=True) + 1e-6) * w.float()).bfloat16()
    torch.testing.assert_close(rms_norm(x, w), expected, rtol=2e-2, atol=2e-2)
    print(f"rms norm {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
