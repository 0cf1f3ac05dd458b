"""Small integers whose rows are reduced are worked on as floats, and only where float32 holds all of them."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import AllocBuffer, dtype_of, statements

RNG = np.random.default_rng(0)
M, N = 12, 72


def as_floats(kernel) -> bool:
    """True if the tiles of places are floats on the chip."""
    declared = {
        s.buffer.name: dtype_of(s.buffer)
        for f in kernel.artifact.ascend_ir.functions.values()
        for s in statements(f.body)
        if isinstance(s, AllocBuffer)
    }
    return declared["where"] == declared["place"] == "float32"


def last_places(scale=1, offset=0, least=False):
    """The last (or, by minima, first) column of the largest element of each row, times `scale`, and how many rows have it behind their middle."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), P: T.Tensor((M,), "int32"), Behind: T.Tensor((M,), "int32")):
        with T.Kernel(1, threads=128) as _:
            x, best = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M,), "float32")
            where, place = T.alloc_fragment((M, N), "int32"), T.alloc_fragment((M,), "int32")
            T.copy(X, x)
            T.reduce_max(x, best, dim=1)
            for i, j in T.Parallel(M, N):
                where[i, j] = T.if_then_else(x[i, j] == best[i], j * scale + offset, N * scale if least else -1)
            if least:
                T.reduce_min(where, place, dim=1)
            else:
                T.reduce_max(where, place, dim=1)
            for i in T.Parallel(M):
                P[i] = place[i]
                Behind[i] = T.if_then_else(place[i] - offset >= N // 2 * scale, place[i] * 2 - 1, 0)

    return kernel


@pytest.mark.parametrize(
    "scale, offset, least, floats",
    [
        (1, 0, False, True),
        (1, 0, True, True),
        (-3, 5, False, True),
        (1 << 16, 0, False, True),
        (1 << 18, 0, False, False),
        (1, 1 << 24, False, False),
    ],
)
def test_places_of_maxima(scale, offset, least, floats, target="Ascend910B1"):
    x = RNG.integers(0, 9, (M, N)).astype("float32")
    kernel = tilelang.compile(last_places(scale, offset, least), target=target)
    assert as_floats(kernel) == floats
    out = strict.run(kernel, {"X": x, "P": np.zeros(M, "int32"), "Behind": np.zeros(M, "int32")}, text=least)
    candidates = np.where(x == x.max(1, keepdims=True), np.arange(N) * scale + offset, N * scale if least else -1)
    place = candidates.min(1) if least else candidates.max(1)
    np.testing.assert_array_equal(out["P"], place)
    np.testing.assert_array_equal(out["Behind"], np.where(place - offset >= N // 2 * scale, place * 2 - 1, 0))


@pytest.mark.parametrize("target", ["Ascend910_9391", "Ascend950PR_958x"])
def test_other_chips(target):
    test_places_of_maxima(-3, 5, False, True, target)


def test_numbers_that_grow():
    """A bound of each iteration is none of all of them."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "int8"), P: T.Tensor((M,), "int32")):
        with T.Kernel(1, threads=128) as _:
            where, place = T.alloc_fragment((M, N), "int32"), T.alloc_fragment((M,), "int32")
            T.clear(where)
            for _ in T.serial(20):
                for i, j in T.Parallel(M, N):
                    where[i, j] = where[i, j] * 3 + T.cast(X[i, j], "int32")
            T.reduce_max(where, place, dim=1)
            T.copy(place, P)

    compiled = tilelang.compile(kernel)
    assert not as_floats(compiled)
    x = RNG.integers(-2, 3, (M, N)).astype("int8")
    total = np.zeros((M, N), "int64")
    for _ in range(20):
        total = total * 3 + x
    out = strict.run(compiled, {"X": x, "P": np.zeros(M, "int32")}, text=False)["P"]
    np.testing.assert_array_equal(out, total.astype("int32").max(1))


@pytest.mark.parametrize("n", [0, 1, 13, N])
def test_maxima_of_rows_that_may_be_empty(n):
    """Of no element the maximum is the lowest int32; among floats it is infinite."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), P: T.Tensor((M,), "int32"), n: T.int32):
        with T.Kernel(1, threads=128) as _:
            x, where = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "int32")
            place, behind = T.alloc_fragment((M,), "int32"), T.alloc_fragment((M,), "int32")
            T.copy(X, x)
            for i, j in T.Parallel(M, N):
                where[i, j] = T.if_then_else(x[i, j] > 0, j, -1)
            T.reduce_max(where[0:M, 0:n], place, dim=1)
            for i in T.Parallel(M):
                behind[i] = place[i] + 1
            for i in T.Parallel(M):
                P[i] = T.if_then_else(behind[i] - 1 == place[i], behind[i], 0)

    x = RNG.standard_normal((M, N)).astype(np.float32)
    out = strict.run(tilelang.compile(kernel), {"X": x, "P": np.zeros(M, np.int32)}, {"n": n}, text=False)["P"]
    np.testing.assert_array_equal(out, np.max(np.where(x > 0, np.arange(N), -1)[:, :n], 1, initial=-(2**31)) + 1)
