"""Reductions and scans: every operation and dtype, ranks 1 to 4, every kind of dimension, odd extents, with and without `clear`.

One kernel runs all operations of a dtype on one shape; every dtype meets every fourth shape, so all pairs of (operation, dtype),
(operation, shape) and (dtype, kind of shape) occur.
"""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(3)

SHAPES = [
    ((129,), 0), ((7, 33), 1), ((33, 7), 0), ((3, 7, 33), 1), ((17, 129), -1), ((2, 3, 5, 9), -1),
    ((1,), -1), ((33, 1), 1), ((3, 4, 129), 0), ((2, 3, 7, 33), 2), ((1, 33), -1), ((2, 3, 5, 9), 1),
    ((7, 3, 33), -1), ((129, 1), 0), ((3, 2, 5, 17), 0),
]  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32")
NUMPY = {
    "sum": np.sum, "max": np.max, "min": np.min,
    "abssum": lambda x, **k: np.sum(np.abs(x), **k), "absmax": lambda x, **k: np.max(np.abs(x), **k),
    "any": lambda x, **k: np.any(x != 0, **k), "all": lambda x, **k: np.all(x != 0, **k),
    "bitand": lambda x, **k: np.bitwise_and.reduce(x, **k), "bitor": lambda x, **k: np.bitwise_or.reduce(x, **k),
    "bitxor": lambda x, **k: np.bitwise_xor.reduce(x, **k),
}  # fmt: skip
JOIN = {
    "sum": np.add, "max": np.maximum, "min": np.minimum, "absmax": np.maximum, "any": np.logical_or, "all": np.logical_and,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
}  # fmt: skip


def numpy_dtype(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def kinds_of(dtype):
    if dtype == "bool":
        return ["any", "all"]
    plain = ["sum", "max", "min", "abssum", "absmax", "any", "all"]
    return plain if dtype in FLOATS else [*plain, "bitand", "bitor", "bitxor"]


def values(shape, dtype):
    """Small enough that no integer sum leaves its dtype; zeros among them."""
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype in FLOATS:
        return np.where(RNG.random(shape) < 0.1, 0, RNG.standard_normal(shape)).astype(numpy_dtype(dtype))
    count = max(shape)
    low, high = (-(100 // count) if dtype in SIGNED else 0, max(200 // count, 2)) if dtype in ("int8", "uint8") else (0, 200)
    x = RNG.integers(-high if dtype in SIGNED and dtype != "int8" else low, high, shape)
    return x.astype(dtype)


def dropped(shape, dim):
    return tuple(n for d, n in enumerate(shape) if d != dim % len(shape)) or (1,)


def reductions(shape, dim, dtype, kinds, flags, clear, keep):
    """Results of `kinds` in Y, of `flags` (any, all) in F, one plane for each; with `clear=False` the old contents count."""
    small = tuple(1 if d == dim % len(shape) else n for d, n in enumerate(shape)) if keep else dropped(shape, dim)

    @T.prim_func
    def main(
        X: T.Tensor(shape, dtype),
        Y: T.Tensor((max(len(kinds), 1), *small), dtype),
        F: T.Tensor((len(flags), *small), "bool"),
    ):
        with T.Kernel(1):
            x = T.alloc_fragment(shape, dtype)
            y = T.alloc_fragment(small, dtype)
            f = T.alloc_fragment(small, "bool")
            T.copy(X, x)
            for k, kind in enumerate(kinds):
                place = (k, *(0 for _ in small))
                if not clear:
                    T.copy(Y[place], y)
                T.reduce(x, y, kind, dim, clear)
                T.copy(y, Y[place])
            for k, kind in enumerate(flags):
                place = (k, *(0 for _ in small))
                if not clear:
                    T.copy(F[place], f)
                T.reduce(x, f, kind, dim, clear)
                T.copy(f, F[place])

    return main


def cases():
    """(dtype, shape, dim, clear, keep): every dtype with every fourth shape, both flags turning with the shapes."""
    for d, dtype in enumerate((*FLOATS, *SIGNED, *UNSIGNED, "bool")):
        for s in range(d % 4, len(SHAPES), 4):
            yield dtype, *SHAPES[s], (d + s // 4) % 2 == 0, (d + s // 2) % 3 == 0


def tolerance(dtype, kind, length):
    if kind not in ("sum", "abssum") or dtype not in FLOATS:
        return {"rtol": 0, "atol": 0}
    return strict.tolerance(dtype, length)


def check(shape, dim, dtype, clear, keep):
    """Values of all operations; returns the emitted text."""
    flags, kinds = ["any", "all"], [k for k in kinds_of(dtype) if k not in ("any", "all") and (clear or k != "abssum")]
    kernel = tilelang.compile(reductions(shape, dim, dtype, kinds, flags, clear, keep))
    x = values(shape, dtype)
    wide = x.astype(np.float64) if dtype in FLOATS else x
    small = tuple(1 if d == dim % len(shape) else n for d, n in enumerate(shape)) if keep else dropped(shape, dim)
    old = values((max(len(kinds), 1), *small), dtype)
    old_flags = RNG.random((2, *small)) < 0.5
    out = strict.run(kernel, {"X": x, "Y": old, "F": old_flags}, text=False)
    for name, before, these in (("Y", old, kinds), ("F", old_flags, flags)):
        for k, kind in enumerate(these):
            want = NUMPY[kind](wide, axis=dim).reshape(small)
            if not clear:
                want = JOIN[kind](want, before[k].astype(want.dtype))
            got = out[name][k]
            want = want.astype(np.float64 if dtype in FLOATS and name == "Y" else got.dtype)
            message = f"{kind} of {dtype}"
            np.testing.assert_allclose(got.astype(want.dtype), want, **tolerance(dtype, kind, shape[dim]), err_msg=message)
    return kernel.get_kernel_source()


@pytest.mark.parametrize("dtype, shape, dim, clear, keep", list(cases()))
@pytest.mark.one_in(18)
def test_reductions(dtype, shape, dim, clear, keep):
    text = check(shape, dim, dtype, clear, keep)
    narrow_column = keep and dim % len(shape) == len(shape) - 1 or shape[dim % len(shape)] == 1
    if numpy_dtype(dtype).itemsize > 1 and not narrow_column:
        assert "GetValue" not in text, "scalar loops"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_half_sums_accumulate_in_float32(dtype, dim):
    """One large element among many small ones: the error is half a unit of the result, or of float32 in a float32 result."""
    shape = (300, 17) if dim == 0 else (17, 300)

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor((17,), dtype), Z: T.Tensor((17,), "float32"), S: T.Tensor(shape, dtype)):
        with T.Kernel(1):
            x = T.alloc_fragment(shape, dtype)
            y = T.alloc_fragment((17,), dtype)
            z = T.alloc_fragment((17,), "float32")
            s = T.alloc_shared(shape, dtype)
            T.copy(X, x)
            T.reduce_sum(x, y, dim=dim)
            T.reduce_sum(x, z, dim=dim)
            T.cumsum(x, s, dim=dim)
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(s, S)

    x = RNG.random(shape).astype(numpy_dtype(dtype))
    x[(0, slice(None)) if dim == 0 else (slice(None), 0)] = 1000
    zeros = np.zeros(17, numpy_dtype(dtype))
    out = strict.run(tilelang.compile(main), {"X": x, "Y": zeros, "Z": zeros.astype(np.float32), "S": np.zeros_like(x)}, text=False)
    exact = x.astype(np.float64).sum(axis=dim)
    half_ulp = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(out["Z"], exact, rtol=300 * 2.0**-24)
    np.testing.assert_allclose(out["Y"].astype(np.float64), exact, rtol=half_ulp + 300 * 2.0**-24)
    np.testing.assert_allclose(out["S"].astype(np.float64), np.cumsum(x.astype(np.float64), axis=dim), rtol=half_ulp + 300 * 2.0**-24)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_integer_sums_wrap(dtype, dim):
    @T.prim_func
    def main(X: T.Tensor((33, 40), dtype), Y: T.Tensor((40 if dim == 0 else 33,), dtype), S: T.Tensor((33, 40), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((33, 40), dtype)
            y = T.alloc_fragment((40 if dim == 0 else 33,), dtype)
            T.copy(X, x)
            T.reduce_sum(x, y, dim=dim)
            T.cumsum(x, dim=dim)
            T.copy(y, Y)
            T.copy(x, S)

    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (33, 40), dtype=dtype, endpoint=True)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(40 if dim == 0 else 33, dtype), "S": np.zeros_like(x)}, text=False)
    np.testing.assert_array_equal(out["Y"], x.sum(axis=dim, dtype=dtype))
    np.testing.assert_array_equal(out["S"], np.cumsum(x, axis=dim, dtype=dtype))


NARROWED = [
    ("int32", "int16", "max"), ("int32", "uint8", "min"), ("int16", "int8", "max"), ("uint8", "int8", "max"), ("int32", "int8", "bitor"),
    ("int8", "int8", "absmax"), ("int16", "int16", "absmax"), ("int32", "int32", "absmax"),
]  # fmt: skip
WIDENED = [
    ("int8", "int32", "sum"), ("int8", "int32", "abssum"), ("bool", "int16", "sum"), ("int8", "int32", "absmax"), ("int16", "int32", "absmax"),
    ("uint16", "int32", "cumsum"), ("int8", "int64", "cumsum"),
]  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("source, target, kind", [*NARROWED, *WIDENED])
@pytest.mark.one_in(6)
def test_integers_are_reduced_in_the_range_of_the_result_and_wrap(source, target, kind, dim):
    shape = (9, 17)
    out_shape = shape if kind == "cumsum" else (17,) if dim == 0 else (9,)

    @T.prim_func
    def main(X: T.Tensor(shape, source), Y: T.Tensor(out_shape, target)):
        with T.Kernel(1):
            x, y = T.alloc_shared(shape, source), T.alloc_shared(out_shape, target)
            T.copy(X, x)
            if kind == "cumsum":
                T.cumsum(x, y, dim=dim)
            else:
                getattr(T, f"reduce_{kind}")(x, y, dim=dim)
            T.copy(y, Y)

    if source == "bool":
        x = RNG.integers(0, 2, shape).astype(bool)
    else:
        info = np.iinfo(source)
        x = RNG.integers(info.min, info.max, shape, dtype=source, endpoint=True)
        x[3:6, 2:5], x[4, 2:5], x[6] = info.min, 5, info.min
    wide = x.astype(np.promote_types(source, target))
    want = {**NUMPY, "cumsum": np.cumsum}[kind](wide.astype(np.int64) if kind.endswith("sum") and kind != "abssum" else wide, axis=dim)
    if kind == "abssum":
        want = np.abs(wide).sum(axis=dim, dtype=np.int64)
    arrays = {"X": x, "Y": np.zeros(out_shape, target)}
    mine = {name: a.copy() for name, a in arrays.items()}
    interpret.run(main, *mine.values())
    np.testing.assert_array_equal(mine["Y"], want.astype(target))
    out = strict.run(tilelang.compile(main), arrays, text=False)
    np.testing.assert_array_equal(out["Y"], want.astype(target))


SCANS = [
    ("float32", (129,), 0, False), ("float16", (7, 33), 1, True), ("bfloat16", (33, 7), 0, True), ("int32", (3, 7, 33), 1, False),
    ("int8", (3, 5, 9), -1, True), ("float32", (2, 3, 5, 9), 2, True), ("int16", (2, 3, 33), 0, False), ("uint8", (1, 33), -1, False),
    ("int32", (2, 3, 5, 17), -1, True), ("float32", (5, 1), 1, False), ("uint32", (4, 33), 1, True),
    ("uint16", (3, 17), 0, False), ("int64", (3, 5, 9), 1, True), ("int64", (7, 33), -1, False),
]  # fmt: skip


@pytest.mark.parametrize("dtype, shape, dim, reverse", SCANS)
@pytest.mark.one_in(3)
def test_scans(dtype, shape, dim, reverse):
    names = ["cumsum", "cummax"]

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor((2, *shape), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared(shape, dtype)
            y = T.alloc_fragment(shape, dtype)
            T.copy(X, x)
            for k, name in enumerate(names):
                getattr(T, name)(x, y, dim=dim, reverse=reverse)
                T.copy(y, Y[(k, *(0 for _ in shape))])

    x = values(shape, dtype)
    if dtype in ("uint16", "uint32"):
        x[RNG.random(shape) < 0.3] |= np.array(1 << 8 * x.itemsize - 1, dtype)
    kernel = tilelang.compile(main)
    assert "GetValue" not in kernel.get_kernel_source(), "scalar loops"
    out = strict.run(kernel, {"X": x, "Y": np.zeros((2, *shape), x.dtype)}, text=False)["Y"].astype(np.float64)
    flipped = np.flip(x.astype(np.float64), dim) if reverse else x.astype(np.float64)
    for k, accumulate in enumerate((np.add, np.maximum)):
        want = accumulate.accumulate(flipped, axis=dim)
        want = want % 256.0**x.itemsize if dtype in UNSIGNED else want
        limits = tolerance(dtype, "sum" if k == 0 else "max", shape[dim])
        np.testing.assert_allclose(out[k], np.flip(want, dim) if reverse else want, **limits)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    "source, target",
    [("int32", "float32"), ("int32", "float16"), ("uint64", "float32"), ("float32", "int64"), ("float16", "uint64"), ("float32", "uint32"), ("float32", "uint16")],
)  # fmt: skip
def test_sums_of_scans_have_the_range_of_the_result_and_become_integers_at_the_end(source, target, dim):
    """Compiled, in the interpreter of Tile IR, and as plain Python."""
    shape = (9, 40)

    @T.prim_func
    def main(X: T.Tensor(shape, source), Y: T.Tensor(shape, target)):
        with T.Kernel(1):
            x, y = T.alloc_shared(shape, source), T.alloc_shared(shape, target)
            T.copy(X, x)
            T.cumsum(x, y, dim=dim)
            T.copy(y, Y)

    if source in FLOATS:
        x = (RNG.integers(0, 8, shape) / 4).astype(source)
        x[0, 0] = 3e9 if target == "uint32" else 40000 if target == "uint16" else 0
    else:
        x = RNG.integers(np.iinfo(source).max // 2, np.iinfo(source).max, shape, source)
    with np.errstate(over="ignore"):
        want = np.cumsum(x, axis=dim, dtype=np.float32 if target == "uint32" else np.float64).astype(target)
    arrays = {"X": x, "Y": np.zeros(shape, target)}
    mine = {name: a.copy() for name, a in arrays.items()}
    interpret.run(main, *mine.values())
    out = strict.run(tilelang.compile(main), arrays, text=False)
    step = {"float32": 1e-5, "float16": 2e-3}.get(target, 0)
    for got in (mine["Y"], out["Y"]):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=step, atol=512 if target == "uint32" else 0)


@pytest.mark.parametrize(
    "op, dtype, replication",
    [
        ("sum", "float32", "all"),
        ("max", "float16", "none"),
        ("min", "int32", None),
        ("sum", "int64", "all"),
        ("max", "int64", None),
        ("max", "uint32", None),
        ("sum", "uint16", None),
        ("bitand", "int32", None),
        ("bitor", "uint8", None),
        ("bitxor", "int64", None),
        ("bitxor", "int16", None),
    ],
)
@pytest.mark.one_in(9)
def test_reducers_over_steps(op, dtype, replication):
    """Several T.Parallel nests, in a loop, accumulate into a row, a column and a single element."""

    @T.prim_func
    def main(X: T.Tensor((3, 9, 40), dtype), R: T.Tensor((9,), dtype), C: T.Tensor((40,), dtype), E: T.Tensor((1,), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((9, 40), dtype)
            rows = T.alloc_reducer((9,), dtype, op=op, replication=replication)
            columns = T.alloc_reducer((40,), dtype, op=op, replication=replication)
            one = T.alloc_reducer((1,), dtype, op=op)
            result = T.alloc_fragment((40,), dtype)
            T.reducer_init(rows)
            T.reducer_init(columns)
            T.reducer_init(one)
            for k in T.serial(3):
                T.copy(X[k, 0, 0], x)
                for i, j in T.Parallel(9, 40):
                    T.reducer_update(rows[i], x[i, j])
                    T.reducer_update(columns[j], x[i, j])
                for i, j in T.Parallel(9, 40):
                    T.reducer_update(one[0], x[i, j])
            T.finalize_reducer(rows)
            T.finalize_reducer(columns, result)
            T.finalize_reducer(one)
            T.copy(rows, R)
            T.copy(result, C)
            T.copy(one, E)

    x = values((3, 9, 40), dtype)
    x = x | 64 if op == "bitand" else x
    arrays = {"X": x, **{n: np.zeros(s, dtype) for n, s in (("R", 9), ("C", 40), ("E", 1))}}
    kernel = tilelang.compile(main)
    out = strict.run(kernel, arrays, text=False)
    for name, axes, length in (("R", (0, 2), 120), ("C", (0, 1), 27), ("E", None, 1080)):
        want = NUMPY[op](x if op.startswith("bit") else x.astype(np.float64), axis=axes)
        want = want % 65536 if dtype == "uint16" else want
        limits = tolerance(dtype, op, length)
        np.testing.assert_allclose(out[name].astype(np.float64).reshape(np.shape(want)), want, **limits)
    assert "GetValue" not in kernel.get_kernel_source()


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_and_all_of_special_floats(dtype):
    """The smallest numbers, infinities and NaN are not zero; -0.0 is."""

    @T.prim_func
    def main(X: T.Tensor((7, 9), dtype), A: T.Tensor((7,), "bool"), B: T.Tensor((9,), "bool")):
        with T.Kernel(1):
            x = T.alloc_fragment((7, 9), dtype)
            some = T.alloc_fragment((7,), "bool")
            every = T.alloc_fragment((9,), "bool")
            T.copy(X, x)
            T.reduce_any(x, some, dim=1)
            T.reduce_all(x, every, dim=0)
            T.copy(some, A)
            T.copy(every, B)

    tiny = ml_dtypes.finfo(numpy_dtype(dtype)).smallest_subnormal
    x = np.zeros((7, 9), numpy_dtype(dtype))
    x[:, 2] = [tiny, np.nan, -np.inf, 1, -tiny, np.inf, -1]
    x[:, 4] = -0.0
    x[3:6, 2] = -0.0, tiny, 0.0
    x[:, 7] = [tiny, np.nan, -np.inf, -tiny, 1, np.nan, -1]
    x[4:, 7] = [0.0, np.nan, -0.0]
    x[:, 8] = [np.nan, tiny, 1, -tiny, np.inf, 2, 3]
    out = strict.run(tilelang.compile(main), {"X": x, "A": np.zeros(7, bool), "B": np.zeros(9, bool)}, text=False)
    np.testing.assert_array_equal(out["A"], (x != 0).any(axis=1))
    np.testing.assert_array_equal(out["B"], (x != 0).all(axis=0))
