"""2-D convolution (NHWC) as a matmul: T.im2col gathers the patches of a tile of pixels."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def convolution(N, H, W, C, F, kernel_size=3, stride=1, pad=1, block_M=64, block_N=64, block_K=32, dtype="float16"):
    OH = (H + 2 * pad - kernel_size) // stride + 1
    OW = (W + 2 * pad - kernel_size) // stride + 1
    pixels, depth = N * OH * OW, kernel_size * kernel_size * C

    @T.prim_func
    def kernel(
        data: T.Tensor((N, H, W, C), dtype),
        weight: T.Tensor((depth, F), dtype),
        out: T.Tensor((pixels, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(pixels, block_M), threads=128) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            weight_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, block_K), num_stages=2):
                T.im2col(data, data_shared, by, k, kernel_size, stride, 1, pad)
                T.copy(weight[k * block_K, bx * block_N], weight_shared)
                T.gemm(data_shared, weight_shared, acc)
            T.copy(acc, out[by * block_M, bx * block_N])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--height", type=int, default=16)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--filters", type=int, default=64)
    args = parser.parse_args()

    data = torch.randn(args.batch, args.height, args.width, args.channels, device="cuda", dtype=torch.float16)
    weight = torch.randn(3, 3, args.channels, args.filters, device="cuda", dtype=torch.float16) / 10
    out = convolution(*data.shape, args.filters)(data, weight.reshape(-1, args.filters))
    image, filters = data.permute(0, 3, 1, 2).float(), weight.permute(3, 2, 0, 1).float()
    expected = torch.nn.functional.conv2d(image, filters, padding=1)
    expected = expected.permute(0, 2, 3, 1).reshape(-1, args.filters).half()
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)
    print(f"convolution of {tuple(data.shape)} with {args.filters} filters: matches torch")


if __name__ == "__main__":
    main()
