"""The numeric rule of docs/numbers.md, stated once in NumPy, for element-wise loops, serial loops and tile operators alike."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from strict import SERIAL, bits, run

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.interpret.values import fit
from tilelang_ascend.sim import reference_numbers

N = 128
BF16 = np.dtype(ml_dtypes.bfloat16)
NARROW = ("int8", "uint8", "int16", "uint16")

OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mul_add": lambda a, b: a * b + a,
    "neg": lambda a, b: -a,
    "max": lambda a, b: T.max(a, b),
    "min": lambda a, b: T.min(a, b),
    "less": lambda a, b: T.if_then_else(a < b, a, b),
    "not_equal": lambda a, b: T.if_then_else(a != b, a, b),
    "sum_above": lambda a, b: T.if_then_else(a + b > a, a, b),
    "relu": lambda a, b: T.max(a, 0),
    "clamp": lambda a, b: T.min(T.max(a, b), 1),
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "invert": lambda a, b: ~a,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "floordiv": lambda a, b: T.if_then_else(b != 0, a // b, 0),
    "floormod": lambda a, b: T.if_then_else(b != 0, a % b, 0),
}
OF_INTEGERS = ("and", "xor", "invert", "shift_left", "shift_right", "floordiv", "floormod")
TILE_OPS = {"add": T.add, "sub": T.sub, "mul": T.mul, "max": T.max, "min": T.min}


def dtype(name: str) -> np.dtype:
    return BF16 if name == "bfloat16" else np.dtype(name)


def computed(name: str) -> np.dtype:
    """What arithmetic on a dtype is computed in."""
    return np.dtype("int32") if name in NARROW else np.dtype("float32") if name == "bfloat16" else np.dtype(name)


def rule(op: str, name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`op` of two arrays of dtype `name`, before it is stored."""
    kind = computed(name)
    x, y = a.astype(kind), b.astype(kind)
    bits = 8 * a.dtype.itemsize if op == "shift_right" else 8 * kind.itemsize
    float_like = kind.kind == "f"
    with np.errstate(all="ignore"):
        match op:
            case "add":
                return x + y
            case "sub":
                return x - y
            case "mul":
                return x * y
            case "mul_add":
                return x * y + x
            case "neg":
                return -x if kind.kind != "u" else kind.type(0) - x
            case "max":
                return extreme(np.maximum, x, y)
            case "min":
                return extreme(np.minimum, x, y)
            case "less":
                return np.where(x < y, x, y)
            case "not_equal":
                return np.where(x != y, x, y)
            case "sum_above":
                return np.where(x + y > x, x, y)
            case "relu":
                return extreme(np.maximum, x, np.zeros_like(x))
            case "clamp":
                return extreme(np.minimum, extreme(np.maximum, x, y), np.ones_like(x))
            case "and":
                return x & y
            case "xor":
                return x ^ y
            case "invert":
                return ~x
            case "shift_left" | "shift_right":
                outside = (y.astype(object) < 0) | (y.astype(object) >= bits)
                amount = np.where(outside, 0, y).astype(kind)
                if op == "shift_left":
                    return np.where(outside, 0, x << amount).astype(kind)
                return np.where(outside, np.where(x.astype(object) < 0, -1, 0), x >> amount).astype(kind)
            case "floordiv" | "floormod":
                safe = np.where(y == 0, 1, y)
                both = x // safe if op == "floordiv" else x % safe
                return np.where(y == 0, 0, both).astype(kind)
    assert not float_like, op


def extreme(function, x, y):
    """NaN wins; 0 lies above -0."""
    result = function(x, y)
    if x.dtype.kind != "f":
        return result
    zeros = (x == 0) & (y == 0)
    both = np.signbit(x) & np.signbit(y) if function is np.maximum else np.signbit(x) | np.signbit(y)
    return np.where(zeros, np.where(both, -0.0, 0.0).astype(x.dtype), result)


def values(name: str, seed: int) -> np.ndarray:
    """Special values in every combination with each other, and random ones."""
    rng = np.random.default_rng(seed)
    if dtype(name).kind in "iu":
        info = np.iinfo(name)
        special = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, info.max // 2, 7]
        rest = rng.integers(info.min, info.max, N, dtype=name, endpoint=True)
    else:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 6e4, 1e-7]
        rest = rng.standard_normal(N).astype(dtype(name))
    s = np.array(special).astype(dtype(name))
    pairs = np.tile(s, 8) if seed else np.repeat(s, 8)
    return np.concatenate([pairs, rest])[:N]


def kernel(ops, tile_ops, source, target):
    @T.prim_func
    def main(
        A: T.Tensor((N,), source), B: T.Tensor((N,), source), P: T.Tensor((len(ops), N), target),
        S: T.Tensor((len(ops), N), target), V: T.Tensor((max(1, len(tile_ops)), N), target),
    ):  # fmt: skip
        with T.Kernel(1):
            a, b = T.alloc_shared((N,), source), T.alloc_shared((N,), source)
            T.copy(A, a)
            T.copy(B, b)
            for k, op in enumerate(ops):
                for i in T.Parallel(N):
                    P[k, i] = op(a[i], b[i])
                for i in T.serial(N):
                    S[k, i] = op(A[i], B[i])
            for k, op in enumerate(tile_ops):
                c = T.alloc_shared((N,), target)
                op(a, b, c)
                T.copy(c, V[k, :])

    return tilelang.compile(main, pass_configs=SERIAL)


PAIRS = [
    ("float32", "float32"), ("float16", "float16"), ("float16", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32"),
    ("int8", "int8"), ("int8", "int32"), ("uint8", "uint8"), ("uint8", "int32"), ("int16", "int16"), ("int16", "int32"),
    ("uint16", "int32"), ("int32", "int32"), ("uint32", "uint32"), ("int64", "int64"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source, target", PAIRS, ids=lambda d: d)
def test_one_rule_on_all_roads(source, target):
    integer = dtype(source).kind in "iu"
    check([n for n in OPS if integer or n not in OF_INTEGERS], list(TILE_OPS), source, target)


@pytest.mark.parametrize(
    "source, target, names",
    [("float32", "float32", ["max", "clamp"]), ("bfloat16", "float32", ["mul_add"]), ("int8", "int32", ["mul", "shift_left"])],
    ids=lambda d: d if isinstance(d, str) else "",
)
def test_the_rule_in_short(source, target, names):
    check(names, [], source, target)


def check(names, tiles, source, target):
    a, b = values(source, 0), values(source, 1)
    arrays = {"A": a, "B": b, **{n: np.zeros((len(names), N), dtype(target)) for n in "PS"}}
    arrays["V"] = np.zeros((max(1, len(tiles)), N), dtype(target))
    out = run(kernel([OPS[n] for n in names], [TILE_OPS[n] for n in tiles], source, target), arrays)
    with np.errstate(all="ignore"):
        for k, name in enumerate(names):
            expected = rule(name, source, a, b).astype(dtype(target))
            for form in "PS":
                np.testing.assert_array_equal(bits(out[form][k]), bits(expected), f"{name} in form {form}")
        for k, name in enumerate(tiles):
            np.testing.assert_array_equal(bits(out["V"][k]), bits(rule(name, source, a, b).astype(dtype(target))), f"T.{name} of tiles")


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def conversions(source, targets):
    @T.prim_func
    def main(A: T.Tensor((N,), source), P: T.Tensor((len(targets), N), "int64"), S: T.Tensor((len(targets), N), "int64")):
        with T.Kernel(1):
            for k, target in enumerate(targets):
                for i in T.Parallel(N):
                    P[k, i] = T.cast(T.cast(A[i], target), "int64")
                for i in T.serial(N):
                    S[k, i] = T.cast(T.cast(A[i], target), "int64")

    return tilelang.compile(main, pass_configs=SERIAL)


SPECIAL = [np.nan, np.inf, -np.inf, 3e9, -3e9, 300.7, -300.7, -1.5, 7e4, -0.5, 127.9, 255.9, 1e20, -1e20, 2.0**31, 0.0, 6e4, 4e4]


def as_integers(x, target: str) -> list[int]:
    """Floats as integers: the nearest the dtype holds, 0 for NaN."""
    info = np.iinfo(target)
    low, high = {"uint16": (-(2**31), 2**31 - 1), "uint32": (-(2**31), 2**32 - 1)}.get(target, (info.min, info.max))
    whole = [min(max(int(v), low), high) for v in np.nan_to_num(x.astype("float64"), nan=0.0, posinf=1e300, neginf=-1e300)]
    return [(v - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min) for v in whole]


@pytest.mark.parametrize("target", INTEGERS)
def test_the_interpreters_convert_to_integers_alike(target):
    a = np.array(SPECIAL, np.float32)
    want = as_integers(a, target)
    assert reference_numbers.convert(a, np.dtype(target)).tolist() == want
    assert [int(reference_numbers.convert(x, np.dtype(target))) for x in a] == want
    assert [fit(float(x), target) for x in a] == want


@pytest.mark.parametrize("source, targets", [("float32", ["int32", "uint8"]), *(
    pytest.param(s, list(INTEGERS), marks=pytest.mark.slow) for s in ("float32", "float16", "bfloat16"))], ids=str)  # fmt: skip
def test_conversions_to_integers(source, targets):
    with np.errstate(over="ignore"):
        a = np.resize(np.array(SPECIAL), N).astype(dtype(source))
    out = run(conversions(source, targets), {"A": a, **{n: np.zeros((len(targets), N), "int64") for n in "PS"}})
    for k, target in enumerate(targets):
        expected = np.array(as_integers(a, target))
        for form in "PS":
            np.testing.assert_array_equal(out[form][k], expected, f"{target} in form {form}")


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint8"])
def test_truncated_division_of_the_interpreter(dtype):
    """For the smallest number, too, which has no absolute value; of scalars in all digits."""
    kind = np.iinfo(dtype)
    numbers = sorted({kind.min, kind.min + 1, kind.max, kind.max - 1, 70, 7, 2, 1, 0, *((-7, -1) if kind.min else ())})
    for a, b in itertools.product(numbers, numbers):
        quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        rest = 0 if b == 0 else a - quotient * b
        assert (reference_numbers._div(a, b), reference_numbers._mod(a, b)) == (quotient, rest)
        x, y = np.full(2, a, dtype), np.full(2, b, dtype)
        with np.errstate(all="ignore"):
            found = reference_numbers._div(x, y), reference_numbers._mod(x, y)
        for got, want in zip(found, (quotient, rest)):
            assert got.dtype == np.dtype(dtype) and got.tolist() == [(want - kind.min) % 2**kind.bits + kind.min] * 2, (a, b)


CONSTANTS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shift_left": lambda a, b: a << b,
    "neg": lambda a, b: -a,
    "invert": lambda a, b: ~a,
    "less": lambda a, b: T.if_then_else(a + b < a, a, b),
}


@pytest.mark.parametrize("name, x, y", [("uint8", 200, 9), ("int8", 127, 2), ("uint16", 40000, 15), ("int16", -32768, 3), ("uint8", 3, 5)])
def test_constants_are_computed_as_elements_are(name, x, y):
    @T.prim_func
    def main(A: T.Tensor((2,), name), P: T.Tensor((len(CONSTANTS), 3), "int32")):
        with T.Kernel(1):
            for k, op in enumerate(CONSTANTS.values()):
                P[k, 0] = op(A[0], A[1])
                P[k, 1] = op(T.cast(x, name), T.cast(y, name))
                P[k, 2] = op(T.cast(x, name), y)

    given = np.array([x, y], name)
    out = run(tilelang.compile(main), {"A": given, "P": np.zeros((len(CONSTANTS), 3), np.int32)})["P"]
    want = [x + y, x - y, x * y, x << y, -x, ~x, x if x + y < x else y]
    np.testing.assert_array_equal(out, np.array([want] * 3).T)
