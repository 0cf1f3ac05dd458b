"""int8 values and one scale per group of 64 columns, back to float16."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def dequantize(Q, Scale, group: int = 64, block_M: int = 16):
    M, N, G = T.const("M, N, G")
    Q: T.Tensor[[M, N], T.int8]
    Scale: T.Tensor[[M, G], T.float32]
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, group), T.ceildiv(M, block_M), threads=128) as (bx, by):
        q = T.alloc_shared((block_M, group), T.int8)
        scale = T.alloc_fragment((block_M, 1), T.float32)
        y = T.alloc_fragment((block_M, group), T.float16)
        T.copy(Q[by * block_M, bx * group], q)
        T.copy(Scale[by * block_M : (by + 1) * block_M, bx : bx + 1], scale)
        for i, j in T.Parallel(block_M, group):
            y[i, j] = T.cast(q[i, j], T.float32) * scale[i, 0]
        T.copy(y, Y[by * block_M, bx * group])
    return Y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=1024)
    args = parser.parse_args()

    groups = -(-args.n // 64)
    q = torch.randint(-127, 128, (args.m, args.n), device="cuda", dtype=torch.int8)
    scale = torch.rand(args.m, groups, device="cuda") / 100
    expected = (q.float() * scale.repeat_interleave(64, dim=1)[:, : args.n]).half()
    torch.testing.assert_close(dequantize(q, scale), expected, rtol=1e-3, atol=1e-4)
    print(f"dequantisation of {args.m} x {args.n}: matches torch")


if __name__ == "__main__":
    main()
