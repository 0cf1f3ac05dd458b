"""`T.atomic_add` on unsigned tensors in global memory: sums modulo 2^n, of tiles, rows and single elements; bools are or-ed and and-ed."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import TilelangAscendError

UNSIGNED = ("uint8", "uint16", "uint32")
RNG = np.random.default_rng(0)


def numbers(dtype, *shape):
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.one_in(6)
def test_tiles_and_elements(dtype, chip):
    """Every way an update goes: a tile, a part of one, a tile of another dtype, one element, elements and rows at places that are data."""
    n = 77

    @T.prim_func
    def main(
        X: T.Tensor((3, n), dtype), I: T.Tensor((3, n), "int32"), C: T.Tensor((n,), dtype), D: T.Tensor((3, 20), dtype),  # noqa: E741
        E: T.Tensor((8,), dtype), F: T.Tensor((n, 4), dtype), G: T.Tensor((n,), dtype), H: T.Tensor((4, 16), dtype),
        K: T.Tensor((16,), dtype)
    ):  # fmt: skip
        with T.Kernel(3, threads=128) as b:
            x, at, w = T.alloc_shared((n,), dtype), T.alloc_shared((n,), "int32"), T.alloc_shared((n,), "int32")
            T.copy(X[b, 0], x)
            T.copy(I[b, 0], at)
            T.atomic_add(C, x)
            T.atomic_add(D[b, 3:19], x[5:21])
            T.atomic_add(E[b % 2], x[7])
            T.atomic_add(E[2], 5)
            for i in T.Parallel(n):
                T.atomic_add(E[3 + at[i] % 5], x[i])
            for i in T.Parallel(n):
                if at[i] > 2:
                    T.atomic_add(F[i, 1], x[i] * 3)
            for i in T.Parallel(n):
                w[i] = T.cast(x[i], "int32") - 9
            T.atomic_add(G, w)
            for i, j in T.Parallel(4, 16):
                T.atomic_add(H[at[i] % 4, j], x[i * 16 + j])
            for i, j in T.Parallel(4, 16):
                T.atomic_add(K[j], x[i * 16 + j])
            for i in T.serial(3):
                T.atomic_add(E[i], x[i])

    x, at = numbers(dtype, 3, n), RNG.integers(0, 16, (3, n)).astype(np.int32)
    arrays = {"X": x, "I": at} | {
        k: numbers(dtype, *s) for k, s in {"C": (n,), "D": (3, 20), "E": (8,), "F": (n, 4), "G": (n,), "H": (4, 16), "K": (16,)}.items()
    }
    want = {k: v.copy() for k, v in arrays.items()}
    for b in range(3):
        want["C"] += x[b]
        want["D"][b, 3:19] += x[b, 5:21]
        np.add.at(want["E"], b % 2, x[b, 7])
        np.add.at(want["E"], 2, 5)
        np.add.at(want["E"], 3 + at[b] % 5, x[b])
        want["F"][:, 1] += np.where(at[b] > 2, x[b] * 3, 0).astype(dtype)
        want["G"] += (x[b].astype(np.int64) - 9).astype(dtype)
        np.add.at(want["H"], at[b, :4] % 4, x[b, :64].reshape(4, 16))
        np.add.at(want["K"], np.arange(64) % 16, x[b, :64])
        want["E"][:3] += x[b, :3]
    out = strict.run(tilelang.compile(main, target=chip), arrays)
    for name in want:
        np.testing.assert_array_equal(out[name], want[name], err_msg=name)


@pytest.mark.parametrize("chip", ["a2", "a5"])
def test_bools(chip):
    @T.prim_func
    def main(X: T.Tensor((3, 64), "bool"), A: T.Tensor((64,), "bool"), B: T.Tensor((64,), "bool"), C: T.Tensor((64,), "bool"),
             D: T.Tensor((16,), "bool")):  # fmt: skip
        with T.Kernel(3, threads=128) as b:
            x = T.alloc_shared((64,), "bool")
            T.copy(X[b, 0], x)
            T.atomic_add(A, x)
            T.atomic_min(B, x)
            for i in T.Parallel(64):
                if not x[i]:
                    T.atomic_max(C[63 - i], x[63 - i])
            for i, j in T.Parallel(4, 16):
                T.atomic_add(D[j], x[i * 16 + j])

    x = RNG.integers(0, 2, (3, 64)).astype(bool)
    a, c = (RNG.integers(0, 4, (2, 64)) == 0).astype(bool)
    b = RNG.integers(0, 4, 64) != 0
    x[:, [3, 19, 35, 51]] = False
    arrays = {"X": x, "A": a.copy(), "B": b.copy(), "C": c.copy(), "D": np.zeros(16, bool)}
    out = strict.run(tilelang.compile(main, target=chip), arrays)
    np.testing.assert_array_equal(out["A"], a | x.any(0))
    np.testing.assert_array_equal(out["B"], b & x.all(0))
    np.testing.assert_array_equal(out["D"], x.reshape(12, 16).any(0))
    np.testing.assert_array_equal(out["C"], c | (x & ~x[:, ::-1]).any(0))


def test_maxima_of_unsigned_numbers_have_another_order():
    @T.prim_func
    def main(X: T.Tensor((64,), "uint32"), C: T.Tensor((64,), "uint32")):
        with T.Kernel(1):
            x = T.alloc_shared((64,), "uint32")
            T.copy(X, x)
            T.atomic_max(C, x)

    with pytest.raises(TilelangAscendError, match="no atomic maxima of uint32 in global memory"):
        tilelang.compile(main)
