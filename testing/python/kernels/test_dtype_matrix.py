"""Every dtype x every operation inside `T.Parallel`, with tails, on both generations, against NumPy."""

import dtype_cases as cases
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 77
CHUNK = 9
"""Operations in one kernel: the time of the synchronisation pass grows with the square of the instructions."""


def operations(dtype, table):
    """All operations of `table` on one dtype: a row of Z (or of P, for predicates) each."""
    results = [c for c in table if not c.predicate]
    predicates = [c for c in table if c.predicate]
    shifts = dtype in cases.INTEGERS

    @T.prim_func
    def main(
        X: T.Tensor((N,), dtype),
        Y: T.Tensor((N,), dtype),
        A: T.Tensor((N,), dtype),
        Z: T.Tensor((len(results), N), dtype),
        P: T.Tensor((len(predicates), N), "bool"),
    ):
        with T.Kernel(1, threads=128):
            x, y, a = T.alloc_shared((N,), dtype), T.alloc_shared((N,), dtype), T.alloc_shared((N,), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            if shifts:
                T.copy(A, a)
            for k, c in enumerate(results):
                for i in T.Parallel(N):
                    Z[k, i] = c.kernel(x[i], y[i], a[i])
            for k, c in enumerate(predicates):
                for i in T.Parallel(N):
                    P[k, i] = c.kernel(x[i], y[i], a[i])

    return main


def operands(dtype):
    """x, y (never 0, never -1 opposite the smallest integer) and shift amounts from 0 to beyond the width."""
    x, y = cases.values(dtype, N, 1), cases.values(dtype, N, 2)
    a = np.zeros(N, x.dtype)
    if dtype in cases.INTEGERS:
        a = (np.arange(N) % (cases.bits_of(dtype) + 3)).astype(x.dtype)
    if dtype != "bool":
        y[y == 0] = 3
    y[::9] = x[::9]
    if dtype != "bool":
        y[y == 0] = 3
    return x, y, a


QUICK_ON_A5 = ("float32", "bfloat16", "int16", "float8_e4m3fn")
"""The other dtypes are lowered as for a2, or as these."""


@pytest.mark.parametrize(
    "dtype, chip",
    [
        *((dtype, "a2") for dtype in cases.ALL),
        *(pytest.param(dtype, "a5", marks=[] if dtype in QUICK_ON_A5 else pytest.mark.slow) for dtype in cases.ALL),
    ],
)
@pytest.mark.one_in(9)
def test_operations(dtype, chip):
    table = [c for c in cases.CASES if dtype in c.dtypes]
    wrong = []
    for start in range(0, len(table), CHUNK):
        text = chip == "a2" and dtype in ("int64", "uint32") and start == 0
        wrong += differences(dtype, chip, table[start : start + CHUNK], text)
    assert not wrong, "\n".join(wrong)


def differences(dtype, chip, table, text) -> list[str]:
    """Lines that say which operations of `table` differ from NumPy, and where first."""
    x, y, a = operands(dtype)
    with np.errstate(all="ignore"):
        want = {c.name: np.asarray(c.reference(x, y, a)).astype(bool if c.predicate else x.dtype) for c in table}
    kernel = tilelang.compile(operations(dtype, table), target=chip)
    results, predicates = [[c for c in table if c.predicate == p] for p in (False, True)]
    arrays = {"X": x, "Y": y, "A": a, "Z": np.zeros((len(results), N), x.dtype), "P": np.zeros((len(predicates), N), bool)}
    out = strict.run(kernel, arrays, text=text)
    wrong = []
    for rows, group in ((out["Z"], results), (out["P"], predicates)):
        for got, c in zip(rows, group):
            different = np.flatnonzero(~same(got, want[c.name]))
            if different.size:
                i = different[0]
                wrong.append(f"{c.name}: {different.size} of {N}, x={x[i]} y={y[i]} a={a[i]}: {got[i]}, not {want[c.name][i]}")
    return wrong


def same(got, want):
    """Equal values; NaN equals NaN."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    return (got == want) | (np.isnan(a) & np.isnan(b))


def conversions(source, targets):
    """X in every dtype of `targets`, one output each."""
    outs = [T.Tensor((N,), t) for t in targets]

    @T.prim_func
    def main(X: T.Tensor((N,), source), A: outs[0], B: outs[1], C: outs[2], D: outs[3]):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((N,), source)
            T.copy(X, x)
            for i in T.Parallel(N):
                A[i] = T.cast(x[i], targets[0])
            for i in T.Parallel(N):
                B[i] = T.cast(x[i], targets[1])
            for i in T.Parallel(N):
                C[i] = T.cast(x[i], targets[2])
            for i in T.Parallel(N):
                D[i] = T.cast(x[i], targets[3])

    return main


def converted(x, target):
    """C conversions: integers wrap, floats truncate, everything else rounds to nearest even, through float32."""
    kind = cases.numpy_dtype(target)
    floats = x.dtype.name not in (*cases.INTEGERS, "bool")
    if target == "bool":
        return x.astype(np.float32) != 0 if floats else x != 0
    if target in cases.INTEGERS:
        wide = np.trunc(x.astype(np.float64)).astype(np.int64) if floats else x
        return wide.astype(kind)
    return x.astype(np.float32).astype(kind)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("source", cases.ALL)
@pytest.mark.one_in(9)
def test_conversions(source, chip):
    targets = [t for t in cases.ALL if t != source]
    x = cases.values(source, N, 3)
    wrong = []
    for start in range(0, len(targets), 4):
        names = targets[start : start + 4]
        kernel = tilelang.compile(conversions(source, names), target=chip)
        outs = {n: np.zeros(N, cases.numpy_dtype(t)) for n, t in zip("ABCD", names)}
        out = strict.run(kernel, {"X": x, **outs}, text=False)
        for n, t in zip("ABCD", names):
            with np.errstate(all="ignore"):
                want = converted(x, t)
            # Negative floats have no unsigned value.
            defined = np.ones(N, bool) if source in (*cases.INTEGERS, "bool") or t not in cases.UNSIGNED else x.astype(np.float32) > -1
            different = np.flatnonzero(defined & ~same(out[n], want))
            if different.size:
                i = different[0]
                wrong.append(f"{source} -> {t}: {different.size} of {N}, {x[i]}: {out[n][i]}, not {want[i]}")
    assert not wrong, "\n".join(wrong)


def test_integer_powers_are_whole():
    """The exponent is data: the float32 power is rounded, not cut, so that 7 ** 5 is not 16806."""

    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), E: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                Y[i] = T.pow(X[i], E[i])

    x, e = np.arange(N, dtype=np.int32) % 19 - 9, np.arange(N, dtype=np.int32) % 6
    out = strict.run(tilelang.compile(main), {"X": x, "E": e, "Y": np.zeros(N, np.int32)}, text=False)
    np.testing.assert_array_equal(out["Y"], x**e)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bfloat16"])
@pytest.mark.parametrize("loop", [T.Parallel, T.serial])
@pytest.mark.one_in(2)
def test_powers_are_products(dtype, loop):
    """A product of two narrow numbers is wider than they are, and so is their square."""

    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((4, 64), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((64,), dtype), T.alloc_shared((4, 64), "float32")
            T.copy(X, x)
            for i in loop(64):
                y[0, i] = T.cast(x[i] ** 2, "float32")
                y[1, i] = T.cast(T.pow(x[i], 3), "float32")
                y[2, i] = T.cast(x[i] * x[i], "float32")
                y[3, i] = T.cast(x[i] * x[i] * x[i], "float32")
            T.copy(y, Y)

    x = (np.arange(64) * 2 + 1).astype(cases.numpy_dtype(dtype))
    wide = x.astype(np.float32)
    out = strict.run(tilelang.compile(main, pass_configs=strict.SERIAL), {"X": x, "Y": np.zeros((4, 64), np.float32)}, {})["Y"]
    np.testing.assert_array_equal(out, np.stack([wide**2, wide**3] * 2))
