"""Routing of tokens to experts: softmax of the gate, the k best experts, renormalised weights."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def route(M, E, K, block_M=16):
    @T.prim_func
    def kernel(
        Gate: T.Tensor((M, E), "float32"),
        Weights: T.Tensor((M, K), "float32"),
        Experts: T.Tensor((M, K), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            p = T.alloc_fragment((block_M, E), "float32")
            position = T.alloc_fragment((block_M, E), "int32")
            best = T.alloc_fragment((block_M,), "float32")
            expert = T.alloc_fragment((block_M,), "int32")
            total = T.alloc_fragment((block_M,), "float32")
            weights = T.alloc_shared((block_M, K), "float32")
            experts = T.alloc_shared((block_M, K), "int32")
            T.copy(Gate[bx * block_M, 0], p)
            T.reduce_max(p, best, dim=1)
            for i, j in T.Parallel(block_M, E):
                p[i, j] = T.exp(p[i, j] - best[i])
            for k in T.serial(K):
                T.reduce_max(p, best, dim=1)
                for i, j in T.Parallel(block_M, E):
                    position[i, j] = T.if_then_else(p[i, j] == best[i], j, E)
                T.reduce_min(position, expert, dim=1)
                for i, j in T.Parallel(block_M, E):
                    p[i, j] = T.if_then_else(j == expert[i], -1.0, p[i, j])
                for i in T.Parallel(block_M):
                    weights[i, k] = best[i]
                    experts[i, k] = expert[i]
            T.reduce_sum(weights, total, dim=1)
            for i, k in T.Parallel(block_M, K):
                weights[i, k] = weights[i, k] / total[i]
            T.copy(weights, Weights[bx * block_M, 0])
            T.copy(experts, Experts[bx * block_M, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--k", type=int, default=4)
    args = parser.parse_args()

    gate = torch.randn(args.tokens, args.experts, device="cuda")
    weights, experts = route(args.tokens, args.experts, args.k)(gate)
    expected, indices = torch.softmax(gate, dim=1).topk(args.k, dim=1)
    torch.testing.assert_close(weights, expected / expected.sum(dim=1, keepdim=True), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(experts.long(), indices, rtol=0, atol=0)
    print(f"routing of {args.tokens} tokens to {args.k} of {args.experts} experts: matches torch")


if __name__ == "__main__":
    main()
