"""Places that data chooses outside of a tensor: loads read zero, or the tensor's safe value; stores and atomic updates are dropped.

GPU TileLang guards these accesses, and scripts rely on it: tables of blocks and tokens have -1, or their length, where there is none.
"""

import ml_dtypes
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


def matrix(forms, shapes) -> list:
    """Every form with every third shape."""
    return [(form, *shape) for n, form in enumerate(forms) for k, shape in enumerate(shapes) if (n + k) % 3 == 0]


def numbers(shape, dtype):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    return RNG.integers(1, 100, shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("form, rows, width, dtype, index", matrix(LOADS, SHAPES))
@pytest.mark.one_in(6)
def test_loads(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = LOADS[form]
    x, p = numbers((rows, width), dtype), places(rows, index)
    out = strict.run(
        tilelang.compile(build(rows, width, dtype, index), pass_configs=strict.SERIAL),
        {"X": x, "P": p, "Y": np.zeros((N, width), x.dtype)},
        text=rows == 3000,
    )
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


@pytest.mark.parametrize("form, rows, width, dtype, index", matrix(STORES, SHAPES))
@pytest.mark.one_in(2)
def test_stores(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = STORES[form]
    x, p = numbers((N, width), dtype), places(rows, index, distinct=True) - (3 if form == "shifted" else 0)
    out = strict.run(
        tilelang.compile(build(rows, width, dtype, index), pass_configs=strict.SERIAL),
        {"X": x, "P": p, "Y": np.zeros((rows, width), x.dtype)},
        text=rows == 3000,
    )
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


@pytest.mark.parametrize("form, rows, width, dtype, index", matrix(ATOMICS, [s for s in SHAPES if s[2] in ("float32", "float16")]))
def test_atomics(form, rows, width, dtype, index):
    if form == "serial" and width > 16:
        width = 16
    build, want = ATOMICS[form]
    x, p = numbers((N, width), dtype), places(rows, index)
    out = strict.run(
        tilelang.compile(build(rows, width, dtype, index)), {"X": x, "P": p, "Y": np.zeros((rows, width), x.dtype)}, text=rows == 3000
    )
    np.testing.assert_array_equal(out["Y"], want(x, p, rows))


# ---- against the meaning of Tile IR --------------------------------------------------------------------------------


def column_starts(store: bool):
    @T.prim_func
    def main(X: T.Tensor((N, 30), "float16"), P: T.Tensor((N,), "int32"), Y: T.Tensor((N, 30), "float16")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, 16):
                if b * BLOCK + i < N:
                    if store:
                        Y[b * BLOCK + i, P[b * BLOCK + i] + j] = X[b * BLOCK + i, j]
                    else:
                        Y[b * BLOCK + i, j] = X[b * BLOCK + i, P[b * BLOCK + i] + j]

    return main


def places_of_places():
    @T.prim_func
    def main(X: T.Tensor((30, 30), "float16"), P: T.Tensor((N,), "int32"), Y: T.Tensor((N, 30), "float16")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i, j in T.Parallel(BLOCK, 30):
                Y[b * BLOCK + i, j] = X[P[P[b * BLOCK + i]], j]

    return main


def steered():
    @T.prim_func
    def main(X: T.Tensor((N, 30), "float16"), P: T.Tensor((N,), "int32"), Y: T.Tensor((N, 30), "float16")):
        with T.Kernel(N) as b:
            s = T.alloc_shared((1, 30), "float16")
            T.clear(s)
            if P[b + 1] > P[b - 1]:  # neighbours the first and the last block do not have
                T.copy(X[P[b], 0], s)
            for _ in T.serial(P[P[b]] % 3):
                for i, j in T.Parallel(1, 30):
                    s[i, j] = s[i, j] + 1
            T.copy(s, Y[b, 0])

    return main


def updated_in_order():
    @T.prim_func
    def main(X: T.Tensor((N, 30), "float16"), P: T.Tensor((N,), "int32"), Y: T.Tensor((N, 30), "float16")):
        with T.Kernel(1):
            for i in T.serial(N):
                for j in T.Parallel(30):
                    Y[P[i], j] = Y[P[i], j] + X[i, j]
                Y[P[i], 0] = Y[P[i] + 1, 1] + X[i, 0]

    return main


def factors():
    @T.prim_func
    def main(X: T.Tensor((30, 32), "float16"), P: T.Tensor((16,), "int32"), Y: T.Tensor((16, 30), "float16")):
        with T.Kernel(1):
            a, w, c = T.alloc_shared((16, 32), "float16"), T.alloc_shared((32, 32), "float16"), T.alloc_fragment((16, 32), "float32")
            for i, j in T.Parallel(16, 32):
                a[i, j] = X[P[i], j]
            T.copy(X[P[0], 0], w)
            T.gemm(a, w, c, clear_accum=True)
            T.copy(c, Y[0, 0])

    return main


def added_tiles():
    @T.prim_func
    def main(X: T.Tensor((N, 30), "float16"), P: T.Tensor((N,), "int32"), Y: T.Tensor((N, 30), "float16")):
        with T.Kernel(N) as b:
            s = T.alloc_shared((4, 30), "float16")
            T.copy(X[b, 0], s)
            T.atomic_add(Y[P[b] : P[b] + 4, 0:30], s)

    return main


OTHERS = {
    "columns": column_starts(False), "stored columns": column_starts(True), "places of places": places_of_places(), "steered": steered(),
    "in order": updated_in_order(), "factors": factors(), "tiles": added_tiles(),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", OTHERS)
def test_other_forms(form):
    """Every stage means what the one before it does, with the smallest and the largest numbers among the places."""
    func = OTHERS[form]
    x, p, y = (tuple(int(n) for n in a.ty.shape) for a in func.params)
    at = places(30, "int32")[: p[0]]
    if form in ("columns", "stored columns"):
        at[::5], at[1::5] = -(2**31), 2**31 - 31
    strict.run(tilelang.compile(func), {"X": RNG.integers(1, 9, x).astype("float16"), "P": at, "Y": np.zeros(y, "float16")})


SUMS_THAT_WRAP = {
    "sum": (lambda a, b: T.max(a, 0) + T.max(a, 3), lambda a, b: np.maximum(a, 0) + np.maximum(a, 3)),
    "product": (lambda a, b: T.max(a, 0) * T.max(a, 0), lambda a, b: np.maximum(a, 0) * np.maximum(a, 0)),
    "low bits": (lambda a, b: T.cast(T.max(b, 0), "int32"), lambda a, b: np.maximum(b, 0).astype(np.int32)),
}


@pytest.mark.parametrize("target, named", [("a2", True), ("a5", False)])
@pytest.mark.parametrize("kind", SUMS_THAT_WRAP)
@pytest.mark.one_in(2)
def test_places_that_have_wrapped(kind, target, named):
    """Sums of numbers that are not negative may be, as names and as they stand: transfers began in front of their tensor, or anywhere."""
    place, number = SUMS_THAT_WRAP[kind]

    @T.prim_func
    def main(
        A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int64"), X: T.Tensor((64,), "float32"), Y: T.Tensor((8, 16), "float32"),
        W: T.Tensor((8, 64), "float32"), E: T.Tensor((8,), "float32"),
    ):  # fmt: skip
        with T.Kernel(8, threads=32) as k:
            x = T.alloc_shared((16,), "float32")
            c = place(A[k], B[k])
            if named:
                T.copy(X[c : c + 16], x)
                T.copy(x, W[k, c : c + 16])
                E[k] = X[c]
            else:
                T.copy(X[place(A[k], B[k]) : place(A[k], B[k]) + 16], x)
                T.copy(x, W[k, place(A[k], B[k]) : place(A[k], B[k]) + 16])
                E[k] = X[place(A[k], B[k])]
            T.copy(x, Y[k, :])

    a = np.array([3, 60, 2**30 + 5, 65535, 2**31 - 9, -(2**31), -5, 2**16 + 2], np.int32)
    b = np.array([3, 2**31 + 5, 2**32 + 7, -1, 2**63 - 1, 60, 2**32 - 4, 5], np.int64)
    x = np.arange(64, dtype=np.float32) + 1
    with np.errstate(over="ignore"):
        first = number(a, b).astype(np.int64)
    at = first[:, None] + np.arange(16)
    want = np.where((at >= 0) & (at < 64), x[np.clip(at, 0, 63)], 0)
    wide = np.zeros((8, 64), np.float32)
    for k, j in np.argwhere((at >= 0) & (at < 64)):
        wide[k, at[k, j]] = x[at[k, j]]
    arrays = {"A": a, "B": b, "X": x, "Y": want * 0, "W": wide * 0, "E": np.zeros(8, np.float32)}
    out = strict.run(tilelang.compile(main, target=target), arrays)
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["W"], wide)
    np.testing.assert_array_equal(out["E"], want[:, 0])


@pytest.mark.parametrize("target, dtype", [("a2", "int32"), ("a5", "int64")])
def test_places_that_variables_have_wrapped_to(target, dtype):
    """A variable that a loop multiplies does not stay a number that is not negative, and its low bits are none."""
    wide = dtype == "int64"

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((12, 16), "float32"), C: T.Tensor((12,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((16,), "float32")
            s = T.alloc_var(dtype, 1)
            for k in T.serial(12):
                s = s * 1103515245 + 12345 if wide else s * s + 5
                p = T.cast(T.max(s, 0), "int32") if wide else T.truncmod(s, 70)
                T.copy(X[p : p + 16], x)
                T.copy(x, Y[k, :])
                C[k] = T.if_then_else(p < 0, 1, 2)

    x, s, places = np.arange(64, dtype=np.float32) + 1, np.array(1, dtype), []
    with np.errstate(over="ignore"):
        for _ in range(12):
            s = s * np.int64(1103515245) + np.int64(12345) if wide else s * s + np.int32(5)
            places.append(int(np.maximum(s, 0).astype(np.int32)) if wide else int(np.fmod(s, np.int32(70))))
    at = np.array(places)[:, None] + np.arange(16)
    out = strict.run(tilelang.compile(main, target=target), {"X": x, "Y": np.zeros((12, 16), np.float32), "C": np.zeros(12, np.int32)})
    np.testing.assert_array_equal(out["Y"], np.where((at >= 0) & (at < 64), x[np.clip(at, 0, 63)], 0))
    np.testing.assert_array_equal(out["C"], np.where(np.array(places) < 0, 1, 2))
    assert min(places) < 0


LISTED, LONG = 100, 1 << 14


@T.macro
def of_list(form, X, listed, s, Y, k, count):
    """A block of what a list in a tile chooses; the list may end within the block, and so may the tile."""
    if form == "choice":
        for i, j in T.Parallel(64, 32):
            s[i, j] = T.if_then_else(k + i < count, X[listed[k + i], j], 0)
        T.copy(s, Y[k, 0])
    elif form == "branch":
        T.fill(s, 0)
        for i, j in T.Parallel(64, 32):
            if k + i < count:
                s[i, j] = X[listed[k + i], j]
        T.copy(s, Y[k, 0])
    elif form == "elements":
        for i, j in T.Parallel(64, 32):
            s[i, j] = T.if_then_else(k + i < count, X[j * 3, listed[k + i] % 32], 0)
        T.copy(s, Y[k, 0])
    else:
        T.copy(X[k, 0], s)
        for i, j in T.Parallel(64, 32):
            if k + i < count:
                Y[listed[k + i], j] = s[i, j]


@pytest.mark.parametrize("with_product", [False, True])
@pytest.mark.parametrize("form", ["choice", "branch", "elements", "store"])
@pytest.mark.one_in(2)
def test_lists_that_end_within_a_block(form, with_product):
    """No element behind the end of the list's tile is read, though all lanes of a nest are evaluated."""

    @T.prim_func
    def main(
        X: T.Tensor((LONG, 32), "float16"),
        P: T.Tensor((LISTED,), "int32"),
        C: T.Tensor((1,), "int32"),
        Y: T.Tensor((128, 32), "float16"),
        Z: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1):
            s, listed = T.alloc_shared((64, 32), "float16"), T.alloc_shared((LISTED,), "int32")
            count, z = T.alloc_local((1,), "int32"), T.alloc_fragment((64, 64), "float32")
            count[0] = C[0]
            T.copy(P, listed)
            T.clear(z)
            for b in T.serial(T.ceildiv(count[0], 64)):
                of_list(form, X, listed, s, Y, b * 64, count[0])
                if with_product:
                    T.gemm(s, s, z, transpose_B=True)
            T.copy(z, Z)

    compiled, rng = tilelang.compile(main), np.random.default_rng(3)
    x, p = rng.integers(-8, 9, (LONG, 32)).astype("float16"), rng.permutation(LONG if form != "store" else 128)[:LISTED].astype("int32")
    for count in (LISTED, 64, 3):
        want, rows = np.full((128, 32), 7, "float16"), np.zeros((128, 32), "float16")
        at, end = p[:count], -(-count // 64) * 64
        rows[:count] = x[:96:3, at % 32].T if form == "elements" else x[at]
        if form == "store":
            rows[:end] = x[:end]
            want[at] = x[:count]
        else:
            want[:end] = rows[:end]
        blocks = rows[:end].astype("float32").reshape(-1, 64, 32)
        arrays = {
            "X": x,
            "P": p,
            "C": np.array([count], "int32"),
            "Y": np.full((128, 32), 7, "float16"),
            "Z": np.zeros((64, 64), "float32"),
        }
        out = strict.run(compiled, arrays, text=form == "branch")
        np.testing.assert_array_equal(out["Y"], want)
        np.testing.assert_array_equal(out["Z"], sum(b @ b.T for b in blocks) if with_product else 0)
