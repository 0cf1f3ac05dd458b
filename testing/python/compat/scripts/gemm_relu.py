"""A matrix product with a fused ReLU: lazy kernel, CUDA tensors, profiler, a target that names a GPU."""

import argparse

import torch

import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout


@tilelang.jit(
    out_idx=[-1],
    target="cuda",
    execution_backend="cython",
    pass_configs={
        tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True,
        tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
        "tl.disable_tma_lower": True,
    },
)
def matmul_relu(M, N, K, block_M, block_N, block_K, dtype=T.float16, accum_dtype=T.float32):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.annotate_layout({A_shared: make_swizzled_layout(A_shared), B_shared: make_swizzled_layout(B_shared)})
            T.use_swizzle(panel_size=10, enable=True)
            T.disable_warp_group_reg_alloc()

            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=128)
    n = parser.parse_args().size

    kernel = matmul_relu(n, n, n, 64, 64, 32)
    a = torch.randn(n, n, device="cuda", dtype=torch.float16)
    b = torch.randn(n, n, dtype=torch.float16).cuda()
    c = kernel(a, b)
    torch.cuda.synchronize()
    assert c.is_cuda and c.shape == (n, n)
    torch.testing.assert_close(c, torch.relu(a @ b), rtol=1e-2, atol=1e-2)

    profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Normal)
    profiler.assert_allclose(lambda x, y: torch.relu(x @ y), rtol=1e-2, atol=1e-2)
    latency = profiler.do_bench(warmup=5, rep=5, backend="cupti")
    assert latency > 0
    print(f"latency: {latency:.4f} ms, {2 * n**3 / latency * 1e-9:.2f} TFlops")
    assert "__global__" in kernel.get_kernel_source()
    print("all checks passed")


if __name__ == "__main__":
    main()
