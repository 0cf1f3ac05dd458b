"""What decorated functions and kernels offer besides being called."""

import tempfile
from pathlib import Path

import torch

import tilelang
import tilelang.language as T
from tilelang.engine import lower

tilelang.disable_cache()
tilelang.set_log_level("WARNING")


@tilelang.jit(out_idx=-1, target="cuda", compile_flags=["-O3", "--use_fast_math"], debug_root_path=None)
def relu(M, N, bm=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor([M, N], dtype), B: T.Tensor([M, N], dtype)):
        with T.Kernel(T.ceildiv(M, bm), threads=128) as (bx,):
            s = T.alloc_shared([bm, N], dtype)
            f = T.alloc_fragment([bm, N], dtype)
            T.copy(A[bx * bm : (bx + 1) * bm, :], s)
            T.copy(s, f)
            for i, j in T.Parallel(bm, N):
                f[i, j] = T.max(f[i, j], 0)
            T.copy(f, B[bx * bm, 0])

    return main


kernel = relu.compile(64, 128)
assert relu.mode == "lazy" and kernel.out_idx == [1] and [p.name for p in kernel.params] == ["A", "B"]
assert kernel.config is None and kernel.latency is None and kernel.ref_latency is None
assert relu.get_kernel_source(64, 128) == kernel.get_kernel_source() == kernel.kernel_source
assert kernel.get_host_source() in kernel.get_kernel_source(kernel_only=False)
kernel.show_source("both")
with tempfile.TemporaryDirectory() as folder:
    kernel.export_sources(f"{folder}/a/kernel.cpp", f"{folder}/b/host.cpp")
    assert Path(folder, "a/kernel.cpp").read_text() == kernel.get_kernel_source()

some = relu.par_compile([{"M": 64, "N": 64}, (32, 32), {"M": 64, "N": 10**7}], num_workers=2, ignore_error=True)
assert [k is None for k in some] == [False, False, True]
more = tilelang.par_compile([relu.get_tir(64, 64), relu.get_tir(64, 96)], out_idx=[-1], num_workers=2)
x = torch.randn(64, 96, device="cuda").half()
assert torch.equal(more[1](x), torch.relu(x)) and more[0].run_once().shape == (64, 64)

artifact = tilelang.lower(relu.get_tir(64, 64), target="cuda", enable_device_compile=False)
assert artifact.kernel_source == lower(relu.get_tir(64, 64)).kernel_source and len(artifact.params) == 2
tilelang.enable_cache()
print("all checks passed")
