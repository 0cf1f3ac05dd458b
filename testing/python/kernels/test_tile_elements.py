"""An element of a tile (or of GM) wherever a scalar may stand, of every dtype: conditions, bounds, indices, arguments, values."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 16
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
DTYPES = (*FLOATS, "int32", "int64", "int16", "int8", "uint8", "bool")
NUMBERS = np.array([3, 0, 2, 1, 4, 0, 1, 2, 3, 1, 0, 2, 5, 1, 0, 4])


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def whole(x):
    return T.cast(x, "int32")


# Each place: body(s, d, X, A) changes the float32 tile d (N, N) with elements of s (N,), a tile or GM; the NumPy form does so with integers.


def condition(s, d, A):
    if s[0] > s[1]:
        d[0, 0] = 100.0
    if s[5]:
        d[0, 1] = 100.0
    for k in T.serial(N - 1):
        if s[k] == s[k + 1] or s[k] > 2:
            d[1, k] = 50.0


def condition_np(s, d, A):
    if s[0] > s[1]:
        d[0, 0] = 100
    if s[5]:
        d[0, 1] = 100
    for k in range(N - 1):
        if s[k] == s[k + 1] or s[k] > 2:
            d[1, k] = 50


def short_circuit(s, d, A):
    for k in T.serial(N + 9):
        if k < N and s[k] > 1:
            d[2, k] = 9.0


def short_circuit_np(s, d, A):
    d[2, s > 1] = 9


def chosen(s, d, A):
    for k in T.serial(N + 3):
        v = T.if_then_else(k < N, T.cast(s[k], "float32"), -1.0)
        d[3, T.min(k, N - 1)] = v


def chosen_np(s, d, A):
    d[3] = s
    d[3, N - 1] = -1


def loop_extent(s, d, A):
    for k in T.serial(whole(s[0])):
        d[4, k] = 8.0
    for k in T.serial(whole(s[1]) + 0):
        d[4, k + 5] = 8.0


def loop_extent_np(s, d, A):
    d[4, : s[0]] = 8
    d[4, 5 : 5 + s[1]] = 8


def repeat(s, d, A):
    n = T.alloc_var("int32", 0)
    while n < T.cast(s[n], "int32") + 2:
        n = n + 1
        if n == 2:
            continue
        d[5, n] = 7.0


def repeat_np(s, d, A):
    n = 0
    while n < s[n] + 2:
        n += 1
        if n == 2:
            continue
        d[5, n] = 7


def region_start(s, d, A):
    T.copy(A[whole(s[0]), 0:N], d[6, 0:N])
    T.fill(d[7, whole(s[2]) : whole(s[2]) + 4], 6.0)


def region_start_np(s, d, A):
    d[6] = A[s[0]]
    d[7, s[2] : s[2] + 4] = 6


def region_extent(s, d, A):
    T.fill(d[8, 0 : whole(s[0])], 6.0)
    T.copy(A[1, 0 : whole(s[4])], d[9, 0 : whole(s[4])])


def region_extent_np(s, d, A):
    d[8, : s[0]] = 6
    d[9, : s[4]] = A[1, : s[4]]


def index(s, d, A):
    d[10, whole(s[0])] = A[whole(s[2]), whole(s[0])]
    for j in T.Parallel(N):
        d[11, j] = A[whole(s[2]), j] + d[whole(s[3]) + 11, j]


def index_np(s, d, A):
    d[10, s[0]] = A[s[2], s[0]]
    d[11] = A[s[2]] + d[s[3] + 11]


def value(s, d, A):
    T.fill(d[13, 0:N], T.cast(s[0], "float32"))
    v = T.alloc_var("float32", 2.0)
    v = T.cast(s[2], "float32")
    w = T.cast(s[4], "float32") * v
    for j in T.Parallel(N):
        d[14, j] = v + w


def value_np(s, d, A):
    d[13] = s[0]
    d[14] = s[2] + s[4] * s[2]


PLACES = [condition, short_circuit, chosen, loop_extent, repeat, region_start, region_extent, index, value]


def check(places, dtype, memory, text=False):
    @T.prim_func
    def main(S: T.Tensor((N,), dtype), A: T.Tensor((N, N), "float32"), D: T.Tensor((N, N), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), dtype)
            d = T.alloc_fragment((N, N), "float32")
            T.copy(S, tile)
            T.copy(D, d)
            for place in places:
                place(tile if memory == "tile" else S, d, A)
            T.copy(d, D)

    rng = np.random.default_rng(1)
    numbers = np.minimum(NUMBERS, 1) if dtype == "bool" else NUMBERS
    a = rng.standard_normal((N, N)).astype(np.float32)
    want = np.full((N, N), 0.5, np.float32)
    arrays = {"S": numbers.astype(numpy_dtype(dtype)), "A": a, "D": want.copy()}
    for place in places:
        globals()[place.__name__ + "_np"](numbers, want, a)
    out = strict.run(tilelang.compile(main), arrays, text=text)
    np.testing.assert_array_equal(out["D"], want)


@pytest.mark.parametrize("memory", ["tile", "gm"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.one_in(6)
def test_elements_of_every_dtype(dtype, memory):
    check(PLACES, dtype, memory)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.__name__)
def test_elements_in_every_place(place):
    check([place], "bfloat16", "tile", text=True)


M = 32


def product(body, values, changed=False):
    """`body(a, b, c, s)` makes c of tiles a and b under what s (4,), loaded from GM, says; the result."""

    @T.prim_func
    def main(A: T.Tensor((M, M), "float16"), B: T.Tensor((M, M), "float16"), S: T.Tensor((4,), "float32"), C: T.Tensor((M, M), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((M, M), "float16"), T.alloc_shared((M, M), "float16")
            c, s = T.alloc_fragment((M, M), "float32"), T.alloc_shared((4,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(S, s)
            if changed:
                for i in T.Parallel(4):
                    s[i] = s[i] + 1
            body(a, b, c, s)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (M, M)).astype(np.float16) for _ in range(2))
    out = strict.run(
        tilelang.compile(main), {"A": a, "B": b, "S": np.array(values, np.float32), "C": np.zeros((M, M), np.float32)}, text=False
    )
    return out["C"], a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize("first", [2.0, -1.0])
def test_a_loaded_element_decides_about_a_product(first):
    def branch(a, b, c, s):
        if s[0] > 0:
            T.gemm(a, b, c, clear_accum=True)
        else:
            T.clear(c)

    got, p = product(branch, [first, 0, 0, 0])
    np.testing.assert_array_equal(got, p if first > 0 else 0 * p)

    def loop(a, b, c, s):
        T.clear(c)
        for k in T.serial(4):
            if s[k] != 0:
                T.gemm(a, b, c)

    got, p = product(loop, [first, 0, 1, 1])
    np.testing.assert_array_equal(got, 3 * p)


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_a_computed_element_decides_about_a_product(first):
    def branch(a, b, c, s):
        T.clear(c)
        if s[0] > 0:
            T.gemm(a, b, c)

    got, p = product(branch, [first, 0, 0, 0], changed=True)
    np.testing.assert_array_equal(got, p if first + 1 > 0 else 0 * p)


@pytest.mark.parametrize("first", [1.0, -1.0, 30.0])
def test_a_result_decides_what_the_vector_cores_do(first):
    """The second vector core has no part of the tile, and must not run away."""

    def body(a, b, c, s):
        o = T.alloc_fragment((M, M), "float32")
        T.gemm(a, b, c, clear_accum=True)
        T.copy(c, o)
        o[0, 0] = s[0]
        while o[0, 0] < 20.0:
            for i, j in T.Parallel(M, M):
                o[i, j] = o[i, j] + 7
        for k in T.serial(T.cast(s[1], "int32")):
            if o[k, 0] > s[0]:
                for j in T.Parallel(M):
                    o[k, j] = o[k, j] * 2
        T.copy(o, c)

    got, p = product(body, [first, 3, 0, 0])
    p[0, 0] = first
    while p[0, 0] < 20:
        p += 7
    for k in range(3):
        if p[k, 0] > first:
            p[k] *= 2
    np.testing.assert_array_equal(got, p)
