"""Proposals of the carver's templates, read as scripts read them, in kernels of each kind."""

import torch

import tilelang
import tilelang.language as T
from tilelang import carver
from tilelang.carver.arch import auto_infer_current_arch
from tilelang.carver.roller.rasterization import NoRasterization


def hints(template, topk=20):
    template = template.with_arch(auto_infer_current_arch())
    assert template.equivalent_function() is not None
    found = template.recommend_hints(topk=topk)
    assert 0 < len(found) <= topk
    for hint in found:
        assert hint.pipeline_stage >= 1 and hint.rasterization_plan is NoRasterization and len(hint.warp) == len(hint.block)
        assert all(block // warp >= 1 for block, warp in zip(hint.block, hint.warp))
    return found


@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N, block_K):
    @T.prim_func
    def main(A: T.Tensor((N, K), "float16"), x: T.Tensor((K,), "float16"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            a = T.alloc_fragment((block_N, block_K), "float16")
            v = T.alloc_fragment((block_K,), "float16")
            products = T.alloc_fragment((block_N, block_K), "float32")
            total = T.alloc_fragment((block_N,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[bx * block_N, k * block_K], a)
                T.copy(x[k * block_K], v)
                for i, j in T.Parallel(block_N, block_K):
                    products[i, j] = T.cast(a[i, j], "float32") * T.cast(v[j], "float32")
                T.reduce_sum(products, total, dim=1, clear=False)
            T.copy(total, y[bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def twice(M, N, block_M, block_N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (by, bx):
            tile = T.alloc_shared((block_M, block_N), "float16")
            T.copy(A[by * block_M, bx * block_N], tile)
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = tile[i, j] + tile[i, j]
            T.copy(tile, B[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def row_sums(M, N, block_M, block_N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as by:
            tile = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(A[by * block_M, k * block_N], tile)
                T.reduce_sum(tile, total, dim=1, clear=False)
            T.copy(total, B[by * block_M])

    return main


N, K = 192, 320
a, x = torch.randn(N, K, dtype=torch.float16, device="cuda"), torch.randn(K, dtype=torch.float16, device="cuda")
for hint in hints(carver.GEMVTemplate(N=N, K=K, in_dtype="float16"))[::8]:
    torch.testing.assert_close(gemv(N, K, hint.block[1], hint.rstep[0])(a, x), a.float() @ x.float(), rtol=1e-3, atol=1e-3)
for hint in hints(carver.ElementwiseTemplate(shape=[N, K], dtype="float16"))[::8]:
    assert torch.equal(twice(N, K, *hint.block)(a), a + a)
for hint in hints(carver.GeneralReductionTemplate(structure="SR", shape=[N, K], dtype="float32"))[::8]:
    torch.testing.assert_close(row_sums(N, K, *hint.block, *hint.rstep)(a.float()), a.float().sum(1), rtol=1e-4, atol=1e-4)
for structure in ("SSR", "SRS", "SS", "R"):
    for hint in hints(carver.GeneralReductionTemplate(structure=structure, shape=[1024] * len(structure), dtype="float16")):
        assert len(hint.block) == structure.count("S") and len(hint.rstep) == structure.count("R")
attention = carver.FlashAttentionTemplate(
    batch_size=4,
    num_heads=32,
    head_dim=128,
    seq_length=512,
    seq_kv_length=512,
    in_dtype="float16",
    accum_dtype="float16",
    out_dtype="float16",
)
for hint in hints(attention):
    block_m, block_n = hint.block
    assert block_m >= 16 and block_n >= 16 and hint.rstep == [128]
for hint in hints(carver.ConvTemplate(N=4, C=64, H=28, W=28, F=96, K=3, S=1, D=1, P=1, in_dtype="float16", accum_dtype="float32")):
    block_m, block_n = hint.block
    assert (block_m // hint.warp[0]) * (block_n // hint.warp[1]) * 32 == 128 and hint.rstep[0] >= 32
print("all checks passed")
