"""An attention loop with a running maximum, and variations of it that may, or may not, take several of its steps at a time."""

from __future__ import annotations

import math

import numpy as np

import tilelang_ascend.language as T

F32 = "float32"
M, N, KEYS, DIM = 16, 16, 256, 32
LOG2E = 1.44269504
C = 0.25


def split(variant: str) -> tuple[bool, str]:
    """(is the number of steps known at run time only, what is left of the name): "numbers bias" is "bias" with the steps of `n` keys."""
    return variant.startswith("numbers"), variant.removeprefix("numbers").strip()


def forward(variant="", keys=KEYS, dtype="float16", rows=M, block=N):
    """O, L, X (rows, DIM), (rows), (rows): the output before the division, its weights, and the last maximum; Q (rows, DIM), K and V (keys, DIM),
    W (rows, keys) a factor or bias of each score, S (keys / block) of each step; n: how many keys there are, for `lengths`."""
    numbers, variant = split(variant)
    exp = T.exp2 if "natural" not in variant else T.exp

    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, DIM), dtype),
        K: T.Tensor((keys, DIM), dtype),
        V: T.Tensor((keys, DIM), dtype),
        W: T.Tensor((rows, keys), F32),
        S: T.Tensor((keys // block,), F32),
        O: T.Tensor((rows, DIM), F32),
        L: T.Tensor((rows,), F32),
        X: T.Tensor((rows,), F32),
        P: T.Tensor((rows, keys), F32),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128) as _:
            q = T.alloc_shared((rows, DIM), dtype)
            k_s = T.alloc_shared((block, DIM), dtype)
            v_s = T.alloc_shared((block, DIM), dtype)
            if variant != "tiles of a step":
                s = T.alloc_fragment((rows, block), F32)
            w = T.alloc_fragment((rows, block), F32)
            p = T.alloc_fragment((rows, block), dtype)
            p8 = T.alloc_fragment((rows, block), "int8")
            o = T.alloc_fragment((rows, DIM), F32)
            o2 = T.alloc_fragment((rows, DIM), F32)
            m = T.alloc_fragment((rows,), F32)
            before = T.alloc_fragment((rows,), F32)
            safe = T.alloc_fragment((rows,), F32)
            scale = T.alloc_fragment((rows,), F32)
            total = T.alloc_fragment((rows,), F32)
            length = T.alloc_fragment((rows,), F32)
            T.copy(Q, q)
            T.clear(o)
            T.clear(o2)
            T.clear(length)
            T.clear(total)
            T.clear(safe)
            T.fill(m, -T.infinity(F32) if variant != "least" else T.infinity(F32))
            steps = T.ceildiv(n, block) if numbers or "lengths" in variant else keys // block
            for k in T.Pipelined(steps, num_stages=2):
                if variant == "tiles of a step":
                    s = T.alloc_fragment((rows, block), F32)
                T.copy(K[k * block : (k + 1) * block, :], k_s)
                if "lengths" in variant:
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(k * block + j < n, 0, -T.infinity(F32))
                elif "masked" in variant:
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(k * block + j >= i * 8, 0, -T.infinity(F32))
                elif variant == "guarded scores":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(k * block + j >= i * 8, 0, -T.infinity(F32))
                elif variant == "columns of a step":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(j < 8, 0, -T.infinity(F32))
                else:
                    T.clear(s)
                T.gemm(q, k_s, s, transpose_B=True)
                if variant in ("bias", "factor", "bias behind the maximum"):
                    T.copy(W[:, k * block : (k + 1) * block], w)
                if variant == "bias":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.tanh(s[i, j] / 8) * 8 + w[i, j]
                if variant == "step's bias":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = s[i, j] + S[k]
                T.copy(m, before)
                if variant == "scaled":
                    T.reduce_max(s, m, dim=1)
                    for i in T.Parallel(rows):
                        m[i] = T.max(before[i], m[i] * C)
                elif variant == "least":
                    T.reduce_min(s, m, dim=1, clear=False)
                elif variant == "forgetting":
                    T.reduce_max(s, m, dim=1)
                    for i in T.Parallel(rows):
                        m[i] = T.max(before[i] - 1, m[i])
                elif variant == "carried guard":
                    T.reduce_max(s, m, dim=1, clear=False)
                    for i in T.Parallel(rows):
                        m[i] = T.if_then_else(m[i] == -T.infinity(F32), 0, m[i])
                else:
                    T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(rows):
                    if "masked" in variant or "lengths" in variant or variant == "guarded scores":
                        safe[i] = T.if_then_else(m[i] == -T.infinity(F32), 0, m[i])
                    else:
                        safe[i] = m[i]
                for i in T.Parallel(rows):
                    if variant == "scaled":
                        scale[i] = exp(before[i] - safe[i])
                    elif variant == "other base":
                        scale[i] = T.exp((before[i] - safe[i]) * C)
                    elif variant == "other factor":
                        scale[i] = exp((before[i] - safe[i]) * (2 * C))
                    elif variant == "negative":
                        scale[i] = exp((before[i] - safe[i]) * -C)
                    elif variant == "not scaled":
                        scale[i] = 1.0
                    else:
                        scale[i] = exp((before[i] - safe[i]) * C)
                for i, j in T.Parallel(rows, block):
                    if variant == "scaled":
                        s[i, j] = exp(s[i, j] * C - safe[i])
                    elif variant == "negative":
                        s[i, j] = exp(s[i, j] * -C + safe[i] * C)
                    elif variant == "bias behind the maximum":
                        s[i, j] = exp((s[i, j] + w[i, j] - safe[i]) * C)
                    elif variant == "guarded scores":
                        s[i, j] = exp((T.if_then_else(s[i, j] == -T.infinity(F32), 0, s[i, j]) - safe[i]) * C)
                    elif variant == "older maximum":
                        s[i, j] = exp((s[i, j] - before[i]) * C)
                    elif variant == "selected":
                        s[i, j] = T.if_then_else(k * block + j < i * 16 + 8, exp((s[i, j] - safe[i]) * C), 0)
                    else:
                        s[i, j] = exp((s[i, j] - safe[i]) * C)
                if variant == "of one step":
                    T.clear(length)
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(rows):
                    length[i] = length[i] * scale[i] + total[i]
                if variant == "factor":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = s[i, j] * w[i, j]
                if variant == "step's factor":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = s[i, j] * S[k]
                if variant == "stored":
                    T.copy(s, P[:, k * block : (k + 1) * block])
                if variant == "left behind":
                    T.copy(s, w)
                if variant == "weights of before":
                    T.copy(V[k * block : (k + 1) * block, :], v_s)
                    T.gemm(p, v_s, o)
                if variant == "integers":
                    for i, j in T.Parallel(rows, block):
                        p8[i, j] = T.cast(s[i, j] * 100, "int8")
                    for i, j in T.Parallel(rows, block):
                        p[i, j] = T.cast(p8[i, j], dtype)
                else:
                    T.copy(s, p)
                if variant == "divided":
                    for i, j in T.Parallel(rows, block):
                        p[i, j] = s[i, j] / length[i]
                for i, j in T.Parallel(rows, DIM):
                    o[i, j] *= scale[i]
                    if variant == "two outputs":
                        o2[i, j] *= scale[i]
                if variant == "changes":
                    for i in T.Parallel(rows):
                        safe[i] = safe[i] + T.if_then_else(m[i] == before[i], 0.0, 1.0)
                T.copy(V[k * block : (k + 1) * block, :], v_s)
                T.gemm(p, v_s, o)
                if variant in ("two outputs", "second not scaled"):
                    T.gemm(p, k_s, o2)
                if variant == "leaves":
                    if S[k] > 2:
                        T.loop_break()
            if variant in ("two outputs", "second not scaled"):
                for i, j in T.Parallel(rows, DIM):
                    o[i, j] = o[i, j] + o2[i, j]
            if variant == "changes":
                T.copy(safe, m)
            if variant == "last factor":
                T.copy(scale, m)
            if variant == "left behind":
                T.reduce_sum(w, m, dim=1)
            T.copy(o, O)
            T.copy(length, L)
            T.copy(m, X)

    return kernel


def transposed(keys=KEYS, dtype="float16"):
    """The same with keys along the rows of the scores, and two products for them: O (DIM, M), L (M)."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((M, DIM), dtype),
        K: T.Tensor((keys, DIM), dtype),
        V: T.Tensor((keys, DIM), dtype),
        O: T.Tensor((DIM, M), F32),
        L: T.Tensor((M,), F32),
    ):
        with T.Kernel(1, threads=128) as _:
            q = T.alloc_shared((M, DIM), dtype)
            k_s = T.alloc_shared((N, DIM), dtype)
            v_s = T.alloc_shared((N, DIM), dtype)
            s = T.alloc_fragment((N, M), F32)
            p = T.alloc_fragment((N, M), dtype)
            o = T.alloc_fragment((DIM, M), F32)
            m = T.alloc_fragment((M,), F32)
            before = T.alloc_fragment((M,), F32)
            total = T.alloc_fragment((M,), F32)
            length = T.alloc_fragment((M,), F32)
            T.copy(Q, q)
            T.clear(o)
            T.clear(length)
            T.fill(m, -T.infinity(F32))
            for k in T.Pipelined(keys // N, num_stages=2):
                T.copy(K[k * N : (k + 1) * N, :], k_s)
                T.clear(s)
                T.gemm(k_s, q, s, transpose_B=True)
                T.copy(m, before)
                T.reduce_max(s, m, dim=0, clear=False)
                for j, i in T.Parallel(N, M):
                    s[j, i] = T.exp2(s[j, i] * C - m[i] * C)
                T.reduce_sum(s, total, dim=0)
                for i in T.Parallel(M):
                    length[i] = length[i] * T.exp2(before[i] * C - m[i] * C) + total[i]
                T.copy(s, p)
                for d, i in T.Parallel(DIM, M):
                    o[d, i] = o[d, i] * T.exp2(before[i] * C - m[i] * C)
                T.copy(V[k * N : (k + 1) * N, :], v_s)
                T.gemm(v_s, p, o, transpose_A=True)
            T.copy(o, O)
            T.copy(length, L)

    return kernel


def plain_sum(keys=KEYS, dtype="float16"):
    """O (M, DIM) = (Q K^T)^2 V under a causal mask, with no maximum."""

    @T.prim_func
    def kernel(Q: T.Tensor((M, DIM), dtype), K: T.Tensor((keys, DIM), dtype), V: T.Tensor((keys, DIM), dtype), O: T.Tensor((M, DIM), F32)):
        with T.Kernel(1, threads=128) as _:
            q = T.alloc_shared((M, DIM), dtype)
            k_s = T.alloc_shared((N, DIM), dtype)
            v_s = T.alloc_shared((N, DIM), dtype)
            s = T.alloc_fragment((M, N), F32)
            p = T.alloc_fragment((M, N), dtype)
            o = T.alloc_fragment((M, DIM), F32)
            T.copy(Q, q)
            T.clear(o)
            for k in T.Pipelined(keys // N, num_stages=2):
                T.copy(K[k * N : (k + 1) * N, :], k_s)
                T.clear(s)
                T.gemm(q, k_s, s, transpose_B=True)
                for i, j in T.Parallel(M, N):
                    p[i, j] = T.if_then_else(i * 8 >= k * N + j, s[i, j] * s[i, j] / 64, 0)
                T.copy(V[k * N : (k + 1) * N, :], v_s)
                T.gemm(p, v_s, o)
            T.copy(o, O)

    return kernel


def reference(given: dict, variant: str, block=N) -> dict:
    """What the variants that may be merged compute, in float64: O and L relative to the maximum X."""
    q, k, v, w = (given[name].astype(np.float64) for name in "QKVW")
    numbers, variant = split(variant)
    if numbers:
        there = -(-given["n"] // block) * block
        k, v, w = k[:there], v[:there], w[:, :there]
    scores = q @ k.T
    if variant == "bias":
        scores = np.tanh(scores / 8) * 8 + w
    rows, keys = np.indices(scores.shape)
    keep = keys < given["n"] if "lengths" in variant else keys >= rows * 8 if "masked" in variant else np.ones_like(keys, bool)
    scores = np.where(keep, scores, -np.inf)
    c = C if "natural" not in variant else C * LOG2E
    greatest = scores.max(1, initial=-np.inf)
    weights = np.exp2((scores - np.where(np.isfinite(greatest), greatest, 0)[:, None]) * c)
    if variant == "selected":
        weights = np.where(keys < rows * 16 + 8, weights, 0)
    length = weights.sum(1)
    weights = weights * w if variant == "factor" else weights
    out = weights @ v
    if variant == "two outputs":
        out = out + weights @ k
    return {
        "O": out,
        "L": length,
        "X": greatest * (C if variant == "scaled" else 1),
        "size": abs(weights) @ (abs(v) + abs(k)) + math.ulp(1),
    }
