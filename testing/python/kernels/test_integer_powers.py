"""Integers to the power of integers of run time: products that wrap, exactly, on either unit, in the emitted text and in plain Python."""

import numpy as np
import pytest
import torch
from strict import SERIAL, run

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import ir

N = 64
DTYPES = ("int32", "uint32", "int64", "uint64", "int8", "uint8", "int16", "uint16")


def power(a: int, n: int) -> int:
    """To a negative power there is a fraction, of which integers are 0 but for 1 and -1."""
    return pow(a, n, 2**64) if n >= 0 else (a if n % 2 else 1) if a in (1, -1) else 0


def elements(op, dtype, result):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), result)):
        with T.Kernel(1):
            for i in T.serial(N):
                C[i] = op(A[i], B[i])

    return main


def nest(op, dtype, result):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), result)):
        with T.Kernel(1):
            a, b, c = T.alloc_fragment((N,), dtype), T.alloc_fragment((N,), dtype), T.alloc_fragment((N,), result)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.Parallel(N):
                c[i] = op(a[i], b[i])
            T.copy(c, C)

    return main


def wrapped(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    return np.array([v % 2**bits for v in values], f"uint{bits}").view(dtype)


def operands(dtype, least=None):
    rng, info = np.random.default_rng(7), np.iinfo(dtype)
    a = np.concatenate(
        [np.array([0, 0, 1, 1, 2, 3, 3, 5, 7, 10, 15, 2, 6, 3, 1, 1], dtype), rng.integers(info.min, info.max, N - 16, dtype, True)]
    )
    b = np.concatenate(
        [np.array([0, 1, 0, 9, 31, 19, 21, 13, 0, 9, 8, 5, 12, 20, 7, 77], dtype), rng.integers(0, 40, N - 16).astype(dtype)]
    )
    a[16:32] |= 1
    b[24:40] = rng.integers(0, info.max, 16, dtype, True)
    if info.min < 0:
        a[:4], a[40:46], b[:4], b[40:46] = (-1, -1, -3, -2), (1, -1, -1, 2, 0, 3), (-1, 8, 3, 31), (-3, -3, -4, -1, -2, info.min)
    return a, b


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", [nest, elements])
@pytest.mark.one_in(12)
def test_powers_are_exact(build, dtype, chip):
    result = dtype if np.dtype(dtype).itemsize > 2 else "int32"
    a, b = operands(dtype)
    want = wrapped([power(x, n) for x, n in zip(a.tolist(), b.tolist())], result)
    kernel = tilelang.compile(build(lambda x, y: x**y, dtype, result), target=chip, pass_configs=SERIAL)
    assert np.array_equal(run(kernel, {"A": a, "B": b, "C": np.zeros(N, result)})["C"], want)


@pytest.mark.parametrize("build", [nest, elements])
@pytest.mark.parametrize(
    "op, reference",
    [
        (lambda x, y: 3**y, lambda x, n: power(3, n)),
        (lambda x, y: T.pow(2, y), lambda x, n: power(2, n)),
        (lambda x, y: (-2) ** y, lambda x, n: power(-2, n)),
        (lambda x, y: x**19, lambda x, n: x**19),
        (lambda x, y: x**1000003, lambda x, n: pow(x, 1000003, 2**32)),
        (lambda x, y: x ** T.cast(y, "int64"), power),
        (lambda x, y: T.if_then_else(y > 3, x**y, y**x) * 2 + 1, lambda x, n: 2 * (power(x, n) if n > 3 else power(n, x)) + 1),
        (lambda x, y: T.pow(x, T.cast(y % 4, "int8")), lambda x, n: x ** (n % 4)),
    ],
    ids=["three", "two", "minus-two", "nineteen", "large", "wide", "chosen", "narrow"],
)
@pytest.mark.one_in(6)
def test_powers_of_constants(build, op, reference):
    rng = np.random.default_rng(3)
    a, b = rng.integers(-40, 40, N).astype("int32"), rng.integers(-4, 40, N).astype("int32")
    want = wrapped([reference(x, n) for x, n in zip(a.tolist(), b.tolist())], "int32")
    kernel = tilelang.compile(build(op, "int32", "int32"), pass_configs=SERIAL)
    assert np.array_equal(run(kernel, {"A": a, "B": b, "C": np.zeros(N, "int32")})["C"], want)


def steered():
    """A power as a name, a condition, an index and a bound."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32"), n: T.int32):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = 0
            x = A[0] ** B[0]
            if x == 1162261467:
                C[A[1] ** B[1]] = x
            for i in range(A[2] ** n):
                C[i] = C[i] + 1

    return main


def test_powers_decide():
    a, b = np.zeros(N, "int32"), np.zeros(N, "int32")
    a[:3], b[:3] = (3, 7, 3), (19, 2, 0)
    out = run(tilelang.compile(steered()), {"A": a, "B": b, "C": np.zeros(N, "int32")}, {"n": 3})["C"]
    want = np.zeros(N, "int32")
    want[49] = 3**19
    want[:27] += 1
    assert np.array_equal(out, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_python(dtype, monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    result = dtype if np.dtype(dtype).itemsize > 2 else "int32"
    a, b = operands(dtype)
    want = wrapped([power(x, n) for x, n in zip(a.tolist(), b.tolist())], result)
    out = torch.zeros(N, dtype=getattr(torch, result))
    tilelang.compile(elements(lambda x, y: x**y, dtype, result))(torch.from_numpy(a), torch.from_numpy(b), out)
    assert np.array_equal(out.numpy(), want)


def test_powers_read_back():
    """TVM's parser knows those of floats."""
    artifact = tilelang.compile(steered()).artifact
    assert ir.same_program(ir.parse(artifact.tile_ir.script()), artifact.tile_ir)
    again = ir.parse(artifact.ascend_ir.script())
    assert ir.same_program(again, ir.parse(again.script()))
