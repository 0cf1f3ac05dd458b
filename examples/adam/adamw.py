"""One AdamW step of a flat parameter vector, in place; rate and step corrections are run-time scalars."""

import argparse

import tilelang
import tilelang.language as T
import torch

BETA1, BETA2, EPS, DECAY = 0.9, 0.999, 1e-8, 0.01


@tilelang.jit
def adamw(N, block=1024):
    @T.prim_func
    def kernel(
        P: T.Tensor((N,), "float32"),
        G: T.Tensor((N,), "float32"),
        M: T.Tensor((N,), "float32"),
        V: T.Tensor((N,), "float32"),
        rate: T.float32,
        correction1: T.float32,
        correction2: T.float32,
    ):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            p = T.alloc_fragment((block,), "float32")
            g = T.alloc_fragment((block,), "float32")
            m = T.alloc_fragment((block,), "float32")
            v = T.alloc_fragment((block,), "float32")
            T.copy(P[bx * block], p)
            T.copy(G[bx * block], g)
            T.copy(M[bx * block], m)
            T.copy(V[bx * block], v)
            for i in T.Parallel(block):
                m[i] = BETA1 * m[i] + (1 - BETA1) * g[i]
                v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i]
                p[i] = p[i] * (1 - rate * DECAY)
                p[i] = p[i] - rate * (m[i] / correction1) / (T.sqrt(v[i] / correction2) + EPS)
            T.copy(p, P[bx * block])
            T.copy(m, M[bx * block])
            T.copy(v, V[bx * block])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20000)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()

    p = torch.randn(args.n, device="cuda")
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    parameter = torch.nn.Parameter(p.clone())
    optimizer = torch.optim.AdamW([parameter], lr=1e-2, betas=(BETA1, BETA2), eps=EPS, weight_decay=DECAY)
    kernel = adamw(args.n)
    for step in range(1, args.steps + 1):
        g = torch.randn(args.n, device="cuda")
        parameter.grad = g.clone()
        optimizer.step()
        kernel(p, g, m, v, 1e-2, 1 - BETA1**step, 1 - BETA2**step)
    torch.testing.assert_close(p, parameter.detach(), rtol=1e-4, atol=1e-5)
    print(f"AdamW, {args.n} parameters, {args.steps} steps: matches torch")


if __name__ == "__main__":
    main()
