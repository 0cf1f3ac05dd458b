"""Quantisation of every row to int8 with a scale of its own."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def per_token_quant(M, N, block_M=8, dtype="float16"):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), dtype), Q: T.Tensor((M, N), "int8"), Scale: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            q = T.alloc_fragment((block_M, N), "int8")
            amax = T.alloc_fragment((block_M,), "float32")
            scale = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.max(amax[i], 1e-4) / 127.0
            for i, j in T.Parallel(block_M, N):
                q[i, j] = T.clamp(T.round(x[i, j] / scale[i]), -127.0, 127.0)
            T.copy(q, Q[bx * block_M, 0])
            T.copy(scale, Scale[bx * block_M])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    x = torch.randn(args.m, args.n, device="cuda", dtype=torch.float16)
    q, scale = per_token_quant(args.m, args.n)(x)
    expected = x.float().abs().amax(dim=1).clamp(min=1e-4) / 127
    torch.testing.assert_close(scale, expected)
    assert (q.float() * scale[:, None] - x.float()).abs().max() <= 0.51 * scale.max()
    torch.testing.assert_close(q.int(), (x.float() / expected[:, None]).round().int(), rtol=0, atol=1)
    print(f"int8 quantisation of {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
