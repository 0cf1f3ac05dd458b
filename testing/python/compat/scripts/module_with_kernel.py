"""A layer of a model that makes its kernel when it first sees an input; a method decorated for eager use."""

from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

import tilelang
import tilelang.language as T


class GeluAndMul:
    def __init__(self, n, dtype=torch.float16):
        self.n, self.dtype = n, dtype
        self.kernel = self._kernel()(block=256)

    def _kernel(self):
        n, dtype = self.n, str(self.dtype).split(".")[-1]

        @tilelang.jit(out_idx=[2], target="auto")
        def gelu_mul(block: int, threads: int = 128):
            @T.macro
            def gelu(x: T.FragmentBuffer((block,), "float32")):
                for i in T.Parallel(block):
                    x[i] = 0.5 * x[i] * (1.0 + T.erf(x[i] * 0.7071067811865475))

            @T.prim_func
            def main(A: T.Tensor((n,), dtype), G: T.Tensor((n,), dtype), O: T.Tensor((n,), dtype)):
                with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
                    a = T.alloc_fragment((block,), "float32")
                    T.copy(A[bx * block], a)
                    gelu(a)
                    for i in T.Parallel(block):
                        O[bx * block + i] = a[i] * G[bx * block + i]

            return main

        return gelu_mul

    def __call__(self, a, g):
        return self.kernel(a.reshape(-1), g.contiguous().view(-1)).view(a.shape)


class Layer(nn.Module):
    op: Optional[GeluAndMul] = None

    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, 2 * dim, bias=False)

    def forward(self, x):
        a, g = self.linear(x).chunk(2, -1)
        if self.op is None:
            self.op = GeluAndMul(a.numel())
        return self.op(a.contiguous(), g)


@tilelang.jit
def rms_norm(X, W, eps: float = 1e-6, block_M: int = 8, threads: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    W: T.Tensor[[N], T.float32]
    Y = T.empty([M, N], T.float32)
    R = T.empty([M], T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        x = T.alloc_fragment([block_M, N], T.float32)
        squares = T.alloc_fragment([block_M, N], T.float32)
        r = T.alloc_fragment([block_M], T.float32)
        T.copy(X[bx * block_M, 0], x)
        for i, j in T.Parallel(block_M, N):
            squares[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(squares, r, dim=1)
        for i in T.Parallel(block_M):
            r[i] = T.rsqrt(r[i] / N + eps)
        for i, j in T.Parallel(block_M, N):
            x[i, j] *= r[i] * W[j]
        T.copy(x, Y[bx * block_M, 0])
        T.copy(r, R[bx * block_M])
    return Y, R


torch.set_default_device("cuda")
torch.manual_seed(0)
model = Layer(32).to(dtype=torch.float16).eval()
with torch.no_grad():
    x = torch.randn(4, 10, 32, dtype=torch.half)
    a, g = model.linear(x).chunk(2, -1)
    torch.testing.assert_close(model(x), F.gelu(a) * g, rtol=1e-2, atol=1e-2)

for m in (1, 19):
    x, w = torch.randn(m, 128), torch.randn(128)
    y, r = rms_norm(x, w, block_M=4)
    expected = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(r, expected[:, 0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(y, x * expected * w, rtol=1e-3, atol=1e-3)
    assert y.device == x.device
print("all checks passed")
