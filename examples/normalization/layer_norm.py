"""Layer normalisation with weight and bias; mean and 1/sigma are kept for the backward pass."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3, 4, 5])
def layer_norm(M, N, eps=1e-5, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
        Mean: T.Tensor((M,), "float32"),
        Rstd: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            w = T.alloc_shared((N,), dtype)
            b = T.alloc_shared((N,), dtype)
            mean = T.alloc_fragment((block_M,), "float32")
            rstd = T.alloc_fragment((block_M,), "float32")
            T.copy(W, w)
            T.copy(B, b)
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = mean[i] / N
            for i, j in T.Parallel(block_M, N):
                x[i, j] -= mean[i]
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, rstd, dim=1)
            for i in T.Parallel(block_M):
                rstd[i] = T.rsqrt(rstd[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * rstd[i] * w[j] + b[j]
            T.copy(x, Y[bx * block_M, 0])
            T.copy(mean, Mean[bx * block_M])
            T.copy(rstd, Rstd[bx * block_M])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=768)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda")
    w, b = torch.randn(args.n, device="cuda"), torch.randn(args.n, device="cuda")
    y, mean, rstd = layer_norm(args.m, args.n)(x, w, b)
    expected = torch.nn.functional.layer_norm(x, (args.n,), w, b)
    torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(mean, x.mean(dim=1), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(rstd, 1 / (x.var(dim=1, correction=0) + 1e-5).sqrt(), rtol=1e-3, atol=1e-4)
    print(f"layer norm {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
