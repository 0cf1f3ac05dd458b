"""y = A @ x: products summed along the rows of a tile."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N=32, block_K=128, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def kernel(A: T.Tensor((N, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bn:
            A_shared = T.alloc_shared((block_N, block_K), dtype)
            x_shared = T.alloc_shared((block_K,), dtype)
            product = T.alloc_fragment((block_N, block_K), accum_dtype)
            acc = T.alloc_fragment((block_N,), accum_dtype)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bn * block_N, k * block_K], A_shared)
                T.copy(x[k * block_K], x_shared)
                for i, j in T.Parallel(block_N, block_K):
                    product[i, j] = A_shared[i, j].astype(accum_dtype) * x_shared[j].astype(accum_dtype)
                T.reduce_sum(product, acc, dim=1, clear=False)
            T.copy(acc, y[bn * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2048)
    parser.add_argument("--k", type=int, default=2048)
    args = parser.parse_args()

    a = torch.randn(args.n, args.k, device="cuda", dtype=torch.float16)
    x = torch.randn(args.k, device="cuda", dtype=torch.float16)
    y = gemv(args.n, args.k)(a, x)
    torch.testing.assert_close(y, (a.float() @ x.float()).half(), rtol=1e-2, atol=1e-2)
    print(f"gemv {args.n} x {args.k}: matches torch")


if __name__ == "__main__":
    main()
