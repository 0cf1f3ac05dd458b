"""What numbers are: constants hold what their dtype holds, operators and Python's functions give the number they say."""

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend import arch, interpret
from tilelang_ascend.errors import UnsupportedConstruct
from tilelang_ascend.sim.reference import run
from tilelang_ascend.transform.pipeline import lower

N = 4


def call(func, a, dtype="float32"):
    b = np.zeros(8, dtype)
    run(func, np.asarray(a), b)
    return b.tolist()


def test_typed_constants_are_rounded_to_their_dtype():
    @T.prim_func
    def k(A: T.Tensor((N,), "bfloat16"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = T.cast(T.float16(0.1), "float32")
            B[1] = T.cast(T.bfloat16(0.1), "float32")
            B[2] = T.float16(0.1) * 3.0
            B[3] = T.float16(0.1) == 0.1
            B[4] = T.cast(T.float32(16777217), "int32") - 16777000
            B[5] = A[0] + T.bfloat16(0.1)
            B[6] = T.bfloat16(0.1) + T.bfloat16(0.2)
            B[7] = T.cast(T.cast(0.1, "float8_e4m3fn"), "float32")

    half, brain = np.float32(np.float16(0.1)), 0.10009765625
    want = [half, brain, half * np.float32(3), 0, 216, brain, np.float32(brain) + np.float32(0.2001953125), 0.1015625]
    import ml_dtypes

    assert call(k, np.zeros(N, ml_dtypes.bfloat16)) == [float(w) for w in want]


def test_zeros_of_either_sign_are_subtracted():
    @T.prim_func
    def k(A: T.Tensor((N,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = A[0] - T.float32(-0.0)
            B[1] = A[0] - T.float32(0.0)
            B[2] = A[0] - -0.0

    assert str(call(k, np.full(N, -0.0, np.float32))[:3]) == "[0.0, -0.0, 0.0]"


def test_powers_do_not_wrap_where_the_result_is_wider():
    @T.prim_func
    def k(A: T.Tensor((N,), "int32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            narrow = T.cast(A[1], "uint8")
            B[0] = A[0] ** 2.0
            B[1] = T.pow(A[0], 3.0)
            B[2] = 2**narrow
            B[3] = T.cast(A[2], "int8") ** T.cast(A[2], "int8")

    assert call(k, np.array([100_000, 9, 7, 0], np.int32))[:4] == [1e10, float(np.float32(1e15)), 512.0, 7.0**7]


def test_powers_of_conditions_are_integers():
    @T.prim_func
    def k(A: T.Tensor((N,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = (A[i] > 1) ** 2 - (A[i] > 2) ** i

    assert call(k, np.arange(N, dtype=np.float32))[:4] == [-1, 0, 1, 0]


def test_int_and_float_keep_what_they_are_given():
    @T.prim_func
    def k(A: T.Tensor((N,), "int64"), B: T.Tensor((8,), "int64")):
        with T.Kernel(1):
            B[0] = int(A[0])
            B[1] = int(T.cast(A[1], "uint32"))
            B[2] = int(T.cast(A[2], "int8")) * 300
            B[3] = int(T.cast(A[2], "float32") / 2.0)
            B[4] = T.cast(float(T.cast(A[3], "float64")), "int64")

    assert call(k, np.array([2**40 + 3, 2**32 - 1, -7, 2**24 + 1]), "int64")[:5] == [2**40 + 3, 2**32 - 1, -2100, -3, 2**24 + 1]


def test_and_and_or_of_numbers_are_one_of_them():
    @T.prim_func
    def k(A: T.Tensor((N,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            B[0] = A[0] or 5
            B[1] = A[1] or 5
            B[2] = A[1] and A[2]
            B[3] = A[0] or A[2] or 7
            B[4] = A[0] > 0 or A[2]
            if A[1] and not (A[0] or A[3]):
                B[5] = 1 if A[1] and A[2] else 2
            B[6] = all([A[1], A[2]]) + any([A[0], A[1]]) + all([A[1]])

    assert call(k, np.array([0, 3, 9, 0], np.int32), "int32")[:7] == [5, 3, 9, 9, 9, 1, 3]


def test_literals_a_dtype_does_not_hold_are_compared_as_numbers():
    @T.prim_func
    def k(A: T.Tensor((N,), "uint8"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            B[0] = A[0] < 300
            B[1] = A[0] == -1
            B[2] = T.max(A[0], 400)
            B[3] = -1 < T.cast(A[0], "uint32")
            B[4] = T.cast(T.cast(A[0], "uint32") + -1, "int32")
            B[5] = T.cast(A[0], "int8") & 255

    assert call(k, np.array([200, 0, 0, 0], np.uint8), "int32")[:6] == [1, 0, 400, 1, 199, 200]


@pytest.mark.parametrize("which", ["key", "digits"])
def test_options_of_python_functions_are_not_ignored(which):
    with pytest.raises(UnsupportedConstruct, match="key=|digits"):

        @T.prim_func
        def k(A: T.Tensor((N,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                B[0] = max(A[0], A[1], key=abs) if which == "key" else round(A[0], 1)


def test_negative_constants_count_from_an_end_only_run_time_knows():
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            tail = T.alloc_shared((2,), "int32")
            T.copy(A[-2:], tail)
            for i in T.Parallel(2):
                B[i] = tail[i] + A[-1]
            B[2] = A[-3]

    assert call(k, np.arange(10, 15, dtype=np.int32), "int32")[:3] == [27, 28, 12]


def test_casts_of_constants_round_in_the_direction_asked_for():
    @T.prim_func
    def k(A: T.Tensor((N,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = T.cast(2.5, "int32", "ru") * 100 + T.cast(-2.5, "int32", "rd") * 10 + T.cast(T.float32(2.5), "int32", "rna")
            B[1] = T.cast(T.cast(0.1, "float16", round="ru"), "float32")
            B[2] = T.cast(T.cast(-0.1, "float16", round="ru"), "float32")
            B[3] = T.cast(T.cast(1000.0, "float8_e4m3fn", sat=True), "float32") + T.cast(T.cast(3, "float16", "rz"), "float32")

    up = float(np.nextafter(np.float16(0.1), np.float16(1)))
    assert call(k, np.zeros(N, np.float32))[:4] == [273.0, up, -float(np.float16(0.1)), 451.0]


def test_functions_of_two_floats_take_integers():
    @T.prim_func
    def k(A: T.Tensor((N,), "int32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = T.hypot(A[0], A[1])
            B[1] = T.fmod(A[2], A[1])
            B[2] = T.copysign(A[0], A[2])
            B[3] = T.hypot(A[0], 4.0)

    assert call(k, np.array([3, 4, -7, 0], np.int32))[:4] == [5.0, -3.0, -3.0, 5.0]
    assert lower(k, arch.get_chip("Ascend910B1")).ascend_ir is not None


@pytest.mark.parametrize("flag", [True, False])
def test_choices_that_are_known_have_the_dtype_of_both_sides(flag):
    """What decides may be a number of Python, or a comparison that always holds."""

    @T.prim_func
    def k(A: T.Tensor((N,), "int8"), B: T.Tensor((8,), "uint8"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = T.if_then_else(A[0] == A[0], A[0], C[0])
            B[1] = T.if_then_else(flag, A[0], C[0])
            C[1] = T.if_then_else(flag, A[1], C[0]) / 2
            C[2] = T.if_then_else(flag, 7, C[0]) / 2
            C[3] = T.if_then_else(flag, A[1], 1.0) / 2

    a, zero, three = np.array([-4, 3, 0, 0], np.int8), 0.0, 3.0
    for execute in (run, interpret.run):
        b, c = np.ones(8, np.uint8), np.full(8, three, np.float32)
        execute(k, a, b, c)
        assert b[:2].tolist() == [zero, zero if flag else three]
        assert c[1:4].tolist() == ([1.5, 3.5, 1.5] if flag else [1.5, 1.5, 0.5])


def test_literals_beyond_int32_take_the_dtype_of_the_integer_they_meet():
    """As int64 they made int64 of what they met: products did not wrap, and half of the uint64 were negative."""

    @T.prim_func
    def k(U: T.Tensor((2,), "uint32"), V: T.Tensor((2,), "uint64"), B: T.Tensor((8, 2), "uint64")):
        with T.Kernel(1):
            for i in T.serial(2):
                u, v = U[i], V[i]
                B[0, i] = (u * 2654435761) >> 16
                B[1, i] = u + 4294967295
                B[2, i] = v // 8589934592
                B[3, i] = 8589934592 < v
                B[4, i] = T.max(v, 8589934592)
                B[5, i] = T.truncmod(v, T.uint64(10000000000))
                B[6, i] = T.if_then_else(u > 3, v, 8589934592) // 3
                B[7, i] = u - 8589934592 < 0

    u, v = np.array([123456789, 2], np.uint32), np.array([2**63 + 5, 7], np.uint64)
    want = np.array(
        [
            [int(x) * 2654435761 % 2**32 >> 16 for x in u],
            u - 1,
            v // np.uint64(2**33),
            v > 2**33,
            np.maximum(v, np.uint64(2**33)),
            v % np.uint64(10**10),
            [int(v[0]) // 3, 2**33 // 3],
            [1, 1],
        ],
        np.uint64,
    )
    for execute in (run, interpret.run):
        out = np.zeros((8, 2), np.uint64)
        execute(k, u, v, out)
        np.testing.assert_array_equal(out, want)
