"""Kernels whose blocks work through tiles by a loop of their own: who has which rows, and how many there are, is said by names of quotients."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Evaluate, TensorRegion, const_int, op_name, statements
from tilelang_ascend.transform import pipeline

F16, F32 = "float16", "float32"
BLOCKS, BATCH, PARTS, ROWS, KEYS, DIM = 3, 2, 4, 16, 32, 32
RNG = np.random.default_rng(0)


def scores(step=ROWS, blocks=BLOCKS):
    """Y[b, p * step : + ROWS] = row softmax of X[b, p * step : + ROWS] @ K[b]^T, one after the other."""
    tiles = BATCH * PARTS

    @T.prim_func
    def kernel(
        X: T.Tensor((BATCH, PARTS * ROWS, DIM), F16),
        K: T.Tensor((BATCH, KEYS, DIM), F16),
        Y: T.Tensor((BATCH, PARTS * ROWS, KEYS), F32),
        R: T.Tensor((BATCH, PARTS * ROWS), F32),
    ):
        with T.Kernel(blocks, threads=128) as block:
            x, k = T.alloc_shared((ROWS, DIM), F16), T.alloc_shared((KEYS, DIM), F16)
            s, m = T.alloc_fragment((ROWS, KEYS), F32), T.alloc_fragment((ROWS,), F32)
            for w in T.serial(T.ceildiv(tiles, blocks)):
                tile = blocks * w + block
                b = tile // PARTS
                p = tile % PARTS
                first = p * step
                end = p * step + ROWS
                if b < BATCH and p < PARTS:
                    T.copy(X[b, first:end, :], x)
                    T.copy(K[b, :, :], k)
                    T.gemm(x, k, s, transpose_B=True, clear_accum=True)
                    T.reduce_max(s, m, dim=1)
                    for i, j in T.Parallel(ROWS, KEYS):
                        s[i, j] = T.exp(s[i, j] - m[i])
                    T.copy(s, Y[b, first:end, :])
                    T.copy(m, R[b, first:end])

    return kernel


def expected(x, k, step):
    y, r = np.zeros((BATCH, PARTS * ROWS, KEYS)), np.zeros((BATCH, PARTS * ROWS))
    for b in range(BATCH):
        for p in range(PARTS):
            rows = slice(p * step, p * step + ROWS)
            found = x[b, rows].astype(np.float64) @ k[b].astype(np.float64).T
            r[b, rows] = found.max(1)
            y[b, rows] = np.exp(found - found.max(1, keepdims=True))
    return y, r


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("step", [ROWS, ROWS // 2])
def test_rows_of_tiles(step, chip):
    """Rows of a tile are those of another one, or none of them is; where tiles of a block overlap, the later one counts."""
    compiled = tilelang.compile(scores(step, BLOCKS if step == ROWS else 1), target=chip)
    alone = any("one of the two vector cores does all vector work" in note for note in compiled.artifact.notes)
    assert alone == (step != ROWS)
    x, k = RNG.standard_normal((BATCH, PARTS * ROWS, DIM)).astype(np.float16), RNG.standard_normal((BATCH, KEYS, DIM)).astype(np.float16)
    given = {"X": x, "K": k, "Y": np.zeros((BATCH, PARTS * ROWS, KEYS), np.float32), "R": np.zeros((BATCH, PARTS * ROWS), np.float32)}
    got = strict.run(compiled, given)
    for name, want in zip("YR", expected(x, k, step)):
        np.testing.assert_allclose(got[name], want, rtol=2e-5, atol=2e-5)


def test_slices_between_names_have_as_many_rows_as_these_are_apart():
    lowered = pipeline.lower(tilelang.compile(scores()).artifact.tile_ir, get_chip("a2"), keep_stages=True)
    body = next(ir for name, ir in lowered.stages if name == "known_extents").body
    regions = [a for s in statements(body) if isinstance(s, Evaluate) and op_name(s) for a in s.value.args if isinstance(a, TensorRegion)]
    assert regions and all(const_int(x.extent) is not None for r in regions for x in r.region)
