"""One kernel for all sizes, outputs passed in, and a split along K that adds atomically."""

import torch

import tilelang
import tilelang.language as T
import tilelang.testing


def matmul_dynamic(block_M, block_N, block_K, trans_A, trans_B, in_dtype, out_dtype, accum_dtype, num_stages, threads):
    M, N, K = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)

    @T.prim_func
    def dynamic_matmul(A: T.Tensor(A_shape, in_dtype), B: T.Tensor(B_shape, in_dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_K, block_M) if trans_A else (block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K) if trans_B else (block_K, block_N), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, trans_A, trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return dynamic_matmul


@tilelang.jit
def matmul_splitk(M, N, K, block_M, block_N, block_K, split_k, dtype=T.float16, accum_dtype=T.float32):
    splitK = K // split_k

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype, scope="shared.dyn")
            B_shared = T.alloc_shared((block_N, block_K), dtype, "shared")
            C_shared = T.alloc_shared((block_M, block_N), T.float32)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(splitK, block_K), num_stages=0):
                T.copy(A[by * block_M, bz * splitK + ko * block_K], A_shared)
                T.copy(B[bx * block_N, bz * splitK + ko * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], C_shared[i, j])

    return main


keys = tilelang.PassConfigKey
program = matmul_dynamic(64, 64, 32, False, False, "float16", "float16", "float32", 3, 128)
kernel = tilelang.compile(program, pass_configs={keys.TL_DISABLE_DYNAMIC_TAIL_SPLIT: True, keys.TL_DYNAMIC_ALIGNMENT: 8})
for M, N, K in ((100, 72, 130), (1, 7, 40)):
    A = torch.rand(M, K, device="cuda", dtype=torch.float16)
    B = torch.rand(K, N, device="cuda", dtype=torch.float16)
    C = torch.empty(M, N, device="cuda", dtype=torch.half)
    kernel(A, B, C)
    tilelang.testing.torch_assert_close(C, A @ B, rtol=1e-2, atol=1e-2, max_mismatched_ratio=0.05)
profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Randn)
assert profiler.do_bench(input_tensors=[A, B, C], backend="cupti") > 0
assert profiler.do_bench(dynamic_symbolic_constraints={"m": 64, "n": 64, "k": 64}) > 0
try:
    kernel(A, B[:3], C)
    raise SystemExit("a wrong shape was accepted")
except ValueError as error:
    assert "Dynamic shape mismatch for parameter B" in str(error)

a, b = torch.randn(64, 128).cuda().half(), torch.randn(64, 128).cuda().half()
c = torch.zeros(64, 64, device="cuda")
matmul_splitk(64, 64, 128, 64, 64, 32, 2)(a, b, c)
torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-2, atol=1e-2)
print("all checks passed")
