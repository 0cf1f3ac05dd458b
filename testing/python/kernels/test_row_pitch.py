"""Rows of tiles in UB are padded to blocks of the smallest dtype among the tiles they meet in a statement, not to those of the whole kernel."""

import re

import ml_dtypes
import numpy as np
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(8)


def test_tiles_that_never_meet_bytes_are_not_padded_for_them():
    @T.prim_func
    def k(
        X: T.Tensor((256, 2), "float32"), Y: T.Tensor((256, 2), "float32"), B: T.Tensor((64, 32), "int8"), C: T.Tensor((64, 32), "float16")
    ):
        with T.Kernel(1):
            narrow = T.alloc_shared((256, 2), "float32")
            bytes_, halves = T.alloc_shared((64, 32), "int8"), T.alloc_shared((64, 32), "float16")
            T.copy(X, narrow)
            T.copy(B, bytes_)
            for i, j in T.Parallel(256, 2):
                narrow[i, j] = narrow[i, j] * 2 + 1
            for i, j in T.Parallel(64, 32):
                halves[i, j] = bytes_[i, j] * 3
            T.copy(narrow, Y)
            T.copy(halves, C)

    x, b = RNG.standard_normal((256, 2)).astype(np.float32), RNG.integers(-128, 128, (64, 32)).astype(np.int8)
    arrays = {"X": x, "Y": np.zeros_like(x), "B": b, "C": np.zeros((64, 32), np.float16)}
    for target in ("a2", "a5"):
        kernel = tilelang.compile(k, target=target)
        out = strict.run(kernel, arrays)
        np.testing.assert_array_equal(out["Y"], x * 2 + 1)
        np.testing.assert_array_equal(out["C"], (b.astype(np.int32) * 3).astype(np.float16))
        (size,) = re.findall(r"narrow +\d+ +\d+ x (\d+)", str(kernel.memory_map()))
        assert int(size) == 256 * 8 * 4


def test_scores_of_8_bit_floats_with_a_row_for_each_key_fit():
    """An indexer with keys along the rows: sums of two queries each are narrow."""
    heads, dim, block, keys, queries = 64, 128, 256, 300, 4
    each = 128 // heads

    @T.prim_func
    def k(
        Q: T.Tensor((queries * heads, dim), "float8_e4m3fn"), K: T.Tensor((keys, dim), "float8_e4m3fn"), S: T.Tensor((keys,), "float32"),
        W: T.Tensor((queries, heads), "float32"), L: T.Tensor((queries, keys), "float32"), First: T.Tensor((queries,), "int32"),
        End: T.Tensor((queries,), "int32"),
    ):  # fmt: skip
        with T.Kernel(queries // each) as bx:
            q = T.alloc_shared((each * heads, dim), "float8_e4m3fn")
            keys_of_step = T.alloc_shared((block, dim), "float8_e4m3fn")
            scale = T.alloc_fragment((block,), "float32")
            s = T.alloc_fragment((block, each * heads), "float32")
            by_head = T.reshape(s, (block, each, heads))
            logits = T.alloc_fragment((block, each), "float32")
            w = T.alloc_fragment((each, heads), "float32")
            low, high = T.alloc_var("int32"), T.alloc_var("int32")
            low = 2147483647
            high = -2147483648
            for j in T.serial(each):
                low = T.min(low, T.min(First[bx * each + j], keys))
            for j in T.serial(each):
                high = T.max(high, T.min(End[bx * each + j], keys))
            T.copy(Q[bx * each * heads, 0], q)
            T.copy(W[bx * each, 0], w)
            for n in T.Pipelined(T.ceildiv(high - low, block), num_stages=3):
                T.copy(K[low + n * block, 0], keys_of_step)
                T.copy(S[low + n * block], scale)
                T.gemm(keys_of_step, q, s, transpose_B=True, clear_accum=True)
                for i, j, h in T.Parallel(block, each, heads):
                    by_head[i, j, h] = T.max(by_head[i, j, h] * scale[i], 0) * w[j, h]
                T.reduce_sum(by_head, logits, dim=-1, clear=True)
                for j, i in T.Parallel(each, block):
                    L[bx * each + j, low + n * block + i] = logits[i, j]

    q, key = (RNG.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((queries * heads, dim), (keys, dim)))
    scale, w = RNG.random(keys).astype(np.float32), RNG.standard_normal((queries, heads)).astype(np.float32)
    scores = (key.astype(np.float64) @ q.astype(np.float64).T).reshape(keys, queries, heads)
    want = (np.maximum(scores * scale[:, None, None], 0) * w).sum(-1).T
    first, end = np.array([0, 3, 37, 40], np.int32), np.array([300, 280, 290, 299], np.int32)
    arrays = {"Q": q, "K": key, "S": scale, "W": w, "L": np.zeros((queries, keys), np.float32), "First": first, "End": end}
    out = strict.run(tilelang.compile(k, target="a2"), arrays)
    want[2:, :37] = 0
    np.testing.assert_allclose(out["L"], want, rtol=1e-4, atol=1e-3)
