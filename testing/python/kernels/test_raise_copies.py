"""Loops over elements that only move the tiles of the cube core are copies: whatever way of writing them, whatever is outside of a tensor."""

from functools import lru_cache

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32, I32 = "float16", "float32", "int32"
TILE, COLUMNS, K = 32, 48, 64
"""Rows and columns of a tile of the result, and what is summed up over."""

LOADS = {
    "copy": True,
    "plain": True,
    "chosen": True,
    "branches": True,
    "number": True,
    "serial": True,
    "from the second row": True,
    "in order of columns": True,
    "in halves": True,
    "next to each other": False,
    "negative zero": False,
    "by way of a tile": False,
    "other value": False,
    "transposed": False,
    "gathered": False,
    "twice": False,
    "own condition": False,
}
"""Ways to load an operand -> whether the cube core does so alone."""
STORES = {
    "copy": True,
    "plain": True,
    "guarded": True,
    "limited rows": True,
    "limited columns": False,
    "first block only": True,
    "named": True,
    "staged": True,
    "two tensors": True,
    "add": True,
    "add guarded": True,
    "add limited": True,
    "rows by data": True,
    "one row up": True,
    "part": True,
    "onto what is there": False,
    "scaled": False,
    "transposed": False,
    "every second row": False,
    "diagonal": False,
    "chosen by data": False,
}


@lru_cache(maxsize=None)
def kernel(load, store, rows=3 * TILE, columns=2 * COLUMNS, dtype=F16, out=F32):
    """C = A @ B, tile by tile; `limit` of the rows (or columns) of each tile where the way to store asks for it."""
    height = rows if store != "transposed" else columns
    width = columns if store != "transposed" else rows

    @T.prim_func
    def k(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((K, columns), dtype),
        L: T.Tensor((4,), I32),
        C: T.Tensor((2 * height if store == "every second row" else height, width), out),
        D: T.Tensor((rows, columns), out),
        limit: T.int32,
    ):
        with T.Kernel(-(-columns // COLUMNS), -(-rows // TILE)) as (x, y):
            a, b = T.alloc_shared((TILE, K), dtype), T.alloc_shared((K, COLUMNS), dtype)
            c, s = T.alloc_fragment((TILE, COLUMNS), F32), T.alloc_shared((TILE, COLUMNS), out)
            e = T.alloc_shared((TILE, K), dtype)
            r, q = y * TILE, x * COLUMNS
            if load == "copy":
                T.copy(A[r, 0], a)
            elif load == "plain":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = A[r + i, j]
            elif load == "chosen":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = T.if_then_else(r + i < rows, A[r + i, j], 0)
            elif load == "branches":
                for i, j in T.Parallel(TILE, K):
                    if r + i < rows:
                        a[i, j] = A[r + i, j]
                    else:
                        a[i, j] = 0
            elif load == "number":
                for n in T.Parallel(TILE * K):
                    a[n // K, n % K] = A[r + n // K, n % K]
            elif load == "serial":
                for i in T.serial(TILE):
                    for j in T.serial(K):
                        a[i, j] = A[r + i, j]
            elif load == "from the second row":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = A[r + i - 1, j]
            elif load == "in order of columns":
                for j, i in T.Parallel(K, TILE):
                    a[i, j] = A[r + i, j]
            elif load == "in halves":
                for i, j in T.Parallel(TILE // 2, K):
                    a[i, j] = A[r + i, j]
                for i, j in T.Parallel(TILE // 2, K):
                    a[TILE // 2 + i, j] = A[r + TILE // 2 + i, j]
            elif load == "next to each other":
                for i, j in T.Parallel(TILE, 24):
                    a[i, j] = A[r + i, j]
                for i, j in T.Parallel(TILE, K - 24):
                    a[i, j + 24] = A[r + i, j + 24]
            elif load == "negative zero":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = T.if_then_else(r + i < rows, A[r + i, j], -0.0)
            elif load == "by way of a tile":
                for i, j in T.Parallel(TILE, K):
                    e[i, j] = A[r + i, j] * 2
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = e[i, j]
            elif load == "other value":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = T.if_then_else(r + i < rows, A[r + i, j], 1)
            elif load == "transposed":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = T.if_then_else(r + j < rows, T.if_then_else(i < K, A[r + j, i], 0), 0)
            elif load == "gathered":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = A[(r + i) * 7 % rows, j]
            elif load == "twice":
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = A[r + i, j] + A[r + i, j]
            elif load == "own condition":
                T.fill(a, 1)
                for i, j in T.Parallel(TILE, K):
                    if r + i < limit:
                        a[i, j] = A[r + i, j]
            for i, j in T.Parallel(K, COLUMNS):
                b[i, j] = B[i, q + j]
            if store == "onto what is there":
                for i, j in T.Parallel(TILE, COLUMNS):
                    c[i, j] = C[r + i, q + j]
            T.gemm(a, b, c, clear_accum=store != "onto what is there")
            if store == "copy":
                T.copy(c, C[r, q])
            elif store == "plain":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i, q + j] = c[i, j]
            elif store == "guarded":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if r + i < rows and q + j < columns:
                        C[r + i, q + j] = c[i, j]
            elif store == "limited rows":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if i < limit:
                        C[r + i, q + j] = c[i, j]
            elif store == "limited columns":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if limit > j:
                        C[r + i, q + j] = c[i, j]
            elif store == "first block only":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if x < limit:
                        if r + i < rows:
                            C[r + i, q + j] = c[i, j]
            elif store == "named":
                for i, j in T.Parallel(TILE, COLUMNS):
                    row = r + i
                    C[row, q + j] = c[i, j]
            elif store == "staged":
                T.copy(c, s)
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i, q + j] = s[i, j]
            elif store == "two tensors":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i, q + j] = c[i, j]
                    D[r + i, q + j] = c[i, j]
            elif store == "add":
                for i, j in T.Parallel(TILE, COLUMNS):
                    T.atomic_add(C[r + i, q + j], c[i, j])
            elif store == "add guarded":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if r + i < rows:
                        T.atomic_add(C[r + i, q + j], c[i, j])
            elif store == "add limited":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if i < limit:
                        T.atomic_add(C[r + i, q + j], c[i, j])
            elif store == "rows by data":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[(y + L[0]) * TILE + i, q + j] = c[i, j]
            elif store == "one row up":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i - 1, q + j] = c[i, j]
            elif store == "part":
                for i, j in T.Parallel(TILE // 2, COLUMNS // 3):
                    C[r + 2 + i, q + 1 + j] = c[i + 8, j + 16]
            elif store == "onto what is there":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i, q + j] = c[i, j]
            elif store == "scaled":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[r + i, q + j] = c[i, j] * 2
            elif store == "transposed":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[q + j, r + i] = c[i, j]
            elif store == "every second row":
                for i, j in T.Parallel(TILE, COLUMNS):
                    C[2 * (r + i), q + j] = c[i, j]
            elif store == "diagonal":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if i <= j:
                        C[r + i, q + j] = c[i, j]
            elif store == "chosen by data":
                for i, j in T.Parallel(TILE, COLUMNS):
                    if L[i % 4] < limit:
                        C[r + i, q + j] = c[i, j]

    return k


def expected(load, store, arrays, limit):
    """C and D."""
    a, b = arrays["A"].astype(np.float32), arrays["B"].astype(np.float32)
    (rows, _), columns = a.shape, b.shape[1]
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if load == "from the second row":
        a = np.concatenate([np.zeros_like(a[:1]), a[:-1]])
    if load == "transposed":
        tiles = [np.zeros((TILE, K), np.float32) for _ in range(-(-rows // TILE))]
        for y, tile in enumerate(tiles):
            part = a[y * TILE : y * TILE + K, :TILE].T
            tile[:, : part.shape[1]] = part
        a = np.concatenate(tiles)[:rows]
    if load == "gathered":
        a = a[np.arange(rows) * 7 % rows]
    if load in ("twice", "by way of a tile"):
        a = 2 * a
    if load == "own condition":
        a = np.where(i < limit, a, 1)
    new = a @ b
    c, d = arrays["C"].astype(np.float32), arrays["D"].astype(np.float32)
    stored = np.ones((rows, columns), bool)
    if "limited" in store:
        stored = (i % TILE < limit) & (j >= 0) if "columns" not in store else (j % COLUMNS < limit) & (i >= 0)
    if store == "first block only":
        stored = (j // COLUMNS < limit) & (i >= 0)
    if store == "diagonal":
        stored = i % TILE <= j % COLUMNS
    if store == "chosen by data":
        stored = (arrays["L"][i % TILE % 4] < limit) & (j >= 0)
    if store == "rows by data":
        whole = np.concatenate([new, np.zeros((-rows % TILE, columns), np.float32)])
        moved = whole[-arrays["L"][0] * TILE :]
        c[: len(moved)] = moved
    elif store == "one row up":
        whole = np.concatenate([new, np.zeros((-rows % TILE, columns), np.float32)])
        c[: len(whole) - 1] = whole[1 : rows + 1]
    elif store == "part":
        for y in range(0, rows, TILE):
            for x in range(0, columns, COLUMNS):
                box = new[y + 8 : y + 24, x + 16 : x + 32]
                place = c[y + 2 : y + 18, x + 1 : x + 17]
                place[: len(box), : box.shape[1]] = box[: len(place), : place.shape[1]]
    elif store == "onto what is there":
        c = c + new
    elif store == "every second row":
        c[0::2] = new
    elif store == "transposed":
        c = new.T
    else:
        c = np.where(stored, new * (2 if store == "scaled" else 1) + (c if "add" in store else 0), c)
    return c, new if store == "two tensors" else d


def arrays_of(store="plain", rows=3 * TILE, columns=2 * COLUMNS, dtype=F16, out=F32):
    """Small integers: sums are exact in any order, in float16 too."""
    rng = np.random.default_rng(7)
    small = lambda *shape: rng.integers(-2, 3, shape)  # noqa: E731
    shape = (columns, rows) if store == "transposed" else (2 * rows, columns) if store == "every second row" else (rows, columns)
    return {
        "A": small(rows, K).astype(dtype), "B": small(K, columns).astype(dtype), "L": np.array([-1, 2, 1, 0], np.int32),
        "C": small(*shape).astype(out), "D": small(rows, columns).astype(out),
    }  # fmt: skip


def check(load, store, limit, chip="a2", text=False, **sizes):
    compiled = tilelang.compile(kernel(load, store, **sizes), target=chip)
    arrays = arrays_of(store, **sizes)
    out = strict.run(compiled, arrays, {"limit": limit}, text=text)
    for name, want in zip("CD", expected(load, store, arrays, limit)):
        np.testing.assert_array_equal(out[name].astype(np.float32), want)
    return compiled


def on_cube_alone(compiled) -> bool:
    return not any("aiv" in f.name_hint for f in compiled.artifact.ascend_ir.functions)


RAGGED = dict(rows=3 * TILE - 5, columns=2 * COLUMNS - 3)


@pytest.mark.parametrize("sizes", [{}, RAGGED], ids=["whole", "ragged"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.one_in(12)
def test_stores(store, sizes):
    """A result leaves the cube core without the vector cores, if it only leaves it; what a condition keeps stays."""
    for limit in (20, 0, 100):
        compiled = check("copy", store, limit, text=limit == 20, **sizes)
    assert on_cube_alone(compiled) == STORES[store]


@pytest.mark.parametrize("sizes", [{}, RAGGED], ids=["whole", "ragged"])
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.one_in(12)
def test_loads(load, sizes):
    """So do operands, with zeros for what is outside of the tensor."""
    assert on_cube_alone(check(load, "plain", 40, text=True, **sizes)) == LOADS[load]


@pytest.mark.parametrize("chip", ["a3", "a5"])
@pytest.mark.parametrize("store", ["plain", "limited rows", "limited columns", "staged", "add limited", "diagonal"])
@pytest.mark.one_in(2)
def test_other_chips(store, chip):
    check("plain", store, 20, chip, **RAGGED)


@pytest.mark.parametrize("store", ["plain", "limited rows", "staged", "guarded", "two tensors"])
def test_results_are_rounded_as_casts_are(store):
    assert on_cube_alone(check("plain", store, 20, out=F16, **RAGGED))


def test_no_flag_can_be_left_out(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compiled = tilelang.compile(kernel("plain", "add limited"))
    assert strict.surviving_mutants(compiled, arrays_of("add limited"), {"limit": 20}) == []


@lru_cache(maxsize=None)
def limited(dtype, inclusive=False):
    """C[i] = (A @ B)[i] for rows i with `first + i < limit`, or `<=`; the limit is a `dtype`."""
    kind = getattr(T, dtype)

    @T.prim_func
    def k(A: T.Tensor((TILE, K), F16), B: T.Tensor((K, COLUMNS), F16), C: T.Tensor((TILE, COLUMNS), F32), first: T.int32, limit: kind):
        with T.Kernel(1) as _:
            a, b, c = T.alloc_shared((TILE, K), F16), T.alloc_shared((K, COLUMNS), F16), T.alloc_fragment((TILE, COLUMNS), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(TILE, COLUMNS):
                if first + i <= limit if inclusive else first + i < limit:
                    C[i, j] = c[i, j]

    return k


ENDS = {"int32": 2**31, "int64": 2**63, "uint32": 2**32}


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("dtype", ENDS)
@pytest.mark.one_in(2)
def test_limits_of_any_size(dtype, inclusive):
    """The number of rows is right wherever the difference between limit and first row is none of their dtype."""
    compiled = tilelang.compile(limited(dtype, inclusive))
    assert on_cube_alone(compiled)
    arrays = {name: x for name, x in arrays_of(rows=TILE, columns=COLUMNS).items() if name in "ABC"}
    new, end = arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32), ENDS[dtype]
    least = 0 if dtype == "uint32" else -end
    for first in (0, 3, -5, -(2**31), 2**31 - TILE):
        for limit in {least, least + 7, 0, 5, end - 1, min(max(first + 4, least), end - 1)}:
            out = strict.run(compiled, arrays, {"first": first, "limit": limit}, text=False)
            rows = first + np.arange(TILE)[:, None]
            np.testing.assert_array_equal(out["C"], np.where(rows <= limit if inclusive else rows < limit, new, arrays["C"]))


@lru_cache(maxsize=None)
def indexed(variant):
    """Rows of A and C that elements of a tile, or of a tensor that the kernel writes, tell."""

    @T.prim_func
    def k(A: T.Tensor((3 * TILE, K), F16), B: T.Tensor((K, COLUMNS), F16), L: T.Tensor((8,), I32), C: T.Tensor((3 * TILE, COLUMNS), F32)):
        with T.Kernel(1) as _:
            a, b, c = T.alloc_shared((TILE, K), F16), T.alloc_shared((K, COLUMNS), F16), T.alloc_fragment((TILE, COLUMNS), F32)
            rows = T.alloc_shared((8,), I32)
            T.copy(B, b)
            T.copy(L, rows)
            for i in T.Parallel(8):
                rows[i] = rows[i] * 2
            if variant == "tensor":
                T.copy(rows, L)
            for t in T.serial(2):
                for i, j in T.Parallel(TILE, K):
                    a[i, j] = A[(L[t] if variant == "tensor" else rows[rows[t]] if variant == "twice" else rows[t]) + i, j]
                T.gemm(a, b, c, clear_accum=True)
                for i, j in T.Parallel(TILE, COLUMNS):
                    if variant == "add":
                        T.atomic_add(C[rows[t + 2] + i, j], c[i, j])
                    else:
                        C[rows[t + 2] + i, j] = c[i, j]

    return k


@pytest.mark.parametrize("variant", ["", "tensor", "twice", "add"])
def test_elements_of_tiles_tell_rows(variant):
    """The cube core, which does not see them, is told."""
    arrays = {name: x for name, x in arrays_of().items() if name != "D"}
    arrays["C"], arrays["L"] = arrays["C"][:, :COLUMNS].copy(), np.array([2, 1, 16, 0, 5, 3, 0, 0], np.int32)
    arrays["B"] = arrays["B"][:, :COLUMNS].copy()
    out = strict.run(tilelang.compile(indexed(variant)), arrays)
    want, rows = arrays["C"].copy(), arrays["L"] * 2
    for t in range(2):
        first, to = rows[rows[t]] if variant == "twice" else rows[t], rows[t + 2]
        new = arrays["A"][first : first + TILE].astype(np.float32) @ arrays["B"].astype(np.float32)
        want[to : to + TILE] = new + (want[to : to + TILE] if variant == "add" else 0)
    np.testing.assert_array_equal(out["C"], want)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("way", ["chosen", "branches"])
def test_zeros_where_a_tensor_reads_as_another_number_outside(way, chip):
    rows = TILE - 14

    @T.prim_func
    def k(A: T.Tensor((rows, K), F16), B: T.Tensor((K, COLUMNS), F16), C: T.Tensor((TILE, COLUMNS), F32)):
        with T.Kernel(1) as _:
            T.annotate_safe_value({A: 5.0})
            a, b, c = T.alloc_shared((TILE, K), F16), T.alloc_shared((K, COLUMNS), F16), T.alloc_fragment((TILE, COLUMNS), F32)
            for i, j in T.Parallel(TILE, K):
                if way == "chosen":
                    a[i, j] = T.if_then_else(i < rows, A[i, j], 0)
                elif i < rows:
                    a[i, j] = A[i, j]
                else:
                    a[i, j] = 0
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    arrays = {name: x[:, :COLUMNS] if name == "B" else x for name, x in arrays_of(rows=TILE, columns=COLUMNS).items() if name in "ABC"}
    arrays["A"] = arrays["A"][:rows]
    out = strict.run(tilelang.compile(k, target=chip), arrays, text=False)["C"]
    np.testing.assert_array_equal(out[:rows], arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32))
    assert not out[rows:].any()
