"""`T.ieee_*` with a direction of rounding, against exact arithmetic on fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import DtypeMismatch, InvalidArgument

ARITY = {"ieee_add": 2, "ieee_sub": 2, "ieee_mul": 2, "ieee_fdiv": 2, "ieee_frcp": 1, "ieee_fsqrt": 1, "ieee_fmaf": 3}
N, SERIAL = 384, 32
LARGEST = Fraction(2**24 - 1) * 2**104


# ---- what is right


def rounded(exact: Fraction, mode: str, sign_of_zero: float) -> float:
    """The float32 next to an exact number in a direction."""
    if exact == 0:
        return math.copysign(0.0, sign_of_zero)
    return signed(lambda unit: exact / unit, exact, mode)


def signed(counted, exact, mode: str) -> float:
    """`counted(unit)` = the exact number in units."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - 23, -149)
    steps = counted(unit)
    whole = {"rz": math.trunc, "rd": math.floor, "ru": math.ceil, "rn": round}[mode](steps)
    value = whole * unit
    if abs(value) > LARGEST:
        inward = mode == "rz" or (mode == "rd" and value > 0) or (mode == "ru" and value < 0)
        return math.copysign(float(LARGEST) if inward else math.inf, value)
    return float(value) if value else math.copysign(0.0, exact)


def root(x: float, mode: str) -> float:
    exact = Fraction(x)
    # 2**200 and 60 more digits than a result has: what the whole root leaves is seen by one more step.
    big = exact * 2**400
    whole = math.isqrt(int(big))
    step = Fraction(2 * whole + (whole * whole != big), 2**201)
    return rounded(step, mode, 0.0) if step else x


def right(name: str, mode: str, *operands) -> float:
    a, *rest = (float(v) for v in operands)
    plain = {
        "ieee_add": lambda a, b: a + b,
        "ieee_sub": lambda a, b: a - b,
        "ieee_mul": lambda a, b: a * b,
        "ieee_fmaf": lambda a, b, c: a * b + c,
    }
    minus = mode == "rd"
    if name == "ieee_frcp":
        name, a, rest = "ieee_fdiv", 1.0, [a]
    everything = [a, *rest]
    if name == "ieee_fsqrt":
        return math.nan if a < 0 or math.isnan(a) else a if not math.isfinite(a) or a == 0 else root(a, mode)
    if name == "ieee_fdiv":
        (b,) = rest
        if not all(map(math.isfinite, everything)) or b == 0:
            with np.errstate(all="ignore"):
                return float(np.float64(a) / np.float64(b))
        return rounded(Fraction(a) / Fraction(b), mode, math.copysign(1, a) * math.copysign(1, b))
    if not all(map(math.isfinite, everything)):
        return plain[name](*everything)
    exact = plain[name](*map(Fraction, everything))
    if name == "ieee_mul":
        return rounded(exact, mode, math.copysign(1, a) * math.copysign(1, rest[0]))
    terms = (
        [a, rest[0] if name == "ieee_add" else -rest[0]]
        if name != "ieee_fmaf"
        else [math.copysign(0.0, a) * math.copysign(1, rest[0]), rest[1]]
    )
    if any(terms) or (name == "ieee_fmaf" and a and rest[0]):
        terms = [1, -1]  # numbers that cancel
    signs = {math.copysign(1, v) for v in terms}
    return rounded(exact, mode, signs.pop() if len(signs) == 1 else -1.0 if minus else 1.0)


# ---- numbers


SPECIAL = np.float32(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3, 1e-45, -1e-45, 2.0**-126, -(2.0**-126), 3.4028235e38, -3.4028235e38, 2.0**-149 * 5, 1 / 3]
)


def operands(name: str, kind: str) -> np.ndarray:
    """[arity, N]: special numbers with each other, random bits, numbers of similar size, and those whose results are near numbers."""
    rng, arity = np.random.default_rng(ARITY[name] * 7 + len(name)), ARITY[name]
    if kind == "special":
        grid = np.stack(np.meshgrid(*[SPECIAL] * arity)).reshape(arity, -1)
        pick = rng.choice(grid.shape[1], N, replace=False) if grid.shape[1] > N else np.arange(N) % grid.shape[1]
        return grid[:, pick]
    if kind == "bits":
        out = rng.integers(0, 2**32, (arity, N), dtype=np.uint32).view(np.float32)
        return np.where(np.isnan(out), np.float32(1), out)
    size = {"near": 3, "small": 20}.get(kind, 40)
    mantissas = rng.choice([0, 1, 2, 3, 4095, 4096, 4097, 2**22, 2**22 - 1, 2**23 - 1, 2**23 - 2, *rng.integers(0, 2**23, 9)], (arity, N))
    x = np.ldexp(1 + mantissas / 2**23, rng.integers(-size, size + 1, (arity, N))) * rng.choice([-1, 1], (arity, N))
    with np.errstate(all="ignore"):
        if kind == "small":  # around the smallest numbers and around the largest
            for j in range(arity):
                x[j] *= np.where(
                    np.arange(N) % 2, 2.0 ** (-64 if arity > 1 and name != "ieee_add" and name != "ieee_sub" else -120), 2.0**60
                )
            if name == "ieee_fdiv":
                x[1] = np.where(np.arange(N) % 3 == 0, x[1], 1 / x[1])
            if name == "ieee_fmaf":
                x[2] *= np.where(np.arange(N) % 2, 2.0**-64, 2.0**60)
        elif kind == "near":
            a = x.astype(np.float32)
            if name == "ieee_fmaf":  # the third takes nearly all of the product away
                x[2] = -(a[0].astype(np.float64) * a[1]) * (1 + rng.integers(-2, 3, N) * 2.0**-24)
            elif name == "ieee_fdiv":  # quotients of few digits
                x[0] = np.round(np.ldexp(a[0], rng.integers(0, 12, N))) * a[1]
            elif name == "ieee_fsqrt":
                x[0] = (
                    np.round(np.abs(a[0]) * 512) ** 2
                    * np.ldexp(1.0, 2 * rng.integers(-60, 50, N))
                    * (1 + rng.integers(-1, 2, N) * 2.0**-23)
                )
        if name == "ieee_fsqrt":
            x = np.abs(x)
        return x.astype(np.float32)


def program(name: str, mode: str):
    arity = ARITY[name]

    @T.prim_func
    def main(X: T.Tensor((arity, N), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((SERIAL,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((arity, N), "float32"), T.alloc_fragment((N,), "float32")
            T.copy(X, x)
            for i in T.Parallel(N):
                y[i] = getattr(T, name)(*[x[j, i] for j in range(arity)], rounding_mode=mode)
            T.copy(y, Y)
            for i in T.serial(SERIAL):
                Z[i] = getattr(T, name)(*[X[j, i] for j in range(arity)], rounding_mode=mode)

    return main


def cases():
    for name in ARITY:
        for mode in ("rz", "ru", "rd", *(["rn"] if name == "ieee_fmaf" else [])):
            yield name, mode


@pytest.mark.parametrize("name, mode", list(cases()))
@pytest.mark.one_in(18)
def test_results_are_next_to_the_exact_ones(name, mode):
    main = program(name, mode)
    kernel = tilelang.compile(main)
    for kind in ("special", "bits", "wide", "near", "small"):
        x = operands(name, kind)
        want = np.array([right(name, mode, *column) for column in x.T], np.float32)
        arrays = {"X": x, "Y": np.zeros(N, np.float32), "Z": np.zeros(SERIAL, np.float32)}
        if kind == "special" and mode == "rd":
            got = strict.run(kernel, arrays)
        else:
            got = {n: a.copy() for n, a in arrays.items()}
            kernel(*got.values())
        plain = {n: a.copy() for n, a in arrays.items()}
        if kind == "special" or (kind == "near" and mode == "ru"):
            interpret.run(main, *plain.values())
            same(name, x, plain["Y"], want, mode)
        same(name, x, got["Y"], want, mode)
        same(name, x[:, :SERIAL], got["Z"], want[:SERIAL], mode)


def same(name, x, got, want, mode):
    """Bit by bit, NaN apart. Denormal results of the fused product rounded to nearest may be rounded twice (docs/numbers.md)."""
    wrong = got.view(np.int32) != want.view(np.int32)
    wrong &= ~(np.isnan(got) & np.isnan(want))
    if name == "ieee_fmaf" and mode == "rn":
        small = (np.abs(want) < 2.0**-126) & (np.abs(got.view(np.int32) - want.view(np.int32)) <= 1)
        wrong &= ~small
    assert not wrong.any(), [(x[:, i], got[i], want[i]) for i in np.nonzero(wrong)[0][:5]] + [int(wrong.sum())]


def test_tiles_and_chained_calls():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32"), C: T.Tensor((2, 4, 32), "float32"), s: T.float32):
        with T.Kernel(1):
            a, b, c = (T.alloc_shared((4, 32), "float32") for _ in range(3))
            v = T.alloc_var("float32")
            T.copy(A, a)
            T.copy(B, b)
            T.ieee_add(a, b, c, rounding_mode="rd")
            T.copy(c, C[0, 0, 0])
            v = T.ieee_fdiv(s, 3.0, "ru")
            for i, j in T.Parallel(4, 32):
                c[i, j] = T.if_then_else(a[i, j] > 0, T.ieee_mul(T.ieee_sub(a[i, j], b[i, j], "rz"), v, "rz"), 0.1)
            T.copy(c, C[1, 0, 0])

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 4, 32)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((2, 4, 32), np.float32)}, {"s": 0.7})["C"]
    v = right("ieee_fdiv", "ru", np.float32(0.7), 3.0)
    each = lambda f: np.array([f(x, y) for x, y in zip(a.flat, b.flat)], np.float32).reshape(a.shape)  # noqa: E731
    np.testing.assert_array_equal(out[0], each(lambda x, y: right("ieee_add", "rd", x, y)))
    product = each(lambda x, y: right("ieee_mul", "rz", right("ieee_sub", "rz", x, y), v))
    np.testing.assert_array_equal(out[1], np.where(a > 0, product, np.float32(0.1)))


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_operands_behind_a_condition(kind):
    """Elements that do not exist are not read, and conditions of loops are computed every time."""

    @T.prim_func
    def main(X: T.Tensor((60,), "float32"), Y: T.Tensor((64,), "float32"), Z: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            x, n = T.alloc_shared((60,), "float32"), T.alloc_var("float32")
            T.copy(X, x)
            for i in T.serial(64) if kind == "serial" else T.Parallel(64):
                Y[i] = T.if_then_else(i < 60, T.ieee_fmaf(x[i], 0.1, 1.0, "rd"), 0.0)
            n = 0
            while T.ieee_add(n, 1.0, "rd") < 5:
                n += 1
            Z[0] = n

    x = np.random.default_rng(1).standard_normal(60).astype(np.float32)
    out = strict.run(
        tilelang.compile(main, pass_configs=strict.SERIAL), {"X": x, "Y": np.zeros(64, np.float32), "Z": np.zeros(1, np.float32)}
    )
    want = np.array([right("ieee_fmaf", "rd", v, np.float32(0.1), 1) for v in x], np.float32)
    np.testing.assert_array_equal(out["Y"], np.pad(want, (0, 4)))
    assert out["Z"] == 4


@pytest.mark.parametrize("call, error, text", [
    (lambda x: T.ieee_frsqrt(x, "rz"), InvalidArgument, "rounds to nearest"), (lambda x: T.exp(x, rounding_mode="ru"), InvalidArgument, "rounds to nearest"),
    (lambda x: T.ieee_add(x, x, "rs"), InvalidArgument, "does not round with"), (lambda x: T.ieee_fmaf(x, x, x, "up"), InvalidArgument, "does not round with"),
    (lambda x: T.ieee_mul(T.cast(x, "float16"), T.cast(x, "float16"), "rd"), DtypeMismatch, "is for float32")])  # fmt: skip
def test_what_has_no_direction(call, error, text):
    with pytest.raises(error, match=text):

        @T.prim_func
        def main(X: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    X[i] = call(X[i])
