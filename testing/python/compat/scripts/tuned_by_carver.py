"""Configurations from the roller's hints, tuned by an `AutoTuner` object without decorators."""

import torch

import tilelang as tl
import tilelang.language as T
from tilelang.autotuner import AutoTuner
from tilelang.carver.arch import CDNA, CUDA
from tilelang.carver.roller.rasterization import NoRasterization
from tilelang.carver.template import MatmulTemplate


def get_configs(M, N, K, topk):
    arch = CUDA("cuda") if torch.version.hip is None else CDNA("hip")
    template = MatmulTemplate(M=M, N=N, K=K, in_dtype="bfloat16", out_dtype="bfloat16", accum_dtype="float")
    template = template.with_arch(arch)
    assert template.equivalent_function() is not None
    configs = []
    for hint in template.recommend_hints(topk=topk):
        block_m, block_n = hint.block
        warp_m, warp_n = hint.warp
        configs.append(
            {
                "block_M": block_m,
                "block_N": block_n,
                "block_K": hint.rstep[0],
                "num_stages": hint.pipeline_stage if hint.pipeline_stage > 1 else 0,
                "thread_num": (block_m // warp_m) * (block_n // warp_n) * 32,
                "enable_rasteration": hint.rasterization_plan is not NoRasterization,
            }
        )
    return configs


def get_best_config(M, N, K):
    def kernel(block_M=None, block_N=None, block_K=None, num_stages=None, thread_num=None, enable_rasteration=None):
        dtype = "bfloat16"

        @T.prim_func
        def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
                A_shared = T.alloc_shared((block_M, block_K), dtype)
                B_shared = T.alloc_shared((block_N, block_K), dtype)
                C_local = T.alloc_fragment((block_M, block_N), "float")
                C_shared = T.alloc_shared((block_M, block_N), dtype)
                T.use_swizzle(panel_size=10, enable=enable_rasteration)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_M, bx * block_N])

        return main

    tuner = (
        AutoTuner.from_kernel(kernel=kernel, configs=get_configs(M, N, K, topk=3))
        .set_compile_args(out_idx=[-1], target="auto")
        .set_profile_args(supply_type=tl.TensorSupplyType.Integer, ref_prog=lambda A, B: A @ B.T, skip_check=False)
    )
    return tuner.run(warmup=3, rep=20)


result = get_best_config(128, 128, 64)
assert result.latency > 0 and result.ref_latency > 0 and "__global__" in result.libcode
kernel = result.kernel
assert kernel.config == result.config and kernel.latency == result.latency == kernel.get_tuner_result()["latency"]
a = torch.randn(128, 64).cuda().bfloat16()
b = torch.randn(128, 64).cuda().bfloat16()
torch.testing.assert_close(kernel(a, b), a @ b.T, rtol=1e-2, atol=1e-2)
print("all checks passed")
