"""Weights packed by hand, as dequantising kernels of GPUs unpack them: shifts and masks of bytes, bits put together, scales of groups."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import InvalidArgument

RNG = np.random.default_rng(8)


def int4_to_int8(nbit, val, pos):
    """Arithmetic on bytes counts as bytes where its bits are wanted."""
    i4 = (val >> (pos.astype("uint8") * T.uint8(nbit))) & T.uint8((1 << nbit) - 1)
    shifted = T.reinterpret("int8", i4 << T.uint8(4))
    return shifted >> T.int8(4)


def float4_to_bfloat16(nbit, val, pos, scale):
    """The fields of a bfloat16, the exponent `scale` higher; codes without exponent count as with one, as in kernels for GPUs."""
    f4 = (val >> (pos.astype("uint16") * T.uint16(nbit))) & T.uint16((1 << nbit) - 1)
    sign, exponent, mantissa = f4 >> T.uint16(3), (f4 & T.uint16(6)) >> T.uint16(1), f4 & T.uint16(1)
    exponent = T.min(exponent + T.uint16(126) + scale, T.uint16((1 << 8) - 1))
    return T.reinterpret("bfloat16", ((((sign << T.uint16(8)) | exponent) << T.uint16(7)) | (mantissa << T.uint16(6))).astype("uint16"))


def float4_to_float16(nbit, val, pos):
    f4 = (val >> (pos.astype("uint8") * T.uint8(nbit))) & T.uint8((1 << nbit) - 1)
    sign, size = f4 >> T.uint8(3), f4 & T.uint8(7)
    value = T.reinterpret("float16", (((size | T.uint8(8)) | (sign << T.uint8(5))) << T.uint8(10)).astype("uint16"))
    return T.Select(size == T.uint8(0), T.float16(0), value)


def signs(codes):
    return np.where(codes & 8, -1.0, 1.0)


DECODE = {
    "int8": (lambda v, p: int4_to_int8(4, v, p), lambda c: (c ^ 8) - 8, "int32"),
    "bfloat16": (
        lambda v, p: float4_to_bfloat16(4, v, p, T.uint16(2)),
        lambda c: (1 + (c & 1) * 0.5) * 2.0 ** ((c & 6) // 2 + 1) * signs(c),
        "float32",
    ),
    "float16": (lambda v, p: float4_to_float16(4, v, p), lambda c: np.where(c & 7, 2.0 ** ((c & 7) - 7) * signs(c), 0), "float32"),
}


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dtype", DECODE)
@pytest.mark.one_in(2)
def test_codes_of_weights_are_decoded_by_hand(dtype, target):
    decode, meaning, total = DECODE[dtype]
    m, n, k = 16, 32, 64

    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k // 2), "uint8"), C: T.Tensor((n, m), total)):
        with T.Kernel(1):
            a, b = T.alloc_shared((m, 32), dtype), T.alloc_shared((n, 16), "uint8")
            local, weights = T.alloc_fragment((n, 16), "uint8"), T.alloc_fragment((n, 32), dtype)
            c = T.alloc_fragment((n, m), total)
            T.clear(c)
            for step in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[0, step * 32], a)
                T.copy(B[0, step * 16], b)
                T.copy(b, local)
                for i, j in T.Parallel(n, 32):
                    weights[i, j] = decode(local[i, j // 2], j % 2)
                T.gemm(weights, a, c, transpose_B=True)
            T.copy(c, C)

    codes = RNG.integers(0, 16, (n, k))
    x = RNG.integers(-8, 8, (m, k))
    x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    arrays = {"A": x, "B": (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8), "C": np.zeros((n, m), total)}
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(gemm, *python.values())
    out = strict.run(tilelang.compile(gemm, target=target), arrays)
    want = meaning(codes).astype(np.float64) @ x.astype(np.float64).T
    np.testing.assert_array_equal(out["C"], want)
    np.testing.assert_array_equal(python["C"], want)


def test_bits_of_wide_numbers_stay_wide():
    with pytest.raises(InvalidArgument, match="T.reinterpret of a int32 as int8, which has another size"):

        @T.prim_func
        def k(X: T.Tensor((32,), "int32"), B: T.Tensor((32,), "uint8"), Y: T.Tensor((32,), "int8")):
            with T.Kernel(1):
                for i in T.Parallel(32):
                    Y[i] = T.reinterpret("int8", (B[i] << 4) + X[i])


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.one_in(2)
def test_groups_have_scales_and_packed_zero_points(target):
    """w4a16 with words of eight codes along K, zero points packed along N and stored less one, dynamic rows."""
    m, n, k, group = T.dynamic("m"), 64, 128, 32

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((k // 8, n), "int32"), S: T.Tensor((k // group, n), "float16"),
        Z: T.Tensor((k // group, n // 8), "int32"), C: T.Tensor((m, n), "float32"),
    ):  # fmt: skip
        with T.Kernel(2, T.ceildiv(m, 16)) as (bx, by):
            a, b = T.alloc_shared((16, 64), "float16"), T.alloc_shared((8, 32), "int32")
            weights, c = T.alloc_fragment((64, 32), "float16"), T.alloc_fragment((16, 32), "float32")
            T.clear(c)
            for step in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 16, step * 64], a)
                T.copy(B[step * 8, bx * 32], b)
                for i, j in T.Parallel(64, 32):
                    row, column = (step * 64 + i) // group, bx * 32 + j
                    zero = ((Z[row, column // 8] >> (column % 8 * 4)) & 15) + 1
                    weights[i, j] = T.cast(((b[i // 8, j] >> (i % 8 * 4)) & 15) - zero, "float16") * S[row, column]
                T.gemm(a, weights, c)
            T.copy(c, C[by * 16, bx * 32])

    codes, zeros = RNG.integers(0, 16, (k, n)), RNG.integers(0, 16, (k // group, n))
    scales = RNG.choice([0.5, 0.25, 1.0], (k // group, n)).astype(np.float16)
    word = lambda parts: sum(p.astype(np.uint32) << (4 * i) for i, p in enumerate(parts)).astype(np.uint32).view(np.int32)  # noqa: E731
    arrays = {
        "A": RNG.integers(-4, 5, (21, k)).astype(np.float16), "B": word([codes[i::8] for i in range(8)]), "S": scales,
        "Z": word([zeros[:, i::8] for i in range(8)]), "C": np.zeros((21, n), np.float32),
    }  # fmt: skip
    out = strict.run(tilelang.compile(gemm, target=target), arrays, {"m": 21})
    weights = (codes - np.repeat(zeros + 1, group, 0)) * np.repeat(scales.astype(np.float64), group, 0)
    np.testing.assert_array_equal(out["C"], arrays["A"].astype(np.float64) @ weights)
