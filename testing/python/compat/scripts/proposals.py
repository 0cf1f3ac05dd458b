"""Configurations from the carver, and the small functions around the language."""

import torch

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.carver.roller.rasterization import NoRasterization
from tilelang.carver.template import MatmulTemplate
from tilelang.engine.callback import register_cuda_postproc_callback
from tilelang.env import env
from tilelang.transform import PassConfigKey, simplify_prim_func
from tilelang.utils.tensor import map_torch_type


@register_cuda_postproc_callback
def look_at_source(code, target):
    return code


def configurations(M, N, K, topk=5):
    template = MatmulTemplate(M=M, N=N, K=K, in_dtype="float16", out_dtype="float16", accum_dtype="float32").with_arch(CUDA("cuda"))
    assert template.equivalent_function() is not None
    found = []
    for hint in template.recommend_hints(topk=topk):
        block_m, block_n = hint.block
        warps = (block_m // hint.warp[0]) * (block_n // hint.warp[1])
        found.append(
            dict(
                block_M=block_m,
                block_N=block_n,
                block_K=hint.rstep[0],
                num_stages=hint.pipeline_stage,
                threads=warps * 32,
                swizzle=hint.rasterization_plan is not NoRasterization,
            )
        )
    return found


@simplify_prim_func
def matmul(M, N, K, block_M, block_N, block_K, num_stages, threads, swizzle):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_N, block_K), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(10, enable=swizzle)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


assert tilelang.cdiv(7, 2) == 4 and tilelang.next_power_of_2(100) == 128
assert map_torch_type("float16") is torch.float16 and env.is_cache_enabled() in (True, False)
configs = configurations(256, 256, 256)
assert len(configs) == 5
kernel = tilelang.compile(
    matmul(256, 256, 256, **configs[0]),
    out_idx=[2],
    target="auto",
    pass_configs={PassConfigKey.TL_DISABLE_TMA_LOWER: True},
)
a, b = torch.randn(2, 256, 256, dtype=torch.float16, device="cuda").unbind(0)
torch.testing.assert_close(kernel(a, b), a @ b.T, rtol=1e-2, atol=1e-2)
artifact = tilelang.lower(matmul(256, 256, 256, **configs[0]), target="cuda")
assert "__global__" in artifact.kernel_source
print("all checks passed")
