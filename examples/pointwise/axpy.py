"""y = alpha * x + y in place; alpha and the length are known at run time only."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def axpy(block=1024):
    n = T.dynamic("n")

    @T.prim_func
    def kernel(alpha: T.float32, x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                y[bx * block + i] = alpha * x[bx * block + i] + y[bx * block + i]

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100003)
    args = parser.parse_args()

    x = torch.randn(args.n, device="cuda")
    y = torch.randn(args.n, device="cuda")
    expected = 0.5 * x + y
    axpy()(0.5, x, y)
    torch.testing.assert_close(y, expected)
    print(f"axpy {args.n}: matches torch")


if __name__ == "__main__":
    main()
