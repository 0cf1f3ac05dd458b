"""Matrix products of the catalogue and what stands behind them: K20, K23, K30 to K34, K40, K41."""

import tilelang_ascend.language as T

F32, F16, BF16, I8, I32 = "float32", "float16", "bfloat16", "int8", "int32"


def matmul(m, n, k, bM, bN, bK, dtype=F16, out=F32, relu=False):
    """K30, K31: out(A @ B), or its positive part."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, bN), T.ceildiv(m, bM), threads=128) as (bx, by):
            a, b = T.alloc_shared((bM, bK), dtype), T.alloc_shared((bK, bN), dtype)
            c = T.alloc_fragment((bM, bN), F32)
            T.clear(c)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=2):
                T.copy(A[by * bM, kk * bK], a)
                T.copy(B[kk * bK, bx * bN], b)
                T.gemm(a, b, c)
            if relu:
                for i, j in T.Parallel(bM, bN):
                    c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[by * bM, bx * bN])

    return main


def chained(m, n, dtype=F16):
    """K32: dtype(A @ B) @ B of a square B."""

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((n, n), dtype), C: T.Tensor((m, n), F32)):
        with T.Kernel(1, threads=128):
            a, b, p = T.alloc_shared((m, n), dtype), T.alloc_shared((n, n), dtype), T.alloc_shared((m, n), dtype)
            first, second = T.alloc_fragment((m, n), F32), T.alloc_fragment((m, n), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, first, clear_accum=True)
            T.copy(first, p)
            T.gemm(p, b, second, clear_accum=True)
            T.copy(second, C)

    return main


def batched(batch, m, n, k, bM=64, bN=64, bK=64):
    """K33: A @ B of every batch."""

    @T.prim_func
    def main(A: T.Tensor((batch, m, k), F16), B: T.Tensor((batch, k, n), F16), C: T.Tensor((batch, m, n), F32)):
        with T.Kernel(T.ceildiv(n, bN), T.ceildiv(m, bM), batch, threads=128) as (bx, by, bz):
            a, b = T.alloc_shared((bM, bK), F16), T.alloc_shared((bK, bN), F16)
            c = T.alloc_fragment((bM, bN), F32)
            T.clear(c)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=2):
                T.copy(A[bz, by * bM, kk * bK], a)
                T.copy(B[bz, kk * bK, bx * bN], b)
                T.gemm(a, b, c)
            T.copy(c, C[bz, by * bM, bx * bN])

    return main


def quantised(m, n, k, scale_a, scale_b, bM=64, bN=64, bK=64):
    """K34: the product of bytes, in int32, times the scales of both."""

    @T.prim_func
    def main(A: T.Tensor((m, k), I8), B: T.Tensor((k, n), I8), C: T.Tensor((m, n), F16)):
        with T.Kernel(T.ceildiv(n, bN), T.ceildiv(m, bM), threads=128) as (bx, by):
            a, b = T.alloc_shared((bM, bK), I8), T.alloc_shared((bK, bN), I8)
            c, y = T.alloc_fragment((bM, bN), I32), T.alloc_fragment((bM, bN), F16)
            T.clear(c)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=2):
                T.copy(A[by * bM, kk * bK], a)
                T.copy(B[kk * bK, bx * bN], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(bM, bN):
                y[i, j] = T.cast(c[i, j], F32) * scale_a * scale_b
            T.copy(y, C[by * bM, bx * bN])

    return main


def product_softmax(m, n, k, bM=32, bK=64):
    """K23: the softmax of the rows of A @ B."""

    @T.prim_func
    def main(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), D: T.Tensor((m, n), F32)):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            a, b = T.alloc_shared((bM, bK), F16), T.alloc_shared((bK, n), F16)
            c, d = T.alloc_fragment((bM, n), F32), T.alloc_fragment((bM, n), F32)
            most, total = T.alloc_fragment((bM,), F32), T.alloc_fragment((bM,), F32)
            T.clear(c)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=2):
                T.copy(A[bx * bM, kk * bK], a)
                T.copy(B[kk * bK, 0], b)
                T.gemm(a, b, c)
            T.reduce_max(c, most, dim=1)
            for i, j in T.Parallel(bM, n):
                d[i, j] = T.exp(c[i, j] - most[i])
            T.reduce_sum(d, total, dim=1)
            for i, j in T.Parallel(bM, n):
                d[i, j] = d[i, j] / total[i]
            T.copy(d, D[bx * bM, 0])

    return main


def ffn(tokens, dim, hidden, bM=32, bH=64):
    """K40: (silu(X @ W1) * (X @ W3)) @ W2, blocks of the hidden layer in turn."""

    @T.prim_func
    def main(
        X: T.Tensor((tokens, dim), BF16), W1: T.Tensor((dim, hidden), BF16), W3: T.Tensor((dim, hidden), BF16),
        W2: T.Tensor((hidden, dim), BF16), Y: T.Tensor((tokens, dim), BF16),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(tokens, bM), threads=128) as bx:
            x, w2, p = T.alloc_shared((bM, dim), BF16), T.alloc_shared((bH, dim), BF16), T.alloc_shared((bM, bH), BF16)
            w1, w3 = T.alloc_shared((dim, bH), BF16), T.alloc_shared((dim, bH), BF16)
            gate, up, y = T.alloc_fragment((bM, bH), F32), T.alloc_fragment((bM, bH), F32), T.alloc_fragment((bM, dim), F32)
            T.copy(X[bx * bM, 0], x)
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(hidden, bH), num_stages=2):
                T.copy(W1[0, k * bH], w1)
                T.copy(W3[0, k * bH], w3)
                T.copy(W2[k * bH, 0], w2)
                T.gemm(x, w1, gate, clear_accum=True)
                T.gemm(x, w3, up, clear_accum=True)
                for i, j in T.Parallel(bM, bH):
                    p[i, j] = gate[i, j] / (1 + T.exp(-gate[i, j])) * up[i, j]
                T.gemm(p, w2, y)
            T.copy(y, Y[bx * bM, 0])

    return main


def indexer_prolog(tokens, hidden, rank, heads, dim, rope, rows, bT=16, bK=64):
    """K20: what comes in front of an indexer, in one launch. Blocks of a head each make its queries, two more the keys and the weights of heads.

    Keys go to the rows of a cache that `Slots` lists.
    """
    half, factor = rope // 2, float(heads) ** -0.5 * float(dim) ** -0.5

    @T.prim_func
    def main(
        Qn: T.Tensor((tokens, rank), I8), Qs: T.Tensor((tokens,), F32), Wq: T.Tensor((rank, heads * dim), I8), Wqs: T.Tensor((heads * dim,), F32),
        X: T.Tensor((tokens, hidden), BF16), Wk: T.Tensor((hidden, dim), BF16), Gain: T.Tensor((dim,), F32), Bias: T.Tensor((dim,), F32),
        Wp: T.Tensor((hidden, heads), BF16), Cos: T.Tensor((tokens, rope), BF16), Sin: T.Tensor((tokens, rope), BF16),
        Hq: T.Tensor((dim, dim), BF16), Hk: T.Tensor((dim, dim), BF16), Slots: T.Tensor((tokens,), I32),
        Q: T.Tensor((tokens, heads, dim), I8), Q_scale: T.Tensor((tokens, heads), F16), Cache: T.Tensor((rows, dim), I8),
        Cache_scale: T.Tensor((rows,), F16), W: T.Tensor((tokens, heads), F16),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(tokens, bT), heads + 2, threads=128) as (bt, bh):
            a_bytes, b_bytes = T.alloc_shared((bT, bK), I8), T.alloc_shared((bK, dim), I8)
            a, b, wp = T.alloc_shared((bT, bK), BF16), T.alloc_shared((bK, dim), BF16), T.alloc_shared((bK, heads), BF16)
            h, turned = T.alloc_shared((dim, dim), BF16), T.alloc_shared((bT, dim), BF16)
            whole, acc, weights = T.alloc_fragment((bT, dim), I32), T.alloc_fragment((bT, dim), F32), T.alloc_fragment((bT, heads), F32)
            y, z, square = T.alloc_fragment((bT, dim), F32), T.alloc_fragment((bT, dim), F32), T.alloc_fragment((bT, dim), F32)
            narrow, product = T.alloc_fragment((bT, dim), BF16), T.alloc_fragment((bT, dim), BF16)
            narrow_weights = T.alloc_fragment((bT, heads), BF16)
            most, mean, var = T.alloc_fragment((bT,), F32), T.alloc_fragment((bT,), F32), T.alloc_fragment((bT,), F32)
            codes = T.alloc_fragment((bT, dim), I8)
            if bh <= heads:
                if bh < heads:
                    T.copy(Hq, h)
                    T.clear(whole)
                    for k in T.Pipelined(T.ceildiv(rank, bK), num_stages=2):
                        T.copy(Qn[bt * bT, k * bK], a_bytes)
                        T.copy(Wq[k * bK, bh * dim], b_bytes)
                        T.gemm(a_bytes, b_bytes, whole)
                    for i, j in T.Parallel(bT, dim):
                        narrow[i, j] = T.cast(whole[i, j], F32) * Qs[bt * bT + i] * Wqs[bh * dim + j]
                else:
                    T.copy(Hk, h)
                    T.clear(acc)
                    for k in T.Pipelined(T.ceildiv(hidden, bK), num_stages=2):
                        T.copy(X[bt * bT, k * bK], a)
                        T.copy(Wk[k * bK, 0], b)
                        T.gemm(a, b, acc)
                    T.reduce_sum(acc, mean, dim=1)
                    for i, j in T.Parallel(bT, dim):
                        y[i, j] = acc[i, j] - mean[i] / dim
                    for i, j in T.Parallel(bT, dim):
                        square[i, j] = y[i, j] * y[i, j]
                    T.reduce_sum(square, var, dim=1)
                    for i, j in T.Parallel(bT, dim):
                        narrow[i, j] = y[i, j] * T.rsqrt(var[i] / dim + 1e-6) * Gain[j] + Bias[j]
                for i, j in T.Parallel(bT, dim):
                    y[i, j] = narrow[i, j]
                for i, j in T.Parallel(bT, half):
                    turned[i, j] = y[i, j] * Cos[bt * bT + i, j] - y[i, j + half] * Sin[bt * bT + i, j]
                for i, j in T.Parallel(bT, half):
                    turned[i, j + half] = y[i, j + half] * Cos[bt * bT + i, j + half] + y[i, j] * Sin[bt * bT + i, j + half]
                for i, j in T.Parallel(bT, dim - rope):
                    turned[i, j + rope] = y[i, j + rope]
                T.gemm(turned, h, z, clear_accum=True)
                T.copy(z, product)
                for i, j in T.Parallel(bT, dim):
                    z[i, j] = product[i, j]
                T.reduce_absmax(z, most, dim=1)
                for i, j in T.Parallel(bT, dim):
                    codes[i, j] = T.cast(T.round(z[i, j] * (127.0 / T.max(most[i], 1e-12))), I8)
                if bh < heads:
                    T.copy(codes, Q[bt * bT : (bt + 1) * bT, bh, :])
                    for i in T.Parallel(bT):
                        Q_scale[bt * bT + i, bh] = most[i] / 127.0
                else:
                    for i, j in T.Parallel(bT, dim):
                        if bt * bT + i < tokens:
                            Cache[Slots[bt * bT + i], j] = codes[i, j]
                    for i in T.Parallel(bT):
                        if bt * bT + i < tokens:
                            Cache_scale[Slots[bt * bT + i]] = most[i] / 127.0
            else:
                T.clear(weights)
                for k in T.Pipelined(T.ceildiv(hidden, bK), num_stages=2):
                    T.copy(X[bt * bT, k * bK], a)
                    T.copy(Wp[k * bK, 0], wp)
                    T.gemm(a, wp, weights)
                T.copy(weights, narrow_weights)
                for i, j in T.Parallel(bT, heads):
                    weights[i, j] = T.cast(narrow_weights[i, j], F32) * factor
                T.copy(weights, W[bt * bT, 0])

    return main
