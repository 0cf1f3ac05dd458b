"""Conversion of a matrix between types: float32 to bfloat16, float16 and int32."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def cast(M, N, source, result, block_M=32, block_N=128):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), source), Y: T.Tensor((M, N), result)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x = T.alloc_fragment((block_M, block_N), source)
            y = T.alloc_fragment((block_M, block_N), result)
            T.copy(X[by * block_M, bx * block_N], x)
            for i, j in T.Parallel(block_M, block_N):
                y[i, j] = T.cast(x[i, j], result)
            T.copy(y, Y[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=512)
    args = parser.parse_args()

    x = 100 * torch.randn(args.m, args.n, device="cuda")
    for dtype in (torch.bfloat16, torch.float16, torch.int32):
        y = cast(args.m, args.n, "float32", str(dtype).removeprefix("torch."))(x)
        torch.testing.assert_close(y, x.to(dtype), rtol=0, atol=0)
    print(f"cast {args.m} x {args.n} from float32 to bfloat16, float16, int32: equals torch")


if __name__ == "__main__":
    main()
