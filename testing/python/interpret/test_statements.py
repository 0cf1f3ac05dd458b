"""Every kind of statement: plain Python, the compiled kernel and NumPy agree."""

import math
import types

import ml_dtypes
import numpy as np
import pytest
from both import array, check, equal

import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.interpret.driver import meaning

N, M = 48, 16
f16, f32, i32 = "float16", "float32", "int32"


def zeros(shape, dtype=f32):
    return np.zeros(shape, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


# ---- element-wise statements on one vector: (name, dtype of A, dtype of B, body(a, i) in the language, NumPy) --------


def _branches(a, i):
    if i % 3 == 0:
        x = a * 2
    elif a > 0:
        x = a + 1
    else:
        x = -a
    return x


def _branches_numpy(a, i):
    return np.where(i % 3 == 0, a * 2, np.where(a > 0, a + 1, -a))


def _gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _counts(a, i):
    bits = [int(v) & 0xFFFFFFFF for v in a]
    return np.array([v.bit_count() * 64 + 32 - v.bit_length() for v in bits], i32)


ELEMENTS = {
    "arithmetic": (f32, f32, lambda a, i: a * 2 + 1 - a / 4, lambda a, i: a * 2 + 1 - a / 4),
    "negation": (i32, i32, lambda a, i: -a - 3, lambda a, i: -a - 3),
    "floor division": (i32, i32, lambda a, i: a // 3 + a // -4, lambda a, i: a // 3 + a // -4),
    "modulo": (i32, i32, lambda a, i: a % 5 - a % -3, lambda a, i: a % 5 - a % -3),
    "truncating division": (i32, i32, lambda a, i: T.truncdiv(a, 4) * 10 + T.truncmod(a, 4), lambda a, i: np.trunc(a / 4).astype(i32) * 10 + np.fmod(a, 4)),
    "float floor division": (f32, f32, lambda a, i: a // 0.5 + a % 0.75, lambda a, i: np.floor(a / np.float32(0.5)) + (a - np.floor(a / np.float32(0.75)) * np.float32(0.75))),
    "bits": (i32, i32, lambda a, i: (a & 12) | (a ^ 3) ^ ~a, lambda a, i: (a & 12) | (a ^ 3) ^ ~a),
    "shifts": (i32, i32, lambda a, i: (a << 3) + (a >> 1), lambda a, i: (a << 3) + (a >> 1)),
    "powers": (f32, f32, lambda a, i: a**2 + a**3, lambda a, i: a**2 + a**3),
    "comparison chain": (f32, f32, lambda a, i: T.if_then_else((a > -1) & (a <= 1), a, 7.0), lambda a, i: np.where((a > -1) & (a <= 1), a, 7)),
    "ternary": (f32, f32, lambda a, i: a if a > 0 else a * 0.5, lambda a, i: np.where(a > 0, a, a * np.float32(0.5))),
    "and or not": (i32, i32, lambda a, i: T.Select(T.Or(T.And(a > 0, a < 5), T.Not(a > -3)), 1, 2), lambda a, i: np.where(((a > 0) & (a < 5)) | ~(a > -3), 1, 2)),
    "branches": (f32, f32, _branches, _branches_numpy),
    "index arithmetic": (i32, i32, lambda a, i: a * i + (i * 7) % 11, lambda a, i: a * i + (i * 7) % 11),
    "integer meets float": (f16, f16, lambda a, i: a * i, lambda a, i: (a * i.astype(f16)).astype(f16)),
    "half meets single": (f16, f32, lambda a, i: a * 1.5 + T.float32(a), lambda a, i: a.astype(f32) * np.float32(1.5) + a),
    "maximum and minimum": (f32, f32, lambda a, i: T.max(T.min(a, 1.0), -0.5) + max(a, 0) + min(a, 0), lambda a, i: np.clip(a, -0.5, 1) + a),
    "clamp": (i32, i32, lambda a, i: T.clamp(a, -3, 4), lambda a, i: np.clip(a, -3, 4)),
    "absolute value": (f32, f32, lambda a, i: abs(a) + T.fabs(a), lambda a, i: 2 * np.abs(a)),
    "exponentials": (f32, f32, lambda a, i: T.exp(a) + T.exp2(a), lambda a, i: np.exp(a) + np.exp2(a)),
    "logarithms": (f32, f32, lambda a, i: T.log(abs(a) + 1) + T.log2(a * a + 1), lambda a, i: np.log(np.abs(a) + 1) + np.log2(a * a + 1)),
    "roots": (f32, f32, lambda a, i: T.sqrt(a * a + 1) + T.rsqrt(a * a + 1), lambda a, i: np.sqrt(a * a + 1) + 1 / np.sqrt(a * a + 1)),
    "trigonometry": (f32, f32, lambda a, i: T.sin(a) * T.cos(a), lambda a, i: np.sin(a) * np.cos(a)),
    "tanh and sigmoid": (f32, f32, lambda a, i: T.tanh(a) + T.sigmoid(a), lambda a, i: np.tanh(a) + 1 / (1 + np.exp(-a))),
    "erf and gelu": (f32, f32, lambda a, i: T.erf(a) + T.gelu(a), lambda a, i: np.vectorize(math.erf)(a) + _gelu(a)),
    "functions of math": (f32, f32, lambda a, i: math.exp(a) + math.floor(a), lambda a, i: np.exp(a) + np.floor(a)),
    "rounding": (f32, f32, lambda a, i: T.floor(a) + 10 * T.ceil(a) + 100 * T.round(a) + 1000 * T.trunc(a), lambda a, i: np.floor(a) + 10 * np.ceil(a) + 100 * np.rint(a) + 1000 * np.trunc(a)),
    "float to integer": (f32, i32, lambda a, i: T.cast(a * 10, "int32"), lambda a, i: np.trunc(a * 10).astype(i32)),
    "integer to half": (i32, f16, lambda a, i: T.Cast("float16", a) / 3, lambda a, i: a.astype(f16) / f16_(3)),
    "store converts": (f32, i32, lambda a, i: a * 3, lambda a, i: np.trunc(a * 3).astype(i32)),
    "half arithmetic": (f16, f16, lambda a, i: a * a - a, lambda a, i: a * a - a),
    "bfloat": ("bfloat16", "bfloat16", lambda a, i: a * 2, lambda a, i: a * 2),
    "eight bits": ("int8", "int8", lambda a, i: a + 5, lambda a, i: a + np.int8(5)),
    "unsigned": ("uint8", "uint8", lambda a, i: a * 3, lambda a, i: a * np.uint8(3)),
    "wide integers": ("int64", "int64", lambda a, i: a * 3 + i, lambda a, i: a * 3 + i),
    "booleans": ("bool", i32, lambda a, i: a + 1, lambda a, i: a.astype(i32) + 1),
    "bits of a float": (f32, i32, lambda a, i: T.reinterpret(a, "int32") & 0x7FFFFF, lambda a, i: a.view(i32) & 0x7FFFFF),
    "infinity": (f32, f32, lambda a, i: T.if_then_else(a > 1, -T.infinity("float32"), a), lambda a, i: np.where(a > 1, -np.inf, a)),
    "limits": (i32, i32, lambda a, i: T.max_value("int32") - abs(a) * 2, lambda a, i: np.iinfo(i32).max - np.abs(a) * 2),
    "tests of floats": (f32, i32, lambda a, i: T.if_then_else(T.isnan(T.log(a)), 1, 2), lambda a, i: np.where(a < 0, 1, 2)),
    "coordinates": (i32, i32, lambda a, i: T.index_to_coordinates(i, (4, 3, 4))[1] + a, lambda a, i: i // 4 % 3 + a),
    "fused multiply": (f32, f32, lambda a, i: T.fma(a, 2.0, a), lambda a, i: a * 3),
    "counts of bits": (i32, i32, lambda a, i: T.popcount(a) * 64 + T.clz(a), _counts),
    "ceildiv": (i32, i32, lambda a, i: T.ceildiv(i + 3, 4) + T.align_up(i, 8) + a, lambda a, i: -(-(i + 3) // 4) + -(-i // 8) * 8 + a),
}  # fmt: skip


def f16_(x):
    return np.float16(x)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name):
    source, target, body, numpy = ELEMENTS[name]

    @T.prim_func
    def k(A: T.Tensor((N,), source), B: T.Tensor((N,), target)):
        with T.Kernel(3) as bx:
            a = T.alloc_fragment((M,), source)
            b = T.alloc_fragment((M,), target)
            T.copy(A[bx * M], a)
            for i in T.Parallel(M):
                b[i] = body(a[i], bx * M + i)
            T.copy(b, B[bx * M])

    a = array(N, source)
    i = np.arange(N, dtype="int64" if source == "int64" else i32)
    with np.errstate(all="ignore"):
        check(k, {"A": a, "B": zeros(N, target)}, {"B": numpy(a, i)}, factor=4)


WITHOUT_MEANING = {
    **dict.fromkeys(("alloc_ub", "alloc_L1", "alloc_L0A", "alloc_L0B", "alloc_L0C"), "refused everywhere"),
    **dict.fromkeys(("make_mma_swizzle_layout", "make_blockscaled_gemm_layout", "get_tvm_dtype"), "compute in Python"),
    "ptr": "an annotation",
}


def test_every_function_of_the_language_has_a_meaning():
    functions = {n for _, names in T._MODULES for n in names if isinstance(getattr(T, n, None), types.FunctionType)}
    assert {n for n in functions if meaning(n) is None} == WITHOUT_MEANING.keys()


# ---- statements on tiles ---------------------------------------------------------------------------------------------

TILES = {}


def tile(shape_a, shape_b, want, dtype=f32, out=None, factor=1.0):
    """Register ``body(a, b)`` on on-chip copies of A and B, B being written back."""

    def register(body):
        TILES[body.__name__] = (shape_a, shape_b, want, dtype, out or dtype, body, factor)
        return body

    return register


@tile((16, 32), (16, 32), lambda a, b: a)
def copy(a, b):
    T.copy(a, b)


@tile((16, 32), (16, 32), lambda a, b: a.astype(f16), out=f16)
def copy_converts(a, b):
    T.copy(a, b)


@tile((16, 32), (16, 32), lambda a, b: np.concatenate([a[8:], b[8:]]))
def copy_slices(a, b):
    T.copy(a[8:16, :], b[0:8, :])


@tile((16, 32), (8, 16), lambda a, b: a[4:12, 16:])
def copy_head(a, b):
    T.copy(a[4, 16], b)


@tile((16, 32), (16, 32), lambda a, b: np.concatenate([a[:4], np.full((12, 32), 2)]))
def assign_slices(a, b):
    b[4:16, :] = 2.0
    b[0:4, :] = a[0:4, :]


@tile((16, 32), (16, 32), lambda a, b: np.concatenate([np.zeros((8, 32)), np.full((8, 32), 1.5)]))
def fill_and_clear(a, b):
    T.clear(b)
    T.fill(b[8:16, 0:32], 1.5)


@tile((16, 32), (32, 16), lambda a, b: a.T)
def transpose(a, b):
    T.transpose(a, b)


@tile((16, 32), (16, 32), lambda a, b: np.exp(a))
def functions_of_tiles(a, b):
    T.exp(a, b)


@tile((16, 32), (16, 32), lambda a, b: (a + a) * 3)
def arithmetic_of_tiles(a, b):
    T.vadd(a, a, b)
    T.vmul(b, 3.0, b)


@tile((16, 32), (16,), lambda a, b: a.sum(1), factor=30)
def reduce_sum(a, b):
    T.reduce_sum(a, b, dim=1)


@tile((16, 32), (32,), lambda a, b: a.max(0))
def reduce_max_columns(a, b):
    T.reduce_max(a, b, dim=0)


@tile((16, 32), (16, 1), lambda a, b: a.min(1, keepdims=True))
def reduce_min_keeps_the_axis(a, b):
    T.reduce_min(a, b, dim=-1)


@tile((16, 32), (16,), lambda a, b: np.abs(a).max(1))
def reduce_absmax(a, b):
    T.reduce_absmax(a, b)


@tile((16, 32), (16,), lambda a, b: np.abs(a).sum(1), factor=30)
def reduce_abssum(a, b):
    T.reduce_abssum(a, b)


@tile((16, 32), (16,), lambda a, b: b + a.sum(1), factor=30)
def reduce_sum_on_top(a, b):
    T.reduce_sum(a, b, dim=1, clear=False)


@tile((16, 32), (16,), lambda a, b: np.maximum(b, a.max(1)))
def reduce_max_on_top(a, b):
    T.reduce_max(a, b, dim=1, clear=False)


@tile((16, 32), (16,), lambda a, b: np.bitwise_or.reduce(a, 1), dtype=i32)
def reduce_bitor(a, b):
    T.reduce_bitor(a, b)


@tile((16, 32), (16, 32), lambda a, b: a.cumsum(1), factor=30)
def cumsum(a, b):
    T.cumsum(a, b, dim=1)


@tile((16, 32), (16, 32), lambda a, b: np.flip(np.flip(a, 0).cumsum(0), 0), factor=30)
def cumsum_from_the_end(a, b):
    T.cumsum(a, b, dim=0, reverse=True)


@tile((16, 32), (16, 32), lambda a, b: np.maximum.accumulate(a, 1))
def cummax(a, b):
    T.cummax(a, b, dim=1)


@tile((4, 32), (4, 32), lambda a, b: np.sort(a, 1))
def sort(a, b):
    T.sort(a, b)


@tile((4, 32), (4, 8), lambda a, b: -np.sort(-a, 1)[:, :8])
def topk(a, b):
    T.topk(a, b)


@tile((4, 32), (4, 32), lambda a, b: np.argsort(a, 1, kind="stable"), out=i32)
def argsort(a, b):
    T.argsort(a, b)


@tile((16, 32), (8, 64), lambda a, b: a.reshape(8, 64))
def reshape(a, b):
    T.copy(T.reshape(a, (8, 64)), b)


@tile((16, 32), (16, 32), lambda a, b: a.view(i32), out=i32)
def view_as_integers(a, b):
    T.copy(T.view(a, (16, 32), "int32"), b)


@tile((16, 16), (16, 16), lambda a, b: a + np.arange(16, dtype=f32))
def two_dimensions(a, b):
    for i, j in T.Parallel(16, 16):
        b[i, j] = a[i, j] + j


@tile((16, 16), (16, 16), lambda a, b: np.tril(a))
def conditional_stores(a, b):
    T.clear(b)
    for i, j in T.Parallel(16, 16):
        if j <= i:
            b[i, j] = a[i, j]


@tile((16, 16), (16,), lambda a, b: np.cumsum(a, 1)[:, -1], factor=30)
def serial_in_parallel(a, b):
    for i in T.Parallel(16):
        b[i] = 0
        for j in T.serial(16):
            b[i] += a[i, j]


@tile((16, 16), (16, 16), lambda a, b: a + 1)
def grid_and_unroll(a, b):
    for i, j in T.grid(16, 4):
        for v in T.unroll(4):
            b[i, j * 4 + v] = a[i, j * 4 + v] + 1


@tile((32,), (32,), lambda a, b: a[::-1])
def vectorized_and_range(a, b):
    for i in range(0, 32, 4):
        for v in T.vectorized(4):
            b[31 - i - v] = a[i + v]


@tile((32,), (1,), lambda a, b: [np.trunc(np.trunc(a[0] * 10) / 2) * 3], factor=4)
def variables_convert(a, b):
    v = T.alloc_var("int32", init=0)
    v = a[0] * 10
    v = v / T.float32(2)
    w = v
    v = 100
    b[0] = w * 3


@tile((32,), (32,), lambda a, b: np.roll(a, 1))
def swapped_names(a, b):
    x, y = a[31], a[0]
    for i in T.serial(32):
        b[i] = x
        x, y = y, a[(i + 1) % 32]


@tile((32,), (32,), lambda a, b: a[[(7 * i) % 32 for i in range(32)]])
def gather(a, b):
    for i in T.Parallel(32):
        b[i] = a[(7 * i) % 32]


@tile((16, 16), (16, 16), lambda a, b: a.astype(f32) @ a.astype(f32) + b, dtype=f16, out=f32, factor=2000)
def gemm(a, b):
    c = T.alloc_fragment((16, 16), f32)
    T.clear(c)
    T.gemm(a, a, c)
    for i, j in T.Parallel(16, 16):
        b[i, j] += c[i, j]


@tile((16, 32), (16, 16), lambda a, b: 2 * (a.astype(f32) @ a.astype(f32).T), dtype=f16, out=f32, factor=2000)
def gemm_transposed(a, b):
    c = T.alloc_fragment((16, 16), f32)
    for k in T.serial(2):
        T.gemm(a, a, c, transpose_B=True, clear_accum=k == 0)
    T.copy(c, b)


@tile((32, 16), (16, 16), lambda a, b: a.astype(f32).T @ a.astype(f32), dtype=f16, out=f32, factor=2000)
def gemm_transposed_left(a, b):
    c = T.alloc_fragment((16, 16), f32)
    T.gemm(a, a, c, transpose_A=True, clear_accum=True)
    T.copy(c, b)


@tile((16, 16), (16,), lambda a, b: a.sum(1), factor=30)
def reducer(a, b):
    acc = T.alloc_reducer((16,), "float32", op="sum")
    T.reducer_init(acc)
    for i, j in T.grid(16, 16):
        T.reducer_update(acc[i], a[i, j])
    T.finalize_reducer(acc, b)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TILES)
def test_tiles(name):
    shape_a, shape_b, want, dtype, out, body, factor = TILES[name]
    scope = T.alloc_shared if name.startswith("gemm") else T.alloc_fragment

    @T.prim_func
    def k(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, out)):
        with T.Kernel(1):
            a = scope(shape_a, dtype)
            b = T.alloc_fragment(shape_b, out)
            T.copy(A, a)
            T.copy(B, b)
            body(a, b)
            T.copy(b, B)

    a, b = array(shape_a, dtype, 1), array(shape_b, out, 2)
    check(k, {"A": a, "B": b}, {"B": want(a, b)}, factor=factor)


# ---- control flow on elements in GM ----------------------------------------------------------------------------------


def test_while_break_continue():
    @T.prim_func
    def k(A: T.Tensor((N,), f32), B: T.Tensor((2,), f32)):
        with T.Kernel(1):
            i = T.alloc_var("int32", init=0)
            seen = T.alloc_var("int32", init=0)
            total = T.alloc_var("float32", init=0.0)
            while seen < 3:
                if A[i] <= 1:
                    i += 1
                    continue
                total += A[i]
                seen = seen + 1
                i = i + 1
                if i >= N:
                    break
            B[0] = total
            B[1] = i

    a = array(N)
    big = np.flatnonzero(a > 1)[:3]
    check(k, {"A": a, "B": zeros(2)}, {"B": [a[big].sum(), big[-1] + 1]}, factor=4)


def test_carried_names():
    @T.prim_func
    def k(A: T.Tensor((N,), f32), B: T.Tensor((4,), f32)):
        with T.Kernel(1):
            best, place, even = -T.infinity("float32"), 0, 0.0
            for i in range(N):
                if A[i] > best:
                    best, place = A[i], i
                if i % 2 == 0 and not A[i] < 0:
                    even += A[i]
            B[0] = best
            B[1] = place
            B[2] = even
            for i in T.serial(N):
                if i > place or A[i] > 1.9:
                    B[3] = i
                    break

    a = array(N)
    first = next((i for i in range(N) if i > a.argmax() or a[i] > 1.9), 0)
    check(k, {"A": a, "B": zeros(4)}, {"B": [a.max(), a.argmax(), a[::2][a[::2] >= 0].sum(), first]}, factor=8)


# ---- whole kernels ---------------------------------------------------------------------------------------------------


def test_gemm_with_tails_and_a_runtime_clear():
    @T.prim_func
    def k(A: T.Tensor((40, 50), f16), B: T.Tensor((50, 70), f16), C: T.Tensor((40, 70), f32)):
        with T.Kernel(T.ceildiv(70, 32), T.ceildiv(40, 32), threads=128) as (bx, by):
            a, b = T.alloc_shared((32, 32), f16), T.alloc_shared((32, 32), f16)
            c = T.alloc_fragment((32, 32), f32)
            T.use_swizzle(panel_size=4)
            for k0 in T.Pipelined(T.ceildiv(50, 32), num_stages=2):
                T.copy(A[by * 32, k0 * 32], a)
                T.copy(B[k0 * 32, bx * 32], b)
                T.gemm(a, b, c, clear_accum=k0 == 0)
            T.copy(c, C[by * 32, bx * 32])

    a, b = array((40, 50), f16, 1), array((50, 70), f16, 2)
    check(k, {"A": a, "B": b, "C": zeros((40, 70))}, {"C": a.astype(f32) @ b.astype(f32)}, factor=1000)


def test_integer_gemm():
    @T.prim_func
    def k(A: T.Tensor((16, 32), "int8"), B: T.Tensor((32, 32), "int8"), C: T.Tensor((16, 32), i32)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((16, 32), "int8"), T.alloc_shared((32, 32), "int8"), T.alloc_fragment((16, 32), i32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    a, b = array((16, 32), "int8", 1), array((32, 32), "int8", 2)
    check(k, {"A": a, "B": b, "C": zeros((16, 32), i32)}, {"C": a.astype(i32) @ b.T.astype(i32)})


def test_dynamic_shape_and_scalar_parameter():
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n,), f32), B: T.Tensor((n,), f32), scale: T.float32, shift: T.int32):
        with T.Kernel(T.ceildiv(n, M)) as bx:
            s = T.alloc_shared((M,), f32)
            T.copy(A[bx * M], s)
            for i in T.Parallel(M):
                s[i] = s[i] * scale + shift
            T.copy(s, B[bx * M])

    for size in (1, 15, 37):
        a = array(size)
        check(k, {"A": a, "B": zeros(size)}, {"B": a * 2 + 3}, {"scale": 2.0, "shift": 3, "n": size})


def test_if_then_else_guards_a_read_outside():
    @T.prim_func
    def k(A: T.Tensor((N,), f32), B: T.Tensor((N,), f32)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = T.if_then_else(i + 5 < N, A[i + 5] * 2, -1.0)

    a = array(N)
    check(k, {"A": a, "B": zeros(N)}, {"B": np.append(a[5:] * 2, [-1] * 5)})


def test_atomics():
    @T.prim_func
    def k(A: T.Tensor((4, M), f32), S: T.Tensor((M,), f32), H: T.Tensor((1,), f32)):
        with T.Kernel(4) as bx:
            s = T.alloc_fragment((M,), f32)
            T.copy(A[bx, 0:M], s)
            T.atomic_add(S, s)
            T.atomic_max(H[0], s[3])

    a = array((4, M))
    check(k, {"A": a, "S": np.ones(M, f32), "H": np.full(1, -9, f32)}, {"S": 1 + a.sum(0), "H": [a[:, 3].max()]}, factor=8)


def test_histogram_with_indices_of_a_tensor():
    @T.prim_func
    def k(I: T.Tensor((N,), i32), H: T.Tensor((10,), f32)):
        with T.Kernel(3) as bx:
            for i in T.serial(M):
                T.atomic_add(H[I[bx * M + i]], 1.0)

    i = array(N, "uint8").astype(i32)
    check(k, {"I": i, "H": zeros(10)}, {"H": np.bincount(i, minlength=10)})


def test_macros_by_value_and_by_reference():
    @T.macro
    def twice(v: T.Ref, by):
        v = v * 2 + by

    @T.macro
    def scaled(dst, src, factor):
        for i in T.Parallel(M):
            dst[i] = src[i] * factor
        factor = factor + 1

    @T.prim_func
    def k(A: T.Tensor((M,), f32), B: T.Tensor((M,), f32)):
        with T.Kernel(1):
            a, b = T.alloc_fragment((M,), f32), T.alloc_fragment((M,), f32)
            v = T.alloc_var("int32", init=3)
            T.copy(A, a)
            twice(v, 1)
            scaled(b, a, v)
            twice(b[0], 10)
            T.copy(b, B)

    a = array(M)
    b = a * 7
    b[0] = b[0] * 2 + 10
    check(k, {"A": a, "B": zeros(M)}, {"B": b}, factor=4)


def test_functions_in_functions_lists_and_comprehensions():
    def polynomial(x, coefficients):
        y = 0.0
        for c in coefficients:
            y = y * x + c
        return y

    @T.prim_func
    def k(A: T.Tensor((M,), f32), B: T.Tensor((M,), f32)):
        with T.Kernel(1):
            tiles = [T.alloc_fragment((M,), f32) for _ in range(3)]

            def load(t, sign):
                T.copy(A, t)
                for i in T.Parallel(M):
                    t[i] = t[i] * sign

            for n, t in enumerate(tiles):
                load(t, n - 1.0)
            for i in T.Parallel(M):
                B[i] = sum([polynomial(t[i], [1.0, 2.0, 3.0]) for t in tiles])

    a = array(M)
    check(k, {"A": a, "B": zeros(M)}, {"B": sum(x * x + 2 * x + 3 for x in (-a, 0 * a, a))}, factor=16)


def test_two_launches_and_a_workspace():
    @T.prim_func
    def k(A: T.Tensor((N,), f32), B: T.Tensor((N,), f32)):
        w = T.alloc_global((N,), f32)
        with T.Kernel(3) as bx:
            for i in T.Parallel(M):
                w[bx * M + i] = A[bx * M + i] * 2
        with T.Kernel(3) as bx:
            for i in T.Parallel(M):
                B[bx * M + i] = w[N - 1 - bx * M - i]

    a = array(N)
    # The compiler takes one launch, so it cannot say anything here.
    check(k, {"A": a, "B": zeros(N)}, {"B": a[::-1] * 2}, compiled=False)


def test_persistent_blocks():
    @T.prim_func
    def k(C: T.Tensor((5, 7), i32)):
        with T.Kernel(3) as b:
            for x, y in T.Persistent([5, 7], 3, b, group_size=4):
                C[x, y] = x * 10 + y + 1

    check(k, {"C": zeros((5, 7), i32)}, {"C": np.add.outer(np.arange(5) * 10, np.arange(7)) + 1})


def test_grids_of_three_dimensions_with_block_names():
    @T.prim_func
    def k(C: T.Tensor((2, 3, 4), i32)):
        with T.Kernel(2, 3, 4) as (x, y, z):
            C[x, y, z] = T.get_block_binding(0) * 100 + y * 10 + T.get_block_extent(2) * z

    want = np.arange(2)[:, None, None] * 100 + np.arange(3)[:, None] * 10 + 4 * np.arange(4)
    check(k, {"C": zeros((2, 3, 4), i32)}, {"C": want})


def test_safe_value_and_parts_outside():
    @T.prim_func
    def k(A: T.Tensor((20, 20), f32), B: T.Tensor((32, 32), f32)):
        with T.Kernel(1):
            T.annotate_safe_value({A: -7.0})
            s = T.alloc_shared((32, 32), f32)
            T.copy(A[4, 0], s)
            T.copy(s, B)

    a, b = array((20, 20)), np.full((32, 32), -7, f32)
    b[:16, :20] = a[4:]
    check(k, {"A": a, "B": zeros((32, 32))}, {"B": b})


def test_parts_of_one_element_that_begin_anywhere():
    @T.prim_func
    def k(A: T.Tensor((8, 3, 33), f32), P: T.Tensor((2,), i32), B: T.Tensor((8, 33), f32)):
        with T.Kernel(1):
            s = T.alloc_shared((8, 33), f32)
            T.copy(A[0:8, P[1] : P[1] + 1, P[0] : P[0] + 33], s)
            T.copy(s, B)

    a = array((8, 3, 33))
    check(k, {"A": a, "P": np.array([0, 2], i32), "B": zeros((8, 33))}, {"B": a[:, 2]})


def test_im2col():
    @T.prim_func
    def k(A: T.Tensor((1, 6, 6, 4), f16), B: T.Tensor((48, 48), f16)):
        with T.Kernel(3) as bx:
            s = T.alloc_shared((16, 48), f16)
            T.im2col(A, s, bx, 0, 3, 1, 1, 1)
            T.copy(s, B[bx * 16, 0])

    a = array((1, 6, 6, 4), f16)
    padded = np.pad(a[0], ((1, 1), (1, 1), (0, 0)))
    rows = [padded[y : y + 3, x : x + 3].reshape(-1) for y in range(6) for x in range(6)]
    want = np.zeros((48, 48), f16)
    want[:36, :36] = rows
    check(k, {"A": a, "B": zeros((48, 48), f16)}, {"B": want})


def test_wide_indices_and_float8():
    @T.prim_func
    def k(A: T.Tensor((N,), "float8_e4m3fn"), I: T.Tensor((N,), "int64"), B: T.Tensor((N,), f32)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = T.cast(A[I[i]], "float32") * 2

    a, i = array(N, "float8_e4m3fn"), np.arange(N)[::-1].astype("int64").copy()
    check(k, {"A": a, "I": i, "B": zeros(N)}, {"B": a[::-1].astype(f32) * 2})


def test_recursive_macro_with_a_python_bound_needs_no_tracing(monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")

    @T.macro
    def halve(t, n):
        if n > 0:
            for i in T.Parallel(M):
                t[i] = t[i] / 2
            halve(t, n - 1)

    @T.prim_func
    def k(A: T.Tensor((M,), f32)):
        with T.Kernel(1):
            t = T.alloc_fragment((M,), f32)
            T.copy(A, t)
            halve(t, 3)
            T.copy(t, A)

    a = array(M)
    b = a.copy()
    k(b)
    equal("A", b, a / 8)


def test_the_seed_orders_blocks_and_iterations():
    @T.prim_func
    def k(C: T.Tensor((1,), i32), n: T.int32):
        with T.Kernel(8) as bx:
            for i in T.Parallel(8):
                C[0] = bx * 8 + i

    seen = set()
    for seed in range(6):
        c, again = zeros(1, i32), zeros(1, i32)
        interpret.run(k, c, 0, seed=seed)
        interpret.run(k, again, 0, seed=seed)
        assert c[0] == again[0]
        seen.add(int(c[0]))
    assert len(seen) > 1


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_copies_of_negative_floats_into_unsigned_integers_wrap(dtype):
    @T.prim_func
    def k(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), dtype), C: T.Tensor((32,), dtype)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32,), "float32"), T.alloc_shared((32,), dtype)
            T.copy(A, a)
            T.copy(a, b)
            T.copy(b, B)
            for i in T.Parallel(32):
                b[i] = a[i]
            T.copy(b, C)

    a = np.arange(-16, 16, dtype=np.float32) * 1.25
    want = a.astype(np.int64).astype(dtype)
    check(k, {"A": a, "B": np.zeros(32, dtype), "C": np.zeros(32, dtype)}, {"B": want, "C": want})


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_integers_become_floats_by_one_rounding(dtype):
    """2**62 + 2**38 + 1 lies above the middle of two float32 numbers, which a float64 cannot tell."""

    @T.prim_func
    def k(A: T.Tensor((N,), dtype), B: T.Tensor((N,), f32)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = T.cast(A[i], f32)

    a = np.full(N, 2**62 + 2**38 + 1, dtype)
    a[:4] = 2**62 + 2**38, 2**63 - 1, 2**53 + 1, 2**24 + 1
    if dtype == "int64":
        a[4:7] = -a[7], -(2**63), -(2**62) - 2**38
    b = zeros(N)
    interpret.run(k, a, b)
    np.testing.assert_array_equal(b, a.astype(f32))


def test_choices_and_negations_have_the_dtype_of_the_language():
    """Of `a if c else b` plain Python sees one side only, and `not c` is a constant to it."""

    @T.prim_func
    def main(A: T.Tensor((6,), "int32"), B: T.Tensor((6,), "int64"), C: T.Tensor((6,), "uint64"), Y: T.Tensor((4, 6), "int64")):
        with T.Kernel(1):
            for i in T.serial(6):
                v = A[i] if B[i] > 0 else B[i]
                Y[0, i] = v * 65536
                Y[1, i] = T.cast(not (B[i] > 0), "int32") * (C[i] | 1) // 3
                Y[2, i] = T.cast(not A[i], "int32") % (C[i] | 1)
                Y[3, i] = (A[i] if i > 3 else T.cast(1, "int8")) << 8

    a, b = np.array([1, 2, 0, 65536, -1, 2**31 - 1], i32), np.array([1, -1, 2, 3, 2**63 - 1, 0], np.int64)
    c = np.array([1, 2**63, 2**64 - 1, 7, 2**63 + 5, 2**63 + 1], np.uint64)
    odd, one = (c | np.uint64(1)).astype(np.int64), (b <= 0).astype(np.int64)
    wide = a.astype(np.int64)
    with np.errstate(over="ignore"):
        want = np.stack([np.where(b > 0, wide, b) * 65536, one * odd // 3, (a == 0) % odd, np.where(np.arange(6) > 3, a, 1) << 8])
    check(main, {"A": a, "B": b, "C": c, "Y": zeros((4, 6), "int64")}, {"Y": want})


def test_constants_of_narrow_dtypes_are_computed_in_int32():
    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), Y: T.Tensor((7, 4), i32)):
        with T.Kernel(1):
            for i in T.serial(4):
                Y[0, i] = T.cast(1, "int8") << 8
                Y[1, i] = T.int8(100) * T.int8(100)
                Y[2, i] = T.uint16(65535) * T.uint16(65535)
                Y[3, i] = ~T.uint8(5)
                Y[4, i] = -T.uint8(5)
                Y[5, i] = T.int8(-128) // -1
                Y[6, i] = T.int8(100) * A[i]

    a = np.array([1, 127, -128, 0], np.int8)
    constants = [256, 10000, -131071, -6, -5, 128]
    want = np.stack([*(np.full(4, c) for c in constants), 100 * a.astype(i32)])
    check(main, {"A": a, "Y": zeros((7, 4), i32)}, {"Y": want})


# ---- slices and quotients at the ends of their dtypes ------------------------------------------------------------------


def _sliced(x, start, length, least=-1):
    """16 elements of which a copy of a slice sets the first: those outside of the tensor are 0."""
    row = np.full(16, least, i32)
    for k in range(min(length, 16)):
        row[k] = x[start + k] if 0 <= start + k < len(x) else 0
    return row


def test_slices_whose_end_wraps():
    """`c : c + 16` has 16 elements, wherever it begins."""

    @T.prim_func
    def main(A: T.Tensor((8,), i32), X: T.Tensor((64,), i32), Y: T.Tensor((8, 16), i32)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), i32)
            for k in T.serial(8):
                c = A[k]
                T.fill(s, -1)
                T.copy(X[c : c + 16], s)
                T.copy(s, Y[k, :])

    a, x = np.array([0, 40, 56, 2**31 - 1, 2**31 - 8, -5, -16, -(2**31)], i32), np.arange(64, dtype=i32) + 1
    check(main, {"A": a, "X": x, "Y": zeros((8, 16), i32)}, {"Y": np.stack([_sliced(x, c, 16) for c in a.tolist()])})


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "first, last", [("uint32", "uint32"), ("int64", i32), ("int64", "int64"), (i32, "int64"), ("uint64", "uint64"), ("uint32", i32)]
)
def test_slices_that_end_before_they_begin(first, last):
    """Unsigned numbers have no negative differences, and the low bits of those of int64 are no number of elements."""

    @T.prim_func
    def main(
        A: T.Tensor((10,), first), B: T.Tensor((10,), last), X: T.Tensor((64,), i32), Y: T.Tensor((10, 16), i32), Z: T.Tensor((10, 64), i32)
    ):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), i32)
            for k in T.serial(10):
                T.fill(s, -1)
                T.copy(X[A[k] : B[k]], s)
                T.copy(s, Y[k, :])
                if k < 9:
                    T.fill(Z[k, A[k] : B[k]], 7)

    a, b = [0, 3, 56, 64, 7, 9, 60, 9, 0, 0], [16, 3, 64, 0, 2, 20, 4, 10, 64, 1]
    if first == "int64":
        a[7] = 2**32
    if last == "int64":
        a[8], b[8], b[9] = 2, 1 - 2**32, 2**32 + 3
    x = np.arange(64, dtype=i32) + 1
    z = zeros((10, 64), i32)
    for k in range(9):
        z[k, a[k] : max(b[k], 0)] = 7
    want = {"Y": np.stack([_sliced(x, u, v - u) for u, v in zip(a, b)]), "Z": z}
    arrays = {"A": np.array(a, first), "B": np.array(b, last), "X": x, "Y": zeros((10, 16), i32), "Z": zeros((10, 64), i32)}
    check(main, arrays, want)


@pytest.mark.parametrize("nest", [True, False])
def test_ceildiv_of_different_dtypes(nest):
    """1 is taken from the divisor in the dtype both have together."""

    @T.prim_func
    def main(A: T.Tensor((16,), "int64"), B: T.Tensor((16,), i32), C: T.Tensor((2, 16), "int64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16) if nest else T.serial(16):
                C[0, i] = T.ceildiv(A[i], B[i])
                C[1, i] = T.ceildiv(B[i], A[i])

    a = np.array([2**40, -(2**40), 7, -7, 2**31, 1, -1, 2**62] * 2)
    b = np.array([-(2**31)] * 8 + [3, -3, 2**31 - 1, 5, 1 - 2**31, -1, 1, 2**30], i32)
    wide = b.astype(np.int64)
    check(main, {"A": a, "B": b, "C": zeros((2, 16), "int64")}, {"C": np.stack([(a + (wide - 1)) // wide, (wide + (a - 1)) // a])})
