"""Exponentials to other bases of sums of products: ln 2 goes into constants that round anyway, and never where an exponent may be exact."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

C = 0.08838834764831845 * 1.4426950408889634
M, N = 16, 128


def kernel_of(argument, exponential=T.exp2):
    """Y = exponential(argument of (an element of X, one of R[i], one of Q[j]))."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), R: T.Tensor((M,), "float32"), Q: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            x, r, q = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M,), "float32"), T.alloc_fragment((N,), "float32")
            T.copy(X, x)
            T.copy(R, r)
            T.copy(Q, q)
            for i, j in T.Parallel(M, N):
                x[i, j] = exponential(argument(x[i, j], r[i], q[j]))
            T.copy(x, Y)

    return tilelang.compile(main)


def ran(kernel, x, r, q):
    return strict.run(kernel, {"X": x, "R": r, "Q": q, "Y": np.zeros((M, N), np.float32)})["Y"]


FOLDED = {
    "product": lambda x, r, q: x * C,
    "difference of products": lambda x, r, q: x * C - r * C,
    "product of a difference": lambda x, r, q: (x - r) * C,
    "other rows": lambda x, r, q: x * C - r + q * 0.5,
    "halved": lambda x, r, q: (x * C) * 0.5,
    "a quotient": lambda x, r, q: (x * C - 1.0) / r,
    "a mask": lambda x, r, q: T.if_then_else(x > r, x * C, -T.infinity("float32")) - q * 0.3,
    "negative": lambda x, r, q: x * -C,
}


@pytest.mark.parametrize("case", FOLDED)
@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.one_in(6)
def test_a_factor_of_products_costs_nothing(case, base):
    kernel = kernel_of(FOLDED[case], T.exp2 if base == 2 else T.exp10)
    assert "ShiftLeft" not in kernel.get_kernel_source()
    rng = np.random.default_rng(3)
    x, r, q = (rng.uniform(1, 40, shape).astype(np.float32) for shape in ((M, N), (M, 1), (N,)))
    got = ran(kernel, x, r[:, 0], q)
    X, R, Q = (v.astype(np.float64) for v in (x, r, q))
    c = float(np.float32(C))
    terms = {
        "product": [X * c],
        "difference of products": [X * c, -R * c],
        "product of a difference": [X * c, -R * c],
        "other rows": [X * c, -R, Q * 0.5],
        "halved": [X * c * 0.5],
        "a quotient": [X * c / R, -1 / R],
        "a mask": [np.where(X > R, X * c, -np.inf), -Q * float(np.float32(0.3))],
        "negative": [-X * c],
    }[case]
    # Each term and the sum are rounded twice at most, in the sum that was written as in this one; two ulp of the exponential.
    size = sum(abs(np.where(np.isinf(t), 0, t)) for t in terms)
    want = float(base) ** sum(terms)
    assert (np.abs(got - want) <= want * (4 * 2.0**-24 * size * np.log(base) + 2.0**-22)).all()
    assert (got[np.isinf(sum(terms))] == 0).all()


EXACT = {
    "an exponent less its bias": (lambda x, r, q: x - 127.0, lambda x, r, q: x - 127),
    "a difference of exponents": (lambda x, r, q: r - q, lambda x, r, q: r[:, None] - q),
    "a step": (lambda x, r, q: x * -0.5, lambda x, r, q: x * -0.5),
    "a slope": (lambda x, r, q: (x - r) * 0.75, lambda x, r, q: (x - r[:, None]) * 0.75),
    "a choice": (lambda x, r, q: T.if_then_else(x > r, x * C, 100.0), lambda x, r, q: np.where(x > r[:, None], np.nan, 100)),
    "a choice of rows": (lambda x, r, q: T.if_then_else(x > r, x * C, r), lambda x, r, q: np.where(x > r[:, None], np.nan, r[:, None])),
    "a limit": (lambda x, r, q: T.max(x * C, 120.0), lambda x, r, q: np.full_like(x, 120)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", EXACT)
def test_powers_of_exact_exponents_are_exact(case):
    argument, exponent = EXACT[case]
    rng = np.random.default_rng(4)
    x, r, q = (4 * rng.integers(1, 30, shape).astype(np.float32) for shape in ((M, N), (M,), (N,)))
    got, e = ran(kernel_of(argument), x, r, q), exponent(x, r, q)
    exact = ~np.isnan(e)
    assert exact.any()
    np.testing.assert_array_equal(got[exact], np.exp2(e[exact].astype(np.float64)).astype(np.float32))


def test_ends_of_the_range():
    x = np.float32(
        [-np.inf, -151, -150, -149, -126.5, -126, -0.0, 1e-38, 127, 127.99999, 128, 1e30, np.inf, np.nan, 63, 64, 65, -63, -64, -65]
    )
    tile = np.resize(x, (M, N)).astype(np.float32)
    got = ran(kernel_of(lambda x, r, q: x), tile, np.zeros(M, np.float32), np.zeros(N, np.float32))
    with np.errstate(over="ignore"):
        want = np.exp2(tile.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2.0**-22, atol=2.0**-149)
    whole = tile == np.rint(tile)
    np.testing.assert_array_equal(got[whole & (tile > -149)], want[whole & (tile > -149)])


ELSEWHERE = {
    "another tile": lambda x, r, i, j: T.exp2(x[i, j] * C - r[i] * C),
    "an operand needed again": lambda x, r, i, j: T.exp2(x[i, j] * C - r[i] * C) + x[i, j],
    "a row of the tile itself": lambda x, r, i, j: T.exp2(x[i, j] * C - x[i, 0] * C),
    "a value on its way": lambda x, r, i, j: T.exp2((x[i, j] - 1.0) * C - r[i] * C) * 2.0,
}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("case", ELSEWHERE)
@pytest.mark.one_in(2)
def test_scaled_and_shifted_wherever_it_is_stored(case, in_place):
    argument = ELSEWHERE[case]

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), R: T.Tensor((M,), "float32"), Y: T.Tensor((M, N), "float32"), Z: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            x, y, r = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M,), "float32")
            T.copy(X, x)
            T.copy(R, r)
            T.clear(y)
            if in_place:
                for i, j in T.Parallel(M, N):
                    x[i, j] = argument(x, r, i, j)
                T.copy(x, Y)
            else:
                for i, j in T.Parallel(M, N):
                    y[i, j] = argument(x, r, i, j)
                T.copy(y, Y)
            T.copy(x, Z)

    if in_place and "row of the tile itself" in case:
        pytest.skip("iterations would write what others read")
    rng = np.random.default_rng(5)
    x, r = rng.uniform(1, 40, (M, N)).astype(np.float32), rng.uniform(1, 40, M).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, "R": r, "Y": np.zeros_like(x), "Z": np.zeros_like(x)})
    X, R, c = x.astype(np.float64), r.astype(np.float64)[:, None], float(np.float32(C))
    want = {
        "another tile": np.exp2(X * c - R * c),
        "an operand needed again": np.exp2(X * c - R * c) + X,
        "a row of the tile itself": np.exp2(X * c - X[:, :1] * c),
        "a value on its way": np.exp2((X - 1) * c - R * c) * 2,
    }[case]
    np.testing.assert_allclose(out["Y"], want, rtol=3e-6)
    np.testing.assert_array_equal(out["Z"], out["Y"] if in_place else x)


def test_large_terms_are_no_false_alarm():
    """Scores of thousands that nearly cancel are rounded by more than their difference's power is exact, as it is written or otherwise: the check
    against Tile IR, which rounds in the written order, allows for it."""
    rng = np.random.default_rng(6)
    r = rng.uniform(20000, 40000, M).astype(np.float32)
    x = (r[:, None] - rng.uniform(0, 30, (M, N))).astype(np.float32)
    got = ran(kernel_of(lambda x, r, q: x * C - r * C), x, r, np.zeros(N, np.float32))
    c = float(np.float32(C))
    want = np.exp2(x.astype(np.float64) * c - r[:, None].astype(np.float64) * c)
    size = 2 * 40000 * c
    assert (np.abs(got - want) <= want * (2 * 2.0**-24 * size + 2.0**-22)).all()


def test_one_exponent_under_many_conditions():
    """The check against Tile IR notes the exponent of a scalar for those elements whose condition holds."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), S: T.Tensor((1,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((M, N), "float32")
            c = T.alloc_var("float32")
            c = S[0]
            T.copy(X, x)
            for i, j in T.Parallel(M, N):
                if x[i, j] > 20:
                    x[i, j] = T.exp2(T.min(c, 3.0))
            T.copy(x, Y)

    x = np.random.default_rng(7).uniform(1, 40, (M, N)).astype(np.float32)
    got = strict.run(tilelang.compile(kernel), {"X": x, "S": np.full(1, 2.0, np.float32), "Y": np.zeros_like(x)}, text=False)
    np.testing.assert_array_equal(got["Y"], np.where(x > 20, np.float32(4), x))
