"""Element-wise kernels of the catalogue, written for a GPU: any length, one dynamic dimension."""

import math

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def gelu_erf(x):
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + T.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def leaky_relu(x):
    return T.if_then_else(x >= 0, x, x * 0.01)


def silu(x):
    return x * T.sigmoid(x)


@tilelang.jit
def unary(op, dtype="float16", out_dtype=None, block=2048, compute=None):
    """Y = op(X), computed in `compute` if given."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), out_dtype or dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            x = T.alloc_shared((block,), dtype)
            y = T.alloc_fragment((block,), out_dtype or dtype)
            T.copy(X[bx * block], x)
            for i in T.Parallel(block):
                y[i] = op(T.cast(x[i], compute)) if compute else op(x[i])
            T.copy(y, Y[bx * block])

    return main


@tilelang.jit
def binary(op, dtype="float32", block=2048):
    """Z = op(X, Y) straight on global memory."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype), Z: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = op(X[bx * block + i], Y[bx * block + i])

    return main


@tilelang.jit
def binary_2d(op, M, N, dtype="float32", block_M=32, block_N=128):
    """Z = op(X, Y) on matrices."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x, y = T.alloc_shared((block_M, block_N), dtype), T.alloc_shared((block_M, block_N), dtype)
            z = T.alloc_fragment((block_M, block_N), dtype)
            T.copy(X[by * block_M, bx * block_N], x)
            T.copy(Y[by * block_M, bx * block_N], y)
            for i, j in T.Parallel(block_M, block_N):
                z[i, j] = op(x[i, j], y[i, j])
            T.copy(z, Z[by * block_M, bx * block_N])

    return main


@tilelang.jit
def add_tiled(cores=8, tiles=16, tile=128, stages=1):
    """Z = X + Y with a fixed share per block: `tiles` tiles of `tile` elements each."""
    N = cores * tiles * tile

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(cores, threads=128) as bx:
            x, y = T.alloc_shared((tile,), "float32"), T.alloc_shared((tile,), "float32")
            z = T.alloc_fragment((tile,), "float32")
            for t in T.Pipelined(tiles, num_stages=stages):
                start = (bx * tiles + t) * tile
                T.copy(X[start], x)
                T.copy(Y[start], y)
                for i in T.Parallel(tile):
                    z[i] = x[i] + y[i]
                T.copy(z, Z[start])

    return main


@tilelang.jit
def scale_add(block=1024):
    """Y = a * X + b * Z with run-time scalars."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), a: T.float32, b: T.float32):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = a * X[bx * block + i] + b * Z[bx * block + i]

    return main


@tilelang.jit
def mul_add(block=1024):
    """Y = A * B + C."""
    N = T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            a, b = T.alloc_shared((block,), "float32"), T.alloc_shared((block,), "float32")
            c = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            T.copy(C[bx * block], c)
            for i in T.Parallel(block):
                c[i] += a[i] * b[i]
            T.copy(c, Y[bx * block])

    return main


@tilelang.jit
def add_first(block=1024):
    """Z = X + Y[0]."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((1,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            x = T.alloc_shared((block,), "float32")
            T.copy(X[bx * block], x)
            for i in T.Parallel(block):
                x[i] = x[i] + Y[0]
            T.copy(x, Z[bx * block])

    return main


@tilelang.jit
def adam(M, N, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, step=1, block_M=4, block_N=512):
    """One Adam step, all three states in place."""
    rate = lr * math.sqrt(1 - b2**step) / (1 - b1**step)

    @T.prim_func
    def main(
        W: T.Tensor((M, N), "float32"),
        Mo: T.Tensor((M, N), "float32"),
        V: T.Tensor((M, N), "float32"),
        G: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            w, m = T.alloc_fragment((block_M, block_N), "float32"), T.alloc_fragment((block_M, block_N), "float32")
            v, g = T.alloc_fragment((block_M, block_N), "float32"), T.alloc_fragment((block_M, block_N), "float32")
            T.copy(W[by * block_M, bx * block_N], w)
            T.copy(Mo[by * block_M, bx * block_N], m)
            T.copy(V[by * block_M, bx * block_N], v)
            T.copy(G[by * block_M, bx * block_N], g)
            for i, j in T.Parallel(block_M, block_N):
                m[i, j] = m[i, j] + (g[i, j] - m[i, j]) * (1 - b1)
                v[i, j] = v[i, j] + (g[i, j] * g[i, j] - v[i, j]) * (1 - b2)
                w[i, j] = w[i, j] - rate * m[i, j] / (T.sqrt(v[i, j]) + eps)
            T.copy(w, W[by * block_M, bx * block_N])
            T.copy(m, Mo[by * block_M, bx * block_N])
            T.copy(v, V[by * block_M, bx * block_N])

    return main


@tilelang.jit
def dropout(M, N, keep=0.5, block_M=4, block_N=512):
    """Y = X * mask / keep with a byte mask."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float16"), Mask: T.Tensor((M, N), "uint8"), Y: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x, mask = T.alloc_shared((block_M, block_N), "float16"), T.alloc_shared((block_M, block_N), "uint8")
            T.copy(X[by * block_M, bx * block_N], x)
            T.copy(Mask[by * block_M, bx * block_N], mask)
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = T.if_then_else(mask[i, j] != 0, x[i, j] * (1 / keep), 0.0)
            T.copy(x, Y[by * block_M, bx * block_N])

    return main


@tilelang.jit
def gated(activation, M, N, block_M=8, block_N=128):
    """Y = activation(X) * U."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), U: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                x = X[by * block_M + i, bx * block_N + j]
                Y[by * block_M + i, bx * block_N + j] = activation(x) * U[by * block_M + i, bx * block_N + j]

    return main


@tilelang.jit
def ternary(op, M, N, block_M=8, block_N=256):
    """Y = op(A, B, C) on matrices."""

    @T.prim_func
    def main(
        A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32"), C: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a, b = T.alloc_shared((block_M, block_N), "float32"), T.alloc_shared((block_M, block_N), "float32")
            c, y = T.alloc_shared((block_M, block_N), "float32"), T.alloc_fragment((block_M, block_N), "float32")
            T.copy(A[by * block_M, bx * block_N], a)
            T.copy(B[by * block_M, bx * block_N], b)
            T.copy(C[by * block_M, bx * block_N], c)
            for i, j in T.Parallel(block_M, block_N):
                y[i, j] = op(a[i, j], b[i, j], c[i, j])
            T.copy(y, Y[by * block_M, bx * block_N])

    return main
