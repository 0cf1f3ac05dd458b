"""A script for the NPU plug-in of torch, on a machine without it."""

import torch
import torch_npu  # noqa: F401

import tilelang
import tilelang.language as T

torch.npu.set_device(0)
device = torch.device("npu:0")


@tilelang.jit(out_idx=[-1], target="npuir")
def negate(N, block):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), is_npu=True) as (cid, _):
            for i in T.Parallel(block):
                B[cid * block + i] = -A[cid * block + i]

    return main


x = torch.randn(128, device="npu")
y = negate(128, 64)(x.npu())
torch.npu.synchronize()
torch.testing.assert_close(y.cpu(), -x.cpu())
assert torch.ones(2, device=device).sum() == 2 and torch.npu.is_available()
print("all checks passed")
