"""Rows chosen by data are loaded where they are wanted, unless what is there says which rows they are, or is needed besides."""

import attention_cases as cases
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import AllocBuffer, Call, const_int, op_name, scope_of, statements
from tilelang_ascend.ir.functions import fixed_bytes
from tilelang_ascend.isa.base import Space
from tilelang_ascend.transform import pipeline

ROWS, TABLE, DIM = 16, 40, 64
RNG = np.random.default_rng(0)


def gather(kind: str, dtype="float32"):
    @T.prim_func
    def kernel(
        W: T.Tensor((TABLE, DIM), dtype),
        I: T.Tensor((ROWS,), "int32"),
        X: T.Tensor((2 * ROWS, DIM), dtype),
        Y: T.Tensor((2 * ROWS, DIM), dtype),
    ):
        with T.Kernel(1):
            idx, t = T.alloc_shared((ROWS,), "int32"), T.alloc_shared((2 * ROWS, DIM), dtype)
            T.copy(I, idx)
            T.copy(X, t)
            if kind == "whole":
                for i, j in T.Parallel(ROWS, DIM):
                    t[i, j] = W[idx[i], j]
            elif kind == "lower half":
                for i, j in T.Parallel(ROWS, DIM):
                    t[ROWS + i, j] = W[idx[i], j]
            elif kind == "every other row":
                for i, j in T.Parallel(ROWS, DIM):
                    t[2 * i, j] = W[idx[i], j]
            elif kind == "columns":
                for i, j in T.Parallel(ROWS, DIM // 2):
                    t[i, 8 + j] = W[idx[i], j]
            elif kind == "sum":
                for i, j in T.Parallel(ROWS, DIM):
                    t[i, j] = W[idx[i], j] + t[i, j]
            elif kind == "sum with others":
                for i, j in T.Parallel(ROWS, DIM):
                    t[i, j] = W[idx[i], j] + t[ROWS + i, j]
            elif kind == "its own":
                for i, j in T.Parallel(ROWS, DIM):
                    t[i, j] = W[t[ROWS + i, 0], j]
            elif kind == "read before":
                for i, j in T.Parallel(ROWS, DIM):
                    t[ROWS + i, j] = t[i, j]
                    t[i, j] = W[idx[i], j]
            elif kind == "guarded":
                for i, j in T.Parallel(ROWS, DIM):
                    if j % 3 == 0:
                        t[i, j] = W[idx[i], j]
            T.copy(t, Y)

    return kernel


def expected(kind, w, idx, x):
    y = x.copy()
    found = np.where(((idx >= 0) & (idx < TABLE))[:, None], w[np.clip(idx, 0, TABLE - 1)], 0)
    top = y[:ROWS]
    if kind == "whole":
        top[:] = found
    elif kind == "lower half":
        y[ROWS:] = found
    elif kind == "every other row":
        y[::2] = found
    elif kind == "columns":
        top[:, 8 : 8 + DIM // 2] = found[:, : DIM // 2]
    elif kind == "sum":
        top += found
    elif kind == "sum with others":
        top[:] = found + x[ROWS:]
    elif kind == "its own":
        top[:] = w[x[ROWS:, 0]]
    elif kind == "read before":
        y[ROWS:], top[:] = x[:ROWS], found
    elif kind == "guarded":
        top[:, ::3] = found[:, ::3]
    return y


KINDS = ["whole", "lower half", "every other row", "columns", "sum", "sum with others", "read before", "guarded"]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(
    "kind, dtype", [*((kind, "float32") for kind in KINDS), ("whole", "float16"), ("lower half", "int8"), ("its own", "int32")]
)
def test_rows(kind, dtype, inside):
    low, high = (0, TABLE) if inside else (-20, TABLE + 20)
    idx = RNG.integers(low, high, ROWS).astype(np.int32)
    w, x = (RNG.integers(0, TABLE, shape).astype(dtype) for shape in ((TABLE, DIM), (2 * ROWS, DIM)))
    given = {"W": w, "I": idx, "X": x, "Y": np.zeros((2 * ROWS, DIM), dtype)}
    got = strict.run(tilelang.compile(gather(kind, dtype)), given)["Y"]
    np.testing.assert_array_equal(got, expected(kind, w, idx, x))


@pytest.mark.parametrize("kind", ["whole", "lower half"])
def test_nothing_is_copied_where_rows_can_be_loaded(kind):
    (function,) = tilelang.compile(gather(kind)).artifact.ascend_ir.functions.values()
    called = [op_name(s) for s in statements(function.body) if isinstance(getattr(s, "value", None), Call)]
    assert "ascend.copy_gm_to_ub" in called and "ascend.copy_ub_to_ub" not in called


def test_room_that_tiles_sharing_addresses_leave():
    """Of keys that are gathered part by part, the next part comes while one is on its way out, though all tiles together are larger than UB."""
    kernel = cases.kernel_of("sparse_attention/gathered.py", "sparse_mla")(1, 1, 1 << 16, 128, 512, 64, 2048, BI=64, block_H=64)
    compiled = tilelang.compile(kernel, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip("a2"), options=pipeline.Options(fast_math=True), keep_stages=True)
    versioned = [ir for name, ir in lowered.stages if name == "version_buffers"][-1]
    tiles = [s.buffer for s in statements(versioned.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "shared.ub"]
    assert sum(map(fixed_bytes, tiles)) > get_chip("a2").capacity_bytes(Space.UB)
    assert [const_int(b.ty.shape[0]) for b in tiles if b.name == "KV_shared_ub"] == [2]
