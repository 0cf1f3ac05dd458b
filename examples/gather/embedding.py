"""Embedding: rows of a table picked by token numbers."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def embedding(S, V, D, block_S=16, dtype="float16"):
    @T.prim_func
    def kernel(
        Tokens: T.Tensor((S,), "int32"),
        Table: T.Tensor((V, D), dtype),
        Out: T.Tensor((S, D), dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_S), threads=128) as bx:
            rows = T.alloc_shared((block_S, D), dtype)
            for i in T.serial(block_S):
                if bx * block_S + i < S:
                    T.copy(Table[Tokens[bx * block_S + i], 0:D], rows[i, 0:D])
            T.copy(rows, Out[bx * block_S, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=256)
    args = parser.parse_args()

    tokens = torch.randint(0, args.vocabulary, (args.tokens,), device="cuda", dtype=torch.int32)
    table = torch.randn(args.vocabulary, args.dim, device="cuda", dtype=torch.float16)
    out = embedding(args.tokens, args.vocabulary, args.dim)(tokens, table)
    torch.testing.assert_close(out, table[tokens.long()], rtol=0, atol=0)
    print(f"embedding of {args.tokens} tokens, {args.vocabulary} x {args.dim}: equals torch")


if __name__ == "__main__":
    main()
