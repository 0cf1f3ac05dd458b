"""Places that data chooses outside of a tensor: loads read zero, or the tensor's safe value; stores and atomic updates are dropped.

GPU TileLang guards these accesses, and scripts rely on it: tables of blocks and tokens have -1, or their length, where there is none.
"""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(5)
N, BLOCK = 21, 8  # places; those of a block of the grid
WRONG = [-1, -2, 40, 41, 1 << 20, -(1 << 20)]


def places(rows: int, dtype: str, distinct: bool = False) -> np.ndarray:
    """Places in 0 ... `rows` - 1, half of them not."""
    x = RNG.permutation(rows)[:N] if distinct else RNG.integers(0, rows, N)
    wrong = [w if w < 40 else w - 40 + rows for w in WRONG]
    x = np.where(RNG.random(N) < 0.5, RNG.choice(wrong, N), x)
    return x.astype(dtype)


def rows_at(x: np.ndarray, at, outside=0) -> np.ndarray:
    """`x[at]`, `outside` where there is none."""
    at = np.asarray(at, np.int64)
    inside = (at >= 0) & (at < len(x))
    return np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), x[np.clip(at, 0, len(x) - 1)], np.array(outside, x.dtype))


def row_loads(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, width):
                Y[b * BLOCK + i, j] = X[P[b * BLOCK + i], j]

    return main


def shifted_row_loads(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            p = T.alloc_fragment((BLOCK,), index)
            T.copy(P[b * BLOCK], p)
            for i, j in T.Parallel(BLOCK, width):
                Y[b * BLOCK + i, j] = X[p[i] - b, j]

    return main


def guarded_row_loads(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, width):
                at = P[b * BLOCK + i]
                Y[b * BLOCK + i, j] = T.if_then_else(at >= 0, X[at, j], 0)

    return main


def safe_row_loads(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            T.annotate_safe_value({X: 1 if dtype == "bool" else 7})
            for i, j in T.Parallel(BLOCK, width):
                Y[b * BLOCK + i, j] = X[P[b * BLOCK + i], j]

    return main


def copied_rows(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(N) as b:
            s = T.alloc_shared((1, width), dtype)
            T.copy(X[P[b], 0], s)
            T.copy(s, Y[b, 0])

    return main


def serial_row_loads(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((N, width), dtype)):
        with T.Kernel(1):
            for i in T.serial(N):
                for j in T.serial(width):
                    Y[i, j] = X[P[i], j]

    return main


LOADS = {
    "rows": (row_loads, lambda x, p: rows_at(x, p)),
    "shifted": (shifted_row_loads, lambda x, p: rows_at(x, p.astype(np.int64) - np.arange(N) // BLOCK)),
    "guarded": (guarded_row_loads, lambda x, p: rows_at(x, p)),
    "safe": (safe_row_loads, lambda x, p: rows_at(x, p, 1 if x.dtype == bool else 7)),
    "copied": (copied_rows, lambda x, p: rows_at(x, p)),
    "serial": (serial_row_loads, lambda x, p: rows_at(x, p)),
}
SHAPES = [
    (30, 16, "float32", "int32"), (30, 128, "float16", "int64"), (99_999, 16, "float32", "int64"), (99_999, 1, "int8", "int32"),
    (3000, 72, "float16", "int32"), (30, 1, "float32", "int32"), (30, 1, "int64", "int64"), (99_999, 1, "float16", "int32"), (30, 24, "bool", "int32"),
    (9999, 5, "uint8", "int64"), (30, 64, "int8", "int32"), (99_999, 1, "int64", "int64"), (99_999, 1, "bfloat16", "int32")
]  # fmt: skip


def numbers(shape, dtype):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    from ml_dtypes import bfloat16

    return RNG.integers(1, 100, shape).astype(bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("rows, width, dtype, index", SHAPES)
@pytest.mark.parametrize("form", LOADS)
def test_loads(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = LOADS[form]
    x, p = numbers((rows, width), dtype), places(rows, index)
    out = strict.run(tilelang.compile(build(rows, width, dtype, index)), {"X": x, "P": p, "Y": np.zeros((N, width), x.dtype)}, text=False)
    np.testing.assert_array_equal(out["Y"], want(x, p))


def row_stores(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, width):
                if b * BLOCK + i < N:
                    Y[P[b * BLOCK + i], j] = X[b * BLOCK + i, j]

    return main


def shifted_row_stores(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            p = T.alloc_fragment((BLOCK,), index)
            T.copy(P[b * BLOCK], p)
            for i, j in T.Parallel(BLOCK, width):
                if b * BLOCK + i < N:
                    Y[p[i] + 3, j] = X[b * BLOCK + i, j]

    return main


def copied_row_stores(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(N) as b:
            s = T.alloc_shared((1, width), dtype)
            T.copy(X[b, 0], s)
            T.copy(s, Y[P[b], 0])

    return main


def serial_row_stores(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(1):
            for i in T.serial(N):
                for j in T.serial(width):
                    Y[P[i], j] = X[i, j]

    return main


def stored(x, p, rows):
    y = np.zeros((rows, x.shape[1]), x.dtype)
    for a, row in zip(p.astype(np.int64), x):
        if 0 <= a < rows:
            y[a] = row
    return y


STORES = {
    "rows": (row_stores, stored), "shifted": (shifted_row_stores, lambda x, p, rows: stored(x, p.astype(np.int64) + 3, rows)),
    "copied": (copied_row_stores, stored), "serial": (serial_row_stores, stored),
}  # fmt: skip


@pytest.mark.parametrize("rows, width, dtype, index", SHAPES)
@pytest.mark.parametrize("form", STORES)
def test_stores(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = STORES[form]
    x, p = numbers((N, width), dtype), places(rows, index, distinct=True) - (3 if form == "shifted" else 0)
    out = strict.run(tilelang.compile(build(rows, width, dtype, index)), {"X": x, "P": p, "Y": np.zeros((rows, width), x.dtype)}, text=False)
    np.testing.assert_array_equal(out["Y"], want(x, p, rows))


def element_atomics(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, width):
                if b * BLOCK + i < N:
                    T.atomic_add(Y[P[b * BLOCK + i], j], X[b * BLOCK + i, j])

    return main


def conditional_atomics(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, width):
                if b * BLOCK + i < N and X[b * BLOCK + i, j] > 50:
                    T.atomic_add(Y[P[b * BLOCK + i], j], X[b * BLOCK + i, j])

    return main


def serial_atomics(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(1):
            for i in T.serial(N):
                for j in T.serial(width):
                    T.atomic_add(Y[P[i], j], X[i, j])

    return main


def tile_atomics(rows, width, dtype, index):
    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), P: T.Tensor((N,), index), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(N) as b:
            s = T.alloc_shared((1, width), dtype)
            T.copy(X[b, 0], s)
            T.atomic_add(Y[P[b] : P[b] + 1, 0:width], s)

    return main


def added(x, p, rows):
    y = np.zeros((rows, x.shape[1]), x.dtype)
    for a, row in zip(p.astype(np.int64), x):
        if 0 <= a < rows:
            y[a] += row
    return y


ATOMICS = {
    "elements": (element_atomics, added),
    "conditional": (conditional_atomics, lambda x, p, rows: added(np.where(x > 50, x, 0), p, rows)),
    "serial": (serial_atomics, added), "tiles": (tile_atomics, added),
}  # fmt: skip


@pytest.mark.parametrize("rows, width, dtype, index", [s for s in SHAPES if s[2] in ("float32", "float16")])
@pytest.mark.parametrize("form", ATOMICS)
def test_atomics(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = ATOMICS[form]
    x, p = numbers((N, width), dtype), places(rows, index)
    out = strict.run(tilelang.compile(build(rows, width, dtype, index)), {"X": x, "P": p, "Y": np.zeros((rows, width), x.dtype)}, text=False)
    np.testing.assert_array_equal(out["Y"], want(x, p, rows))
