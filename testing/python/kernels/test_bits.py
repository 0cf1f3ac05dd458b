"""T.popcount and T.clz, on the vector unit and on the scalar unit, against Python's integers; comparisons of bits."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 64


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.one_in(2)
def test_counts(dtype):
    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Ones: T.Tensor((2, N), dtype), Zeros: T.Tensor((2, N), "int32")):
        with T.Kernel(1) as _:
            for i in T.Parallel(N):
                Ones[0, i] = T.popcount(X[i])
                Zeros[0, i] = T.clz(X[i])
            for i in T.serial(N):
                Ones[1, i] = T.popcount(X[i])
                Zeros[1, i] = T.clz(X[i])

    limits = np.iinfo(dtype)
    X = np.random.default_rng(0).integers(limits.min, limits.max, N, dtype, endpoint=True)
    X >>= np.arange(N).astype(dtype) % limits.bits
    X[:5] = 0, 1, limits.max, limits.min, limits.max // 3
    got = strict.run(
        tilelang.compile(main), {"X": X, "Ones": np.zeros((2, N), dtype), "Zeros": np.zeros((2, N), "int32")}, text=dtype == "int32"
    )
    bits = [int(x) & ((1 << limits.bits) - 1) for x in X]
    np.testing.assert_array_equal(got["Ones"], [[x.bit_count() for x in bits]] * 2)
    np.testing.assert_array_equal(got["Zeros"], [[limits.bits - x.bit_length() for x in bits]] * 2)


def test_floats_have_no_bits_to_count():
    with pytest.raises(tilelang.errors.InvalidArgument, match="T.popcount of a float32"):

        @T.prim_func
        def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "int32")):
            with T.Kernel(1) as _:
                for i in T.Parallel(N):
                    Y[i] = T.popcount(X[i])


def test_comparisons_of_bits_with_what_they_cannot_be():
    """The C++ compiler warns of them, also where `~` makes a signed number of an unsigned one; they are no mistakes of the emitted text."""

    @T.prim_func
    def main(X: T.Tensor((64,), "uint8"), Y: T.Tensor((4, 64), "bool")):
        with T.Kernel(1):
            for i in T.serial(64):
                Y[0, i] = (X[i] & 3) == 8
                Y[1, i] = (X[i] | 5) != 128
                Y[2, i] = ~X[i] != 0
                Y[3, i] = ~X[i] * 2 <= -7

    x = np.arange(64).astype(np.uint8)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((4, 64), bool)})["Y"]
    wide = ~x.astype(np.int32)
    np.testing.assert_array_equal(out, np.stack([x > 99, x < 99, wide != 0, wide * 2 <= -7]))
