"""Every way a `T.Parallel` body, a copy or scalar code may reach global memory, one small kernel each."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def reversed_copy(N, block=128, dtype="float32"):
    """Y[i] = X[N - 1 - i]."""

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[bx * block + i] = X[N - 1 - (bx * block + i)]

    return main


@tilelang.jit
def every_other(N, step=2, block=128, dtype="float32"):
    """Y[i] = X[step * i + 1]."""

    @T.prim_func
    def main(X: T.Tensor((step * N + 1,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[bx * block + i] = X[step * (bx * block + i) + 1]

    return main


@tilelang.jit
def spread(N, step=3, block=128, dtype="float32"):
    """Y[step * i] = X[i]; the elements in between keep their values."""

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((step * N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[step * (bx * block + i)] = X[bx * block + i]

    return main


@tilelang.jit
def stencil(N, block=128, dtype="float32"):
    """Y[i] = X[i - 1] - 2 X[i] + X[i + 1] inside, 0 at both ends."""

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                n = bx * block + i
                if n < N:
                    Y[n] = T.if_then_else(T.And(n > 0, n < N - 1), X[n - 1] - 2.0 * X[n] + X[n + 1], 0.0)

    return main


@tilelang.jit
def gather(N, M, block=128, dtype="float32"):
    """Y[i] = X[Index[i]]."""

    @T.prim_func
    def main(X: T.Tensor((M,), dtype), Index: T.Tensor((N,), "int32"), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[bx * block + i] = X[Index[bx * block + i]]

    return main


@tilelang.jit
def scatter(N, M, block=128, dtype="float32"):
    """Y[Index[i]] = X[i]."""

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Index: T.Tensor((N,), "int32"), Y: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[Index[bx * block + i]] = X[bx * block + i]

    return main


@tilelang.jit
def transpose_direct(M, N, block=32, dtype="float32"):
    """Y[j, i] = X[i, j] without a tile."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            for i, j in T.Parallel(block, block):
                Y[bx * block + j, by * block + i] = X[by * block + i, bx * block + j]

    return main


@tilelang.jit
def column_store(M, N, block=16, dtype="float32"):
    """Y[:, 3] = row sums of X, a column of a matrix."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, 7), dtype)):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            x, s = T.alloc_fragment((block, N), dtype), T.alloc_fragment((block,), dtype)
            T.copy(X[bx * block, 0], x)
            T.reduce_sum(x, s, dim=1)
            for i in T.Parallel(block):
                Y[bx * block + i, 3] = s[i]

    return main


@tilelang.jit
def column_load(M, N, column, block=16, dtype="float32"):
    """Y = X[:, column]."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i, column] * 2.0

    return main


@tilelang.jit
def row_results(R, N=64, dtype="float32"):
    """Y[r] = max of row r, one row for each block: stores of four bytes by every core, side by side."""

    @T.prim_func
    def main(X: T.Tensor((R, N), dtype), Y: T.Tensor((R,), dtype)):
        with T.Kernel(R, threads=128) as bx:
            x, m = T.alloc_fragment((N,), dtype), T.alloc_fragment((1,), dtype)
            T.copy(X[bx, 0], x)
            T.reduce_max(x, m, dim=0)
            T.copy(m, Y[bx])

    return main


@tilelang.jit
def scalar_stores(R, stride=1, form="index"):
    """Y[stride * r] = r (or a value computed from X), by scalar code of block r."""

    @T.prim_func
    def main(X: T.Tensor((R,), "int32"), Y: T.Tensor((R * stride,), "int32")):
        with T.Kernel(R, threads=128) as bx:
            if form == "index":
                Y[bx * stride] = bx
            else:
                v = T.alloc_var("int32")
                v = X[bx]
                for k in T.serial(3):
                    v = v * 2 + k
                Y[bx * stride] = v

    return main


@tilelang.jit
def runtime_scalars(block=256):
    """Y[i] = a * X[i] + i * step for i < limit, 0 elsewhere."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), a: T.float32, step: T.int32, limit: T.int32):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                n = bx * block + i
                Y[n] = T.if_then_else(n < limit, a * X[n] + T.cast(n * step, "float32"), 0.0)

    return main


@tilelang.jit
def dynamic_rows(N, block_M=4, dtype="float32"):
    """Y = X * 2 with a number of rows known at launch, and the number of rows itself as an operand."""
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, N), dtype)
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * 2.0 + T.cast(M, dtype)
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit
def dynamic_columns(block_M=4, block_N=256, dtype="float32"):
    """Row sums of a matrix of which both sizes are known at launch."""
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            total = T.alloc_fragment((block_M,), dtype)
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                T.reduce_sum(x, total, dim=1, clear=False)
            T.copy(total, Y[bx * block_M])

    return main


@tilelang.jit
def through_workspace(M, N, dtype="float32"):
    """Y = 2 (X + 1) with X + 1 parked in device memory of the kernel in between."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=128) as bx:
            parked = T.alloc_global((M, N), dtype)
            x = T.alloc_shared((N,), dtype)
            T.copy(X[bx, 0], x)
            for j in T.Parallel(N):
                x[j] = x[j] + 1.0
            T.copy(x, parked[bx, 0])
            T.copy(parked[bx, 0], x)
            for j in T.Parallel(N):
                x[j] = x[j] * 2.0
            T.copy(x, Y[bx, 0])

    return main


@tilelang.jit
def previous_row(M, N, dtype="float32"):
    """Rows of Y from rows of Y above them: a store to global memory read back by the next iteration."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((N,), dtype), T.alloc_shared((N,), dtype)
            T.copy(X[0, 0], x)
            T.copy(x, Y[0, 0])
            for r in T.serial(1, M):
                T.copy(Y[r - 1, 0], y)
                T.copy(X[r, 0], x)
                for j in T.Parallel(N):
                    y[j] = y[j] * 0.5 + x[j]
                T.copy(y, Y[r, 0])

    return main


@tilelang.jit
def histogram(N, bins, block=64):
    """Count[x] += 1 for every x."""

    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Count: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(Count[X[bx * block + i]], 1)

    return main


@tilelang.jit
def atomic_totals(M, N, op="add", block_M=8, dtype="float32"):
    """Total[0] op= all elements of X, Rows[i] op= X[i, :]: many iterations update one element."""
    update = {"add": T.atomic_add, "max": T.atomic_max, "min": T.atomic_min}[op]

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Total: T.Tensor((1,), dtype), Rows: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), dtype)
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                if bx * block_M + i < M:
                    update(Total[0], x[i, j])
                    update(Rows[bx * block_M + i], x[i, j])

    return main


@tilelang.jit
def atomic_scalars(R):
    """Count[0] += r and Count[1] += X[r] by scalar code of block r."""

    @T.prim_func
    def main(X: T.Tensor((R,), "float32"), Count: T.Tensor((2,), "float32")):
        with T.Kernel(R, threads=128) as bx:
            T.atomic_add(Count[0], T.cast(bx, "float32"))
            T.atomic_add(Count[1], X[bx])

    return main


@tilelang.jit
def split_k_gemm(M, N, K, parts, block=32):
    """C += A @ B, K divided between blocks."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), parts, threads=128) as (bx, by, bz):
            a, b = T.alloc_shared((block, block), "float16"), T.alloc_shared((block, block), "float16")
            c, c_shared = T.alloc_fragment((block, block), "float32"), T.alloc_shared((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(K // parts // block, num_stages=2):
                T.copy(A[by * block, (bz * (K // parts // block) + k) * block], a)
                T.copy(B[(bz * (K // parts // block) + k) * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, c_shared)
            T.atomic_add(C[by * block, bx * block], c_shared)

    return main


@tilelang.jit
def masked_store(n, width=40, dtype="float32"):
    """Y[i] = X[i] for i < n out of one tile of `width`."""

    @T.prim_func
    def main(X: T.Tensor((width,), dtype), Y: T.Tensor((width,), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((width,), dtype)
            T.copy(X, x)
            for i in T.Parallel(width):
                if i < n:
                    Y[i] = x[i]

    return main


@tilelang.jit
def insert_columns(M, N, first, dtype="float16"):
    """Y[:, first : first + N] = X through one wide tile, the rest zero."""
    width = N + first + 5

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, width), dtype)):
        with T.Kernel(1, threads=128):
            y = T.alloc_shared((M, width), dtype)
            T.clear(y)
            T.copy(X[0:M, 0:N], y[0:M, first : first + N])
            T.copy(y, Y)

    return main


@tilelang.jit
def cut_columns(M, N, first, width, dtype="float16"):
    """Y = X[:, first : first + width] out of one wide tile."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, width), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((M, N), dtype)
            T.copy(X, x)
            T.copy(x[0:M, first : first + width], Y)

    return main


@tilelang.jit
def debug(N):
    """Y = X + 1 with a print and an assertion on the way."""

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            x = T.alloc_shared((N,), "float32")
            T.copy(X, x)
            T.print(bx, msg="block")
            T.print(x, msg="tile")
            T.device_assert(x[0] < 100, "too large")
            if bx == 0:
                for i in T.Parallel(N):
                    x[i] = x[i] + 1.0
                T.copy(x, Y)

    return main
