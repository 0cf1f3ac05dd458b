"""The kernels of the first milestone in the spellings users write."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def matmul(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", out_dtype="float16", accum="float32",
           trans_A=False, trans_B=False):  # fmt: skip
    """C = A @ B, plain GPU style."""
    a_shape, a_tile = ((K, M), (block_K, block_M)) if trans_A else ((M, K), (block_M, block_K))
    b_shape, b_tile = ((N, K), (block_N, block_K)) if trans_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def matmul_eager(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 64):
    """C = A @ B, eager style."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], "float16"]
    B: T.Tensor[[K, N], "float16"]
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), "float16")
        B_shared = T.alloc_shared((block_K, block_N), "float16")
        C_local = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilelang.jit(target="npuir")
def matmul_npu(M, N, K, block_M=128, block_N=128, block_K=32):
    """The NPU spelling: one flat grid, size lists, initC."""
    n_num = (N + block_N - 1) // block_N
    m_num = (M + block_M - 1) // block_M

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(m_num * n_num, is_npu=True) as (cid, _):
            bx = cid // n_num * block_M
            by = cid % n_num * block_N
            A_BUF = T.alloc_shared([block_M, block_K], "float16")
            B_BUF = T.alloc_shared([block_K, block_N], "float16")
            C_BUF = T.alloc_fragment([block_M, block_N], "float32")
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bx, k * block_K], A_BUF, [block_M, block_K])
                T.copy(B[k * block_K, by], B_BUF, [block_K, block_N])
                T.gemm(A_BUF, B_BUF, C_BUF, initC=(k == 0))
            T.copy(C_BUF, C[bx, by], [block_M, block_N])

    return main


@tilelang.jit
def add_1d(N, block=1024, dtype="float32", staged=True):
    """C = A + B in one dimension."""

    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            if staged:
                a, b, c = T.alloc_shared((block,), dtype), T.alloc_shared((block,), dtype), T.alloc_fragment((block,), dtype)
                T.copy(A[bx * block], a)
                T.copy(B[bx * block], b)
                for i in T.Parallel(block):
                    c[i] = a[i] + b[i]
                T.copy(c, C[bx * block])
            else:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


@tilelang.jit
def add_2d(M, N, block_M=32, block_N=64, dtype="float32", staged=True):
    """C = A + B in two dimensions."""

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            if staged:
                a, b = T.alloc_shared((block_M, block_N), dtype), T.alloc_shared((block_M, block_N), dtype)
                c = T.alloc_fragment((block_M, block_N), dtype)
                T.copy(A[by * block_M, bx * block_N], a)
                T.copy(B[by * block_M, bx * block_N], b)
                for i, j in T.Parallel(block_M, block_N):
                    c[i, j] = a[i, j] + b[i, j]
                T.copy(c, C[by * block_M, bx * block_N])
            else:
                for i, j in T.Parallel(block_M, block_N):
                    C[by * block_M + i, bx * block_N + j] = A[by * block_M + i, bx * block_N + j] + B[by * block_M + i, bx * block_N + j]

    return main


@tilelang.jit
def minicv(M, N, K, block_M=128, block_N=256, parallel=False):
    """C = A @ B and D = exp(C)."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
        D: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (bx, by):
            A_BUF = T.alloc_shared((block_M, K), "float16")
            B_BUF = T.alloc_shared((K, block_N), "float16")
            C_BUF = T.alloc_fragment((block_M, block_N), "float32")
            D_BUF = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(A[bx * block_M, 0], A_BUF, [block_M, K])
            T.copy(B[0, by * block_N], B_BUF, [K, block_N])
            T.gemm(A_BUF, B_BUF, C_BUF, [block_M, K, block_N], initC=True)
            if parallel:
                for i, j in T.Parallel(block_M, block_N):
                    D_BUF[i, j] = T.exp(C_BUF[i, j])
            else:
                T.exp(C_BUF, D_BUF)
            T.copy(C_BUF, C[bx * block_M, by * block_N], [block_M, block_N])
            T.copy(D_BUF, D[bx * block_M, by * block_N], [block_M, block_N])

    return main


@tilelang.jit
def gemm_bias_leaky(M, N, K, block_M=128, block_N=128, block_K=64, alpha=0.001):
    """C = leaky_relu(A @ B + bias)."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            bias_s = T.alloc_shared((block_N,), "float32")
            T.clear(C_local)
            T.copy(bias[bx * block_N], bias_s)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = C_local[i, j] + bias_s[j]
                C_local[i, j] = T.if_then_else(C_local[i, j] >= 0, C_local[i, j], C_local[i, j] * alpha)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main
