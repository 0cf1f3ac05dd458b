"""Log-sum-exp of long rows in one sweep with a running maximum."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def logsumexp(M, N, block_M=8, block_N=512, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            old_max = T.alloc_fragment((block_M,), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            T.fill(row_max, -T.infinity("float32"))
            T.clear(row_sum)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.if_then_else(k * block_N + j < N, x[i, j], -T.infinity("float32"))
                T.copy(row_max, old_max)
                T.reduce_max(x, row_max, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - row_max[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * T.exp(old_max[i] - row_max[i]) + part[i]
            for i in T.Parallel(block_M):
                row_sum[i] = T.log(row_sum[i]) + row_max[i]
            T.copy(row_sum, Y[bx * block_M])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=128)
    parser.add_argument("--n", type=int, default=4096)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    y = logsumexp(args.m, args.n)(x)
    torch.testing.assert_close(y, torch.logsumexp(x.float(), dim=1), rtol=1e-4, atol=1e-4)
    print(f"logsumexp {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
