"""Reductions and scans: every operation and dtype, ranks 1 to 4, every kind of dimension, odd extents, with and without `clear`.

One kernel runs all operations of a dtype on one shape; every dtype meets every third shape, so all pairs of (operation, dtype),
(operation, shape) and (dtype, kind of shape) occur.
"""

import ml_dtypes
import numpy as np
import pytest
import roads

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

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
    """(dtype, shape, dim, clear, keep): every dtype with every third shape, both flags turning with the shapes."""
    for d, dtype in enumerate((*FLOATS, *SIGNED, *UNSIGNED, "bool")):
        for s in range(d % 3, len(SHAPES), 3):
            yield dtype, *SHAPES[s], (d + s // 3) % 2 == 0, (d + s // 2) % 3 == 0


def tolerance(dtype, kind, length):
    if kind not in ("sum", "abssum") or dtype not in FLOATS:
        return {"rtol": 0, "atol": 0}
    return roads.tolerance(dtype, length)


def check(shape, dim, dtype, clear, keep):
    """Values of all operations; returns the emitted text."""
    flags, kinds = ["any", "all"], [k for k in kinds_of(dtype) if k not in ("any", "all") and (clear or k != "abssum")]
    kernel = tilelang.compile(reductions(shape, dim, dtype, kinds, flags, clear, keep))
    x = values(shape, dtype)
    wide = x.astype(np.float64) if dtype in FLOATS else x
    small = tuple(1 if d == dim % len(shape) else n for d, n in enumerate(shape)) if keep else dropped(shape, dim)
    old = values((max(len(kinds), 1), *small), dtype)
    old_flags = RNG.random((2, *small)) < 0.5
    out = roads.run(kernel, {"X": x, "Y": old, "F": old_flags}, text=False)
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
def test_reductions(dtype, shape, dim, clear, keep):
    check(shape, dim, dtype, clear, keep)
