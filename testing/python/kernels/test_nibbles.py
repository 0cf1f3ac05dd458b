"""int4, uint4 and float4_e2m1fn: two numbers in a byte of a tensor, one in an element of a tile."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import ArgumentValueError, InvalidArgument, ShapeMismatch
from tilelang_ascend.runtime import dtypes

torch = pytest.importorskip("torch")

NIBBLES = ("int4", "uint4", "float4_e2m1fn")
TARGETS = ("a2", "a3", "a5")
INTEGERS = {"int4": (-8, 7), "uint4": (0, 15)}
RNG = np.random.default_rng(4)


def pack(codes):
    """Bytes of codes: that of an even index in the low half."""
    return (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)


def numbers(codes, dtype):
    """float32 values of codes."""
    return codes.astype(np.uint8).view(np.dtype(getattr(ml_dtypes, dtype))).astype(np.float32)


def codes_of(values, dtype):
    """What the language makes of numbers (docs/numbers.md)."""
    values = np.asarray(values)
    floating = values.dtype.kind in "fV"
    if dtype == "float4_e2m1fn":
        values = values.astype(np.float32)
        values = np.where(np.isnan(values), np.float32(6), values)
        return values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    if floating:
        values = np.clip(np.nan_to_num(np.trunc(values.astype(np.float64)), posinf=np.inf, neginf=-np.inf), *INTEGERS[dtype])
    return (values.astype(np.int64) & 15).astype(np.uint8)


def random_codes(*shape):
    return RNG.integers(0, 16, shape).astype(np.uint8)


def everywhere(rows=16, columns=64):
    """Each of the 16 codes in both halves of bytes, beside each other one."""
    pairs = np.arange(256, dtype=np.uint8)
    bytes_ = np.resize(RNG.permutation(pairs), rows * columns // 2).reshape(rows, columns // 2)
    return np.stack((bytes_ & 15, bytes_ >> 4), -1).reshape(rows, columns)


def same(a, b):
    """Equal numbers, zeros with equal signs."""
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a.astype(np.float32)), np.signbit(np.asarray(b).astype(np.float32)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", NIBBLES)
@pytest.mark.one_in(3)
def test_codes_are_numbers_in_tiles_and_codes_again(dtype, target):
    @T.prim_func
    def k(X: T.Tensor((16, 64), dtype), Y: T.Tensor((16, 64), "float16"), V: T.Tensor((16, 64), "float32"), Z: T.Tensor((16, 64), dtype)):
        with T.Kernel(2) as b:
            x = T.alloc_shared((16, 32), dtype)
            y = T.alloc_fragment((16, 32), "float16")
            T.copy(X[0, b * 32], x)
            for i, j in T.Parallel(16, 32):
                y[i, j] = T.cast(x[i, j], "float16")
            T.copy(y, Y[0, b * 32])
            T.copy(x, V[0, b * 32])
            T.copy(x, Z[0, b * 32])

    codes = everywhere()
    arrays = {"X": pack(codes), "Y": np.zeros((16, 64), np.float16), "V": np.zeros((16, 64), np.float32), "Z": np.zeros((16, 32), np.uint8)}
    out = strict.run(tilelang.compile(k, target=target), arrays)
    same(out["Y"], numbers(codes, dtype))
    same(out["V"], numbers(codes, dtype))
    np.testing.assert_array_equal(out["Z"], pack(codes))


SPECIAL = np.float32(
    [0, -0.0, 0.25, -0.25, 0.2500001, 0.75, -0.75, 1.25, 1.75, 2.5, -2.5, 3.5, 5, -5, 5.0001, 4.9999, 6, 6.5, 7.9, -8.9, 15.5, -0.9,
     100, -100, 8, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40, -1e-40]
)  # fmt: skip


def samples(source, n=128):
    if source in ("float32", "float16", "bfloat16"):
        kind = np.dtype(ml_dtypes.bfloat16) if source == "bfloat16" else np.dtype(source)
        with np.errstate(over="ignore"):
            return np.concatenate([SPECIAL, RNG.uniform(-9, 17, n - SPECIAL.size).astype(np.float32)]).astype(kind)
    values = np.resize(np.arange(-64, 64), n) * (37 if source == "int32" else 2)
    return values.astype(source)


def _conversions():
    """(dtype, source, chip); what int4 and uint4 have in common is tried in one of them, and in both by the long run."""
    for source, target in [
        *((s, "a2") for s in ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool")),
        *((s, "a5") for s in ("float32", "int8")),
    ]:
        for dtype in NIBBLES:
            again = dtype == "uint4" and source in ("float16", "int32", "bool") or dtype == "int4" and source in ("bfloat16", "uint8")
            yield pytest.param(dtype, source, target, marks=[pytest.mark.slow] * again)


@pytest.mark.parametrize("dtype, source, target", _conversions())
@pytest.mark.one_in(9)
def test_numbers_are_rounded_or_wrap(dtype, source, target):
    """By elements, by a copy to a tile and by one to a tensor; kernels as Python agree."""
    n = 128

    @T.prim_func
    def k(X: T.Tensor((n,), source), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype), W: T.Tensor((n,), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((n,), source)
            y = T.alloc_fragment((n,), dtype)
            z = T.alloc_fragment((n,), dtype)
            T.copy(X, x)
            for i in T.Parallel(n):
                y[i] = x[i]
            T.copy(x, z)
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(x, W)

    x = samples(source, n)
    arrays = {"X": x, **{name: np.zeros(n // 2, np.uint8) for name in "YZW"}}
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    out, want = strict.run(tilelang.compile(k, target=target), arrays), pack(codes_of(x, dtype))
    for name in "YZW":
        np.testing.assert_array_equal(out[name], want)
        np.testing.assert_array_equal(python[name], want)


@pytest.mark.parametrize("dtype", ["int4", pytest.param("uint4", marks=pytest.mark.slow), "float4_e2m1fn"])
def test_arithmetic_is_wide_and_narrow_where_it_is_stored(dtype):
    n = T.dynamic("n")

    @T.prim_func
    def k(X: T.Tensor((n,), dtype), V: T.Tensor((n,), "float32"), Y: T.Tensor((n,), dtype), B: T.Tensor((n,), "int32")):
        with T.Kernel(T.ceildiv(n, 64)) as b:
            x = T.alloc_shared((64,), dtype)
            y = T.alloc_fragment((64,), dtype)
            v = T.alloc_fragment((64,), "float32")
            bits = T.alloc_fragment((64,), "int32")
            T.copy(X[b * 64], x)
            for i in T.Parallel(64):
                v[i] = x[i] * 3 + T.max(x[i], T.cast(1, dtype))
                y[i] = T.if_then_else(x[i] > 2, x[i] * 2, x[i] - 1)
                bits[i] = T.cast(x[i], "int32") if dtype == "float4_e2m1fn" else (x[i] & 5) + (x[i] >> 1) + T.popcount(x[i])
            T.copy(v, V[b * 64])
            T.copy(y, Y[b * 64])
            T.copy(bits, B[b * 64])

    codes = random_codes(150)
    x = numbers(codes, dtype)
    arrays = {"X": pack(codes), "V": np.zeros(150, np.float32), "Y": np.zeros(75, np.uint8), "B": np.zeros(150, np.int32)}
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    out = strict.run(tilelang.compile(k, target="a2"), arrays, {"n": 150})
    whole = x.astype(np.int32)
    ones = np.array([int(c).bit_count() for c in codes])
    y = np.where(x > 2, x * 2, x - 1)
    for found in (out, python):
        np.testing.assert_array_equal(found["V"], x * 3 + np.maximum(x, 1))
        np.testing.assert_array_equal(found["Y"], pack(codes_of(y if dtype == "float4_e2m1fn" else y.astype(np.int32), dtype)))
        np.testing.assert_array_equal(found["B"], whole if dtype == "float4_e2m1fn" else (whole & 5) + (whole >> 1) + ones)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "dtype, start, target", [("int4", 1, "a2"), ("float4_e2m1fn", 2, "a2"), ("int4", 7, "a5"), ("float4_e2m1fn", 7, "a5")]
)
def test_loads_start_at_either_half_of_a_byte(dtype, start, target):
    """Known or not when the kernel is compiled, over the end of rows, and element by element."""

    @T.prim_func
    def k(
        X: T.Tensor((8, 64), dtype), Y: T.Tensor((5, 33), "float16"), Z: T.Tensor((7, 8, 16), "float16"), W: T.Tensor((8, 64), "float16")
    ):
        with T.Kernel(7) as b:
            x = T.alloc_shared((5, 33), dtype)
            z = T.alloc_shared((8, 16), dtype)
            if b == 0:
                T.copy(X[1:6, start : start + 33], x)
                T.copy(x, Y)
            T.copy(X[0, b * 9], z)
            T.copy(z, Z[b, 0, 0])
            for i, j in T.Parallel(8, 16):
                if b < 4:
                    W[i, b * 16 + j] = T.cast(X[i, b * 16 + j + start], "float16")

    codes = random_codes(8, 64)
    x = np.pad(numbers(codes, dtype), ((0, 0), (0, 64)))
    arrays = {
        "X": pack(codes),
        "Y": np.zeros((5, 33), np.float16),
        "Z": np.zeros((7, 8, 16), np.float16),
        "W": np.zeros((8, 64), np.float16),
    }
    out = strict.run(tilelang.compile(k, target=target), arrays)
    np.testing.assert_array_equal(out["Y"], x[1:6, start : start + 33])
    np.testing.assert_array_equal(out["Z"], np.stack([x[:, 9 * b : 9 * b + 16] for b in range(7)]))
    np.testing.assert_array_equal(out["W"], x[:, start : start + 64])


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn"])
def test_shapes_are_known_at_run_time(dtype):
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def k(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype), Z: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, 16), T.ceildiv(n, 32)) as (bm, bn):
            x = T.alloc_shared((16, 32), dtype)
            T.copy(X[bm * 16, bn * 32], x)
            for i, j in T.Parallel(16, 32):
                x[i, j] = -x[i, j]
            T.copy(x, Y[bm * 16, bn * 32])
            T.copy(X[bm * 16, bn * 32], Z[bm * 16 : bm * 16 + 16, bn * 32 : bn * 32 + 32])

    codes = random_codes(21, 70)
    arrays = {"X": pack(codes), "Y": np.zeros((21, 35), np.uint8), "Z": np.zeros((21, 35), np.uint8)}
    kernel = tilelang.compile(k, target="a2")
    out = strict.run(kernel, arrays, {"m": 21, "n": 70})
    np.testing.assert_array_equal(out["Y"], pack((16 - codes) & 15 if dtype == "int4" else codes ^ 8))
    np.testing.assert_array_equal(out["Z"], pack(codes))
    x, y, z = (torch.from_numpy(a.copy()) for a in arrays.values())
    kernel(x, y, z)
    np.testing.assert_array_equal(z.numpy(), pack(codes))


@pytest.mark.slow
@pytest.mark.parametrize("dtype, target", [("int4", "a2"), ("float4_e2m1fn", "a5")])
def test_nests_store_to_tensors(dtype, target):
    """Boxes of whole bytes, also over the end of the tensor, transposed, in place, and two of one nest."""
    m = T.dynamic("m")

    @T.prim_func
    def k(X: T.Tensor((m, 64), dtype), S: T.Tensor((64,), "float32"), Y: T.Tensor((m, 64), dtype), Z: T.Tensor((2, 64), dtype)):
        with T.Kernel(2, T.ceildiv(m, 4)) as (b, r):
            for j, i in T.Parallel(32, 4):
                Y[r * 4 + i, b * 32 + j] = X[r * 4 + i, b * 32 + j] * S[b * 32 + j]
            for i, j in T.Parallel(4, 32):
                X[r * 4 + i, b * 32 + j] = X[r * 4 + i, b * 32 + j] + 1
            if r == 0:
                for j in T.Parallel(32):
                    Z[b, j] = S[j]
                    Z[b, j + 32] = S[j] * 2

    codes, s = random_codes(7, 64), RNG.choice([-1.0, 1.0, 2.0], 64).astype(np.float32)
    x = numbers(codes, dtype)
    arrays = {"X": pack(codes), "S": s, "Y": np.zeros((7, 32), np.uint8), "Z": np.zeros((2, 32), np.uint8)}
    out = strict.run(tilelang.compile(k, target=target), arrays, {"m": 7})
    np.testing.assert_array_equal(out["Y"], pack(codes_of(x * s, dtype)))
    np.testing.assert_array_equal(out["X"], pack(codes_of(x + 1 if dtype == "float4_e2m1fn" else x.astype(np.int32) + 1, dtype)))
    np.testing.assert_array_equal(out["Z"], pack(codes_of(np.tile(np.concatenate([s[:32], s[:32] * 2]), (2, 1)), dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [True, False])
def test_boxes_start_where_elements_of_tensors_say(name):
    """Read by a name of the nest, in the index itself, or as a number of 4 bits."""

    @T.prim_func
    def k(I: T.Tensor((2,), "int32"), N: T.Tensor((2,), "int4"), X: T.Tensor((32,), "float32"), Y: T.Tensor((8, 64), "int4")):
        with T.Kernel(2) as b:
            for i in T.Parallel(32):
                if name:
                    c, n = I[b], N[b]
                    Y[n + 1, c * 2 + i] = X[i]
                else:
                    Y[I[b] + 1, I[b] * 2 + i] = X[i]

    x, at = RNG.integers(-8, 8, 32), np.array([0, 5], np.int32)
    arrays = {"I": at, "N": pack(at.astype(np.uint8)), "X": x.astype(np.float32), "Y": np.zeros((8, 32), np.uint8)}
    want = np.zeros((8, 64), np.uint8)
    for c in at:
        want[c + 1, 2 * c : 2 * c + 32] = x & 15
    np.testing.assert_array_equal(strict.run(tilelang.compile(k, target="a2"), arrays)["Y"], pack(want))


PRODUCTS = [
    ("float16", "int4", "float32"), ("int4", "int4", "int32"), ("int8", "int4", "int32"), ("uint4", "int4", "int32"),
    ("bfloat16", "float4_e2m1fn", "float32"), ("float4_e2m1fn", "float4_e2m1fn", "float32"), ("uint4", "bfloat16", "float32"),
    ("float8_e4m3fn", "float4_e2m1fn", "float32"),
]  # fmt: skip


def factor(dtype, *shape):
    """(what a call passes, its values)."""
    if dtype in NIBBLES:
        codes = random_codes(*shape)
        return pack(codes), numbers(codes, dtype).astype(np.float64)
    if dtype == "int8":
        a = RNG.integers(-128, 128, shape).astype(np.int8)
    else:
        a = RNG.standard_normal(shape).astype(np.float16 if dtype == "float16" else getattr(ml_dtypes, dtype))
    return a, a.astype(np.float64)


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("a, b, c", PRODUCTS)
@pytest.mark.one_in(9)
def test_products_are_exact_but_for_the_order_of_sums(a, b, c, target):
    m, n, k, transposed = 32, 64, 96, a != "int8"
    shape = (n, k) if transposed else (k, n)

    @T.prim_func
    def gemm(A: T.Tensor((m, k), a), B: T.Tensor(shape, b), C: T.Tensor((m, n), c)):
        with T.Kernel(2) as by:
            left = T.alloc_shared((16, 32), a)
            right = T.alloc_shared((n, 32) if transposed else (32, n), b)
            total = T.alloc_fragment((16, n), c)
            T.clear(total)
            for step in T.Pipelined(3, num_stages=2):
                T.copy(A[by * 16, step * 32], left)
                if transposed:
                    T.copy(B[0, step * 32], right)
                else:
                    T.copy(B[step * 32, 0], right)
                T.gemm(left, right, total, transpose_B=transposed)
            T.copy(total, C[by * 16, 0])

    (x, xv), (y, yv) = factor(a, m, k), factor(b, *shape)
    out = strict.run(tilelang.compile(gemm, target=target), {"A": x, "B": y, "C": np.zeros((m, n), c)})
    want = xv @ (yv.T if transposed else yv)
    np.testing.assert_allclose(out["C"], want, rtol=0, atol=0 if c == "int32" else k * 2.0**-23 * np.abs(xv).max() * np.abs(yv).max())


def test_bfloat16_stays_the_dtype_of_products_with_float4():
    @T.prim_func
    def k(A: T.Tensor((16, 32), "bfloat16"), B: T.Tensor((16, 32), "float4_e2m1fn"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((16, 32), "bfloat16"), T.alloc_shared((16, 32), "float4_e2m1fn"), T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    lines = tilelang.compile(k, target="a2").get_kernel_source().splitlines()
    assert all("bfloat16_t" in line for line in lines if "LocalTensor" in line and "l0a." in line)


@pytest.mark.slow
def test_tiles_are_filled_reduced_reshaped_and_chosen_from():
    @T.prim_func
    def k(
        X: T.Tensor((8, 32), "int4"),
        M: T.Tensor((8,), "int4"),
        S: T.Tensor((8,), "int32"),
        F: T.Tensor((8, 32), "int4"),
        R: T.Tensor((4, 64), "int4"),
    ):
        with T.Kernel(1):
            x, m, s = T.alloc_shared((8, 32), "int4"), T.alloc_fragment((8,), "int4"), T.alloc_fragment((8,), "int32")
            T.copy(X, x)
            T.reduce_max(x, m, dim=1)
            T.reduce_sum(x, s, dim=1)
            T.copy(T.reshape(x, (4, 64)), R)
            T.copy(m, M)
            T.copy(s, S)
            best = T.alloc_var("int4", init=-8)
            for i in T.serial(8):
                best = T.max(best, m[i])
            T.fill(x, best)
            T.copy(x, F)

    codes = random_codes(8, 32)
    x = numbers(codes, "int4")
    arrays = {
        "X": pack(codes),
        "M": np.zeros(4, np.uint8),
        "S": np.zeros(8, np.int32),
        "F": np.zeros((8, 16), np.uint8),
        "R": np.zeros((4, 32), np.uint8),
    }
    out = strict.run(tilelang.compile(k, target="a2"), arrays)
    np.testing.assert_array_equal(out["M"], pack(codes_of(x.max(1), "int4")))
    np.testing.assert_array_equal(out["S"], x.sum(1))
    np.testing.assert_array_equal(out["F"], np.full((8, 16), 17 * int(codes_of(x.max(), "int4"))))
    np.testing.assert_array_equal(out["R"], pack(codes.reshape(4, 64)))


@pytest.mark.parametrize("dtype, value", [("int4", -3), ("float4_e2m1fn", -1.5)])
def test_the_outside_reads_as_the_safe_value(dtype, value):
    @T.prim_func
    def k(X: T.Tensor((4, 16), dtype), Y: T.Tensor((6, 24), "float32")):
        with T.Kernel(1):
            T.annotate_safe_value({X: value})
            x = T.alloc_shared((6, 24), dtype)
            T.copy(X[0:6, 3:27], x)
            T.copy(x, Y)

    codes = random_codes(4, 16)
    out = strict.run(tilelang.compile(k, target="a2"), {"X": pack(codes), "Y": np.zeros((6, 24), np.float32)})
    np.testing.assert_array_equal(out["Y"], np.pad(numbers(codes, dtype), ((0, 2), (0, 11)), constant_values=value)[:, 3:])


def copied(dtype, out_idx=None, shape=(4, 16)):
    @T.prim_func
    def k(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(1):
            x = T.alloc_shared(shape, dtype)
            T.copy(X, x)
            T.copy(x, Y)

    return tilelang.compile(k, target="a2", out_idx=out_idx)


@pytest.mark.parametrize("dtype", NIBBLES)
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_calls_take_and_return_bytes_of_two(dtype, library):
    codes = random_codes(4, 16)
    for name in dtypes.packed(dtype, library == "torch"):
        if library == "torch":
            y = copied(dtype, -1)(torch.from_numpy(pack(codes)).view(getattr(torch, name)))
            assert y.dtype == dtypes.torch_dtype(dtype) == T.dtype(dtype).as_torch() and tuple(y.shape) == (4, 8)
            y = y.view(torch.uint8).numpy()
        else:
            y = copied(dtype, -1)(pack(codes).view(name))
            assert y.dtype == name or y.itemsize == 1
        np.testing.assert_array_equal(y.view(np.uint8), pack(codes))


def test_calls_that_do_not_fit_say_what_is_taken():
    kernel, y = copied("int4"), torch.zeros(4, 8, dtype=torch.int8)
    with pytest.raises(ArgumentValueError, match=r"expected torch.int8 or torch.uint8 \(two int4 in each element\), got torch.float32"):
        kernel(torch.zeros(4, 8), y)
    with pytest.raises(ArgumentValueError, match="expected 16 at index 1, got 32 numbers in 16 elements, two of int4 in each"):
        kernel(torch.zeros(4, 16, dtype=torch.int8), y)
    with pytest.raises(ArgumentValueError, match="expected int8 or uint8"):
        kernel(np.zeros((4, 8), np.int16), y.numpy())


def test_profilers_make_bytes():
    kernel = copied("float4_e2m1fn")
    assert kernel.get_profiler().do_bench() > 0
    assert str(kernel).count("float4_e2m1fn[4, 16]") == 2


def test_eager_kernels_read_the_numbers_of_dimensions():
    @tilelang.jit
    def plus(X, dtype):
        M, N = T.const("M, N")
        X: T.Tensor[[M, N], dtype]
        Y = T.empty((M, N), dtype)
        with T.Kernel(1):
            x = T.alloc_shared((M, N), dtype)
            T.copy(X, x)
            for i, j in T.Parallel(M, N):
                x[i, j] = x[i, j] + 1
            T.copy(x, Y)
        return Y

    codes = random_codes(8, 32)
    x = torch.from_numpy(pack(codes))
    for y in (plus(x, "int4"), interpret.run(plus, x, "int4")):
        np.testing.assert_array_equal(y.view(torch.uint8).numpy(), pack((codes + 1) & 15))


def test_ops_of_torch_know_them():
    from tilelang_ascend.runtime import torch_op

    assert torch_op.PACKED == {name: dtypes.packed(name, True) for name in NIBBLES}
    op = tilelang.register_op(copied("int4", -1), "tilelang_nibbles::copy")
    x = torch.from_numpy(pack(random_codes(4, 16))).view(torch.int8)
    assert torch.equal(op(x), x)
    torch.library.opcheck(op, (x,))
    odd = tilelang.register_op(copied("int4", -1, (4, 15)), "tilelang_nibbles::copy_odd_rows")
    assert torch.equal(odd(x) & 15, x & 15) and torch.equal(odd(x)[:, :7], x[:, :7])


def refusal(body, dtype):
    @T.prim_func
    def k(X: T.Tensor((8, 64), dtype), Y: T.Tensor((8, 64), "float16")):
        with T.Kernel(2) as b:
            x = T.alloc_shared((8, 32), dtype)
            y = T.alloc_shared((8, 32), "float16")
            body(X, x, y, b)
            T.copy(y, Y[0, b * 32])

    return k


def whole_view(X, x, y, b):
    T.view(x, (8, 32), "int8")


def bits(X, x, y, b):
    for i, j in T.Parallel(8, 32):
        y[i, j] = T.reinterpret(x[i, j], "uint8")


@pytest.mark.parametrize(
    "body, dtype, text",
    [
        (whole_view, "int4", "x has 128 bytes"),
        (bits, "int4", "reinterpret of a int4"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_line(body, dtype, text):
    with pytest.raises((ShapeMismatch, InvalidArgument), match=text) as info:
        refusal(body, dtype)
    first = body.__code__.co_firstlineno
    assert first < info.value.location.line <= first + 3 and info.value.location.file == __file__


def test_numbers_of_4_bits_choose_rows():
    @T.prim_func
    def k(I: T.Tensor((8,), "uint4"), X: T.Tensor((16, 32), "int4"), Y: T.Tensor((8, 32), "float16"), N: T.Tensor((8,), "int32")):
        with T.Kernel(8) as b:
            x = T.alloc_shared((1, 32), "int4")
            T.copy(X[I[b], 0], x)
            T.copy(x, Y[b, 0])
            count = T.alloc_var("uint4", init=14)
            for _ in T.serial(I[b]):
                count = count + 1
            N[b] = count

    rows, codes = RNG.permutation(16)[:8].astype(np.uint8), random_codes(16, 32)
    arrays = {"I": pack(rows), "X": pack(codes), "Y": np.zeros((8, 32), np.float16), "N": np.zeros(8, np.int32)}
    out = strict.run(tilelang.compile(k, target="a2"), arrays)
    np.testing.assert_array_equal(out["Y"], numbers(codes, "int4")[rows])
    np.testing.assert_array_equal(out["N"], (14 + rows.astype(int)) % 16)


def test_only_bytes_and_wide_tiles_are_left():
    @T.prim_func
    def k(X: T.Tensor((8, 64), "int4"), Y: T.Tensor((8, 64), "int4"), F: T.Tensor((8, 64), "float4_e2m1fn")):
        with T.Kernel(1):
            x, f = T.alloc_shared((8, 64), "int4"), T.alloc_shared((8, 64), "float4_e2m1fn")
            T.copy(X, x)
            T.copy(X, Y)
            T.copy(x, f)
            T.copy(f, F)

    shapes = [(str(p.ty.dtype), [int(n) for n in p.ty.shape]) for p in k.params]
    assert shapes == [("uint8", [8, 32])] * 3
    assert [[int(i), str(d), int(o)] for i, d, o in k.attrs["tl.nibbles"]] == [[0, "int4", 0], [1, "int4", 0], [2, "float4_e2m1fn", 0]]
    text = k.script()
    assert "T.tl.copy(X[0:8, 0:32], Y[0:8, 0:32])" in text, "whole bytes are copied as they are"
    body = text[text.index("func_attr") :].split("\n", 1)[1]
    assert "int4" not in body and "float4" not in body


@pytest.mark.parametrize("target", TARGETS)
def test_scalar_parameters(target):
    """A number is rounded to a float4_e2m1fn where it is passed, and goes on as one: into tiles, variables, tensors, conditions."""

    @T.prim_func
    def k(X: T.Tensor((64,), "float32"), s: T.float4_e2m1fn, Y: T.Tensor((64,), "float32"), Z: T.Tensor((64,), "float4_e2m1fn")):
        with T.Kernel(1):
            x, z, v = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float4_e2m1fn"), T.alloc_var("float4_e2m1fn", init=s)
            T.copy(X, x)
            for i in T.Parallel(64):
                x[i] = x[i] * s + v
                z[i] = s
            if s > 1:
                x[0] = T.cast(T.max(s, v), "float32") * 10
            T.copy(x, Y)
            T.copy(z, Z)

    kernel = tilelang.compile(k, target=target)
    x = np.arange(64, dtype=np.float32)
    for number in (0.25, 2.5, -7.0, float("nan"), 1.75, -0.0, 5, np.float32(3.5)):
        code = codes_of(np.float32(number), "float4_e2m1fn")
        held = numbers(np.array([code]), "float4_e2m1fn")[0]
        want = x * held + held
        want[0] = held * 10 if held > 1 else want[0]
        for run in (kernel, lambda *a: interpret.run(k, *a)):
            y, z = np.zeros(64, np.float32), np.zeros(32, np.uint8)
            run(x.copy(), number, y, z)
            same(y, want)
            assert (z == code * 17).all()
        out = strict.run(kernel, {"X": x, "Y": y, "Z": z}, {"s": held}, text=number == 2.5)
        same(out["Y"], want)


def test_scalars_of_exported_ops():
    """They are passed as the kernel takes them: integers in a byte, a float4_e2m1fn as the bits of a float16."""
    from tilelang_ascend.runtime import torch_op

    for number in (*np.linspace(-7, 7, 113), -0.0, float("nan"), float("inf")):
        bits = np.uint16(torch_op._scalar("float4_e2m1fn", float(number)).value).view(np.float16)
        same(np.float32(bits), np.float32(dtypes.nearest_float4(float(number))))
    for dtype, (low, high) in INTEGERS.items():
        assert [torch_op._scalar(dtype, v).value for v in (low, high)] == [low, high]
        for v in (low - 1, high + 1):
            with pytest.raises(ValueError, match="does not hold"):
                torch_op._scalar(dtype, v)
