"""`T.reduce_*(…, clear=False)` into a destination of another dtype: what the destination holds keeps its precision and its range."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.tile.table import REDUCTIONS

RNG = np.random.default_rng(11)
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
ROWS, WIDTH = 6, 40


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def largest(name):
    return float(ml_dtypes.finfo(numpy_dtype(name)).max) if name in FLOATS else np.iinfo(name).max


def held(kind, dst, src):
    """Old values: some decide the result, and a few of those need all of the range or all digits of `dst`."""
    most = min(largest(dst), 1e6 if dst in FLOATS else 2**40) * (0.25 if kind == "sum" else 0.75)
    sign = -1 if kind == "min" and not dst.startswith("uint") else 1
    fine = 26.123456 if dst in FLOATS else 27
    x = np.array([sign * most, fine, 0, sign * most / 3, 1.5, 100.5 if kind != "sum" else 3], np.float64)
    return x.astype(numpy_dtype(dst)) if dst in FLOATS else np.clip(np.trunc(x), np.iinfo(dst).min, np.iinfo(dst).max).astype(dst)


def source(src):
    if src in FLOATS:
        return (RNG.standard_normal((ROWS, WIDTH)) * 2).astype(numpy_dtype(src))
    low = 0 if src.startswith("uint") else -2
    return RNG.integers(low, 3, (ROWS, WIDTH)).astype(src)


def wide(x):
    return x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(object)


def expected(kind, x, y, dst):
    a, b = wide(x), wide(y)
    if dst in INTEGERS and a.dtype != object:
        a = np.trunc(a).astype(np.int64).astype(object) if kind in ("max", "min", "absmax") else a
    if kind == "absmax":
        a = np.abs(a)
    red = {"sum": lambda v: v.sum(1), "max": lambda v: v.max(1), "min": lambda v: v.min(1), "absmax": lambda v: v.max(1)}[kind](a)
    if dst in INTEGERS:
        red = np.array([int(v) for v in red], object)
    b = b.astype(object)
    total = {"sum": red + b, "max": np.maximum(red, b), "min": np.minimum(red, b), "absmax": np.maximum(red, b)}[kind]
    return np.array(list(total)).astype(numpy_dtype(dst))


def kernel(src, dst, kinds):
    n = len(kinds)

    @T.prim_func
    def main(X: T.Tensor((ROWS, WIDTH), src), M: T.Tensor((n, ROWS), dst), Y: T.Tensor((n, ROWS), dst)):
        with T.Kernel(1):
            x = T.alloc_shared((ROWS, WIDTH), src)
            keep = T.alloc_fragment((ROWS,), dst)
            T.copy(X, x)
            for k, kind in enumerate(kinds):
                T.copy(M[k, 0], keep)
                T.reduce(x, keep, kind, 1, False)
                T.copy(keep, Y[k, 0])

    return main


def check(src, dst, kinds):
    x, old = source(src), np.stack([held(k, dst, src) for k in kinds])
    func = kernel(src, dst, kinds)
    out = strict.run(tilelang.compile(func), {"X": x, "M": old, "Y": np.zeros((len(kinds), ROWS), numpy_dtype(dst))}, text=False)
    for k, kind in enumerate(kinds):
        want = expected(kind, x, old[k], dst)
        exact = kind != "sum" or dst in INTEGERS
        # float sums: one rounding of a sum in float32 (integer sums of floats: of the sum, before it is cut)
        got = out["Y"][k]
        if exact and not (kind == "sum" and src in FLOATS):
            assert got.tobytes() == want.tobytes(), (kind, got, want)
        else:
            step = 1 if dst in INTEGERS else float(ml_dtypes.finfo(numpy_dtype(dst)).eps)
            a, b = got.astype(np.float64), want.astype(np.float64)
            assert np.all(np.abs(a - b) <= step * np.maximum(1, np.abs(b)) + 1e-5), (kind, got, want)


def kinds_of(src, dst):
    if dst.startswith("uint") and not src.startswith("uint"):
        return ("max", "absmax")
    return ("max", "min", "sum") if src.startswith("uint") else ("max", "min", "sum", "absmax")


PAIRS = [(s, d) for s in (*FLOATS, *INTEGERS) for d in (*FLOATS, *INTEGERS)]
COMMON = [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32"), ("float16", "bfloat16"),
          ("int8", "float32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float16"), ("int32", "uint32"), ("float32", "int8"), ("int32", "int16")]  # fmt: skip


@pytest.mark.parametrize("src, dst", COMMON)
@pytest.mark.one_in(6)
def test_destination_keeps_its_own_values(src, dst):
    check(src, dst, kinds_of(src, dst))


@pytest.mark.slow
@pytest.mark.parametrize("src, dst", [p for p in PAIRS if p not in COMMON])
def test_destination_keeps_its_own_values_in_every_dtype(src, dst):
    check(src, dst, kinds_of(src, dst))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_flags_joined_with_numbers_are_flags(dtype):
    """What the destination holds counts as a flag, whatever number it is."""

    @T.prim_func
    def main(X: T.Tensor((6, 16), dtype), M: T.Tensor((6,), dtype), Y: T.Tensor((2, 6), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((6, 16), dtype)
            some = T.alloc_fragment((6,), dtype)
            every = T.alloc_fragment((6,), dtype)
            T.copy(X, x)
            T.copy(M, some)
            T.copy(M, every)
            T.reduce_any(x, some, dim=1, clear=False)
            T.reduce_all(x, every, dim=1, clear=False)
            T.copy(some, Y[0, 0])
            T.copy(every, Y[1, 0])

    x = np.zeros((6, 16), numpy_dtype(dtype))
    x[3:] = 2
    old = np.array([0, -3, 8, 0, -3, 8]).astype(x.dtype)
    out = strict.run(tilelang.compile(main), {"X": x, "M": old, "Y": np.zeros((2, 6), x.dtype)}, text=False)["Y"]
    np.testing.assert_array_equal(out.astype(np.float32), [[0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]])


def test_every_named_reduction_keeps_what_the_destination_holds():
    """`T.reduce_<kind>(…, clear=False)` is `T.reduce(…, "<kind>", clear=False)`: the same values where the destination starts alike."""

    @T.prim_func
    def k(X: T.Tensor((4, 8), "int32"), B: T.Tensor((len(REDUCTIONS), 2, 4), "int32")):
        with T.Kernel(1):
            x, y, z = T.alloc_fragment((4, 8), "int32"), T.alloc_fragment((4,), "int32"), T.alloc_fragment((4,), "int32")
            T.copy(X, x)
            for n, kind in enumerate(REDUCTIONS):
                T.fill(y, 5)
                T.fill(z, 5)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=False)
                T.reduce(x, z, kind, 1, False)
                T.copy(y, B[n, 0, :])
                T.copy(z, B[n, 1, :])

    x = RNG.integers(-9, 10, (4, 8)).astype(np.int32)
    got = strict.run(tilelang.compile(k), {"X": x, "B": np.zeros((len(REDUCTIONS), 2, 4), np.int32)}, text=False)["B"]
    assert (got[:, 0] == got[:, 1]).all()
    assert (got[REDUCTIONS.index("abssum"), 0] == 5 + np.abs(x).sum(1)).all()
    mine = np.zeros_like(got)
    interpret.run(k, x, mine)
    assert (mine == got).all()


SUMS = [("int32", "float32", "sum"), ("int32", "float16", "sum"), ("int32", "bfloat16", "abssum"), ("uint32", "float32", "sum"), ("int64", "float32", "sum"),
        ("uint32", "float32", "max"), ("uint32", "float16", "min"), ("uint32", "bfloat16", "max"), ("int32", "float32", "absmax")]  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("src, dst, kind", SUMS)
@pytest.mark.one_in(3)
def test_integers_are_reduced_into_floats_in_the_range_of_floats(src, dst, kind, dim):
    """Compiled, in the interpreter of Tile IR, and as plain Python."""
    shape = (9, 40)

    @T.prim_func
    def main(X: T.Tensor(shape, src), Y: T.Tensor((shape[1 - dim],), dst)):
        with T.Kernel(1):
            x, y = T.alloc_shared(shape, src), T.alloc_fragment((shape[1 - dim],), dst)
            T.copy(X, x)
            T.reduce(x, y, kind, dim)
            T.copy(y, Y)

    info = np.iinfo(src)
    x = RNG.integers(info.max // 2, info.max, shape, dtype=src, endpoint=True)
    x[:, 5], x[4] = info.min, info.min // 2
    wide = np.abs(x.astype(np.float64)) if kind.startswith("abs") else x.astype(np.float64)
    with np.errstate(over="ignore"):
        want = getattr(wide, kind.removeprefix("abs"))(dim).astype(numpy_dtype(dst)).astype(np.float64)
    zeros = np.zeros(shape[1 - dim], numpy_dtype(dst))
    plain = zeros.copy()
    interpret.run(main, x.copy(), plain)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": zeros}, text=False)
    limits = {"rtol": 2 * float(ml_dtypes.finfo(numpy_dtype(dst)).eps), "atol": 1e-6 * np.abs(wide).sum(dim).max()}
    for got in (plain, out["Y"]):
        np.testing.assert_allclose(got.astype(np.float64), want, **limits)


@pytest.mark.parametrize("dst", ["int32", "int16", "int8", "uint8", "uint32", "int64"])
@pytest.mark.parametrize("dim", [0, 1])
def test_floats_are_whole_before_they_meet_integers_of_the_destination(dst, dim):
    """An accumulator of integers adds up integers, and wraps like them: 5 + int(-0.5) is 5."""
    rows = 4
    shape = (rows, 2) if dim else (2, rows)

    @T.prim_func
    def main(X: T.Tensor(shape, "float32"), M: T.Tensor((rows,), dst), Y: T.Tensor((rows,), dst)):
        with T.Kernel(1):
            x, y = T.alloc_shared(shape, "float32"), T.alloc_fragment((rows,), dst)
            T.copy(X, x)
            T.copy(M, y)
            T.reduce_sum(x, y, dim=dim, clear=False)
            T.copy(y, Y)

    most = np.iinfo(dst).max
    x = np.array([[-0.25, -0.25], [1.5, 1.25], [2.5, -0.75], [0.5, 1.5]], np.float32)
    old = np.array([5, 7, most - 1, most], dst)
    want = old + np.array([0, 2, 1, 2], dst)
    x = x if dim else np.ascontiguousarray(x.T)
    plain = np.zeros(rows, dst)
    interpret.run(main, x.copy(), old.copy(), plain)
    np.testing.assert_array_equal(plain, want)
    out = strict.run(tilelang.compile(main), {"X": x, "M": old, "Y": np.zeros(rows, dst)}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("src, dst", [("int32", "float32"), ("int8", "float16"), ("float32", "int32"), ("float16", "int8")])
def test_long_rows_are_reduced_in_parts_between_integers_and_floats(src, dst):
    length = 150_000

    @T.prim_func
    def main(X: T.Tensor((2, length), src), Y: T.Tensor((2, 2), dst)):
        with T.Kernel(2) as bx:
            x, y = T.alloc_shared((1, length), src), T.alloc_fragment((1,), dst)
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, Y[bx, 0:1])
            T.reduce_max(x, y, dim=1)
            T.copy(y, Y[bx, 1:2])

    x = np.zeros((2, length), numpy_dtype(src))
    x[:, ::1000] = (
        np.array([[0.375], [0.75]]) if src in FLOATS else np.array([[3], [-2]]) if src == "int8" else np.array([[2**30], [-(2**29)]])
    )
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((2, 2), numpy_dtype(dst))}, text=False)
    sums = x[:, ::1000].astype(np.float64).sum(1)
    with np.errstate(invalid="ignore"):
        want = np.stack([sums, x.max(1).astype(np.float64)], 1).astype(numpy_dtype(dst))
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("kind", ["sum", "max", "absmax", "bitor"])
@pytest.mark.parametrize("src, dst", [("int8", "uint64"), ("int64", "uint64"), ("uint64", "int64"), ("uint64", "int16")])
@pytest.mark.one_in(2)
def test_uint64_meets_signed_numbers_in_the_dtype_of_the_destination(src, dst, kind):
    """No integer dtype holds both: the result is converted first, and what the destination holds keeps all its digits."""
    out_of = kernel(src, dst, [kind])
    x = RNG.integers(0, 100, (ROWS, WIDTH)).astype(src)
    old = np.array([np.iinfo(dst).max, 5, np.iinfo(dst).max // 2 + 2, 0, 98, 1234], np.uint64).astype(dst)[None]
    want = {"sum": np.add, "bitor": np.bitwise_or}.get(kind, np.maximum)(
        {"sum": np.sum, "bitor": np.bitwise_or.reduce}.get(kind, np.max)(x, axis=1).astype(dst), old
    )
    plain = np.zeros((1, ROWS), dst)
    interpret.run(out_of, x.copy(), old.copy(), plain)
    np.testing.assert_array_equal(plain, want)
    out = strict.run(tilelang.compile(out_of), {"X": x, "M": old, "Y": np.zeros((1, ROWS), dst)}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("dst", ["int8", "int64"])
def test_magnitudes_of_unsigned_numbers_are_these_numbers(dst):
    @T.prim_func
    def main(X: T.Tensor((ROWS, WIDTH), "uint64"), Y: T.Tensor((ROWS,), dst)):
        with T.Kernel(1):
            x, y = T.alloc_shared((ROWS, WIDTH), "uint64"), T.alloc_fragment((ROWS,), dst)
            T.copy(X, x)
            T.reduce_absmax(x, y, dim=1)
            T.copy(y, Y)

    x = RNG.integers(0, 2**64 - 1, (ROWS, WIDTH), np.uint64)
    plain = np.zeros(ROWS, dst)
    interpret.run(main, x.copy(), plain)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(ROWS, dst)}, text=False)
    for got in (plain, out["Y"]):
        np.testing.assert_array_equal(got, x.max(1).astype(dst))
