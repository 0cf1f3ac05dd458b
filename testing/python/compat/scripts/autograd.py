"""A kernel inside a `torch.autograd.Function`; its backward makes tensors on the device."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def square(N, block=64, dtype="float32"):
    @T.prim_func
    def kernel(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] * X[bx * block + i]

    return kernel


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return square(x.numel())(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        two = torch.full((1,), 2.0, device="cuda")
        return two * x * grad


x = torch.randn(96, device="cuda", requires_grad=True)
Square.apply(x).sum().backward()
torch.testing.assert_close(x.grad, 2 * x.detach())
(gradient,) = torch.autograd.grad(Square.apply(x).sum(), x)
torch.testing.assert_close(gradient, 2 * x.detach())
print("all checks passed")
