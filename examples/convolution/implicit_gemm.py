"""2-D convolution (NHWC) with the patch addresses written out in the kernel."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def convolution(H, W, C, F, R=3, pad=1, block_M=64, block_N=32, block_K=32, dtype="float16"):
    OH, OW = H + 2 * pad - R + 1, W + 2 * pad - R + 1

    @T.prim_func
    def kernel(
        data: T.Tensor((H, W, C), dtype),
        weight: T.Tensor((R * R * C, F), dtype),
        out: T.Tensor((OH * OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(OH * OW, block_M), threads=128) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            weight_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(R * R * C, block_K), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    pixel, depth = by * block_M + i, k * block_K + j
                    y = pixel // OW + depth // (R * C) - pad
                    x = pixel % OW + depth // C % R - pad
                    inside = (y >= 0) and (x >= 0) and (y < H) and (x < W) and (depth < R * R * C)
                    data_shared[i, j] = T.if_then_else(inside, data[y, x, depth % C], 0)
                T.copy(weight[k * block_K, bx * block_N], weight_shared)
                T.gemm(data_shared, weight_shared, acc)
            T.copy(acc, out[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--height", type=int, default=12)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--filters", type=int, default=32)
    args = parser.parse_args()

    data = torch.randn(args.height, args.width, args.channels, device="cuda", dtype=torch.float16)
    weight = torch.randn(3, 3, args.channels, args.filters, device="cuda", dtype=torch.float16) / 10
    out = convolution(*data.shape, args.filters)(data, weight.reshape(-1, args.filters))
    image, filters = data.permute(2, 0, 1).float(), weight.permute(3, 2, 0, 1).float()
    expected = torch.nn.functional.conv2d(image, filters, padding=1)
    expected = expected.permute(1, 2, 0).reshape(-1, args.filters).half()
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)
    print(f"implicit-gemm convolution of {tuple(data.shape)} with {args.filters} filters: matches torch")


if __name__ == "__main__":
    main()
