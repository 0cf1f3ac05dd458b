"""Functions and casts of zeros, infinities and NaN: the same in nests, on scalars, as plain Python, and as NumPy has it."""

import numpy as np
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
