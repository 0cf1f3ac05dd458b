"""float8_e8m0fnu: powers of two, which block-scaled formats keep their scales in."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.ir import verify_ascend

torch = pytest.importorskip("torch")

E8 = "float8_e8m0fnu"
E8_NUMPY = np.dtype(ml_dtypes.float8_e8m0fnu)
TARGETS = ["a2", "a5"]
CODES = np.arange(256, dtype=np.uint8).view(E8_NUMPY)


def as_scales(values):
    """What torch makes of float32 numbers, as codes."""
    return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(torch.float8_e8m0fnu).view(torch.uint8).numpy()


def bits(x):
    return np.ascontiguousarray(x).view(np.uint8)


def numbers(count=1024):
    """float32 numbers of all kinds, dense around the halves between powers and around the smallest normal number."""
    rng = np.random.default_rng(3)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, 3.4e38, -3.4e38, 1.5 * 2.0**127, 2.0**127])
    halves = np.ldexp(np.float32(1.5), rng.integers(-126, 127, 60)).astype(np.float32)
    halves = np.concatenate(
        [halves, np.ldexp(1.0, np.arange(-149, -120)).astype(np.float32), np.float32([2.0**-127 * 1.5, 2.0**-126 * 1.5])]
    )
    near = np.concatenate([halves, np.nextafter(halves, np.float32(np.inf)), np.nextafter(halves, np.float32(0))])
    rest = rng.integers(0, 2**32, count - special.size - near.size, dtype=np.uint32).view(np.float32)
    out = np.concatenate([special, near, rest]).astype(np.float32)
    return np.where(np.isnan(out), np.float32(np.nan), out)


def compiled(func, target):
    kernel = tilelang.compile(func, target=target)
    assert verify_ascend(kernel.artifact.ascend_ir, get_chip(target)) == []
    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.one_in(2)
def test_tiles_are_converted_both_ways(dtype, target):
    n = 1024

    @T.prim_func
    def k(S: T.Tensor((256,), E8), X: T.Tensor((n,), dtype), V: T.Tensor((256,), dtype), Y: T.Tensor((n,), E8), Z: T.Tensor((256,), E8)):
        with T.Kernel(1):
            s, v, x, y = (
                T.alloc_shared((256,), E8),
                T.alloc_fragment((256,), dtype),
                T.alloc_shared((n,), dtype),
                T.alloc_fragment((n,), E8),
            )
            T.copy(S, s)
            for i in T.Parallel(256):
                v[i] = T.cast(s[i], dtype)
            T.copy(v, V)
            T.copy(X, x)
            T.copy(x, y)
            T.copy(y, Y)
            T.copy(s, Z)

    kind = getattr(torch, dtype)
    x = torch.from_numpy(numbers(n)).to(kind)
    stored = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if dtype == "bfloat16" else x.numpy()
    out = strict.run(
        compiled(k, target),
        {"S": CODES, "X": stored, "V": np.zeros(256, stored.dtype), "Y": np.zeros(n, E8_NUMPY), "Z": np.zeros(256, E8_NUMPY)},
    )
    want = torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu).to(torch.float32).to(kind)
    np.testing.assert_array_equal(out["V"].astype(np.float32), want.float().numpy())
    np.testing.assert_array_equal(bits(out["Y"]), as_scales(x.float().numpy()))
    np.testing.assert_array_equal(bits(out["Z"]), bits(CODES))


@pytest.mark.parametrize("target", TARGETS)
def test_single_elements(target):
    n = 1024

    @T.prim_func
    def k(
        S: T.Tensor((256,), E8), X: T.Tensor((n,), "float32"), V: T.Tensor((256,), "float32"), Y: T.Tensor((n,), E8), Z: T.Tensor((n,), E8)
    ):
        with T.Kernel(1):
            last = T.alloc_var(E8)
            for i in T.serial(256):
                V[i] = S[i]
                last = S[i]
            for i in T.serial(n):
                Y[i] = X[i]
                Z[i] = last

    x = numbers(n)
    arrays = {"S": CODES[::-1].copy(), "X": x, "V": np.zeros(256, np.float32), "Y": np.zeros(n, E8_NUMPY), "Z": np.ones(n, E8_NUMPY)}
    out = strict.run(compiled(k, target), arrays)
    np.testing.assert_array_equal(out["V"], CODES[::-1].astype(np.float32))
    np.testing.assert_array_equal(bits(out["Y"]), as_scales(x))
    assert not bits(out["Z"]).any()


@pytest.mark.parametrize("target", TARGETS)
def test_weights_times_the_scales_of_their_blocks(target):
    """Dequantisation: a scale for every 32 numbers of a row, and a product of the result."""
    m, n, k, block = 32, 32, 128, 32

    @T.prim_func
    def main(A: T.Tensor((m, k), "int8"), S: T.Tensor((m, k // block), E8), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1):
            a, s, w = T.alloc_shared((m, k), "int8"), T.alloc_shared((m, k // block), E8), T.alloc_shared((m, k), "float16")
            b, c = T.alloc_shared((k, n), "float16"), T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(S, s)
            T.copy(B, b)
            for i, j in T.Parallel(m, k):
                w[i, j] = T.cast(a[i, j], "float16") * s[i, j // block]
            T.clear(c)
            T.gemm(w, b, c)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (m, k)).astype(np.int8), rng.integers(-4, 5, (k, n)).astype(np.float16)
    s = rng.integers(120, 134, (m, k // block)).astype(np.uint8).view(E8_NUMPY)
    out = strict.run(compiled(main, target), {"A": a, "S": s, "B": b, "C": np.zeros((m, n), np.float32)})["C"]
    want = (a * np.repeat(s.astype(np.float32), block, axis=1)) @ b.astype(np.float32)  # sums of whole numbers below 2**24 / 2**7
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("target", TARGETS)
def test_scales_from_the_largest_of_a_block(target):
    """Quantisation: the largest size of a row, rounded to a power of two, stored and divided by; bits in both directions."""
    m, n = 16, 64

    @T.prim_func
    def main(
        X: T.Tensor((m, n), "float32"),
        S: T.Tensor((m,), E8),
        Q: T.Tensor((m, n), "float32"),
        R: T.Tensor((m,), "uint8"),
        W: T.Tensor((m,), E8),
    ):
        with T.Kernel(1):
            x, most, s = T.alloc_shared((m, n), "float32"), T.alloc_fragment((m,), "float32"), T.alloc_shared((m,), E8)
            T.copy(X, x)
            T.reduce_absmax(x, most, dim=1)
            for i in T.Parallel(m):
                s[i] = T.cast(most[i] / 448, E8, "ru")
            for i, j in T.Parallel(m, n):
                Q[i, j] = x[i, j] / T.cast(s[i], "float32")
            for i in T.Parallel(m):
                R[i] = T.reinterpret(s[i], "uint8") + T.uint8(1)
            for i in T.Parallel(m):
                W[i] = T.reinterpret(R[i], E8)
            T.copy(s, S)

    x = (np.random.default_rng(1).standard_normal((m, n)) * np.exp2(np.arange(m) * 8 - 60)[:, None]).astype(np.float32)
    x[3] = 448 * 2.0**-9 * np.sign(x[3])
    out = strict.run(
        compiled(main, target),
        {"X": x, "S": np.zeros(m, E8_NUMPY), "Q": np.zeros_like(x), "R": np.zeros(m, np.uint8), "W": np.zeros(m, E8_NUMPY)},
    )
    most = np.abs(x).max(1) / np.float32(448)
    want = np.ceil(np.log2(most.astype(np.float64)))
    np.testing.assert_array_equal(bits(out["S"]), want + 127)
    np.testing.assert_array_equal(out["Q"], x / np.exp2(want).astype(np.float32)[:, None])
    np.testing.assert_array_equal(out["R"], bits(out["S"]) + 1)
    np.testing.assert_array_equal(bits(out["W"]), out["R"])


@pytest.mark.parametrize("mode", ["ru", "rz", "rd", "rn", "rna"])
def test_directions(mode):
    n = 1024

    @T.prim_func
    def k(X: T.Tensor((n,), "float32"), Y: T.Tensor((2, n), E8)):
        with T.Kernel(1):
            for i in T.Parallel(n):
                Y[0, i] = T.cast(X[i], E8, mode)
            for i in T.serial(n):
                Y[1, i] = T.cast(X[i], E8, mode)

    x = numbers(n)
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(np.abs(x).astype(np.float64))
        code = exponent - 1 + 127 + (fraction > 0.5 if mode == "ru" else 0)
    code = np.where(np.abs(x) < 2.0**-126, ((np.abs(x) > 2.0**-127) if mode == "ru" else 0), code)
    code = as_scales(x) if mode in ("rn", "rna") else np.where(np.isfinite(x), np.clip(code, 0, 255), 255)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros((2, n), E8_NUMPY)})["Y"]
    np.testing.assert_array_equal(bits(out), np.stack([code, code]))


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_choices_fills_and_limits(target):
    m, n = 8, 64

    @T.prim_func
    def main(S: T.Tensor((m, n), E8), V: T.Tensor((4, m), "float32"), Y: T.Tensor((m, n), E8), F: T.Tensor((4, n), E8), c: T.float32):
        with T.Kernel(1):
            s, y, f = T.alloc_shared((m, n), E8), T.alloc_shared((m, n), E8), T.alloc_shared((4, n), E8)
            most, least, v = T.alloc_fragment((m,), E8), T.alloc_fragment((m,), "float32"), T.alloc_fragment((m,), "float32")
            T.copy(S, s)
            T.reduce_max(s, most, dim=1)
            T.reduce_min(s, least, dim=1)
            for i in T.Parallel(m):
                v[i] = most[i]
            T.copy(v, V[0, 0:m])
            T.copy(least, V[1, 0:m])
            for i in T.Parallel(m):
                v[i] = T.max(most[i], s[i, 0]) * 3 - least[i]
            T.copy(v, V[2, 0:m])
            for i, j in T.Parallel(m, n):
                y[i, j] = T.if_then_else(s[i, j] > s[i, 0], s[m - 1 - i, j], s[i, j])
            T.copy(y, Y)
            T.clear(f)
            T.fill(f[1, 0:n], 3.0)
            T.fill(f[2, 0:n], T.max_value(E8))
            for j in T.Parallel(n):
                f[3, j] = T.cast(c, E8)
            T.copy(f, F)

    s = np.random.default_rng(2).integers(100, 150, (m, n)).astype(np.uint8).view(E8_NUMPY)
    out = strict.run(
        compiled(main, target),
        {"S": s, "V": np.zeros((4, m), np.float32), "Y": np.zeros((m, n), E8_NUMPY), "F": np.zeros((4, n), E8_NUMPY)},
        {"c": 0.7},
    )
    wide = s.astype(np.float32)
    most, least = wide.max(1), wide.min(1)
    np.testing.assert_array_equal(out["V"][:3], [most, least, most * 3 - least])
    np.testing.assert_array_equal(bits(out["Y"]), bits(np.where(wide > wide[:, :1], s[::-1], s)))
    np.testing.assert_array_equal(bits(out["F"]), np.repeat(np.uint8([[0], [129], [254], [126]]), n, axis=1))


def test_torch_tensors_are_arguments_and_results():
    @tilelang.jit(out_idx=[-1])
    def make(n):
        @T.prim_func
        def k(X: T.Tensor((n,), "float32"), S: T.Tensor((n,), E8), Y: T.Tensor((n,), E8)):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    Y[i] = X[i] * T.cast(S[i], "float32")

        return k

    x = torch.from_numpy(numbers(512)[:256].copy())
    s = torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    out = make(256)(x, s)
    assert out.dtype == torch.float8_e8m0fnu
    np.testing.assert_array_equal(out.view(torch.uint8).numpy(), (x * s.float()).to(torch.float8_e8m0fnu).view(torch.uint8).numpy())


@pytest.mark.parametrize("target", TARGETS)
def test_python_runs_it_too(target):
    @tilelang.jit(target=target)
    def k(X: T.Tensor((256,), "float32"), S: T.Tensor((256,), E8), Y: T.Tensor((256,), E8)):
        with T.Kernel(1):
            y = T.alloc_shared((256,), E8)
            T.copy(X, y)
            for i in T.Parallel(256):
                Y[i] = T.cast(y[i] * 3, E8, "ru")
            for i in T.serial(4):
                Y[i] = S[i]

    x = numbers(512)[:256].copy()
    plain, fast = (np.zeros(256, E8_NUMPY) for _ in range(2))
    interpret.run(k, x, CODES, plain)
    k(x, CODES, fast)
    np.testing.assert_array_equal(bits(plain), bits(fast))


@pytest.mark.parametrize("target", TARGETS)
def test_integers_become_powers_of_two(target):
    @T.prim_func
    def k(X: T.Tensor((4, 64), "int32"), S: T.Tensor((4, 64), E8), Y: T.Tensor((4, 64), E8), Z: T.Tensor((4, 64), "int32")):
        with T.Kernel(1):
            for i, j in T.Parallel(4, 64):
                Y[i, j] = X[i, j]
            for i, j in T.Parallel(4, 64):
                Z[i, j] = S[i, j]

    x = np.random.default_rng(4).integers(-(2**31), 2**31, (4, 64)).astype(np.int32) >> np.arange(64, dtype=np.int32) % 31
    s = np.arange(256, dtype=np.uint8).reshape(4, 64).view(E8_NUMPY)
    out = strict.run(compiled(k, target), {"X": x, "S": s, "Y": np.zeros((4, 64), E8_NUMPY), "Z": np.zeros((4, 64), np.int32)})
    np.testing.assert_array_equal(bits(out["Y"]), as_scales(x.astype(np.float32)))
    wide = s.astype(np.float64)
    np.testing.assert_array_equal(out["Z"], np.where(np.isnan(wide), 0, np.clip(np.trunc(np.nan_to_num(wide)), -(2**31), 2**31 - 1)))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float8_e4m3fn"])
def test_other_dtypes_on_the_way(dtype):
    @T.prim_func
    def k(S: T.Tensor((256,), E8), X: T.Tensor((256,), dtype), Y: T.Tensor((256,), dtype), Z: T.Tensor((256,), E8)):
        with T.Kernel(1):
            for i in T.Parallel(256):
                Y[i] = T.cast(S[i], dtype)
            for i in T.Parallel(256):
                Z[i] = X[i]

    kind = {"bool": torch.bool, "int8": torch.int8, "float8_e4m3fn": torch.float8_e4m3fn}[dtype]
    x = (torch.arange(256) % 2).bool() if dtype == "bool" else torch.arange(256, dtype=torch.uint8).view(kind)
    y, z = torch.zeros(256, dtype=torch.uint8).view(kind), torch.zeros(256, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    tilelang.compile(k)(torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu), x, y, z)
    np.testing.assert_array_equal(z.view(torch.uint8).numpy(), as_scales(x.float().numpy()))
    wide = CODES.astype(np.float32)
    # Too large for e4m3 is NaN; to integers the nearest number they hold, NaN gives 0 (docs/numbers.md).
    want = {
        "bool": wide != 0,
        "int8": np.trunc(np.clip(np.nan_to_num(wide), -128, 127)),
        "float8_e4m3fn": np.where(wide > 448, np.nan, wide.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)),
    }
    np.testing.assert_array_equal(y.float().numpy(), want[dtype].astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_that_are_longer_than_the_tensor(target):
    """What lies outside is the number next to 0."""

    @T.prim_func
    def k(S: T.Tensor((3, 20), E8), Y: T.Tensor((4, 32), E8), Z: T.Tensor((4, 32), "float32")):
        with T.Kernel(1):
            s, z = T.alloc_shared((4, 32), E8), T.alloc_fragment((4, 32), "float32")
            T.copy(S[0:4, 0:32], s)
            for i, j in T.Parallel(4, 32):
                z[i, j] = s[i, j]
            T.copy(s, Y)
            T.copy(z, Z)

    s = np.random.default_rng(6).integers(1, 255, (3, 20)).astype(np.uint8).view(E8_NUMPY)
    arrays = {"S": s, "Y": np.zeros((4, 32), E8_NUMPY), "Z": np.zeros((4, 32), np.float32)}
    out = strict.run(compiled(k, target), arrays)
    want = np.zeros((4, 32), np.uint8)
    want[:3, :20] = bits(s)
    np.testing.assert_array_equal(bits(out["Y"]), want)
    np.testing.assert_array_equal(out["Z"], want.view(E8_NUMPY).astype(np.float32))
    plain = {n: a.copy() for n, a in arrays.items()}
    interpret.run(k, *plain.values())
    np.testing.assert_array_equal(bits(plain["Y"]), want)


@pytest.mark.parametrize("target", TARGETS)
def test_sorted_rows(target):
    @T.prim_func
    def k(S: T.Tensor((4, 64), E8), Y: T.Tensor((4, 64), E8), Z: T.Tensor((4, 64), E8)):
        with T.Kernel(1):
            s, y = T.alloc_shared((4, 64), E8), T.alloc_shared((4, 64), E8)
            T.copy(S, s)
            T.sort(s, y)
            T.copy(y, Y)
            for i, j in T.Parallel(4, 64):
                Z[i, j] = s[i, 63 - (j ^ 5)]

    s = np.random.default_rng(6).integers(0, 256, (4, 64)).astype(np.uint8)
    out = strict.run(compiled(k, target), {"S": s.view(E8_NUMPY), "Y": np.zeros((4, 64), E8_NUMPY), "Z": np.zeros((4, 64), E8_NUMPY)})
    np.testing.assert_array_equal(bits(out["Y"]), np.sort(s, axis=1))
    np.testing.assert_array_equal(bits(out["Z"]), s[:, 63 - (np.arange(64) ^ 5)])


@pytest.mark.parametrize("target", TARGETS)
def test_conditional_stores(target):
    @T.prim_func
    def k(S: T.Tensor((4, 64), E8), X: T.Tensor((4, 64), "float32"), Y: T.Tensor((4, 64), E8)):
        with T.Kernel(1):
            s, x = T.alloc_shared((4, 64), E8), T.alloc_shared((4, 64), "float32")
            T.copy(S, s)
            T.copy(X, x)
            for i, j in T.Parallel(4, 64):
                if x[i, j] > 0:
                    Y[i, j] = s[3 - i, j]
                else:
                    s[i, j] = x[i, j]
            for i, j in T.Parallel(4, 64):
                if x[i, j] <= 0:
                    Y[i, j] = s[i, j]

    s, x = np.arange(256, dtype=np.uint8).reshape(4, 64), np.random.default_rng(8).choice(numbers(), (4, 64))
    x = np.repeat(np.nan_to_num(x[:1]), 4, axis=0)  # a row is read before or after it is written alike
    out = strict.run(compiled(k, target), {"S": s.view(E8_NUMPY), "X": x, "Y": np.zeros((4, 64), E8_NUMPY)})
    np.testing.assert_array_equal(bits(out["Y"]), np.where(x > 0, s[::-1], as_scales(x)))


def test_random_inputs_are_numbers():
    @T.prim_func
    def k(S: T.Tensor((64,), E8), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[i] = S[i]

    from tilelang_ascend.profiler import supply

    inputs = supply.make_inputs(tilelang.compile(k).artifact.signature, supply.TensorSupplyType.Auto)
    assert torch.isfinite(inputs[0].float()).all()


def test_numbers_without_a_power_of_two():
    with pytest.raises(InvalidArgument, match="no sign"):

        @T.prim_func
        def k(Y: T.Tensor((64,), E8)):
            with T.Kernel(1):
                for i in T.Parallel(64):
                    Y[i] = -2.0
