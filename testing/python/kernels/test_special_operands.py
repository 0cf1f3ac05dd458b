"""Functions and casts of zeros, infinities and NaN: the same in nests, on scalars, as plain Python, and as NumPy has it."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 4, -8, 1e-45, -1e-45, 0.5, -0.5, 3e38, -3e38, 3], np.float32)


def same(got, want):
    """The same numbers, zeros by their sign."""
    numbers = want == want
    np.testing.assert_allclose(got, want, rtol=3e-5)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


def test_powers():
    exponents = [0.5, -0.5, 1.5, -5.0, np.inf, -np.inf, np.nan]
    count, n = len(SPECIAL), len(exponents)

    @T.prim_func
    def main(X: T.Tensor((count,), "float32"), E: T.Tensor((n,), "float32"), Y: T.Tensor((2 * n + 1, count), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((count,), "float32"), T.alloc_shared((2 * n + 1, count), "float32")
            T.copy(X, x)
            for k, e in enumerate(exponents):
                for i in T.Parallel(count):
                    y[k, i] = T.pow(x[i], e)
            for k in range(n):
                for i in T.Parallel(count):
                    y[n + k, i] = T.pow(x[i], E[k])
            for i in range(count):
                root = x[i] ** 0.5
                y[2 * n, i] = root
            T.copy(y, Y)

    e = np.array(exponents, np.float32)
    with np.errstate(all="ignore"):
        want = np.float_power(SPECIAL, np.concatenate([e, e, e[:1]])[:, None]).astype(np.float32)
    same(strict.run(tilelang.compile(main), {"X": SPECIAL, "E": e, "Y": np.zeros_like(want)}, text=False)["Y"], want)
    y = np.zeros_like(want)
    interpret.run(main, SPECIAL.copy(), e, y)
    same(y, want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_functions_of_narrow_floats_are_rounded_where_that_is_written(dtype):
    """The result is a float32; rounding it to the dtype of the operand is no conversion from that to itself."""
    n = 64

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((6, n), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((n,), dtype), T.alloc_shared((6, n), "float32")
            T.copy(X, x)
            for i in T.Parallel(n):
                y[0, i] = T.exp(x[i])
                y[1, i] = T.cast(T.exp(x[i]), dtype)
                y[2, i] = T.cast(T.cast(T.reciprocal(x[i]), dtype), "float32") * 3.0
                y[3, i] = T.abs(x[i]) + abs(x[i])
            T.exp(x, y[4, :])
            for i in range(n):
                root = T.cast(T.sqrt(x[i]), dtype)
                y[5, i] = root
            T.copy(y, Y)

    kind = getattr(ml_dtypes, dtype)
    x = np.linspace(-2, 4, n).astype(np.float32).astype(kind)
    v, rounded = x.astype(np.float32), lambda a: a.astype(kind).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.stack([np.exp(v), rounded(np.exp(v)), rounded(1 / v) * 3, 2 * np.abs(v), np.exp(v), rounded(np.sqrt(v))])
    y = np.zeros_like(want)
    np.testing.assert_allclose(strict.run(tilelang.compile(main), {"X": x, "Y": y}, text=False)["Y"], want, rtol=3e-7)
    interpret.run(main, x.copy(), y)
    np.testing.assert_allclose(y, want, rtol=3e-7)


def test_zeros_have_an_order_and_rounding_takes_their_sign():
    """The sign of a zero is seen in its reciprocal. Plain Python and Tile IR have the same zeros as the compiled kernel."""
    n = 16

    @T.prim_func
    def main(X: T.Tensor((4, n), "float32"), Y: T.Tensor((5, 4), "float32"), Z: T.Tensor((8, n), "float32")):
        with T.Kernel(1):
            x, y, z = T.alloc_fragment((4, n), "float32"), T.alloc_fragment((4,), "float32"), T.alloc_fragment((8, n), "float32")
            T.copy(X, x)
            for k, (kind, clear) in enumerate((("max", True), ("min", True), ("max", False), ("min", False), ("absmax", True))):
                T.fill(y, -0.0)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=clear)
                for i in T.Parallel(4):
                    Y[k, i] = 1.0 / y[i]
            T.cummax(x, z[0:4, :], dim=1)
            for i in T.Parallel(n):
                z[4, i] = T.floor(x[1, i] * 0.25)
                z[5, i] = T.ceil(x[1, i] * 0.25)
                z[6, i] = T.trunc(x[1, i] * 0.25)
                z[7, i] = T.round(x[1, i] * 0.25)
            for i, j in T.Parallel(8, n):
                Z[i, j] = 1.0 / z[i, j]

    x = np.full((4, n), -0.0, np.float32)
    x[0, 3] = x[2] = 0.0
    x[2, 5] = -0.0
    x[3, 0], x[3, 7] = -1, 0.0
    below = np.array([[1, -1, 1, 1], [-1, -1, -1, -1]], np.float32) * np.inf
    below[1, 3] = -1
    maxima = np.where((np.arange(n) >= [[3], [n], [0], [7]]), np.inf, -np.inf).astype(np.float32)
    maxima[3, 0] = -1
    y = np.stack([*below, *below, [np.inf, np.inf, np.inf, 1]]).astype(np.float32)
    z = np.concatenate([maxima, np.full((4, n), np.inf, np.float32)])
    arrays = {"X": x, "Y": np.zeros_like(y), "Z": np.zeros_like(z)}
    out = strict.run(tilelang.compile(main), arrays, text=False)
    with np.errstate(all="ignore"):
        interpret.run(main, *arrays.values())
    for got in (out, arrays):
        np.testing.assert_array_equal(got["Y"], y)
        np.testing.assert_array_equal(got["Z"], z)


@pytest.mark.parametrize("dtype", ["int8", "float16", "bool"])
def test_reductions_and_scans_of_numbers_into_flags(dtype):
    """A flag says whether a number is 0: a byte does not, of a sum of 256 or of 0.25."""
    n = 300

    @T.prim_func
    def main(X: T.Tensor((8, n), dtype), Y: T.Tensor((4, 8), "bool"), S: T.Tensor((8, n), "bool"), k: T.int32):
        with T.Kernel(1):
            x, y, s = T.alloc_fragment((8, n), dtype), T.alloc_fragment((8,), "bool"), T.alloc_fragment((8, n), "bool")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, Y[0, :])
            T.reduce_max(x, y, dim=1, clear=False)
            T.copy(y, Y[1, :])
            T.reduce_min(x, y, dim=1)
            T.copy(y, Y[2, :])
            T.reduce_abssum(x[:, 0:k], y, dim=1)
            T.copy(y, Y[3, :])
            T.cumsum(x, s, dim=1)
            T.copy(s, S)

    x = np.zeros((8, n), np.float32)
    x[1], x[2, :256], x[3, 5], x[4] = 1, 1, 2, 0.25
    x = x.astype(dtype)
    v = x.astype(np.float64)
    first = v.sum(1) != 0
    y = np.stack([first, first | (v.max(1) != 0), v.min(1) != 0, np.abs(v[:, :256]).sum(1) != 0])
    want = {"Y": y, "S": np.cumsum(v, 1) != 0}
    arrays = {"X": x, "Y": np.zeros_like(y), "S": np.zeros((8, n), bool)}
    out = strict.run(tilelang.compile(main), arrays, {"k": 256}, text=False)
    interpret.run(main, *arrays.values(), 256)
    for got in (out, arrays):
        for name in want:
            np.testing.assert_array_equal(got[name].view(np.uint8), want[name].view(np.uint8))


def test_plain_python_converts_tiles_and_infinities_as_compiled_kernels_do():
    n = 8

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), H: T.Tensor((n,), "uint16"), W: T.Tensor((n,), "uint32"), G: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            x, h, w, g = (T.alloc_fragment((n,), d) for d in ("float32", "uint16", "uint32", "float32"))
            T.copy(X, x)
            T.copy(x, h)
            T.copy(h, H)
            T.copy(x, w)
            T.copy(w, W)
            T.gelu(x, g)
            T.copy(g, G)

    x = np.array([-1.5, 65537.5, -3e9, 3e9, 1e30, np.inf, -np.inf, np.nan], np.float32)
    arrays = [x, np.zeros(n, np.uint16), np.zeros(n, np.uint32), np.zeros(n, np.float32)]
    out = strict.run(tilelang.compile(main), dict(zip("XHWG", arrays)), text=False)
    interpret.run(main, *arrays)
    for name, got in zip("HWG", arrays[1:]):
        np.testing.assert_allclose(got, out[name], rtol=1e-6)
    np.testing.assert_array_equal(out["H"], np.array([2**16 - 1, 1, 0, 2**16 - 1, 2**16 - 1, 2**16 - 1, 0, 0]))
    np.testing.assert_array_equal(out["W"], np.array([2**32 - 1, 65537, 2**31, 3 * 10**9, 2**32 - 1, 2**32 - 1, 2**31, 0]))


@pytest.mark.parametrize("dim", [0, 1])
def test_the_magnitude_of_the_lowest_number_is_a_float(dim):
    @T.prim_func
    def main(X: T.Tensor((16, 16), "int16"), Y: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_fragment((16, 16), "int16"), T.alloc_fragment((16,), "float32")
            T.copy(X, x)
            T.reduce_absmax(x, y, dim=dim)
            T.copy(y, Y)

    x = np.ones((16, 16), np.int16)
    x[3, 4] = x[8] = -(2**15)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(16, np.float32)}, text=False)
    np.testing.assert_array_equal(out["Y"], np.abs(x.astype(np.float32)).max(dim))
