"""Kernels of the catalogue that reduce rows: sums, softmax, norms, quantisation, running sums."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def reduce_sum(M, N, dtype="float32", block_M=4):
    """Y[i] = sum of X[i, :], accumulated in float32."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, N), dtype)
            wide = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                wide[i, j] = T.cast(x[i, j], "float32")
            T.reduce_sum(wide, total, dim=1)
            T.copy(total, Y[bx * block_M])

    return main


@tilelang.jit
def reduce_max(B, M, N, dtype="float16", block_M=64):
    """Y[b, i] = max of X[b, i, :]."""

    @T.prim_func
    def main(X: T.Tensor((B, M, N), dtype), Y: T.Tensor((B, M), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), B, threads=128) as (bx, by):
            x = T.alloc_fragment((block_M, N), dtype)
            y = T.alloc_fragment((block_M,), dtype)
            T.copy(X[by, bx * block_M, 0], x)
            T.reduce_max(x, y, dim=1)
            T.copy(y, Y[by, bx * block_M])

    return main


@tilelang.jit
def reduce_max_axis(B, M, N, axis, block_M=16):
    """Max of X[b, i, j] over b (axis 0) or over i (axis 1)."""
    shape = (M, N) if axis == 0 else (B, N)

    @T.prim_func
    def main(X: T.Tensor((B, M, N), "float32"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(T.ceildiv(M, block_M) if axis == 0 else B, threads=128) as bx:
            if axis == 0:
                x, y = T.alloc_fragment((B, block_M, N), "float32"), T.alloc_fragment((block_M, N), "float32")
                T.copy(X[0, bx * block_M, 0], x)
                T.reduce_max(x, y, dim=0)
                T.copy(y, Y[bx * block_M, 0])
            else:
                x, y = T.alloc_fragment((block_M, N), "float32"), T.alloc_fragment((N,), "float32")
                T.fill(y, -T.infinity("float32"))
                for i in T.Pipelined(T.ceildiv(M, block_M), num_stages=2):
                    rows = T.min(block_M, M - i * block_M)
                    T.copy(X[bx, i * block_M, 0], x)
                    for r, j in T.Parallel(block_M, N):
                        x[r, j] = T.if_then_else(r < rows, x[r, j], -T.infinity("float32"))
                    T.reduce_max(x, y, dim=0, clear=False)
                T.copy(y, Y[bx, 0])

    return main


@tilelang.jit
def softmax(M, N, dtype="float16", block_M=2):
    """Softmax of whole rows."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest, total = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit
def softmax_online(M, N, dtype="float32", block_M=8, block_N=1024):
    """Softmax of rows that do not fit: running maximum and sum over column tiles, then a second pass."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), "float32")
            e = T.alloc_fragment((block_M, block_N), "float32")
            largest, before = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            total, part = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.if_then_else(k * block_N + j < N, x[i, j], -T.infinity("float32"))
                T.copy(largest, before)
                T.reduce_max(x, largest, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    e[i, j] = T.exp(x[i, j] - largest[i])
                T.reduce_sum(e, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(before[i] - largest[i]) + part[i]
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - largest[i]) / total[i]
                T.copy(x, Y[bx * block_M, k * block_N])

    return main


@tilelang.jit
def softmax_dynamic(H, D, block_H=4):
    """Softmax over the last dimension of X[b, h, 1, d] with a batch known at launch only."""
    B = T.dynamic("B")

    @T.prim_func
    def main(X: T.Tensor((B, H, 1, D), "float32"), Y: T.Tensor((B, H, 1, D), "float32")):
        with T.Kernel(T.ceildiv(H, block_H), B, threads=128) as (bx, by):
            x = T.alloc_fragment((block_H, D), "float32")
            largest, total = T.alloc_fragment((block_H,), "float32"), T.alloc_fragment((block_H,), "float32")
            T.copy(X[by, bx * block_H : (bx + 1) * block_H, 0, 0:D], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block_H, D):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_H, D):
                x[i, j] /= total[i]
            T.copy(x, Y[by, bx * block_H : (bx + 1) * block_H, 0, 0:D])

    return main


@tilelang.jit
def rms_norm(M, N, dtype="float32", eps=1e-5, block_M=2):
    """Y = X / sqrt(mean(X^2) + eps) * G, whole rows."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x, squares = T.alloc_fragment((block_M, N), "float32"), T.alloc_fragment((block_M, N), "float32")
            gain, scale = T.alloc_fragment((N,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.copy(G, gain)
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = T.rsqrt(scale[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * scale[i] * gain[j]
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit
def rms_norm_split(M, N, dtype="float32", eps=1e-5, block_M=4, block_N=1024):
    """The same for rows of any length, in column tiles."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            gain = T.alloc_shared((block_N,), dtype)
            squares = T.alloc_fragment((block_M, block_N), "float32")
            y = T.alloc_fragment((block_M, block_N), dtype)
            total, part = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    squares[i, j] = T.cast(x[i, j], "float32") * T.cast(x[i, j], "float32")
                T.reduce_sum(squares, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] += part[i]
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + eps)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                T.copy(G[k * block_N], gain)
                for i, j in T.Parallel(block_M, block_N):
                    y[i, j] = T.cast(x[i, j], "float32") * total[i] * T.cast(gain[j], "float32")
                T.copy(y, Y[bx * block_M, k * block_N])

    return main


@tilelang.jit
def layer_norm(M, N, dtype="float32", eps=1e-5, block_M=2):
    """Y = (X - mean) / sqrt(variance + eps) * G + B, whole rows, two passes over the tile."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x, squares = T.alloc_fragment((block_M, N), "float32"), T.alloc_fragment((block_M, N), "float32")
            gain, bias = T.alloc_fragment((N,), "float32"), T.alloc_fragment((N,), "float32")
            mean, scale = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.copy(G, gain)
            T.copy(B, bias)
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] -= mean[i] / N
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * T.rsqrt(scale[i] / N + eps) * gain[j] + bias[j]
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit
def layer_norm_split(M, N, dtype="float32", eps=1e-5, block_M=4, block_N=256):
    """Layer norm of rows of any length: sums of x and x^2 over column tiles, then a second pass."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), G: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x, squares = T.alloc_fragment((block_M, block_N), "float32"), T.alloc_fragment((block_M, block_N), "float32")
            gain, bias = T.alloc_fragment((block_N,), "float32"), T.alloc_fragment((block_N,), "float32")
            first, second = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.clear(first)
            T.clear(second)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(x, first, dim=1, clear=False)
                T.reduce_sum(squares, second, dim=1, clear=False)
            for i in T.Parallel(block_M):
                first[i] = first[i] / N
                second[i] = T.rsqrt(second[i] / N - first[i] * first[i] + eps)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                T.copy(G[k * block_N], gain)
                T.copy(B[k * block_N], bias)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = (x[i, j] - first[i]) * second[i] * gain[j] + bias[j]
                T.copy(x, Y[bx * block_M, k * block_N])

    return main


@tilelang.jit
def batch_norm(B, C, L, eps=1e-5, block_C=2):
    """Per-channel normalisation of X[b, c, l] with its statistics."""

    @T.prim_func
    def main(
        X: T.Tensor((B, C, L), "float32"),
        Y: T.Tensor((B, C, L), "float32"),
        Mean: T.Tensor((C,), "float32"),
        Inv: T.Tensor((C,), "float32"),
    ):
        with T.Kernel(T.ceildiv(C, block_C), threads=128) as bx:
            x = T.alloc_fragment((block_C, L), "float32")
            first, second = T.alloc_fragment((block_C, L), "float32"), T.alloc_fragment((block_C, L), "float32")
            mean, inv = T.alloc_fragment((block_C,), "float32"), T.alloc_fragment((block_C,), "float32")
            T.clear(first)
            T.clear(second)
            for b in T.serial(B):
                T.copy(X[b, bx * block_C, 0], x)
                for i, j in T.Parallel(block_C, L):
                    first[i, j] += x[i, j]
                    second[i, j] += x[i, j] * x[i, j]
            T.reduce_sum(first, mean, dim=1)
            T.reduce_sum(second, inv, dim=1)
            for i in T.Parallel(block_C):
                mean[i] = mean[i] / (B * L)
                inv[i] = T.rsqrt(inv[i] / (B * L) - mean[i] * mean[i] + eps)
            T.copy(mean, Mean[bx * block_C])
            T.copy(inv, Inv[bx * block_C])
            for b in T.serial(B):
                T.copy(X[b, bx * block_C, 0], x)
                for i, j in T.Parallel(block_C, L):
                    x[i, j] = (x[i, j] - mean[i]) * inv[i]
                T.copy(x, Y[b, bx * block_C, 0])

    return main


@tilelang.jit
def dynamic_quant(M, N, block_M=4):
    """Rows of X scaled to int8 by their largest magnitude, and the scales."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float16"), Q: T.Tensor((M, N), "int8"), S: T.Tensor((M,), "float16")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            q = T.alloc_fragment((block_M, N), "int8")
            largest, scale = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_absmax(x, largest, dim=1)
            for i in T.Parallel(block_M):
                scale[i] = largest[i] / 127.0
            for i, j in T.Parallel(block_M, N):
                q[i, j] = T.cast(T.round(x[i, j] * (127.0 / largest[i])), "int8")
            T.copy(q, Q[bx * block_M, 0])
            T.copy(scale, S[bx * block_M])

    return main


@tilelang.jit
def cumsum(M, N, reverse=False, dim=1, block_M=4):
    """Running sums along `dim` of a tile of whole rows (dim 1) or of the whole matrix (dim 0)."""
    rows = block_M if dim == 1 else M

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_shared((rows, N), "float32")
            T.copy(X[bx * rows, 0], x)
            T.cumsum(x, dim=dim, reverse=reverse)
            T.copy(x, Y[bx * rows, 0])

    return main
