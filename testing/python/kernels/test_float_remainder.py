"""`T.fmod` is exact, as on every other machine: a quotient that rounds to the next integer must not change the sign of the remainder."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 512
EXACT = 2.0**35
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -3, 3.4028234663852886e38, 1e-45, 1e-40], np.float32)
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def operands(dtype):
    """Dividends close to multiples of the divisors, any dividends, and special numbers."""
    rng = np.random.default_rng(5)
    b = ((rng.random(N) * 2 - 1) * 2.0 ** rng.integers(-8, 8, N)).astype(dtype).astype(np.float32)
    b[b == 0] = 1.5
    a = (b.astype(np.float64) * np.floor(2.0 ** (rng.random(N) * 30))).astype(np.float32)
    a = np.nextafter(a, rng.choice([-np.inf, np.inf, 0.0], N).astype(np.float32)) * rng.choice(np.float32([-1, 1]), N)
    a[:100] = (rng.random(100) - 0.5) * 2.0 ** rng.integers(0, 30, 100)
    k = len(SPECIAL) ** 2
    a[-k:], b[-k:] = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        return a.astype(dtype), b.astype(dtype)


def test_multiples_beyond_the_largest_number_are_no_infinities():
    """The multiple of the divisor next to a dividend may not be a float32; a fourth of it is."""
    rng = np.random.default_rng(6)
    most = np.finfo(np.float32).max
    a = np.concatenate([np.full(N // 2, most), (most * rng.uniform(0.2, 1, N // 2)).astype(np.float32)])
    b = (most / rng.uniform(1, 2000, N)).astype(np.float32) * rng.choice(np.float32([-1, 1]), N)

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            T.copy(A, x)
            T.copy(B, y)
            for i in T.Parallel(N):
                C[i] = T.fmod(x[i], y[i])

    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros_like(a)}, text=False)["C"]
    np.testing.assert_array_equal(out, np.fmod(a, b))


@pytest.mark.parametrize("divisor", (None, 2.0, 0.1, -7.3, 0.25, "inf", 0.0))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.one_in(6)
def test_remainders_are_exact(dtype, divisor):
    divisor = None if divisor is None else float(divisor)

    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            a, b = T.alloc_shared((N,), dtype), T.alloc_shared((N,), dtype)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.Parallel(N):
                C[i] = T.fmod(a[i], b[i]) if divisor is None else T.fmod(a[i], T.cast(divisor, dtype))

    a, b = operands(DTYPES[dtype])
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros_like(a)}, text=False, values=False)["C"]
    x, y = (v.astype(np.float32) for v in (a, b if divisor is None else np.full_like(b, divisor)))
    with np.errstate(all="ignore"):
        want = np.fmod(x, y).astype(a.dtype).astype(np.float32)
        digits_left = ~(np.abs(x.astype(np.float64) / y) >= EXACT) | ~np.isfinite(x) | (y == 0)
    np.testing.assert_array_equal(out.astype(np.float32)[digits_left], want[digits_left])
    assert digits_left.sum() > N // 2
