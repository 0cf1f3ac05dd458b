"""Reductions and scans of regions whose extent, known at run time only, may be nothing: a reduction gives the number that changes no
other, a scan writes nothing."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

JOIN = {
    "sum": np.add, "abssum": np.add, "max": np.maximum, "absmax": np.maximum, "min": np.minimum, "any": np.logical_or,
    "all": np.logical_and, "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
}  # fmt: skip


def some(shape, dtype, seed):
    low = -8 if np.dtype(dtype).kind in "if" else 0
    return np.random.default_rng(seed).integers(low, 2 if dtype == "bool" else 9, shape).astype(dtype)


@tilelang.jit
def reduce_columns(kind, dtype, result, clear):
    @T.prim_func
    def main(X: T.Tensor((5, 16), dtype), Y: T.Tensor((5,), result), n: T.int32):
        with T.Kernel(1):
            x = T.alloc_shared((5, 16), dtype)
            y = T.alloc_shared((5,), result)
            T.copy(X, x)
            T.copy(Y, y)
            T.reduce(x[:, 0:n], y, kind, 1, clear)
            T.copy(y, Y)

    return main


def nothing(kind, dtype):
    if kind in ("max", "min"):
        limits = np.finfo(dtype) if dtype == "float32" else np.iinfo(dtype)
        end = limits.min if kind == "max" else limits.max
        return end * np.float64(np.inf) if dtype == "float32" else end
    return {"all": True, "bitand": -1}.get(kind, 0)


CASES = [(kind, dtype) for dtype in ("float32", "int32") for kind in JOIN if dtype == "int32" or not kind.startswith("bit")]


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("kind, dtype", [*CASES, ("max", "uint8"), ("min", "int64")])
@pytest.mark.one_in(6)
def test_reduction_of_a_part(kind, dtype, n):
    result = "bool" if kind in ("any", "all") else dtype
    x, y = some((5, 16), dtype, 1), some((5,), result, 2)
    part = np.abs(x[:, :n]) if kind.startswith("abs") else x[:, :n]
    want = JOIN[kind].reduce(part, axis=1) if n else np.full(5, nothing(kind, dtype))
    for clear in (True, False):
        out = strict.run(reduce_columns(kind, dtype, result, clear), {"X": x, "Y": y.copy()}, {"n": n}, text=kind == "max" and clear)
        np.testing.assert_array_equal(out["Y"], (want if clear else JOIN[kind](want, y)).astype(result))


@tilelang.jit
def scan_part(op, dim, reverse):
    @T.prim_func
    def main(X: T.Tensor((6, 16), "float32"), Y: T.Tensor((6, 16), "float32"), n: T.int32):
        with T.Kernel(1):
            x = T.alloc_shared((6, 16), "float32")
            y = T.alloc_shared((6, 16), "float32")
            T.copy(X, x)
            T.copy(Y, y)
            if dim == 0:
                op(x[0:n, :], y[0:n, :], dim=0, reverse=reverse)
            else:
                op(x[:, 0:n], y[:, 0:n], dim=1, reverse=reverse)
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("n", [0, 4])
@pytest.mark.parametrize("op, dim, reverse", [("cumsum", 0, False), ("cumsum", 1, True), ("cummax", 1, False)])
def test_scan_of_a_part(op, dim, reverse, n):
    x, y = some((6, 16), "float32", 1), some((6, 16), "float32", 2)
    part = (slice(0, n), slice(None)) if dim == 0 else (slice(None), slice(0, n))
    want, turn = y.copy(), (lambda a: np.flip(a, dim)) if reverse else (lambda a: a)
    want[part] = turn((np.cumsum if op == "cumsum" else np.maximum.accumulate)(turn(x[part]), dim))
    out = strict.run(scan_part(getattr(T, op), dim, reverse), {"X": x, "Y": y}, {"n": n}, text=False)
    np.testing.assert_array_equal(out["Y"], want)
