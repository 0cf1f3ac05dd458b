"""Gradients of layer normalisation: dX by rows, dW and dB added up atomically."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def layer_norm_backward(M, N, block_M=8, dtype="float32"):
    @T.prim_func
    def kernel(
        dY: T.Tensor((M, N), dtype),
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        Mean: T.Tensor((M,), dtype),
        Rstd: T.Tensor((M,), dtype),
        dX: T.Tensor((M, N), dtype),
        dW: T.Tensor((N,), dtype),
        dB: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x_hat = T.alloc_fragment((block_M, N), dtype)
            dy = T.alloc_fragment((block_M, N), dtype)
            product = T.alloc_fragment((block_M, N), dtype)
            w = T.alloc_shared((N,), dtype)
            mean = T.alloc_fragment((block_M,), dtype)
            rstd = T.alloc_fragment((block_M,), dtype)
            c1 = T.alloc_fragment((block_M,), dtype)
            c2 = T.alloc_fragment((block_M,), dtype)
            column = T.alloc_fragment((N,), dtype)
            T.copy(X[bx * block_M, 0], x_hat)
            T.copy(dY[bx * block_M, 0], dy)
            T.copy(W, w)
            T.copy(Mean[bx * block_M], mean)
            T.copy(Rstd[bx * block_M], rstd)
            for i, j in T.Parallel(block_M, N):
                x_hat[i, j] = (x_hat[i, j] - mean[i]) * rstd[i]
                product[i, j] = dy[i, j] * x_hat[i, j]
            T.reduce_sum(product, column, dim=0)
            T.atomic_add(dW, column)
            T.reduce_sum(dy, column, dim=0)
            T.atomic_add(dB, column)
            for i, j in T.Parallel(block_M, N):
                dy[i, j] = dy[i, j] * w[j]
                product[i, j] = dy[i, j] * x_hat[i, j]
            T.reduce_sum(product, c1, dim=1)
            T.reduce_sum(dy, c2, dim=1)
            for i, j in T.Parallel(block_M, N):
                dy[i, j] = (dy[i, j] - (x_hat[i, j] * c1[i] + c2[i]) / N) * rstd[i]
            T.copy(dy, dX[bx * block_M, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", requires_grad=True)
    w = torch.randn(args.n, device="cuda", requires_grad=True)
    b = torch.randn(args.n, device="cuda", requires_grad=True)
    dy = torch.randn(args.m, args.n, device="cuda")
    torch.nn.functional.layer_norm(x, (args.n,), w, b).backward(dy)
    data = x.detach()
    mean, rstd = data.mean(dim=1), 1 / (data.var(dim=1, correction=0) + 1e-5).sqrt()
    dx, dw, db = torch.empty_like(data), torch.zeros_like(w.detach()), torch.zeros_like(b.detach())
    layer_norm_backward(args.m, args.n)(dy, data, w.detach(), mean, rstd, dx, dw, db)
    for ours, expected in ((dx, x.grad), (dw, w.grad), (db, b.grad)):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-3)
    print(f"layer norm backward {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
