"""Tensors and tiles of 8-bit floats on chips whose copies know the dtype (a5) and on those that move bytes (a2)."""

import covering
import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import DtypeMismatch
from tilelang_ascend.ir import verify_ascend

FORMATS = ["float8_e4m3fn", "float8_e5m2"]
TARGETS = ["a2", "a5"]
M, N = 4, 40


def numpy_type(dtype):
    return np.dtype(getattr(ml_dtypes, dtype))


def codes(dtype, shape=(M, N)):
    """All kinds of numbers: zeros, subnormals, both signs; no NaN."""
    every = np.arange(256, dtype=np.uint8).view(numpy_type(dtype))
    finite = every[np.isfinite(every.astype(np.float32))]
    return np.random.default_rng(1).choice(finite.view(np.uint8), shape).view(numpy_type(dtype))


def run(func, target, dtype, **more):
    """Result Y (8-bit) and Z (float32) of the model and the text; the program must be legal on the chip."""
    kernel = tilelang.compile(func, target=target)
    assert verify_ascend(kernel.artifact.ascend_ir, get_chip(target)) == []
    if target == "a2":
        assert "fp8" not in kernel.get_kernel_source()
    arrays = {"X": codes(dtype), "Y": np.zeros((M, N), numpy_type(dtype)), "Z": np.zeros((M, N), np.float32), **more}
    out = strict.run(kernel, arrays)
    return arrays["X"], out["Y"], out["Z"]


def same(a, b):
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
def test_tiles_are_loaded_converted_and_stored(dtype, target):
    @T.prim_func
    def k(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            x, y, z = T.alloc_shared((8, 64), dtype), T.alloc_shared((M, N), dtype), T.alloc_shared((M, N), "float32")
            T.copy(X[0:8, 0:64], x)
            for i, j in T.Parallel(M, N):
                z[i, j] = T.cast(x[i, j], "float32") * 0.5
            T.copy(z, Z)
            T.copy(z, y)
            T.copy(y, Y)

    x, y, z = run(k, target, dtype)
    np.testing.assert_array_equal(z, x.astype(np.float32) * 0.5)
    np.testing.assert_array_equal(y.astype(np.float32), z.astype(numpy_type(dtype)).astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("value", [0.0, -1.5])
def test_fills(value, target, capfd):
    @T.prim_func
    def k(X: T.Tensor((M, N), "float8_e4m3fn"), Y: T.Tensor((M, N), "float8_e4m3fn"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            y = T.alloc_shared((M, 64), "float8_e4m3fn")
            if value == 0.0:
                T.clear(y)
            else:
                T.fill(y, value)
            T.copy(X[0:2, 0:N], y[0:2, 0:N])
            T.copy(y[0:M, 0:N], Y)

    x, y, _ = run(k, target, "float8_e4m3fn")
    same(y, np.concatenate([x[:2], np.full((2, N), value, x.dtype)]))
    assert "scalar loops" not in capfd.readouterr().err


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.one_in(2)
def test_fills_with_a_number_known_at_run_time(dtype, target, capfd):
    @T.prim_func
    def k(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), "float32"), n: T.float32):
        with T.Kernel(1):
            y, other = T.alloc_shared((M, 64), dtype), T.alloc_shared((M, 64), dtype)
            T.copy(X[0:M, 0:N], other[0:M, 0:N])
            for i, j in T.Parallel(M, 64):
                y[i, j] = T.cast(n, dtype)
            for i, j in T.Parallel(2, 64):
                y[i, j] = other[3, 7]
            y[3, 2] = T.cast(n * 2, dtype)
            T.copy(y[0:M, 0:N], Y)

    kernel, x = tilelang.compile(k, target=target), codes(dtype)
    assert "scalar loops" not in capfd.readouterr().err
    for n in (-1.3, 1e-3, 3e4):
        out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x), "Z": np.zeros((M, N), np.float32)}, {"n": n}, text=n < 0)
        want = np.full((M, N), n, np.float32).astype(numpy_type(dtype))
        want[:2], want[3, 2] = x[3, 7], np.float32(n * 2).astype(numpy_type(dtype))
        np.testing.assert_array_equal(out["Y"].astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_in_reverse(target):
    @T.prim_func
    def k(X: T.Tensor((M, N), "float8_e4m3fn"), Y: T.Tensor((M, N), "float8_e4m3fn"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(M, N):
                Y[i, j] = X[M - 1 - i, j]

    x, y, _ = run(k, target, "float8_e4m3fn")
    same(y, x[::-1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
def test_single_elements(dtype, target):
    """The scalar unit has bytes only: conversions are integer arithmetic, exact, rounded to nearest even."""
    count = 256

    @T.prim_func
    def k(X: T.Tensor((count,), dtype), F: T.Tensor((count,), "float32"), Z: T.Tensor((count,), "float32"), Y: T.Tensor((count,), dtype)):
        with T.Kernel(1):
            last = T.alloc_var(dtype)
            last = X[0]
            for i in T.serial(count):
                Z[i] = T.cast(X[i], "float32")
                Y[i] = T.cast(F[i], dtype)
                last = X[i]
            Y[0] = last

    x = np.arange(count, dtype=np.uint8).view(numpy_type(dtype))
    real = np.sort(x.astype(np.float32)[np.isfinite(x.astype(np.float32))])
    between = (real[:-1] + real[1:]) / 2
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e9, -1e9, 1e-9])
    f = np.concatenate([special, np.nextafter(between, np.inf)[:20], between])[:count]
    f = np.pad(f, (0, count - f.size)).astype(np.float32)
    kernel = tilelang.compile(k, target=target)
    out = strict.run(kernel, {"X": x, "F": f, "Z": np.zeros(count, np.float32), "Y": np.zeros_like(x)})
    np.testing.assert_array_equal(out["Z"], x.astype(np.float32))
    want = f.astype(numpy_type(dtype))
    want[0] = x[-1]
    np.testing.assert_array_equal(out["Y"].astype(np.float32), want.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(out["Y"].astype(np.float32)[1:20]), np.signbit(want.astype(np.float32)[1:20]))


def test_elements_are_printed():
    @T.prim_func
    def k(X: T.Tensor((M, N), "float8_e4m3fn")):
        with T.Kernel(1):
            T.print(X[1, 2], "one")
            T.print(X[1, 0:2], "raw")

    x = codes("float8_e4m3fn")
    _, result = strict.launch(tilelang.compile(k).artifact, strict.twin_entries(tilelang.compile(k).artifact), {"X": x}, {})
    assert result.output.splitlines() == [
        f"[AIV 0] one: {float(x[1, 2]):f}",
        f"[AIV 0] raw: X (float8_e4m3fn as bytes)[1] = {x[1, :2].view(np.uint8).tolist()}",
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_conditional_stores_of_8_bit_floats(dtype, target):
    """There is no selection between bytes: their numbers are chosen as float16."""

    @T.prim_func
    def main(X: T.Tensor((6, 40), "float32"), Y: T.Tensor((6, 40), dtype), Z: T.Tensor((6, 40), dtype), n: T.int32):
        with T.Kernel(2) as bx:
            x, z = T.alloc_shared((3, 40), "float32"), T.alloc_shared((3, 40), dtype)
            T.copy(X[bx * 3, 0], x)
            T.copy(Z[bx * 3, 0], z)
            for i, j in T.Parallel(3, 40):
                if x[i, j] < 2:
                    Y[bx * 3 + i, j] = x[2 - i, j]
                else:
                    z[i, j] = T.cast(n, "float32")
            T.copy(z, Z[bx * 3, 0])

    rng, fp8 = np.random.default_rng(5), getattr(ml_dtypes, dtype)
    x = rng.integers(-8, 9, (6, 40)).astype(np.float32)
    y, z = (rng.integers(-8, 9, (6, 40)).astype(np.float32).astype(fp8) for _ in range(2))
    out = strict.run(tilelang.compile(main, target=target), {"X": x, "Y": y, "Z": z}, {"n": 3})
    turned = x.reshape(2, 3, 40)[:, ::-1].reshape(6, 40)
    np.testing.assert_array_equal(out["Y"].astype(np.float32), np.where(x < 2, turned, y.astype(np.float32)))
    np.testing.assert_array_equal(out["Z"].astype(np.float32), np.where(x < 2, z.astype(np.float32), 3))


@pytest.mark.parametrize("use", ["tensor", "tile", "cast", "output"])
def test_floats_no_chip_converts_are_held_as_bytes(use):
    dtype = "float8_e4m3fnuz"
    with pytest.raises(DtypeMismatch, match="kernels do not hold float8_e4m3fnuz") as caught:

        @T.prim_func
        def refused(X: T.Tensor((64,), dtype if use == "tensor" else "uint8"), Y: T.Tensor((64,), "float32")):
            if use == "output":
                T.empty((64,), dtype)
            with T.Kernel(1):
                if use == "tile":
                    T.alloc_shared((64,), dtype)
                for i in T.Parallel(64):
                    Y[i] = T.cast(T.cast(X[i], dtype), "float32")

    assert "uint8" in caught.value.hint


PLACES = {
    "a constant": lambda x, i, j, X: 1.5,
    "an element of a tensor": lambda x, i, j, X: X[1, 3],
    "its own element": lambda x, i, j, X: x[i, j],
    "an element of each row": lambda x, i, j, X: x[i, 7],
    "the row from behind": lambda x, i, j, X: x[i, N - 1 - j],
}


@pytest.mark.one_in(3)
@covering.product({"what": PLACES, "to": ["tile", "tensor"], "dtype": [*FORMATS, "float8_e8m0fnu"], "target": TARGETS})
def test_rows_that_data_chooses_are_given_bits(what, to, dtype, target):
    value = PLACES[what]

    @T.prim_func
    def k(X: T.Tensor((M, N), dtype), I: T.Tensor((M,), "int32"), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(1):
            x, y, rows = T.alloc_shared((M, N), dtype), T.alloc_shared((M, N), dtype), T.alloc_shared((M,), "int32")
            T.copy(X, x)
            T.copy(I, rows)
            if to == "tile":
                for i, j in T.Parallel(M, N):
                    y[rows[i], j] = T.cast(value(x, i, j, X), dtype)
                T.copy(y, Y)
            else:
                for i, j in T.Parallel(M, N):
                    Y[rows[i], j] = T.cast(value(x, i, j, X), dtype)

    x, rows = codes(dtype), np.array([2, 0, 3, 1], np.int32)
    i, j = np.indices((M, N))
    want = np.zeros((M, N), np.uint8)
    number = value(x, i, j, x)
    want[rows] = (np.array(number).astype(numpy_type(dtype)) if isinstance(number, float) else number).view(np.uint8)
    kernel = tilelang.compile(k, target=target)
    out = strict.run(kernel, {"X": x, "I": rows, "Y": np.zeros((M, N), numpy_type(dtype))}, text=to == "tile")["Y"]
    np.testing.assert_array_equal(out.view(np.uint8), want)


def _exchange(T, x, y, z, w, i, j):
    a = x[i, j]
    x[i, j] = y[i, j]
    y[i, j] = a


def _keep_and_exchange(T, x, y, z, w, i, j):
    z[i, j] = x[i, j]
    a = x[i, j]
    x[i, j] = y[i, j]
    w[i, j] = a


def _choose_behind_an_exchange(T, x, y, z, w, i, j):
    a, b = x[i, j], y[i, j]
    z[i, j] = b
    x[i, j] = b
    y[i, j] = a
    w[i, j] = T.if_then_else(j % 2 == 0, a, b)


class _Plain:
    """What the functions above say, element by element."""

    @staticmethod
    def if_then_else(condition, a, b):
        return a if condition else b


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("body", [_exchange, _keep_and_exchange, _choose_behind_an_exchange])
@pytest.mark.one_in(4)
def test_elements_are_needed_behind_their_tile(body, dtype, target):
    """What an iteration read before it stored to the element is what the element held."""

    @T.prim_func
    def k(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), dtype), W: T.Tensor((M, N), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared((M, N), dtype), T.alloc_shared((M, N), dtype)
            z, w = T.alloc_shared((M, N), dtype), T.alloc_shared((M, N), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            T.copy(Z, z)
            T.copy(W, w)
            for i, j in T.Parallel(M, N):
                body(T, x, y, z, w, i, j)
            T.copy(x, X)
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(w, W)

    every = codes(dtype, (4, M, N))
    want = every.copy()
    for i, j in np.ndindex(M, N):
        body(_Plain, *want, i, j)
    out = strict.run(tilelang.compile(k, target=target), dict(zip("XYZW", every)))
    for name, tile in zip("XYZW", want):
        same(out[name], tile)
