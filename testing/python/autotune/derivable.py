"""Kernels whose tile sizes are parameters with defaults, and others that only look like it."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128, dtype="float16"):
    """C = A @ B."""

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


@tilelang.jit
def gemm_eager(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    """The same, eager, with all transfers of one step in flight."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        b = T.alloc_shared((block_K, block_N), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@tilelang.jit(out_idx=[-1])
def gemm_persistent(M, N, K, programs=8, block=64):
    """A grid of `programs` blocks that share square tiles."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(programs, threads=128) as program:
            a = T.alloc_shared((block, K), "float16")
            b = T.alloc_shared((K, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            for turn in T.serial(T.ceildiv(T.ceildiv(M, block) * T.ceildiv(N, block), programs)):
                tile = turn * programs + program
                if tile < T.ceildiv(M, block) * T.ceildiv(N, block):
                    by = tile // T.ceildiv(N, block)
                    bx = tile % T.ceildiv(N, block)
                    T.copy(A[by * block, 0], a)
                    T.copy(B[0, bx * block], b)
                    T.gemm(a, b, c, clear_accum=True)
                    T.copy(c, C[by * block, bx * block])

    return main


@tilelang.jit(out_idx=[3])
def attention(heads, seq, dim, kv_heads=2, causal=False, scale=0.125, block_M=32, block_N=32, stages=1, dtype="float16"):
    """softmax(Q @ K^T * scale) @ V; `kv_heads` is a shape of tensors."""

    @T.prim_func
    def main(
        Q: T.Tensor((heads, seq, dim), dtype),
        K: T.Tensor((kv_heads, seq, dim), dtype),
        V: T.Tensor((kv_heads, seq, dim), dtype),
        O: T.Tensor((heads, seq, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, threads=128) as (bx, by):
            q = T.alloc_shared((block_M, dim), dtype)
            k = T.alloc_shared((block_N, dim), dtype)
            v = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            cast = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[by, bx * block_M : (bx + 1) * block_M, :], q)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            end = T.ceildiv((bx + 1) * block_M, block_N) if causal else T.ceildiv(seq, block_N)
            for step in T.Pipelined(T.min(end, T.ceildiv(seq, block_N)), num_stages=stages):
                T.copy(K[by // (heads // kv_heads), step * block_N : (step + 1) * block_N, :], k)
                for i, j in T.Parallel(block_M, block_N):
                    if causal:
                        scores[i, j] = T.if_then_else(bx * block_M + i >= step * block_N + j, 0, -T.infinity("float32"))
                    else:
                        scores[i, j] = T.if_then_else(step * block_N + j < seq, 0, -T.infinity("float32"))
                T.gemm(q, k, scores, transpose_B=True)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(before[i] * scale - top[i] * scale) + part[i]
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= T.exp(before[i] * scale - top[i] * scale)
                T.copy(scores, cast)
                T.copy(V[by // (heads // kv_heads), step * block_N : (step + 1) * block_N, :], v)
                T.gemm(cast, v, out)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, O[by, bx * block_M : (bx + 1) * block_M, :])

    return main


@tilelang.jit(out_idx=[-1])
def softmax(M, N, rows=8):
    """Softmax of whole rows."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / top[i]
            T.copy(x, Y[bx * rows, 0])

    return main


@tilelang.jit
def add(A, B, block_M: int = 16, block_N: int = 64):
    """A + B, eager, from tensor to tensor."""
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[M, N], T.float32]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            C[by * block_M + i, bx * block_N + j] = A[by * block_M + i, bx * block_N + j] + B[by * block_M + i, bx * block_N + j]
    return C


@tilelang.jit(out_idx=[-1])
def add_dynamic(block=1024):
    """X + 1 of any length."""
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            tile = T.alloc_shared((block,), "float32")
            T.copy(X[bx * block], tile)
            for i in T.Parallel(block):
                tile[i] = tile[i] + 1.0
            T.copy(tile, Y[bx * block])

    return main


@tilelang.jit(out_idx=[-1])
def reversed_blocks(n, block=64):
    """X + 1, the last tile first."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((block,), "float32")
            for k in T.serial(T.ceildiv(n, block)):
                T.copy(X[(T.ceildiv(n, block) - 1 - k) * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] + 1.0
                T.copy(tile, Y[(T.ceildiv(n, block) - 1 - k) * block])

    return main


@tilelang.jit(out_idx=[-1])
def looks_tunable(n, batch=2, factor=3, repeats=4, window=64, flag=False, share=0.5, block=None, dtype="int32"):
    """None of its parameters is a schedule: a shape, a factor, a number of iterations, a limit."""

    @T.prim_func
    def main(X: T.Tensor((batch, n), dtype), Y: T.Tensor((batch, n), dtype)):
        with T.Kernel(batch, threads=128) as b:
            tile = T.alloc_shared((n,), dtype)
            T.copy(X[b, 0:n], tile)
            for _ in T.serial(repeats):
                for i in T.Parallel(n):
                    tile[i] = T.if_then_else(i < window, tile[i] * factor, tile[i])
            T.copy(tile, Y[b, 0:n])

    return main


@tilelang.jit
def dequantize(Q, S, group: int = 64, rows: int = 16):
    """One factor for each `group` elements of a row: a tile's width, and what the factors mean."""
    M, N, G = T.const("M, N, G")
    Q: T.Tensor[[M, N], T.float32]
    S: T.Tensor[[M, G], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, group), T.ceildiv(M, rows), threads=128) as (bx, by):
        q = T.alloc_shared((rows, group), T.float32)
        s = T.alloc_fragment((rows, 1), T.float32)
        T.copy(Q[by * rows, bx * group], q)
        T.copy(S[by * rows : (by + 1) * rows, bx : bx + 1], s)
        for i, j in T.Parallel(rows, group):
            q[i, j] = q[i, j] * s[i, 0]
        T.copy(q, Y[by * rows, bx * group])
    return Y


@tilelang.jit(out_idx=[-1])
def mean_of_tiles(n, block=64):
    """The mean of each tile in all its elements: the tile's extent is part of the arithmetic."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            tile = T.alloc_fragment((1, block), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx * block : (bx + 1) * block], tile[0, :])
            T.reduce_sum(tile, total, dim=1)
            for i, j in T.Parallel(1, block):
                tile[i, j] = total[i] / block
            T.copy(tile[0, :], Y[bx * block : (bx + 1) * block])

    return main


@tilelang.jit(out_idx=[-1])
def picky(n, block=64):
    """X + 1 for some tiles only."""
    assert block % 64 == 0 and block < 1000

    return add_dynamic.func(block) if n is None else reversed_blocks.func(n, block)


@tilelang.jit(out_idx=[-1])
def add_while(n, programs=4, block=64):
    """X + 1; each block takes tiles until there is none."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(programs, threads=128) as program:
            tile = T.alloc_shared((block,), "float32")
            at = T.alloc_var("int32", init=program)
            while at * block < n:
                T.copy(X[at * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] + 1.0
                T.copy(tile, Y[at * block])
                at += programs

    return main


@tilelang.jit(out_idx=[-1])
def add_ragged(total, parts, block=64):
    """X + 1 for parts whose bounds are in a tensor."""

    @T.prim_func
    def main(X: T.Tensor((total,), "float32"), Bounds: T.Tensor((parts + 1,), "int32"), Y: T.Tensor((total,), "float32")):
        with T.Kernel(parts, threads=128) as part:
            tile = T.alloc_shared((block,), "float32")
            first = Bounds[part]
            length = Bounds[part + 1] - first
            for k in T.serial(T.ceildiv(length, block)):
                for i in T.Parallel(block):
                    if k * block + i < length:
                        tile[i] = X[first + k * block + i]
                for i in T.Parallel(block):
                    if k * block + i < length:
                        Y[first + k * block + i] = tile[i] + 1.0

    return main


@tilelang.jit(out_idx=[2])
def convolution(H, W, C, F, pad=1, block=64, step=32):
    """An implicit product of patches; `pad` is an attribute of an operation, and of the shape of the result."""
    rows, columns = H + 2 * pad - 2, W + 2 * pad - 2

    @T.prim_func
    def main(X: T.Tensor((1, H, W, C), "float16"), Filters: T.Tensor((9 * C, F), "float16"), Y: T.Tensor((rows * columns, F), "float32")):
        with T.Kernel(T.ceildiv(rows * columns, block), threads=128) as bx:
            x = T.alloc_shared((block, step), "float16")
            f = T.alloc_shared((step, F), "float16")
            y = T.alloc_fragment((block, F), "float32")
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(9 * C, step), num_stages=2):
                T.c2d_im2col(X, x, bx, k, 3, 1, 1, pad)
                T.copy(Filters[k * step, 0], f)
                T.gemm(x, f, y)
            T.copy(y, Y[bx * block, 0])

    return main


@tilelang.jit(out_idx=[-1])
def rounded_in_groups(M, N, group=32, inside=False):
    """Numbers rounded to 8 bits with a scale for each group of a row, which the grid, or a loop of each block, goes through."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(1 if inside else T.ceildiv(N, group), T.ceildiv(M, 16)) as (bx, by):
            x = T.alloc_shared((16, group), "float32")
            top = T.alloc_fragment((16,), "float32")
            for k in T.serial(T.ceildiv(N, group) if inside else 1):
                T.copy(X[by * 16, (bx + k) * group], x)
                T.reduce_absmax(x, top, dim=1)
                for i, j in T.Parallel(16, group):
                    x[i, j] = T.round(x[i, j] / top[i] * 127.0) * top[i] / 127.0
                T.copy(x, Y[by * 16, (bx + k) * group])

    return main


@tilelang.jit(out_idx=[-1])
def totals(M, N, block=256, how="variable"):
    """Sums of rows, of which each tile gives a part: to a tile, through a name to a scalar, to a tensor atomically."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        if how == "atomic":
            with T.Kernel(T.ceildiv(N, block), M) as (bx, by):
                x = T.alloc_shared((1, block), "float32")
                s = T.alloc_fragment((1,), "float32")
                T.copy(X[by, bx * block], x)
                T.reduce_sum(x, s, dim=1)
                T.atomic_add(Y[by], s[0])
        else:
            with T.Kernel(M) as by:
                x = T.alloc_shared((1, block), "float32")
                s = T.alloc_fragment((1,), "float32")
                total = T.alloc_fragment((1,), "float32")
                best = T.alloc_var("float32")
                T.clear(total)
                best = 0.0
                for k in T.serial(T.ceildiv(N, block)):
                    T.copy(X[by, k * block], x)
                    T.reduce_sum(x, s, dim=1)
                    if how == "tile":
                        for i in T.Parallel(1):
                            total[i] = total[i] + s[i]
                    else:
                        found = s[0]
                        best = best + found
                Y[by] = total[0] if how == "tile" else best

    return main
