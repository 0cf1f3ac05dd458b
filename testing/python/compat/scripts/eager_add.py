"""An eager kernel: shapes come from the tensors, the result is created in the kernel."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def add(A, B, block: int = 128):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    C = T.empty([N], T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return C


for n in (256, 300):
    x, y = torch.randn(2, n, device="cuda").unbind(0)
    out = add(x, y)
    assert out.is_cuda
    torch.testing.assert_close(out, x + y)
    torch.testing.assert_close(out.cpu(), (x + y).cpu())
print("all checks passed")
