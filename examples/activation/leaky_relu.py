"""Leaky ReLU, forward and backward, straight on global memory."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def leaky_relu(N, slope, block=2048):
    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                value = X[bx * block + i]
                Y[bx * block + i] = T.if_then_else(value > 0, value, value * slope)

    return kernel


@tilelang.jit(out_idx=[-1])
def leaky_relu_backward(N, slope, block=2048):
    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), dY: T.Tensor((N,), "float32"), dX: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if X[bx * block + i] > 0:
                    dX[bx * block + i] = dY[bx * block + i]
                else:
                    dX[bx * block + i] = dY[bx * block + i] * slope

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100003)
    args = parser.parse_args()

    x = torch.randn(args.n, device="cuda", requires_grad=True)
    grad = torch.randn(args.n, device="cuda")
    expected = torch.nn.functional.leaky_relu(x, 0.1)
    expected.backward(grad)
    torch.testing.assert_close(leaky_relu(args.n, 0.1)(x.detach()), expected.detach())
    torch.testing.assert_close(leaky_relu_backward(args.n, 0.1)(x.detach(), grad), x.grad)
    print(f"leaky relu {args.n}, forward and backward: matches torch")


if __name__ == "__main__":
    main()
