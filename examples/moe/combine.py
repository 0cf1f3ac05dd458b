"""Weighted sum of the outputs of the experts of every token, gathered through a table of rows."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def combine(M, K, D, dtype="float16"):
    @T.prim_func
    def kernel(
        Expanded: T.Tensor((M * K, D), dtype),
        Row: T.Tensor((M, K), "int32"),
        Weights: T.Tensor((M, K), "float32"),
        Out: T.Tensor((M, D), dtype),
    ):
        with T.Kernel(M, threads=128) as token:
            x = T.alloc_fragment((D,), "float32")
            acc = T.alloc_fragment((D,), "float32")
            T.clear(acc)
            for k in T.serial(K):
                T.copy(Expanded[Row[token, k], 0:D], x)
                for j in T.Parallel(D):
                    acc[j] += Weights[token, k] * x[j]
            T.copy(acc, Out[token, 0:D])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256)
    args = parser.parse_args()

    rows = args.tokens * args.k
    expanded = torch.randn(rows, args.dim, device="cuda", dtype=torch.float16)
    row = torch.randperm(rows, device="cuda").int().reshape(args.tokens, args.k)
    weights = torch.rand(args.tokens, args.k, device="cuda")
    out = combine(args.tokens, args.k, args.dim)(expanded, row, weights)
    expected = (expanded[row.long()].float() * weights[..., None]).sum(dim=1).half()
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-3)
    print(f"combination of {args.k} experts for {args.tokens} tokens: matches torch")


if __name__ == "__main__":
    main()
