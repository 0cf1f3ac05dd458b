"""C = A @ B, stream-K: every program takes the same number of K steps, across tile borders."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul(M, N, K, programs, block_M=64, block_N=64, block_K=32, dtype="float16"):
    n_blocks, k_steps = tilelang.cdiv(N, block_N), tilelang.cdiv(K, block_K)
    total = tilelang.cdiv(M, block_M) * n_blocks * k_steps
    share = tilelang.cdiv(total, programs)

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(programs, threads=128) as program:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            step = T.alloc_var("int32", init=program * share)
            last = T.min((program + 1) * share, total)
            while step < last:
                tile = step // k_steps
                first_k = step - tile * k_steps
                count = T.min(k_steps - first_k, last - step)
                T.clear(C_local)
                for i in T.Pipelined(count, num_stages=2):
                    k = (first_k + i) * block_K
                    T.copy(A[tile // n_blocks * block_M, k], A_shared)
                    T.copy(B[k, tile % n_blocks * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.atomic_add(C[tile // n_blocks * block_M, tile % n_blocks * block_N], C_local)
                step += count

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--k", type=int, default=512)
    args = parser.parse_args()

    programs = torch.cuda.get_device_properties(0).multi_processor_count
    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.float16)
    b = torch.randn(args.k, args.n, device="cuda", dtype=torch.float16)
    c = torch.zeros(args.m, args.n, device="cuda", dtype=torch.float32)
    matmul(args.m, args.n, args.k, programs)(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    print(f"stream-K matmul {args.m} x {args.n} x {args.k} on {programs} programs: matches torch")


if __name__ == "__main__":
    main()
