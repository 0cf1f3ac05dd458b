"""Gradient of RMS normalisation with respect to its input."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def rms_norm_backward(M, N, eps=1e-6, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(
        dY: T.Tensor((M, N), dtype),
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        dX: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), dtype)
            dy = T.alloc_fragment((block_M, N), dtype)
            tmp = T.alloc_fragment((block_M, N), dtype)
            w = T.alloc_shared((N,), dtype)
            rstd = T.alloc_fragment((block_M,), dtype)
            dot = T.alloc_fragment((block_M,), dtype)
            T.copy(X[bx * block_M, 0], x)
            T.copy(dY[bx * block_M, 0], dy)
            T.copy(W, w)
            for i, j in T.Parallel(block_M, N):
                tmp[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(tmp, rstd, dim=1)
            for i in T.Parallel(block_M):
                rstd[i] = T.rsqrt(rstd[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] *= rstd[i]
                dy[i, j] *= w[j]
                tmp[i, j] = x[i, j] * dy[i, j]
            T.reduce_sum(tmp, dot, dim=1)
            for i, j in T.Parallel(block_M, N):
                dy[i, j] = (dy[i, j] - x[i, j] * dot[i] / N) * rstd[i]
            T.copy(dy, dX[bx * block_M, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", requires_grad=True)
    w = torch.randn(args.n, device="cuda")
    dy = torch.randn(args.m, args.n, device="cuda")
    (x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + 1e-6) * w).backward(dy)
    dx = rms_norm_backward(args.m, args.n)(dy, x.detach(), w)
    torch.testing.assert_close(dx, x.grad, rtol=1e-3, atol=1e-3)
    print(f"rms norm backward {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
