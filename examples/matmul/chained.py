"""D = (A @ B) @ C: the product in the middle stays on the chip."""

import argparse

import tilelang
import tilelang.language as T
import torch

F32 = "float32"


@tilelang.jit(out_idx=[3])
def chained(m, n, k, p, *, dtype="float16", bM=32, bN=32, bK=32, stages=2):

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((n, p), dtype), D: T.Tensor((m, p), dtype)):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, bN), dtype)
            C_shared = T.alloc_shared((bN, p), dtype)
            P_shared = T.alloc_shared((bM, bN), dtype)
            P_local = T.alloc_fragment((bM, bN), F32)
            D_local = T.alloc_fragment((bM, p), F32)
            T.clear(D_local)
            for j in T.serial(T.ceildiv(n, bN)):
                T.clear(P_local)
                for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=stages):
                    T.copy(A[bx * bM, kk * bK], A_shared)
                    T.copy(B[kk * bK, j * bN], B_shared)
                    T.gemm(A_shared, B_shared, P_local)
                T.copy(P_local, P_shared)
                T.copy(C[j * bN, 0], C_shared)
                T.gemm(P_shared, C_shared, D_local)
            T.copy(D_local, D[bx * bM, 0])

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--k", type=int, default=128)
    parser.add_argument("--p", type=int, default=64)
    args = parser.parse_args()

    a = torch.randn(args.m, args.k, device="cuda", dtype=torch.float16) * 0.3
    b = torch.randn(args.k, args.n, device="cuda", dtype=torch.float16) * 0.3
    c = torch.randn(args.n, args.p, device="cuda", dtype=torch.float16) * 0.3
    out = chained(args.m, args.n, args.k, args.p)(a, b, c)
    torch.testing.assert_close(out.float(), a.float() @ b.float() @ c.float(), rtol=1e-2, atol=5e-2)
    print(f"chained {args.m} x {args.k} x {args.n} x {args.p}: matches torch")


if __name__ == "__main__":
    main()
