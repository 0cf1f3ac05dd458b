"""Settings by environment variables, and imports from all over tilelang."""

import logging
import os
import tempfile

folder = tempfile.mkdtemp()
os.environ["TILELANG_CACHE_DIR"] = folder
os.environ["TILELANG_PRINT_ON_COMPILATION"] = "1"
os.environ["TILELANG_VERBOSE"] = "1"

import torch

import tilelang
import tilelang.language as T
from tilelang import env
from tilelang.cache import clear_cache
from tilelang.contrib import nvcc
from tilelang.engine.callback import register_cuda_postproc_callback
from tilelang.env import TILELANG_CACHE_DIR
from tilelang.intrinsics import make_mma_swizzle_layout
from tilelang.jit import JITKernel
from tilelang.language import alloc_barrier, alloc_fragment
from tilelang.math import next_power_of_2
from tilelang.transform import PassConfigKey
from tilelang.utils.target import determine_target
from tilelang.utils.tensor import get_tensor_supply, map_torch_type, torch_assert_close

assert TILELANG_CACHE_DIR == env.TILELANG_CACHE_DIR == folder and os.path.isdir(folder)
assert next_power_of_2(100) == tilelang.next_power_of_2(100) == 128 and tilelang.cdiv(7, 2) == 4
assert determine_target("auto") and map_torch_type("float16") == torch.float16 and callable(get_tensor_supply())
assert nvcc.get_target_compute_version() and callable(alloc_fragment) and tilelang.__version__


@register_cuda_postproc_callback
def never_called(code, _):
    raise AssertionError


@T.prim_func
def scale(A: T.Tensor((128,), "float32")):
    with T.Kernel(1) as _:
        T.annotate_safe_value({A: 1.0}) if hasattr(T, "annotate_safe_value") else None
        for i in T.Parallel(128):
            A[i] = A[i] * 2


kernel = tilelang.compile(scale, pass_configs={PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True})
assert isinstance(kernel, JITKernel) and kernel.prim_func.attrs["global_symbol"] == "scale"
x = torch.ones(128, device="cuda")
kernel(x)
torch_assert_close(x, torch.full_like(x, 2))
clear_cache()
logging.getLogger("tilelang").setLevel(logging.ERROR)
print("all checks passed")
