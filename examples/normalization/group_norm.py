"""Group normalisation of images (batch, channels, pixels): one program per group."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def group_norm(B, C, G, P, eps=1e-5, dtype="float32"):
    D = C // G

    @T.prim_func
    def kernel(
        X: T.Tensor((B, C, P), dtype),
        W: T.Tensor((C,), dtype),
        Bias: T.Tensor((C,), dtype),
        Y: T.Tensor((B, C, P), dtype),
    ):
        with T.Kernel(G, B, threads=128) as (g, b):
            x = T.alloc_fragment((D, P), dtype)
            square = T.alloc_fragment((D, P), dtype)
            w = T.alloc_fragment((D,), dtype)
            bias = T.alloc_fragment((D,), dtype)
            per_channel = T.alloc_fragment((D,), dtype)
            mean = T.alloc_fragment((1,), dtype)
            rstd = T.alloc_fragment((1,), dtype)
            T.copy(X[b, g * D, 0], x)
            T.copy(W[g * D], w)
            T.copy(Bias[g * D], bias)
            T.reduce_sum(x, per_channel, dim=1)
            T.reduce_sum(per_channel, mean, dim=0)
            mean[0] = mean[0] / (D * P)
            for i, j in T.Parallel(D, P):
                x[i, j] -= mean[0]
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, per_channel, dim=1)
            T.reduce_sum(per_channel, rstd, dim=0)
            rstd[0] = T.rsqrt(rstd[0] / (D * P) + eps)
            for i, j in T.Parallel(D, P):
                x[i, j] = x[i, j] * rstd[0] * w[i] + bias[i]
            T.copy(x, Y[b, g * D, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--pixels", type=int, default=196)
    args = parser.parse_args()

    x = torch.randn(args.batch, args.channels, args.pixels, device="cuda")
    w, bias = torch.randn(args.channels, device="cuda"), torch.randn(args.channels, device="cuda")
    y = group_norm(args.batch, args.channels, args.groups, args.pixels)(x, w, bias)
    expected = torch.nn.functional.group_norm(x, args.groups, w, bias)
    torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-4)
    print(f"group norm {args.batch} x {args.channels} x {args.pixels}, {args.groups} groups: matches torch")


if __name__ == "__main__":
    main()
