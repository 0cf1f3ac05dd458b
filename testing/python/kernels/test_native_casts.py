"""Conversions A5 has an instruction for take one; other chips take a sequence with the same values."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

CASES = [
    ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"), ("float16", "bfloat16"), ("bfloat16", "float16"),
    ("int8", "int16"), ("int8", "int32"), ("int16", "int32"),
]  # fmt: skip


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8")) else name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source, dtype", CASES)
def test_one_cast_where_there_is_one(source, dtype):
    n = 256 if numpy_dtype(source).itemsize == 1 else 2048

    @T.prim_func
    def k(X: T.Tensor((n,), source), Y: T.Tensor((n,), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared((n,), source), T.alloc_shared((n,), dtype)
            T.copy(X, x)
            for i in T.Parallel(n):
                y[i] = x[i]
            T.copy(y, Y)

    word = f"uint{8 * numpy_dtype(source).itemsize}"
    x = (np.arange(n) * (1 if n == 256 else 32) + (0 if n == 256 else 7)).astype(word).view(numpy_dtype(source))
    with np.errstate(all="ignore"):
        want = (x.astype(np.float32) if "float" in source else x).astype(numpy_dtype(dtype))
    texts = {}
    for target in ("a2", "a5"):
        kernel = tilelang.compile(k, target=target)
        texts[target] = kernel.get_kernel_source()
        got = strict.run(kernel, {"X": x, "Y": np.zeros(n, numpy_dtype(dtype))})["Y"]
        a, b = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])
    assert texts["a5"].count("AscendC::Cast(") == 1 and "Shift" not in texts["a5"]
    assert texts["a2"].count("AscendC::Cast(") > 1


BFLOAT_OPERATIONS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b, "Add"),
    "sub": (lambda a, b: a - b, lambda a, b: a - b, "Sub"),
    "mul": (lambda a, b: a * b, lambda a, b: a * b, "Mul"),
    "max": (lambda a, b: T.max(a, b), np.maximum, "Max"),
    "scaled": (lambda a, b: T.min(a, b) * 0.75, lambda a, b: np.minimum(a, b) * np.float32(0.75), "Muls"),
    "abs": (lambda a, b: T.abs(a - b), lambda a, b: np.abs(a - b), "Abs"),
    "choice": (lambda a, b: T.if_then_else(a > b, a * b, b), lambda a, b: np.where(a > b, a * b, b), "Select"),
    "number": (lambda a, b: T.if_then_else(a < 0.5, T.bfloat16(2), b), lambda a, b: np.where(a < 0.5, np.float32(2), b), "Select"),
    "unequal": (lambda a, b: T.if_then_else(a != T.max(a, b), a, -b), lambda a, b: np.where(a != np.maximum(a, b), a, -b), "Compare"),
    "two roundings": (lambda a, b: a * b + a, lambda a, b: a * b + a, None),
    "no bfloat16": (lambda a, b: a * T.float32(0.1), lambda a, b: a * np.float32(0.1), None),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BFLOAT_OPERATIONS)
def test_one_operation_of_bfloat16_is_one_instruction(name):
    """Where float32, rounded, is the same: not where a result that float32 has rounded is used again."""
    operation, want, api = BFLOAT_OPERATIONS[name]
    m, n = 4, 2048

    @T.prim_func
    def k(
        A: T.Tensor((m, n), "bfloat16"), B: T.Tensor((m, n), "bfloat16"), Y: T.Tensor((m, n), "bfloat16"), Z: T.Tensor((m, n), "bfloat16")
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((m, n), "bfloat16"), T.alloc_shared((m, n), "bfloat16")
            y, z = T.alloc_shared((m, n), "bfloat16"), T.alloc_shared((m, n), "bfloat16")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(m, n):
                y[i, j] = operation(a[i, j], b[i, j])
                z[i, j] = operation(a[i, j], b[i, 0])
            T.copy(y, Y)
            T.copy(z, Z)

    rng = np.random.default_rng(16)
    bits = rng.integers(0, 2**16, (2, m, n)).astype(np.uint16)
    # Denormal numbers, products between these and nothing, sums of numbers of about the same size.
    bits[:, 1] = rng.integers(0, 2**8, (2, n)) | rng.integers(0, 2, (2, n)) << 15
    bits[:, 2] = rng.integers(0x1E00, 0x2280, (2, n))
    bits[:, 3] = rng.integers(0x3F00, 0x4500, (2, n)) | rng.integers(0, 2, (2, n)) << 15
    a, b = bits.view(numpy_dtype("bfloat16"))
    kernel = tilelang.compile(k, target="a5")
    text = kernel.get_kernel_source()
    assert ("Cast(" not in text and f"AscendC::{api}(" in text) if api else "Cast(" in text
    out = strict.run(kernel, {"A": a, "B": b, "Y": np.zeros_like(a), "Z": np.zeros_like(a)})
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = {"Y": want(wide_a, wide_b), "Z": want(wide_a, wide_b[:, :1])}
        for tensor, values in expected.items():
            np.testing.assert_array_equal(out[tensor].astype(np.float32), values.astype(a.dtype).astype(np.float32))
