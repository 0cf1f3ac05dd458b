"""Kernels of the catalogue that move, select, sort or combine elements."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def transpose(M, N, dtype="float16", block_M=64, block_N=64):
    """Y = X^T through a tile."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            x, y = T.alloc_shared((block_M, block_N), dtype), T.alloc_shared((block_N, block_M), dtype)
            T.copy(X[by * block_M, bx * block_N], x)
            for i, j in T.Parallel(block_N, block_M):
                y[i, j] = x[j, i]
            T.copy(y, Y[bx * block_N, by * block_M])

    return main


@tilelang.jit
def rope(tokens, heads, D, form="halves"):
    """Rotary embedding by halves, in three spellings GPU kernels use."""
    half = D // 2

    @T.prim_func
    def main(
        X: T.Tensor((tokens, heads, D), "bfloat16"),
        Cos: T.Tensor((tokens, D), "bfloat16"),
        Sin: T.Tensor((tokens, D), "bfloat16"),
        Y: T.Tensor((tokens, heads, D), "bfloat16"),
    ):
        with T.Kernel(tokens, threads=128) as bx:
            x, y = T.alloc_fragment((heads, D), "float32"), T.alloc_fragment((heads, D), "float32")
            cos, sin = T.alloc_fragment((D,), "float32"), T.alloc_fragment((D,), "float32")
            T.copy(X[bx, 0, 0], x)
            T.copy(Cos[bx, 0], cos)
            T.copy(Sin[bx, 0], sin)
            if form == "halves":
                for i, j in T.Parallel(heads, half):
                    y[i, j] = x[i, j] * cos[j] - x[i, j + half] * sin[j]
                    y[i, j + half] = x[i, j + half] * cos[j + half] + x[i, j] * sin[j + half]
            elif form == "guarded":
                for i, j in T.Parallel(heads, D):
                    y[i, j] = x[i, j] * cos[j] + T.if_then_else(j < half, -x[i, j + half], x[i, j - half]) * sin[j]
            else:
                for i, j in T.Parallel(heads, D):
                    sign = T.if_then_else(j < half, -1.0, 1.0)
                    y[i, j] = x[i, j] * cos[j] + sign * x[i, (j + half) % D] * sin[j]
            T.copy(y, Y[bx, 0, 0])

    return main


@tilelang.jit
def scatter_rows(slots, rows, D, dtype="int8", form="copy"):
    """Cache[Index[i], :] = K[i, :]."""

    @T.prim_func
    def main(K: T.Tensor((rows, D), dtype), Index: T.Tensor((rows,), "int32"), Cache: T.Tensor((slots, D), dtype)):
        with T.Kernel(rows, threads=128) as bx:
            if form == "copy":
                row = T.alloc_shared((D,), dtype)
                T.copy(K[bx, 0], row)
                T.copy(row, Cache[Index[bx], 0])
            else:
                for j in T.Parallel(D):
                    Cache[Index[bx], j] = K[bx, j]

    return main


@tilelang.jit
def gather_rows(slots, rows, D, dtype="float16"):
    """Y[i, :] = Cache[Index[i], :], several rows per block."""
    block = 8

    @T.prim_func
    def main(Cache: T.Tensor((slots, D), dtype), Index: T.Tensor((rows,), "int32"), Y: T.Tensor((rows, D), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            tile = T.alloc_shared((block, D), dtype)
            for i in T.serial(block):
                if bx * block + i < rows:
                    T.copy(Cache[Index[bx * block + i], 0], tile[i, 0:D])
            T.copy(tile, Y[bx * block, 0])

    return main


@tilelang.jit
def broadcast_rows(M, N, dtype="float32", block_M=8):
    """Y[i, :] = X[0, :]."""

    @T.prim_func
    def main(X: T.Tensor((1, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = X[0, j]

    return main


@tilelang.jit
def broadcast_columns(M, N, dtype="float32", block_M=8):
    """Y[:, j] = X[:, 0]."""

    @T.prim_func
    def main(X: T.Tensor((M, 1), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = X[bx * block_M + i, 0]

    return main


@tilelang.jit
def broadcast_axes(shape, axes, dtype="float32"):
    """Y[i, j, k] = X with the axes of size 1 named in `axes` repeated, one plane of Y per block."""
    source = tuple(1 if a in axes else n for a, n in enumerate(shape))

    @T.prim_func
    def main(X: T.Tensor(source, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(shape[0], threads=128) as bx:
            for j, c in T.Parallel(*shape[1:]):
                Y[bx, j, c] = X[0 if 0 in axes else bx, 0 if 1 in axes else j, 0 if 2 in axes else c]

    return main


@tilelang.jit
def split_rows(parts, N, dtype="float16"):
    """A, B, C = the rows of X in three parts."""
    a, b, c = parts

    @T.prim_func
    def main(X: T.Tensor((a + b + c, N), dtype), A: T.Tensor((a, N), dtype), B: T.Tensor((b, N), dtype), C: T.Tensor((c, N), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((a + b + c, N), dtype)
            T.copy(X, x)
            T.copy(x[0:a, 0:N], A)
            T.copy(x[a : a + b, 0:N], B)
            T.copy(x[a + b : a + b + c, 0:N], C)

    return main


@tilelang.jit
def concat_rows(parts, N, dtype="float16"):
    """Y = [A; B; C], straight from memory to memory through one tile for each."""
    a, b, c = parts

    @T.prim_func
    def main(A: T.Tensor((a, N), dtype), B: T.Tensor((b, N), dtype), C: T.Tensor((c, N), dtype), Y: T.Tensor((a + b + c, N), dtype)):
        with T.Kernel(3, threads=128) as bx:
            if bx == 0:
                x = T.alloc_shared((a, N), dtype)
                T.copy(A, x)
                T.copy(x, Y[0:a, 0:N])
            elif bx == 1:
                y = T.alloc_shared((b, N), dtype)
                T.copy(B, y)
                T.copy(y, Y[a : a + b, 0:N])
            else:
                z = T.alloc_shared((c, N), dtype)
                T.copy(C, z)
                T.copy(z, Y[a + b : a + b + c, 0:N])

    return main


@tilelang.jit
def split_columns(M, N, cut, dtype="float16", block_M=8):
    """A = X[:, :cut], B = X[:, cut:]."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), A: T.Tensor((M, cut), dtype), B: T.Tensor((M, N - cut), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            a, b = T.alloc_shared((block_M, cut), dtype), T.alloc_shared((block_M, N - cut), dtype)
            T.copy(X[bx * block_M, 0], a)
            T.copy(X[bx * block_M, cut], b)
            T.copy(a, A[bx * block_M, 0])
            T.copy(b, B[bx * block_M, 0])

    return main


@tilelang.jit
def concat_columns(M, N1, N2, dtype="float16", block_M=8):
    """Y = [A, B] along columns."""

    @T.prim_func
    def main(A: T.Tensor((M, N1), dtype), B: T.Tensor((M, N2), dtype), Y: T.Tensor((M, N1 + N2), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            y = T.alloc_shared((block_M, N1 + N2), dtype)
            T.copy(A[bx * block_M : (bx + 1) * block_M, 0:N1], y[0:block_M, 0:N1])
            T.copy(B[bx * block_M : (bx + 1) * block_M, 0:N2], y[0:block_M, N1 : N1 + N2])
            T.copy(y, Y[bx * block_M, 0])

    return main


@tilelang.jit
def one_hot(N, depth, block=16):
    """Y[i, j] = 1 where Index[i] == j."""

    @T.prim_func
    def main(Index: T.Tensor((N,), "int32"), Y: T.Tensor((N, depth), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            index = T.alloc_shared((block,), "int32")
            y = T.alloc_fragment((block, depth), "float32")
            T.copy(Index[bx * block], index)
            for i, j in T.Parallel(block, depth):
                y[i, j] = T.if_then_else(index[i] == j, 1.0, 0.0)
            T.copy(y, Y[bx * block, 0])

    return main


@tilelang.jit
def top_k_iterative(M, N, K, block_M=4):
    """The k largest of each row, one maximum at a time."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), V: T.Tensor((M, K), "float32"), I: T.Tensor((M, K), "int32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x, best = T.alloc_fragment((block_M, N), "float32"), T.alloc_fragment((block_M,), "float32")
            where, place = T.alloc_fragment((block_M, N), "int32"), T.alloc_fragment((block_M,), "int32")
            T.copy(X[bx * block_M, 0], x)
            for k in T.serial(K):
                T.reduce_max(x, best, dim=1)
                for i, j in T.Parallel(block_M, N):
                    where[i, j] = T.if_then_else(x[i, j] == best[i], N - j, 0)
                T.reduce_max(where, place, dim=1)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = T.if_then_else(N - j == place[i], -T.infinity("float32"), x[i, j])
                for i in T.Parallel(block_M):
                    V[bx * block_M + i, k] = best[i]
                    I[bx * block_M + i, k] = N - place[i]

    return main


@tilelang.jit
def top_k_sorted(M, N, K):
    """The k largest of each row, by the sort of the language."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), V: T.Tensor((M, K), "float32"), I: T.Tensor((M, K), "int32")):
        with T.Kernel(M, threads=128) as bx:
            x, best = T.alloc_shared((N,), "float32"), T.alloc_fragment((K,), "float32")
            place = T.alloc_fragment((K,), "int32")
            T.copy(X[bx, 0], x)
            T.topk(x, best, place)
            T.copy(best, V[bx, 0])
            T.copy(place, I[bx, 0])

    return main


@tilelang.jit
def top_k_bitonic(M, N, K):
    """The k largest of each row of a power of two, by a bitonic network in shared memory."""
    steps = [(1 << s, 1 << t) for s in range(1, N.bit_length()) for t in reversed(range(s))]

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), V: T.Tensor((M, K), "float32"), I: T.Tensor((M, K), "int32")):
        with T.Kernel(M, threads=128) as bx:
            x, index = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "int32")
            T.copy(X[bx, 0], x)
            for i in T.Parallel(N):
                index[i] = i
            for size, stride in steps:
                for b, i in T.Parallel(N // (2 * stride), stride):
                    a, c = x[b * 2 * stride + i], x[b * 2 * stride + i + stride]
                    p, q = index[b * 2 * stride + i], index[b * 2 * stride + i + stride]
                    down = (b * 2 * stride) // size % 2 == 0
                    swap = (a < c) == down
                    x[b * 2 * stride + i] = T.if_then_else(swap, c, a)
                    x[b * 2 * stride + i + stride] = T.if_then_else(swap, a, c)
                    index[b * 2 * stride + i] = T.if_then_else(swap, q, p)
                    index[b * 2 * stride + i + stride] = T.if_then_else(swap, p, q)
            T.copy(x[0:K], V[bx, 0:K])
            T.copy(index[0:K], I[bx, 0:K])

    return main


@tilelang.jit
def atomic_rows(M, N, dtype="float32", form="tile"):
    """Y += sum of the rows of X, one block per row."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(M, threads=128) as bx:
            if form == "tile":
                x = T.alloc_shared((N,), dtype)
                T.copy(X[bx, 0], x)
                T.atomic_add(Y[0], x)
            else:
                for i in T.Parallel(N):
                    T.atomic_add(Y[i], X[bx, i])

    return main


@tilelang.jit
def split_k_sum(M, N, K, block_M=16, block_N=64, op="add"):
    """Y[i, j] op= X[k, i, j] over k, every k in a block of its own."""

    @T.prim_func
    def main(X: T.Tensor((K, M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), K, threads=128) as (bx, by, bz):
            x = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(X[bz, by * block_M, bx * block_N], x)
            if op == "add":
                T.atomic_add(Y[by * block_M, bx * block_N], x)
            elif op == "max":
                T.atomic_max(Y[by * block_M, bx * block_N], x)
            else:
                T.atomic_min(Y[by * block_M, bx * block_N], x)

    return main
