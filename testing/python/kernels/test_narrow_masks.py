"""Masks on scores that cross as float16: before their conversion where that is the same number, behind it elsewhere."""

import re

import numpy as np
import pytest
import strict
from attention_cases import kernel_of

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import BufferStore, dtype_of, scope_of, statements, tirx
from tilelang_ascend.transform import pipeline

M, N, D = 256, 128, 32
INF = float("inf")

# name: (masked score of row i and column j, of a tile of scores and one of zeros and ones; the same in NumPy; is it put on float16 numbers?)
MASKS = {
    "a sum": (
        lambda s, t, i, j: s[i, j] + T.if_then_else(i >= j, 0.0, -T.infinity("float32")),
        lambda s, t, i, j: np.where(i >= j, s, -INF),
        True,
    ),
    "a choice": (
        lambda s, t, i, j: T.if_then_else(i >= j, s[i, j], -T.infinity("float32")),
        lambda s, t, i, j: np.where(i >= j, s, -INF),
        True,
    ),
    "a number": (lambda s, t, i, j: T.if_then_else(i >= j, s[i, j], -10000.0), lambda s, t, i, j: np.where(i >= j, s, -1e4), True),
    "a band": (
        lambda s, t, i, j: T.if_then_else(i - j < 130, T.if_then_else(i >= j, s[i, j], -10000.0), -20000.0),
        lambda s, t, i, j: np.where(i - j < 130, np.where(i >= j, s, -1e4), -2e4),
        True,
    ),
    "a tile": (
        lambda s, t, i, j: T.if_then_else(t[i, j] > 0.5, s[i, j], -T.infinity("float32")),
        lambda s, t, i, j: np.where(t > 0.5, s, -INF),
        True,
    ),
    "too large a number": (lambda s, t, i, j: T.if_then_else(i >= j, s[i, j], -1e9), lambda s, t, i, j: np.where(i >= j, s, -1e9), False),
    "a large sum": (
        lambda s, t, i, j: s[i, j] + T.if_then_else(i >= j, 0.0, -1e9),
        lambda s, t, i, j: np.where(i >= j, s, -1e9),
        False,
    ),
    "a large number added": (
        lambda s, t, i, j: T.if_then_else(i >= j, s[i, j], s[i, j] - 1e9),
        lambda s, t, i, j: np.where(i >= j, s, -1e9),
        False,
    ),
    "a number between two": (lambda s, t, i, j: T.if_then_else(i >= j, s[i, j], -0.1), lambda s, t, i, j: np.where(i >= j, s, -0.1), False),
    "a bias": (lambda s, t, i, j: s[i, j] + T.if_then_else(i >= j, 0.5, 0.0), lambda s, t, i, j: s + np.where(i >= j, 0.5, 0.0), False),
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Also where it takes no less time."""
    monkeypatch.setattr("tilelang_ascend.transform.nests.narrow_masks.LEAST_ELEMENTS", 1)


def kernel(mask):
    @tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    def build():
        @T.prim_func
        def main(
            Q: T.Tensor((M, D), "float16"), K: T.Tensor((N, D), "float16"), A: T.Tensor((M, N), "float32"), P: T.Tensor((M, N), "float32"),
            R: T.Tensor((M,), "float32"),
        ):  # fmt: skip
            with T.Kernel(1, threads=128) as _:
                q, k = T.alloc_shared((M, D), "float16"), T.alloc_shared((N, D), "float16")
                s, p, a = (T.alloc_fragment((M, N), "float32") for _ in range(3))
                m, r = (T.alloc_fragment((M,), "float32") for _ in range(2))
                T.copy(Q, q)
                T.copy(K, k)
                T.copy(A, a)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(M, N):
                    s[i, j] = mask(s, a, i, j)
                T.reduce_max(s, m, dim=1)
                for i, j in T.Parallel(M, N):
                    p[i, j] = T.exp(s[i, j] - m[i])
                T.reduce_sum(p, r, dim=1)
                T.copy(p, P)
                T.copy(r, R)

        return main

    return build()


def on_narrow_numbers(compiled) -> bool:
    """Does something but copies and conversions store to tiles of float16?"""
    lowered = pipeline.lower(
        compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), options=pipeline.Options(fast_math=True), keep_stages=True
    )
    ir = [ir for name, ir in lowered.stages if name == "narrow_masks"][-1]
    stores = [s for s in statements(ir.body) if isinstance(s, BufferStore) and scope_of(s.buffer) == "shared.ub"]
    return any(dtype_of(s.buffer) == "float16" and not isinstance(s.value, tirx.Cast) for s in stores)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    mask, expected, narrow = MASKS[name]
    compiled = kernel(mask)
    assert on_narrow_numbers(compiled) == narrow
    rng = np.random.default_rng(len(name))
    q, k = (rng.normal(size=(n, D)).astype(np.float16) for n in (M, N))
    a = (rng.random((M, N)) < 0.7).astype(np.float32)
    a[:, 0] = 1
    given = {"Q": q, "K": k, "A": a, "P": np.zeros((M, N), np.float32), "R": np.zeros(M, np.float32)}
    out = strict.run(compiled, given, text=name == "a sum")
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    i, j = np.ogrid[:M, :N]
    scores = expected(scores, a, i, j)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    if name.startswith("a large"):
        source = compiled.get_kernel_source()
        assert re.search(r"Select\(.*-1e\+09f", source) and not re.search(r"Adds\(.*1e\+09f", source), "a sum in place of a choice"
    # A score of up to 32 is off by 2^-7 when it crosses, so is the greatest of a row.
    np.testing.assert_allclose(out["P"], p, rtol=2.0**-5, atol=1e-6)
    np.testing.assert_allclose(out["R"], p.sum(axis=1), rtol=2.0**-5)


def test_masks_of_branches_of_which_one_is_taken():
    """Rows behind the last query are asked for where a block has some, and what else is masked, where it has none: a choice in either."""
    make = kernel_of("flash_attention/varlen.py", "flash_attention_varlen")
    fast = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    compiled = tilelang.compile(make(2, 1, 64, 1024, 1024, 512, causal=True, bM=64, bN=64), out_idx=[5], pass_configs=fast)
    source = compiled.get_kernel_source()
    assert len(re.findall(r"Select\(.*-1e\+09f", source)) == 2 and not re.search(r"Adds\(.*1e\+09f", source)


def test_masks_one_behind_the_other():
    """In a row that the first mask hides, the second one still tells apart what it hides."""

    @tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    def build():
        @T.prim_func
        def main(Q: T.Tensor((M, D), "float16"), K: T.Tensor((N, D), "float16"), P: T.Tensor((M, N), "float32")):
            with T.Kernel(1, threads=128) as _:
                q, k = T.alloc_shared((M, D), "float16"), T.alloc_shared((N, D), "float16")
                s, p = (T.alloc_fragment((M, N), "float32") for _ in range(2))
                m = T.alloc_fragment((M,), "float32")
                T.copy(Q, q)
                T.copy(K, k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(M, N):
                    s[i, j] = s[i, j] + T.if_then_else(i >= 4, 0.0, -1e9)
                for i, j in T.Parallel(M, N):
                    s[i, j] = s[i, j] + T.if_then_else(j >= 8, 0.0, -1e9)
                T.reduce_max(s, m, dim=1)
                for i, j in T.Parallel(M, N):
                    p[i, j] = T.exp(s[i, j] - m[i])
                T.copy(p, P)

        return main

    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(n, D)).astype(np.float16) for n in (M, N))
    out = strict.run(build(), {"Q": q, "K": k, "P": np.zeros((M, N), np.float32)})
    scores = (q.astype(np.float32) @ k.astype(np.float32).T)[4:, 8:].astype(np.float64)
    np.testing.assert_allclose(out["P"][4:, 8:], np.exp(scores - scores.max(axis=1, keepdims=True)), rtol=2.0**-5, atol=1e-6)
    assert (out["P"][:, :8] == 0).all() and (out["P"][:4, 8:] == 1).all()
