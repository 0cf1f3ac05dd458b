"""Numbers of 4 bits where they share bytes with others: views, single elements, odd rows, parts, and what computes on tiles of them."""

import re

import ml_dtypes
import numpy as np
import pytest
import strict
from test_nibbles import codes_of, numbers, pack, random_codes

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import ArgumentValueError, UnsupportedConstruct

NIBBLES = ("int4", "uint4", "float4_e2m1fn")
EITHER = ("int4", pytest.param("uint4", marks=pytest.mark.slow), "float4_e2m1fn")
"""The same for what does not depend on signs."""
TARGETS = ("a2", "a5")
RNG = np.random.default_rng(44)


def codes_in(raw):
    """Codes of bytes, row by row."""
    raw = np.asarray(raw).view(np.uint8)
    return np.stack((raw & 15, raw >> 4), -1).reshape(*raw.shape[:-1], 2 * raw.shape[-1])


def both(k, target, arrays, scalars=None, sizes=None):
    """Results of a strict run, with which the kernel as plain Python agrees."""
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values(), *(scalars or {}).values())
    out = strict.run(tilelang.compile(k, target=target), arrays, {**(scalars or {}), **(sizes or {})})
    for name in arrays:
        np.testing.assert_array_equal(out[name].view(np.uint8), python[name].view(np.uint8), err_msg=name)
    return out


def both_chips(k, arrays, scalars=None, sizes=None):
    """The same on both kinds of chips."""
    first, second = (both(k, target, {n: a.copy() for n, a in arrays.items()}, scalars, sizes) for target in TARGETS)
    for name in arrays:
        np.testing.assert_array_equal(first[name].view(np.uint8), second[name].view(np.uint8))
    return first


# --- views


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", NIBBLES)
def test_bytes_of_a_tensor_are_numbers(dtype):
    """A packed weight, declared as bytes or words, seen as numbers, and numbers seen as bytes."""

    @T.prim_func
    def k(B: T.Tensor((8, 32), "uint8"), W: T.Tensor((8, 8), "int32"), N: T.Tensor((8, 64), dtype), Y: T.Tensor((8, 64), "float32"),
          Z: T.Tensor((8, 64), "float32"), R: T.Tensor((8, 32), "uint8")):  # fmt: skip
        x = T.view(B, (8, 64), dtype)
        w = T.Tensor((8, 64), dtype, W.data)
        n = T.view(N, (8, 32), "uint8")
        with T.Kernel(2) as b:
            t = T.alloc_shared((8, 32), dtype)
            T.copy(x[0:8, b * 32 : b * 32 + 32], t)
            T.copy(t, Y[0, b * 32])
            for i, j in T.Parallel(8, 32):
                Z[i, b * 32 + j] = T.cast(w[i, b * 32 + j], "float32") * 2
            r = T.alloc_shared((8, 16), "uint8")
            T.copy(n[0, b * 16], r)
            T.copy(r, R[0, b * 16])

    a, c, d = (RNG.integers(0, 256, (8, 32)).astype(np.uint8) for _ in range(3))
    arrays = {
        "B": a, "W": c.view(np.int32), "N": d, "Y": np.zeros((8, 64), np.float32), "Z": np.zeros((8, 64), np.float32),
        "R": np.zeros((8, 32), np.uint8),
    }  # fmt: skip
    out = both_chips(k, arrays)
    np.testing.assert_array_equal(out["Y"], numbers(codes_in(a), dtype))
    np.testing.assert_array_equal(out["Z"], numbers(codes_in(c), dtype) * 2)
    np.testing.assert_array_equal(out["R"], d)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", NIBBLES)
def test_bytes_of_a_tile_are_numbers(dtype):
    """Read and changed under both names, in nests, by tile ops and element by element."""

    @T.prim_func
    def k(B: T.Tensor((8, 32), "uint8"), Y: T.Tensor((8, 64), "float32"), C: T.Tensor((8, 32), "uint8"), E: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            raw = T.alloc_shared((8, 32), "uint8")
            T.copy(B, raw)
            x = T.view(raw, (8, 64), dtype)
            y = T.alloc_fragment((8, 64), "float32")
            for i, j in T.Parallel(8, 64):
                y[i, j] = T.cast(x[i, j], "float32")
            T.copy(y, Y)
            e = T.alloc_fragment((4,), "float32")
            for i in T.serial(4):
                e[i] = T.cast(x[i, 5 * i], "float32")
            T.copy(e, E)
            for i, j in T.Parallel(8, 64):
                x[i, j] = x[i, j] + 1
            x[2, 7] = 3
            x[2, 8] = 2
            for i, j in T.Parallel(1, 32):
                raw[i, j] = 0x21
            T.copy(raw, C)

    a = RNG.integers(0, 256, (8, 32)).astype(np.uint8)
    arrays = {"B": a, "Y": np.zeros((8, 64), np.float32), "C": np.zeros((8, 32), np.uint8), "E": np.zeros(4, np.float32)}
    out = both_chips(k, arrays)
    x = numbers(codes_in(a), dtype)
    np.testing.assert_array_equal(out["Y"], x)
    np.testing.assert_array_equal(out["E"], x[np.arange(4), 5 * np.arange(4)])
    changed = codes_of(x + 1 if dtype == "float4_e2m1fn" else x.astype(np.int32) + 1, dtype)
    changed[2, 7:9] = codes_of(np.float32([3, 2]), dtype)
    changed[0] = np.tile([1, 2], 32)
    np.testing.assert_array_equal(codes_in(out["C"]), changed)


@pytest.mark.slow
def test_numbers_of_a_tile_are_bytes_words_and_other_numbers():
    @T.prim_func
    def k(X: T.Tensor((8, 64), "int4"), B: T.Tensor((8, 32), "uint8"), W: T.Tensor((64,), "int32"), U: T.Tensor((8, 64), "int32"),
          Z: T.Tensor((8, 64), "int4")):  # fmt: skip
        with T.Kernel(1):
            x = T.alloc_shared((8, 64), "int4")
            T.copy(X, x)
            raw = T.view(x, (8, 32), "uint8")
            words = T.view(x, (64,), "int32")
            unsigned = T.view(x, (8, 64), "uint4")
            T.copy(raw, B)
            T.copy(words, W)
            T.copy(unsigned, U)
            for i, j in T.Parallel(8, 32):
                raw[i, j] = raw[i, j] ^ 0x0F
            T.copy(x, Z)

    codes = random_codes(8, 64)
    arrays = {
        "X": pack(codes), "B": np.zeros((8, 32), np.uint8), "W": np.zeros(64, np.int32), "U": np.zeros((8, 64), np.int32),
        "Z": np.zeros((8, 32), np.uint8),
    }  # fmt: skip
    out = both_chips(k, arrays)
    np.testing.assert_array_equal(out["B"], pack(codes))
    np.testing.assert_array_equal(out["W"], pack(codes).reshape(-1).view(np.int32))
    np.testing.assert_array_equal(out["U"], codes)
    np.testing.assert_array_equal(out["Z"], pack(codes) ^ 15)


def test_elements_of_a_new_tile_are_bytes():
    @T.prim_func
    def k(X: T.Tensor((32,), "int32"), B: T.Tensor((16,), "uint8")):
        with T.Kernel(1):
            x = T.alloc_shared((32,), "int4")
            raw = T.view(x, (16,), "uint8")
            for i in T.serial(32):
                x[i] = X[i]
            T.copy(raw, B)

    x = RNG.integers(-8, 8, 32).astype(np.int32)
    out = both_chips(k, {"X": x, "B": np.zeros(16, np.uint8)})
    np.testing.assert_array_equal(codes_in(out["B"]), x & 15)


@pytest.mark.slow
def test_tensors_of_numbers_have_other_shapes():
    @T.prim_func
    def k(X: T.Tensor((5, 64), "int4"), Y: T.Tensor((320,), "int4")):
        x = T.reshape(X, (320,))
        with T.Kernel(5) as b:
            t = T.alloc_shared((64,), "int4")
            T.copy(x[b * 64], t)
            T.copy(t, Y[b * 64])

    codes = random_codes(5, 64)
    out = both_chips(k, {"X": pack(codes), "Y": np.zeros(160, np.uint8)})
    np.testing.assert_array_equal(out["Y"], pack(codes).reshape(-1))


# --- single elements of tensors


@pytest.mark.parametrize("dtype", NIBBLES)
def test_single_elements_are_stored(dtype):
    """At places known and not known before, in a loop, and guarded: the other half of a byte stays."""

    @T.prim_func
    def k(I: T.Tensor((4,), "int32"), V: T.Tensor((4,), "float32"), Y: T.Tensor((4, 64), dtype)):
        with T.Kernel(4) as b:
            Y[b, 3] = V[b]
            Y[b, I[b]] = V[b] + 1
            for j in T.serial(5):
                Y[b, 20 + 3 * j] = j
            if b == 2:
                Y[0, 63] = 2
                Y[1, 62] = 2

    codes, at, v = random_codes(4, 64), np.int32([10, 11, 60, 5]), np.float32([1, 2, -1, 0])
    want = codes.copy()
    want[:, 3] = codes_of(v, dtype)
    want[np.arange(4), at] = codes_of(v + 1, dtype)
    want[:, 20:35:3] = codes_of(np.arange(5), dtype)
    want[0, 63] = want[1, 62] = codes_of(np.int32(2), dtype)
    # Block 2 stores to rows of others: which comes first does not matter, as they store elsewhere.
    out = both_chips(k, {"I": at, "V": v, "Y": pack(codes)})
    np.testing.assert_array_equal(codes_in(out["Y"]), want)


def blocks_of(k):
    """Extents of the grid of a kernel."""
    from tilelang_ascend.ir import const_int, statements

    return [const_int(s.extent) for s in statements(k.body) if "tl.grid" in getattr(s, "annotations", {})]


@pytest.mark.slow
@pytest.mark.parametrize("count", [64, 63])
def test_blocks_that_share_bytes_become_one(count, capfd):
    """One element for each block: two of them are a byte, and a warning says so."""

    @T.prim_func
    def k(X: T.Tensor((count, 32), "float32"), Y: T.Tensor((64,), "int4")):
        with T.Kernel(count) as b:
            x, m = T.alloc_shared((1, 32), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[b, 0], x)
            T.reduce_max(x, m, dim=1)
            Y[b] = m[0]

    told = capfd.readouterr().err
    x, codes = RNG.uniform(-8, 7, (count, 32)).astype(np.float32), random_codes(64)
    codes[:count] = codes_of(x.max(1), "int4")
    out = both_chips(k, {"X": x, "Y": pack(np.concatenate([np.zeros(count, np.uint8), codes[count:]]))})
    np.testing.assert_array_equal(codes_in(out["Y"]), codes)
    assert blocks_of(k) == [32]
    text = "blocks may store to halves of the same byte of Y: 2 blocks along b are one"
    assert re.search(rf"{re.escape(__file__)}:\d+: {text}$", told, re.MULTILINE)


def test_blocks_with_bytes_of_their_own_stay():
    @T.prim_func
    def k(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "int4"), Z: T.Tensor((512,), "int4")):
        with T.Kernel(2, 8) as (c, r):
            for j in T.serial(32):
                if X[r, c * 32 + j] > 0:
                    Y[r, c * 32 + j] = X[r, c * 32 + j]
                Z[(r * 2 + c) * 32 + j] = X[r, c * 32 + j]

    x = RNG.uniform(-8, 7, (8, 64)).astype(np.float32)
    out = both(k, "a2", {"X": x, "Y": np.zeros((8, 32), np.uint8), "Z": np.zeros(256, np.uint8)})
    np.testing.assert_array_equal(codes_in(out["Y"]), codes_of(np.maximum(x, 0), "int4"))
    np.testing.assert_array_equal(codes_in(out["Z"]), codes_of(x.reshape(-1), "int4"))
    assert blocks_of(k) == [2, 8]


def test_blocks_of_a_grid_in_one_axis_stay():
    @T.prim_func
    def k(X: T.Tensor((4, 8, 32), "float32"), Y: T.Tensor((4, 8, 32), "int4")):
        with T.Kernel(32) as b:
            for j in T.serial(31):
                Y[b // 8, b % 8, j] = X[b // 8, b % 8, j]

    x = RNG.uniform(-8, 8, (4, 8, 32)).astype(np.float32)
    out = both(k, "a2", {"X": x, "Y": np.zeros((4, 8, 16), np.uint8)})
    np.testing.assert_array_equal(codes_in(out["Y"])[..., :31], codes_of(x, "int4")[..., :31])
    assert blocks_of(k) == [32]


def test_halves_of_results_the_call_allocates():
    """What is stored counts, whatever is in the other half; what is not stored is 0."""

    @T.prim_func
    def k(X: T.Tensor((16,), "int32"), Y: T.Tensor((4, 15), "uint4")):
        with T.Kernel(4) as b:
            for j in T.serial(9):
                Y[b, j] = X[b + j]

    x = RNG.integers(0, 16, 16).astype(np.int32)
    want = np.zeros((4, 16), np.uint8)
    for b in range(4):
        want[b, :9] = x[b : b + 9]
    for target in TARGETS:
        np.testing.assert_array_equal(codes_in(tilelang.compile(k, target=target, out_idx=-1)(x)), want)


def test_elements_change_places():
    """What was stored to the other half of a byte is read again."""

    @T.prim_func
    def k(X: T.Tensor((63,), "uint4")):
        with T.Kernel(1):
            for i in T.serial(31):
                a = T.alloc_var("uint4")
                a = X[i]
                X[i] = X[62 - i]
                X[62 - i] = a

    codes = random_codes(63)
    out = both_chips(k, {"X": pack(np.append(codes, 0).astype(np.uint8))})
    np.testing.assert_array_equal(codes_in(out["X"])[:63], codes[::-1])


@pytest.mark.parametrize("second", [0, 1])
def test_blocks_whose_indices_make_up_for_each_other(second):
    """Rows are sums of two block numbers: one alone does not tell blocks apart, both do together with columns of their own."""

    step = (16, 32)[second]

    @T.prim_func
    def k(Y: T.Tensor((8, 160), "uint4")):
        with T.Kernel(4, 3) as (a, b):
            for j in T.Parallel(3):
                Y[a + b, 1 + 17 * a + step * b + j] = (1 + 17 * a + step * b + j) % 16

    y = np.zeros((8, 160), np.uint8)
    for a in range(4):
        for b in range(3):
            columns = 1 + 17 * a + step * b + np.arange(3)
            y[a + b, columns] = columns % 16
    out = both_chips(k, {"Y": np.zeros((8, 80), np.uint8)})
    np.testing.assert_array_equal(codes_in(out["Y"]), y)


def test_blocks_that_store_under_two_names_run_one_after_the_other():
    @T.prim_func
    def k(B: T.Tensor((64,), "uint8")):
        x, y = T.view(B, (4, 32), "uint4"), T.view(B, (128,), "uint4")
        with T.Kernel(4) as b:
            x[b, 0] = b + 1
            y[32 * (3 - b) + 1] = b + 8

    out = both_chips(k, {"B": np.zeros(64, np.uint8)})
    np.testing.assert_array_equal(out["B"][::16], (np.arange(4) + 1) | (11 - np.arange(4)) << 4)


def test_blocks_that_may_store_anywhere_run_one_after_the_other():
    @T.prim_func
    def k(I: T.Tensor((8,), "int32"), Y: T.Tensor((64,), "int4")):
        with T.Kernel(8) as b:
            Y[I[b]] = b - 4

    at = RNG.permutation(16)[:8].astype(np.int32)
    codes = random_codes(64)
    want = codes.copy()
    want[at] = (np.arange(8) - 4) & 15
    out = both_chips(k, {"I": at, "Y": pack(codes)})
    np.testing.assert_array_equal(codes_in(out["Y"]), want)
    assert blocks_of(k) == [1]


# --- nests


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EITHER)
@pytest.mark.one_in(3)
def test_nests_store_what_they_choose(dtype):
    """Under conditions, with gaps, to one row, transposed into odd columns, and reading what they stored."""

    @T.prim_func
    def k(X: T.Tensor((8, 64), "float32"), A: T.Tensor((8, 64), dtype), B: T.Tensor((8, 128), dtype), C: T.Tensor((8, 64), dtype),
          D: T.Tensor((8, 64), dtype), E: T.Tensor((8, 32), "float32")):  # fmt: skip
        with T.Kernel(2) as b:
            x = T.alloc_shared((8, 32), "float32")
            T.copy(X[0, b * 32], x)
            for i, j in T.Parallel(8, 32):
                if x[i, j] > 0:
                    A[i, b * 32 + j] = x[i, j]
                else:
                    A[i, b * 32 + j] = 1
            for i, j in T.Parallel(8, 32):
                B[i, b * 64 + 2 * j] = x[i, j]
            for i, j in T.Parallel(8, 31):
                if x[i, j] > 1:
                    C[i, b * 32 + j + 1] = x[i, j]
            if b == 0:
                for i, j in T.Parallel(8, 32):
                    D[i, j] = x[i, j]
                    E[i, j] = T.cast(D[i, j], "float32") + 1

    x = RNG.uniform(-6, 7, (8, 64)).astype(np.float32)
    a, b, c, d = (random_codes(8, n) for n in (64, 128, 64, 64))
    out = both_chips(k, {"X": x, "A": pack(a), "B": pack(b), "C": pack(c), "D": pack(d), "E": np.zeros((8, 32), np.float32)})
    code = codes_of(x, dtype)
    b[:, ::2] = code
    moved = np.pad(x, ((0, 0), (1, 0)))[:, :-1]
    moved[:, 32] = 0
    np.testing.assert_array_equal(codes_in(out["A"]), np.where(x > 0, code, codes_of(np.int32(1), dtype)))
    np.testing.assert_array_equal(codes_in(out["B"]), b)
    np.testing.assert_array_equal(codes_in(out["C"]), np.where(moved > 1, codes_of(moved, dtype), c))
    d[:, :32] = code[:, :32]
    np.testing.assert_array_equal(codes_in(out["D"]), d)
    np.testing.assert_array_equal(out["E"], numbers(code[:, :32], dtype) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["b == 0", "x[i] > 2 and b == n"])
def test_blocks_that_store_nothing_leave_bytes_alone(condition):
    """What a condition on the block in a nest excludes is neither read nor written back."""
    first = condition == "b == 0"

    @T.prim_func
    def k(X: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "uint4"), n: T.uint4):
        with T.Kernel(4) as b:
            x = T.alloc_shared((16,), "int32")
            T.copy(X, x)
            for i in T.Parallel(16):
                if b == 0 if first else x[i] > 2 and b == n:
                    Y[i] = x[i]

    x, y = RNG.integers(0, 6, 16).astype(np.int32), random_codes(16)
    out = both_chips(k, {"X": x, "Y": pack(y)}, {"n": 2})
    np.testing.assert_array_equal(codes_in(out["Y"]), x if first else np.where(x > 2, x, y))
    assert blocks_of(k) == ([4] if first else [1])


@pytest.mark.slow
def test_names_of_branches_place_what_nests_store():
    @T.prim_func
    def k(X: T.Tensor((16,), "int32"), P: T.Tensor((2,), "int32"), Y: T.Tensor((40,), "uint4")):
        with T.Kernel(2) as b:
            for i in T.Parallel(8):
                if X[b * 8 + i] > 2:
                    start = P[b] + 1
                    Y[start + i] = X[b * 8 + i]

    x, p, y = RNG.integers(0, 6, 16).astype(np.int32), np.int32([20, 3]), random_codes(40)
    out = both_chips(k, {"X": x, "P": p, "Y": pack(y)})
    for b in range(2):
        for i in range(8):
            y[p[b] + 1 + i] = x[b * 8 + i] if x[b * 8 + i] > 2 else y[p[b] + 1 + i]
    np.testing.assert_array_equal(codes_in(out["Y"]), y)


BYTES_AND_NUMBERS = {
    "numbers behind bytes": lambda x, y, raw, u, s, i: (put(raw, i, T.cast(x[i] * 5, "uint8")), put(y, i, u[2 * i + 1])),
    "bytes behind numbers": lambda x, y, raw, u, s, i: (put(u, 2 * i, T.cast(x[i], "uint4")), put(y, i, raw[i])),
    "two kinds of numbers": lambda x, y, raw, u, s, i: (put(u, i, T.cast(x[i], "uint4")), put(s, i + 8, T.cast(x[i + 8], "int4"))),
    "signed behind unsigned": lambda x, y, raw, u, s, i: (put(u, 2 * i, T.cast(x[i], "uint4")), put(y, i, s[2 * i])),
    "both are stored": lambda x, y, raw, u, s, i: (put(raw, i, T.cast(x[i] * 5, "uint8")), put(u, 2 * i + 1, T.cast(3, "uint4"))),
    "signed into unsigned": lambda x, y, raw, u, s, i: (put(u, i, T.cast(s[i] + 1, "uint4")),),
}


def put(buffer, i, value):
    buffer[i] = value


@pytest.mark.slow
@pytest.mark.parametrize("name", BYTES_AND_NUMBERS)
@pytest.mark.one_in(3)
def test_nests_use_bytes_under_several_names(name):
    """An iteration sees under one name what it has stored under another, in tiles and in tensors."""
    work = BYTES_AND_NUMBERS[name]

    @T.prim_func
    def k(X: T.Tensor((16,), "int32"), B: T.Tensor((8,), "uint8"), Y: T.Tensor((8,), "int32"), C: T.Tensor((8,), "uint8"), D: T.Tensor((8,), "uint8"),
          Z: T.Tensor((8,), "int32")):  # fmt: skip
        d, e = T.view(D, (16,), "uint4"), T.view(D, (16,), "int4")
        with T.Kernel(1):
            raw = T.alloc_shared((8,), "uint8")
            x, y = T.alloc_fragment((16,), "int32"), T.alloc_fragment((8,), "int32")
            T.copy(B, raw)
            T.copy(X, x)
            T.clear(y)
            u, s = T.view(raw, (16,), "uint4"), T.view(raw, (16,), "int4")
            for i in T.Parallel(8):
                work(x, y, raw, u, s, i)
            T.copy(y, Y)
            T.copy(raw, C)
            for i in T.Parallel(8):
                work(x, Z, D, d, e, i)

    x, b = RNG.integers(0, 16, 16).astype(np.int32), RNG.integers(0, 256, 8).astype(np.uint8)
    zero = np.zeros(8, np.int32)
    out = both_chips(k, {"X": x, "B": b, "Y": zero, "C": np.zeros(8, np.uint8), "D": b, "Z": zero})
    np.testing.assert_array_equal(out["Y"], out["Z"])
    np.testing.assert_array_equal(out["C"], out["D"])
    low, high = b & 15, b >> 4
    five = (x[:8] * 5).astype(np.uint8)
    y, c = {
        "numbers behind bytes": (five >> 4, five),
        "bytes behind numbers": (x[:8] | high << 4, x[:8] | high << 4),
        "two kinds of numbers": (zero, pack(x.astype(np.uint8))),
        "signed behind unsigned": ((x[:8] ^ 8) - 8, x[:8] | high << 4),
        "both are stored": (zero, five & 15 | 48),
        "signed into unsigned": (zero, np.concatenate([((low + 1) & 15 | ((high + 1) & 15) << 4)[:4], b[4:]])),
    }[name]
    np.testing.assert_array_equal(out["Y"], y)
    np.testing.assert_array_equal(out["C"], c)


@pytest.mark.slow
def test_workspaces_have_several_names():
    @T.prim_func
    def k(X: T.Tensor((8, 16), "int4"), Y: T.Tensor((8, 8), "uint8"), Z: T.Tensor((4, 32), "int4")):
        W = T.alloc_global((8, 16), "int4")
        with T.Kernel(8) as b:
            x = T.alloc_shared((16,), "int4")
            T.copy(X[b, :], x)
            T.copy(x, W[b, :])
        in_bytes, longer = T.view(W, (8, 8), "uint8"), T.view(W, (4, 32), "int4")
        with T.Kernel(4) as b:
            T.copy(in_bytes[b * 2 : b * 2 + 2, :], Y[b * 2 : b * 2 + 2, :])
            for i in T.Parallel(32):
                Z[b, i] = longer[b, 31 - i]

    x = random_codes(8, 16)
    out = both_chips(k, {"X": pack(x), "Y": np.zeros((8, 8), np.uint8), "Z": np.zeros((4, 16), np.uint8)})
    np.testing.assert_array_equal(out["Y"], pack(x))
    np.testing.assert_array_equal(codes_in(out["Z"]), x.reshape(4, 32)[:, ::-1])


# --- parts of rows


@pytest.mark.parametrize("dtype, start, size", [
    *(("float4_e2m1fn", *part) for part in [(1, 32), (1, 31), (2, 31), (7, 5), (6, 1), (7, 1)]), ("uint4", 1, 31), ("uint4", 7, 5),
])  # fmt: skip
@pytest.mark.one_in(6)
def test_parts_begin_and_end_anywhere(dtype, start, size):
    @T.prim_func
    def k(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), dtype), Z: T.Tensor((8, 64), dtype)):
        with T.Kernel(2) as b:
            x = T.alloc_shared((4, size), "float32")
            y = T.alloc_shared((4, size), dtype)
            T.copy(X[b * 4 : b * 4 + 4, 0:size], x)
            T.copy(x, Y[b * 4 : b * 4 + 4, start : start + size])
            T.copy(x, y)
            T.copy(y, Z[b * 4, b + start])

    x, y, z = RNG.uniform(0, 7, (8, 64)).astype(np.float32), random_codes(8, 64), random_codes(8, 64)
    out = both_chips(k, {"X": x, "Y": pack(y), "Z": pack(z)})
    y[:, start : start + size] = codes_of(x, dtype)[:, :size]
    for r in range(8):
        z[r, start + r // 4 : start + r // 4 + size] = codes_of(x, dtype)[r, :size]
    np.testing.assert_array_equal(codes_in(out["Y"]), y)
    np.testing.assert_array_equal(codes_in(out["Z"]), z)
    assert blocks_of(k) == [2]


@pytest.mark.slow
@pytest.mark.parametrize("width", [31, 33])
def test_blocks_whose_parts_meet_inside_of_bytes(width):
    @T.prim_func
    def k(X: T.Tensor((8 * width,), "int8"), Y: T.Tensor((512,), "int4")):
        with T.Kernel(8) as b:
            x = T.alloc_shared((width,), "int8")
            T.copy(X[b * width], x)
            T.copy(x, Y[b * width : b * width + width])

    x, codes = RNG.integers(-128, 128, 8 * width).astype(np.int8), random_codes(512)
    out = both_chips(k, {"X": x, "Y": pack(codes)})
    codes[: 8 * width] = x & 15
    np.testing.assert_array_equal(codes_in(out["Y"]), codes)
    assert blocks_of(k) == [4]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("first, count", [(0, 64), (3, 17), (4, 9), (5, 1), (2, 0)])
def test_sizes_of_parts_are_known_at_run_time(first, count):
    @T.prim_func
    def k(X: T.Tensor((4, 128), "int4"), Y: T.Tensor((4, 128), "float16"), Z: T.Tensor((4, 128), "int4"), a: T.int32, n: T.int32):
        with T.Kernel(4) as b:
            x, y = T.alloc_shared((64,), "int4"), T.alloc_shared((64,), "float16")
            T.fill(y, 9)
            T.copy(X[b, a : a + n], x[0:n])
            T.copy(X[b, a : a + n], y[0:n])
            T.copy(y, Y[b, 0:64])
            T.copy(x[0:n], Z[b, a + 1 : a + 1 + n])

    codes, z = random_codes(4, 128), random_codes(4, 128)
    arrays = {"X": pack(codes), "Y": np.zeros((4, 128), np.float16), "Z": pack(z)}
    out = both_chips(k, arrays, {"a": first, "n": count})
    want = np.full((4, 64), 9, np.float16)
    want[:, :count] = numbers(codes[:, first : first + count], "int4")
    np.testing.assert_array_equal(out["Y"][:, :64], want)
    z[:, first + 1 : first + 1 + count] = codes[:, first : first + count]
    np.testing.assert_array_equal(codes_in(out["Z"]), z)


@pytest.mark.slow
def test_shapes_and_parts_are_known_at_run_time():
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def k(X: T.Tensor((m, n), "int4"), F: T.Tensor((m, n), "float32"), A: T.Tensor((m, n), "int4"), B: T.Tensor((m, n), "int4"),
          C: T.Tensor((m, n), "int4"), D: T.Tensor((m, n), "uint4"), E: T.Tensor((m,), "uint4")):  # fmt: skip
        with T.Kernel(m) as b:
            T.copy(X[b, 1 : n - 2], A[b, 2 : n - 1])
            T.copy(F[b, 0:n], B[b, 0:n])
            for j in T.Parallel(n - 1):
                if F[b, j] > 0:
                    C[b, j + 1] = F[b, j]
            T.fill(D[b, 1:n], 3)
            E[b] = b + 1

    x, f = random_codes(2, 262), RNG.uniform(-8, 7, (2, 262)).astype(np.float32)
    a, c, d = (random_codes(2, 262) for _ in range(3))
    arrays = {
        "X": pack(x), "F": f, "A": pack(a), "B": np.zeros((2, 131), np.uint8), "C": pack(c), "D": pack(d), "E": np.zeros(1, np.uint8),
    }  # fmt: skip
    out = both_chips(k, arrays, sizes={"m": 2, "n": 262})
    a[:, 2:-1] = x[:, 1:-2]
    c[:, 1:] = np.where(f[:, :-1] > 0, codes_of(f, "int4")[:, :-1], c[:, 1:])
    d[:, 1:] = 3
    for name, want in (("A", a), ("B", codes_of(f, "int4")), ("C", c), ("D", d), ("E", np.arange(1, 3))):
        np.testing.assert_array_equal(codes_in(out[name]), want, err_msg=name)


# --- rows of an odd length


@pytest.mark.parametrize("dtype", EITHER)
def test_rows_of_odd_length_end_with_padding(dtype):
    @T.prim_func
    def k(X: T.Tensor((5, 63), dtype), Y: T.Tensor((5, 63), dtype), V: T.Tensor((5, 70), "float32"), L: T.Tensor((7,), dtype)):
        with T.Kernel(5) as b:
            x = T.alloc_shared((1, 64), dtype)
            T.copy(X[b, 0], x)
            for i, j in T.Parallel(1, 63):
                x[i, j] = -x[i, j]
            T.copy(x, Y[b, 0])
            for j in T.Parallel(70):
                V[b, j] = X[b, j]
            if b == 0:
                for j in T.serial(7):
                    L[j] = X[0, 60 + j]

    codes = random_codes(5, 63)
    padded = np.pad(codes, ((0, 0), (0, 1)), constant_values=5)
    x = numbers(codes, dtype)
    arrays = {
        "X": pack(padded), "Y": np.zeros((5, 32), np.uint8), "V": np.ones((5, 70), np.float32), "L": np.zeros(4, np.uint8),
    }  # fmt: skip
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    for target in TARGETS:
        for out in (python, strict.run(tilelang.compile(k, target=target), arrays)):
            np.testing.assert_array_equal(codes_in(out["Y"])[:, :63], codes_of(-x if dtype == "float4_e2m1fn" else -x.astype(int), dtype))
            np.testing.assert_array_equal(out["V"], np.pad(x, ((0, 0), (0, 7))))
            np.testing.assert_array_equal(codes_in(out["L"])[:7], np.pad(codes[0, 60:], (0, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_a_larger_tensor(target):
    """What lies behind an odd row there belongs to others."""

    @T.prim_func
    def k(X: T.StridedTensor((8, 31), (96, 1), "int4"), Y: T.Tensor((8, 31), "float32"), Z: T.StridedTensor((8, 31), (64, 1), "int4"),
          W: T.StridedTensor((8, 31), (64, 1), "int4")):  # fmt: skip
        with T.Kernel(4) as b:
            x = T.alloc_shared((2, 31), "int4")
            T.copy(X[b * 2, 0], x)
            T.copy(x, Y[b * 2, 0])
            for i, j in T.Parallel(2, 30):
                Z[b * 2 + i, j + 1] = x[i, j]
            T.copy(X[b * 2 : b * 2 + 2, 0:31], W[b * 2 : b * 2 + 2, 0:31])

    codes, z, w = random_codes(8, 96), random_codes(8, 64), random_codes(8, 64)
    want, other = z.copy(), w.copy()
    want[:, 1:31], other[:, :31] = codes[:, :30], codes[:, :31]
    for run in (tilelang.compile(k, target=target), lambda *args: interpret.run(k, *args)):
        x, y, found, copied = pack(codes), np.zeros((8, 31), np.float32), pack(z), pack(w)
        run(x[:, :16], y, found[:, :16], copied[:, :16])
        np.testing.assert_array_equal(y, numbers(codes, "int4")[:, :31])
        np.testing.assert_array_equal(codes_in(found), want)
        np.testing.assert_array_equal(codes_in(copied), other)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EITHER)
@pytest.mark.parametrize("n", [64, 63, 61])
@pytest.mark.one_in(3)
def test_rows_of_run_time_may_have_an_odd_length(dtype, n):
    m, width = T.dynamic("m n")

    @T.prim_func
    def k(X: T.Tensor((m, width), dtype), V: T.Tensor((m, width), "float32"), Y: T.Tensor((m, width), dtype),
          W: T.Tensor((m, 2 * width - 1), dtype), S: T.Tensor((m, 64), "float32")):  # fmt: skip
        with T.Kernel(T.ceildiv(width, 32), m) as (bx, b):
            x = T.alloc_shared((1, 32), dtype)
            T.copy(X[b, bx * 32], x)
            T.copy(x, V[b, bx * 32])
            for i, j in T.Parallel(1, 32):
                x[i, j] = -x[i, j]
            T.copy(x, Y[b, bx * 32])
            if bx == 0:
                for j in T.Parallel(64):
                    S[b, j] = X[b, j]
                for j in T.serial(width):
                    W[b, 2 * j] = X[b, j]

    codes = random_codes(5, n)
    x = numbers(codes, dtype)
    arrays = {
        "X": pack(np.pad(codes, ((0, 0), (0, n % 2)), constant_values=5)), "V": np.zeros((5, n), np.float32),
        "Y": np.zeros((5, (n + 1) // 2), np.uint8), "W": np.zeros((5, n), np.uint8), "S": np.ones((5, 64), np.float32),
    }  # fmt: skip
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    for out in (python, *(strict.run(tilelang.compile(k, target=target), arrays, {"m": 5, "n": n}) for target in TARGETS)):
        np.testing.assert_array_equal(out["V"], x)
        np.testing.assert_array_equal(out["S"], np.pad(x, ((0, 0), (0, 64 - n))))
        np.testing.assert_array_equal(codes_in(out["Y"])[:, :n], codes_of(-x if dtype == "float4_e2m1fn" else -x.astype(int), dtype))
        np.testing.assert_array_equal(codes_in(out["W"])[:, : 2 * n - 1 : 2], codes)


def test_results_have_an_odd_length_of_run_time():
    m, n = T.dynamic("m n")

    @T.prim_func
    def k(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "int4")):
        with T.Kernel(m) as b:
            x = T.alloc_shared((1, 64), "int4")
            T.copy(X[b, 0], x)
            T.copy(x, Y[b, 0])

    kernel, codes = tilelang.compile(k, out_idx=[1]), random_codes(3, 63)
    found = kernel(numbers(codes, "int4").astype(np.float32))
    assert found.shape == (3, 32)
    np.testing.assert_array_equal(codes_in(found.view(np.uint8))[:, :63], codes)


def test_rows_that_are_bytes_in_another_view_have_an_even_length():
    m, n = T.dynamic("m n")

    @T.prim_func
    def k(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "int4")):
        with T.Kernel(m) as b:
            B = T.Tensor((m, n // 2), "uint8", Y.data)
            for j in T.Parallel(32):
                B[b, j] = T.cast(X[b, 2 * j], "uint8")

    kernel = tilelang.compile(k, out_idx=[1])
    codes = random_codes(3, 64)
    np.testing.assert_array_equal(kernel(codes.astype(np.float32)).view(np.uint8), codes[:, ::2])
    with pytest.raises(ArgumentValueError, match="rows of 63 int4 end with half a byte of padding"):
        kernel(codes[:, :63].astype(np.float32))
    with pytest.raises(ArgumentValueError, match="rows of 63 int4 end with half a byte of padding"):
        tilelang.compile(k)(codes[:, :63].astype(np.float32), pack(codes))


@pytest.mark.parametrize("target", TARGETS)
def test_strides_are_known_at_run_time(target):
    m, n, s, t, step = T.dynamic("m n s t step")

    @T.prim_func
    def k(X: T.StridedTensor((m, n), (s, 1), "int4"), Y: T.Tensor((m, n), "float32"), Z: T.StridedTensor((m, n), (t, step), "int4")):
        with T.Kernel(m) as b:
            x = T.alloc_shared((1, 32), "int4")
            T.copy(X[b, 0], x)
            T.copy(x, Y[b, 0])
            T.copy(x, Z[b, 0])

    for n in (32, 31):
        for run in (tilelang.compile(k, target=target), lambda *args: interpret.run(k, *args)):
            x, z, y = random_codes(5, 96), random_codes(5, 128), np.zeros((5, n), np.float32)
            packed, found = pack(x), pack(z)
            want = codes_in(found[:, :32:2])
            want[:, :n] = x[:, :n]
            other = codes_in(found[:, 1::2])
            run(packed[:, :16], y, found[:, :32:2])
            np.testing.assert_array_equal(y, numbers(x, "int4")[:, :n])
            np.testing.assert_array_equal(codes_in(found[:, :32:2]), want)
            np.testing.assert_array_equal(codes_in(found[:, 1::2]), other)


@pytest.mark.parametrize("strides", [(31, 1), (63, 1), (62, 2), (93, 3)])
def test_strides_no_tensor_of_bytes_has_say_nothing_of_its_memory(strides):
    @T.prim_func
    def k(X: T.StridedTensor((5, 31), strides, "int4"), Y: T.Tensor((5, 31), "float32"), Z: T.StridedTensor((5, 31), strides, "int4")):
        with T.Kernel(5) as b:
            x = T.alloc_shared((1, 32), "int4")
            T.copy(X[b, 0], x)
            T.copy(x, Y[b, 0])
            for j in T.serial(31):
                Z[b, j] = X[b, 30 - j]

    codes = random_codes(5, 32)
    for run in (tilelang.compile(k), lambda *args: interpret.run(k, *args)):
        for step in (1, 2):
            y, z = np.zeros((5, 31), np.float32), np.zeros((5, 16 * step), np.uint8)[:, ::step]
            run(pack(codes), y, z)
            np.testing.assert_array_equal(y, numbers(codes, "int4")[:, :31])
            np.testing.assert_array_equal(codes_in(z)[:, :31], codes[:, 30::-1])


@pytest.mark.parametrize("strides", [(3, 1), (0, 3), (30, 3)])
def test_rows_that_share_bytes_are_no_tensor_of_bytes(strides):
    with pytest.raises(UnsupportedConstruct, match="numbers of one row may share a byte with those of another") as info:

        @T.prim_func
        def k(X: T.StridedTensor((5, 31), strides, "int4"), Y: T.Tensor((5, 31), "float32")):
            with T.Kernel(5) as b:
                for j in T.Parallel(31):
                    Y[b, j] = X[b, j]

    assert info.value.location.file == __file__ and info.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_longer_than_a_row_leave_what_is_behind_it_alone(target):
    @T.prim_func
    def k(X: T.Tensor((8, 32), "int4"), Y: T.StridedTensor((8, 31), (64, 1), "int4"), Z: T.StridedTensor((8, 31), (64, 1), "int4"),
          W: T.StridedTensor((8, 31), (64, 1), "int4"), V: T.StridedTensor((8, 31), (64, 1), "int4")):  # fmt: skip
        with T.Kernel(8) as b:
            x = T.alloc_shared((1, 32), "int4")
            T.copy(X[b, 0], x)
            T.copy(x, Y[b, 0])
            for i, j in T.Parallel(1, 32):
                Z[b, j] = x[0, j]
            for j in T.serial(32):
                W[b, j] = x[0, j]
            T.fill(V[b, 0:32], 3)

    x, before = random_codes(8, 32), random_codes(8, 64)
    for run in (tilelang.compile(k, target=target), lambda *args: interpret.run(k, *args)):
        memory = {name: pack(before) for name in "YZWV"}
        run(pack(x), *(m[:, :16] for m in memory.values()))
        for name, m in memory.items():
            want = before.copy()
            want[:, :31] = 3 if name == "V" else x[:, :31]
            np.testing.assert_array_equal(codes_in(m), want, err_msg=name)


# --- what computes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EITHER)
@pytest.mark.one_in(3)
def test_reductions_and_scans_give_numbers_of_4_bits(dtype):
    kinds = ("sum", "max", "min", "abssum", "absmax")

    @T.prim_func
    def k(X: T.Tensor((8, 32), dtype), F: T.Tensor((8, 32), "float32"), R: T.Tensor((7, 8), dtype), S: T.Tensor((4, 8, 32), dtype),
          W: T.Tensor((8, 32), "float32")):  # fmt: skip
        with T.Kernel(1):
            x, f = T.alloc_shared((8, 32), dtype), T.alloc_shared((8, 32), "float32")
            r, s, w = T.alloc_fragment((8,), dtype), T.alloc_fragment((8, 32), dtype), T.alloc_fragment((8, 32), "float32")
            T.copy(X, x)
            T.copy(F, f)
            for n, kind in enumerate(kinds):
                T.reduce(x, r, kind, 1)
                T.copy(r, R[n, 0])
            T.reduce_sum(x, r, dim=1, clear=False)
            T.copy(r, R[5, 0])
            T.reduce_max(f, r, dim=1)
            T.copy(r, R[6, 0])
            T.cumsum(x, s, dim=1)
            T.copy(s, S[0, 0, 0])
            T.cumsum(x, s, dim=0, reverse=True)
            T.copy(s, S[1, 0, 0])
            T.cumsum(x, w, dim=1)
            T.copy(w, W)
            if dtype == "float4_e2m1fn":
                T.copy(x, S[2, 0, 0])
            else:
                T.cummax(x, s, dim=1)
                T.copy(s, S[2, 0, 0])
            T.cumsum(x, dim=1)
            T.copy(x, S[3, 0, 0])

    codes, f = random_codes(8, 32), RNG.uniform(-9, 9, (8, 32)).astype(np.float32)
    if dtype == "float4_e2m1fn":
        codes[codes == 8] = 0  # the sign of a sum of nothing but -0 is not defined
    x = numbers(codes, dtype)
    arrays = {
        "X": pack(codes), "F": f, "R": np.zeros((7, 4), np.uint8), "S": np.zeros((4, 8, 16), np.uint8), "W": np.zeros((8, 32), np.float32),
    }  # fmt: skip
    out = both_chips(k, arrays)

    def stored(v):
        return codes_of(v if dtype == "float4_e2m1fn" else v.astype(np.int64), dtype)

    results = [x.sum(1), x.max(1), x.min(1), np.abs(x).sum(1), np.abs(x).max(1)]
    last = numbers(stored(results[4]), dtype)
    want = [*map(stored, results), stored(last + x.sum(1)), codes_of(f.max(1), dtype)]
    np.testing.assert_array_equal(codes_in(out["R"]), np.stack(want))
    np.testing.assert_array_equal(out["W"], x.cumsum(1))
    scans = [x.cumsum(1), x[::-1].cumsum(0)[::-1], x if dtype == "float4_e2m1fn" else np.maximum.accumulate(x, 1), x.cumsum(1)]
    np.testing.assert_array_equal(codes_in(out["S"]), np.stack([stored(v) for v in scans]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EITHER)
def test_updates_of_tiles_and_tensors(dtype):
    @T.prim_func
    def k(I: T.Tensor((32,), "int32"), X: T.Tensor((4, 32), dtype), H: T.Tensor((4, 16), dtype), Y: T.Tensor((32,), dtype),
          Z: T.Tensor((4, 32), dtype), M: T.Tensor((4,), dtype)):  # fmt: skip
        with T.Kernel(4) as b:
            x, h = T.alloc_shared((32,), dtype), T.alloc_shared((16,), dtype)
            T.copy(X[b, 0], x)
            T.clear(h)
            for i in T.Parallel(32):
                T.atomic_add(h[I[i]], x[i])
            T.copy(h, H[b, 0])
            T.atomic_add(Y, x)
            T.atomic_max(Z[b, 0], x)
            for i in T.Parallel(32):
                T.atomic_min(M[b], x[i])

    at = RNG.integers(0, 16, 32).astype(np.int32)
    x, y, z = random_codes(4, 32), random_codes(32), random_codes(4, 32)
    if dtype == "float4_e2m1fn":  # sums that need no rounding, in any order
        x, y = x & 9, y & 9
        x[:, 8:], y[:] = 0, 0
        at[:8] = np.arange(8)
    out = both_chips(k, {"I": at, "X": pack(x), "H": np.zeros((4, 8), np.uint8), "Y": pack(y), "Z": pack(z), "M": np.zeros(2, np.uint8)})
    v = numbers(x, dtype)
    h = np.zeros((4, 16))
    for r in range(4):
        np.add.at(h[r], at, v[r])
    exact = (lambda w: w) if dtype == "float4_e2m1fn" else (lambda w: w.astype(np.int64))
    np.testing.assert_array_equal(numbers(codes_in(out["H"]), dtype), numbers(codes_of(exact(h), dtype), dtype))
    np.testing.assert_array_equal(numbers(codes_in(out["Y"]), dtype), numbers(codes_of(exact(numbers(y, dtype) + v.sum(0)), dtype), dtype))
    np.testing.assert_array_equal(numbers(codes_in(out["Z"]), dtype), np.maximum(numbers(z, dtype), v))
    np.testing.assert_array_equal(numbers(codes_in(out["M"]), dtype), np.minimum(0, v.min(1)))


def test_pairs_are_updated_in_nests():
    @T.prim_func
    def k(X: T.Tensor((64,), "int4"), Y: T.Tensor((65,), "int4")):
        with T.Kernel(1):
            x = T.alloc_shared((64,), "int4")
            T.copy(X, x)
            for i in T.Parallel(32):
                T.atomic_addx2(Y[2 * i + 1], x[2 * i])

    x, y = random_codes(64), random_codes(66)
    y[65] = 0
    out = both_chips(k, {"X": pack(x), "Y": pack(y)})
    y[1:65] = (y[1:65] + x) & 15
    np.testing.assert_array_equal(codes_in(out["Y"])[:65], y[:65])


@pytest.mark.slow
def test_tile_ops_work_on_tensors_and_products_end_in_4_bits():
    @T.prim_func
    def k(A: T.Tensor((16, 32), "int4"), B: T.Tensor((16, 32), "int4"), C: T.Tensor((16, 16), "int4"), F: T.Tensor((4, 64), "uint4"),
          G: T.Tensor((4, 64), "uint4"), S: T.Tensor((16,), "int32")):  # fmt: skip
        with T.Kernel(1):
            a, b = T.alloc_shared((16, 32), "int4"), T.alloc_shared((16, 32), "int4")
            s = T.alloc_fragment((16,), "int32")
            T.copy(A, a)
            T.copy(B, b)
            c = T.alloc_fragment((16, 16), "int4")
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)
            T.fill(F, 11)
            T.fill(G[0:4, 3:20], 9)
            T.reduce_sum(A, s, dim=1)
            T.copy(s, S)

    a, b, g = random_codes(16, 32), random_codes(16, 32), random_codes(4, 64)
    arrays = {
        "A": pack(a), "B": pack(b), "C": np.zeros((16, 8), np.uint8), "F": np.zeros((4, 32), np.uint8), "G": pack(g), "S": np.zeros(16, np.int32),
    }  # fmt: skip
    out = both_chips(k, arrays)
    x, y = (numbers(v, "int4").astype(np.int64) for v in (a, b))
    np.testing.assert_array_equal(codes_in(out["C"]), (x @ y.T) & 15)
    np.testing.assert_array_equal(out["F"], np.full((4, 32), 0xBB))
    g[:, 3:20] = 9
    np.testing.assert_array_equal(codes_in(out["G"]), g)
    np.testing.assert_array_equal(out["S"], x.sum(1))


@pytest.mark.slow
def test_numbers_are_sorted_and_accumulated():
    @T.prim_func
    def k(X: T.Tensor((4, 64), "int4"), V: T.Tensor((4, 8), "int4"), I: T.Tensor((4, 8), "int32"), S: T.Tensor((4,), "int4"),
          M: T.Tensor((4,), "int4"), a: T.int4):  # fmt: skip
        with T.Kernel(1):
            x, v, i = T.alloc_shared((4, 64), "int4"), T.alloc_fragment((4, 8), "int4"), T.alloc_fragment((4, 8), "int32")
            T.copy(X, x)
            T.topk(x, v, i)
            T.copy(v, V)
            T.copy(i, I)
            s, m = T.alloc_reducer((4,), "int4", "sum"), T.alloc_reducer((4,), "int4", "max")
            T.reducer_init(s)
            T.reducer_init(m)
            for r, j in T.Parallel(4, 64):
                T.reducer_update(s[r], x[r, j] * a)
                T.reducer_update(m[r], x[r, j])
            T.finalize_reducer(s)
            T.finalize_reducer(m)
            T.copy(s, S)
            T.copy(m, M)

    codes = random_codes(4, 64)
    x = numbers(codes, "int4").astype(np.int32)
    zeros = np.zeros(2, np.uint8)
    arrays = {"X": pack(codes), "V": np.zeros((4, 4), np.uint8), "I": np.zeros((4, 8), np.int32), "S": zeros, "M": zeros}
    out = both_chips(k, arrays, {"a": -3})
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(out["I"], order)
    np.testing.assert_array_equal(codes_in(out["V"]), np.take_along_axis(codes, order, 1))
    np.testing.assert_array_equal(codes_in(out["S"]), x.sum(1) * -3 & 15)
    np.testing.assert_array_equal(codes_in(out["M"]), x.max(1) & 15)
    with pytest.raises(ArgumentValueError, match="int4 holds -8..7, got 8"):
        tilelang.compile(k, target="a2")(*arrays.values(), 8)


@pytest.mark.slow
def test_a_kernel_with_cube_work_stores_halves_of_bytes():
    """Both vector cores of a block store to rows whose last byte is padded, and to elements of one vector."""

    @T.prim_func
    def k(A: T.Tensor((32, 64), "float16"), B: T.Tensor((32, 64), "float16"), S: T.Tensor((32,), "float32"), C: T.Tensor((32, 33), "int4"),
          M: T.Tensor((32,), "uint4")):  # fmt: skip
        with T.Kernel(2) as b:
            x, y, z = T.alloc_shared((16, 64), "float16"), T.alloc_shared((32, 64), "float16"), T.alloc_fragment((16, 32), "float32")
            T.copy(A[b * 16, 0], x)
            T.copy(B, y)
            T.gemm(x, y, z, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(16, 32):
                z[i, j] = z[i, j] * S[b * 16 + i]
            T.copy(z, C[b * 16, 1])
            m = T.alloc_fragment((16,), "float32")
            T.reduce_max(z, m, dim=1)
            for i in T.Parallel(16):
                if m[i] > 3:
                    M[b * 16 + i] = m[i]

    a, b = (RNG.integers(-2, 3, (32, 64)).astype(np.float16) for _ in range(2))
    c, m = random_codes(32, 34), random_codes(32)
    out = both_chips(k, {"A": a, "B": b, "S": np.full(32, 0.25, np.float32), "C": pack(c), "M": pack(m)})
    z = a.astype(np.float32) @ b.astype(np.float32).T * 0.25
    c[:, 1:33] = codes_of(z, "int4")
    np.testing.assert_array_equal(codes_in(out["C"])[:, :33], c[:, :33])
    np.testing.assert_array_equal(codes_in(out["M"]), np.where(z.max(1) > 3, codes_of(z.max(1), "uint4"), m))


@pytest.mark.slow
def test_packed_weights_are_seen_in_a_pipeline():
    @T.prim_func
    def k(
        A: T.Tensor((32, 128), "float16"), B: T.Tensor((32, 64), "uint8"), S: T.Tensor((32,), "float16"), C: T.Tensor((32, 32), "float32")
    ):
        with T.Kernel(1):
            total = T.alloc_fragment((32, 32), "float32")
            T.clear(total)
            for step in T.Pipelined(4, num_stages=2):
                a, raw = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 16), "uint8")
                weights, w = T.view(raw, (32, 32), "int4"), T.alloc_shared((32, 32), "float16")
                T.copy(A[0, step * 32], a)
                T.copy(B[0, step * 16], raw)
                for i, j in T.Parallel(32, 32):
                    w[i, j] = T.cast(weights[i, j], "float16") * S[i]
                T.gemm(a, w, total, transpose_B=True)
            T.copy(total, C)

    a, codes = RNG.integers(-3, 4, (32, 128)).astype(np.float16), random_codes(32, 128)
    s = RNG.choice([0.5, 1, 2], 32).astype(np.float16)
    out = both_chips(k, {"A": a, "B": pack(codes), "S": s, "C": np.zeros((32, 32), np.float32)})
    np.testing.assert_array_equal(out["C"], a.astype(np.float32) @ (numbers(codes, "int4") * s[:, None]).T)


@pytest.mark.slow
def test_workspaces_hold_numbers_of_4_bits():
    @T.prim_func
    def k(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(4) as b:
            w = T.alloc_global((8, 64), "float4_e2m1fn")
            x = T.alloc_shared((2, 64), "float32")
            T.copy(X[b * 2, 0], x)
            T.copy(x, w[b * 2, 0])
            for j in T.serial(5):
                w[b * 2, 3 * j] = x[1, j]
            T.copy(w[b * 2, 0], x)
            T.copy(x, Y[b * 2, 0])

    x = RNG.uniform(-7, 7, (8, 64)).astype(np.float32)
    out = both_chips(k, {"X": x, "Y": np.zeros((8, 64), np.float32)})
    want = x.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    want[::2, :15:3] = want[1::2, :5]
    np.testing.assert_array_equal(out["Y"], want)


# --- expressions


@pytest.mark.slow
def test_functions_of_float4_are_float32_and_what_rounds_stays():
    @T.prim_func
    def k(X: T.Tensor((64,), "float4_e2m1fn"), E: T.Tensor((64,), "float32"), A: T.Tensor((64,), "float4_e2m1fn"),
          C: T.Tensor((64,), "float4_e2m1fn")):  # fmt: skip
        with T.Kernel(1):
            x, e = T.alloc_shared((64,), "float4_e2m1fn"), T.alloc_fragment((64,), "float32")
            a, c = T.alloc_fragment((64,), "float4_e2m1fn"), T.alloc_fragment((64,), "float4_e2m1fn")
            T.copy(X, x)
            for i in T.Parallel(64):
                e[i] = T.exp(x[i])
                a[i] = T.abs(x[i])
                c[i] = T.ceil(x[i])
            T.copy(e, E)
            T.copy(a, A)
            T.copy(c, C)

    codes = random_codes(64)
    codes[:16] = np.arange(16)
    x = numbers(codes, "float4_e2m1fn")
    arrays = {"X": pack(codes), "E": np.zeros(64, np.float32), "A": np.zeros(32, np.uint8), "C": np.zeros(32, np.uint8)}
    for target in TARGETS:
        out = strict.run(tilelang.compile(k, target=target), arrays)
        np.testing.assert_allclose(out["E"], np.exp(x), rtol=1e-6)
        np.testing.assert_array_equal(codes_in(out["A"]), codes & 7)
        np.testing.assert_array_equal(numbers(codes_in(out["C"]), "float4_e2m1fn"), np.ceil(x))


def test_codes_are_seen_as_other_numbers_of_4_bits():
    @T.prim_func
    def k(X: T.Tensor((64,), "int4"), U: T.Tensor((64,), "uint4"), F: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int4")):
        with T.Kernel(1):
            x, u = T.alloc_shared((64,), "int4"), T.alloc_fragment((64,), "uint4")
            f, i4 = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "int4")
            T.copy(X, x)
            for i in T.Parallel(64):
                u[i] = T.reinterpret(x[i], "uint4")
                f[i] = T.cast(T.reinterpret(x[i], "float4_e2m1fn"), "float32")
                i4[i] = T.reinterpret(T.cast(f[i], "float4_e2m1fn"), "int4")
            T.copy(u, U)
            T.copy(f, F)
            T.copy(i4, I)

    codes = random_codes(64)
    out = both_chips(k, {"X": pack(codes), "U": np.zeros(32, np.uint8), "F": np.zeros(64, np.float32), "I": np.zeros(32, np.uint8)})
    np.testing.assert_array_equal(codes_in(out["U"]), codes)
    np.testing.assert_array_equal(out["F"], numbers(codes, "float4_e2m1fn"))
    np.testing.assert_array_equal(codes_in(out["I"]), codes)


FLOAT4 = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", ["rz", "ru", "rd", "rna"])
def test_casts_to_float4_have_a_direction(mode):
    @T.prim_func
    def k(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float4_e2m1fn")):
        with T.Kernel(1):
            x, y = T.alloc_shared((128,), "float32"), T.alloc_fragment((128,), "float4_e2m1fn")
            T.copy(X, x)
            for i in T.Parallel(128):
                y[i] = T.cast(x[i], "float4_e2m1fn", mode)
            T.copy(y, Y)

    halves = (FLOAT4[1:] + FLOAT4[:-1]) / 2
    x = np.concatenate([FLOAT4, halves, np.float32([6.5, 1e30, np.inf, 0.2, 1e-40])])
    x = np.concatenate([x, -x, np.float32([np.nan])])
    x = np.concatenate([x, RNG.uniform(-7, 7, 128 - x.size).astype(np.float32)])
    out = both_chips(k, {"X": x, "Y": np.zeros(64, np.uint8)})
    size = np.minimum(np.abs(np.nan_to_num(x, nan=6, posinf=np.inf, neginf=-np.inf)), 6)
    low = np.array([FLOAT4[FLOAT4 <= v].max() for v in size])
    high = np.array([FLOAT4[FLOAT4 >= v].min() for v in size])
    outwards = {"rz": size < 0, "ru": ~(x < 0), "rd": x < 0, "rna": 2 * size >= low + high}[mode]
    want = np.where(outwards, high, low) * np.where(x < 0, -1, 1)
    found = numbers(codes_in(out["Y"]), "float4_e2m1fn")
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.nan_to_num(x)))
