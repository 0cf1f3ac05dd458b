"""Cross-entropy loss of logits and labels, and its gradient, one row per program."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2, 3])
def cross_entropy(M, N, dtype="float32"):
    @T.prim_func
    def kernel(
        Logits: T.Tensor((M, N), dtype),
        Labels: T.Tensor((M,), "int32"),
        Loss: T.Tensor((M,), dtype),
        Grad: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((N,), dtype)
            row_max = T.alloc_fragment((1,), dtype)
            row_sum = T.alloc_fragment((1,), dtype)
            label = Labels[row]
            T.copy(Logits[row, 0], x)
            T.reduce_max(x, row_max, dim=0)
            for j in T.Parallel(N):
                x[j] = T.exp(x[j] - row_max[0])
            T.reduce_sum(x, row_sum, dim=0)
            Loss[row] = T.log(row_sum[0]) + row_max[0] - Logits[row, label]
            for j in T.Parallel(N):
                x[j] = x[j] / row_sum[0] - T.if_then_else(j == label, 1.0, 0.0)
            T.copy(x, Grad[row, 0])

    return kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=128)
    parser.add_argument("--n", type=int, default=1000)
    args = parser.parse_args()

    logits = torch.randn(args.m, args.n, device="cuda", requires_grad=True)
    labels = torch.randint(0, args.n, (args.m,), device="cuda")
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    expected.sum().backward()
    loss, grad = cross_entropy(args.m, args.n)(logits.detach(), labels.int())
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grad, logits.grad, rtol=1e-4, atol=1e-5)
    print(f"cross entropy {args.m} x {args.n}, loss and gradient: matches torch")


if __name__ == "__main__":
    main()
