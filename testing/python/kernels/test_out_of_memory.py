"""Tiles that do not fit: the error names the declaration, shows the table, and the size it suggests does fit."""

import re

import numpy as np
import programs
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import OutOfMemory, TilelangAscendError
from tilelang_ascend.transform import pipeline


def expression(size):
    """Three tiles of 3 rows, and temporaries beside them. Every element needs the one at the other end: there is no work on a part."""

    @T.prim_func
    def main(A: T.Tensor((24, size), "float32"), B: T.Tensor((24, size), "float32"), C: T.Tensor((24, size), "float32")):
        with T.Kernel(8) as bx:
            a, b = T.alloc_fragment((3, size), "float32"), T.alloc_fragment((3, size), "float32")
            c = T.alloc_fragment((3, size), "float32")
            T.copy(A[bx * 3, 0], a)
            T.copy(B[bx * 3, 0], b)
            for i, j in T.Parallel(3, size):
                c[i, j] = T.tanh(a[i, j] * b[i, j]) + T.erf(a[i, j]) + a[2 - i, size - 1 - j]
            T.copy(c, C[bx * 3, 0])

    return tilelang.compile(main)


def compared(size):
    """Two tiles, and each element of one compared with that at the other end of the other."""

    @T.prim_func
    def main(A: T.Tensor((4 * size,), "float32"), C: T.Tensor((4 * size,), "float32")):
        with T.Kernel(4) as bx:
            a, c = T.alloc_shared((size,), "float32"), T.alloc_shared((size,), "float32")
            T.copy(A[bx * size], a)
            for i in T.Parallel(size):
                c[i] = T.max(a[i], a[size - 1 - i])
            T.copy(c, C[bx * size])

    return tilelang.compile(main)


def squared(size):
    """(A B)², whose rows and columns all meet."""

    @T.prim_func
    def main(A: T.Tensor((size, 64), "float16"), B: T.Tensor((64, size), "float16"), C: T.Tensor((size, size), "float16")):
        with T.Kernel(1):
            a, b = T.alloc_shared((size, 64), "float16"), T.alloc_shared((64, size), "float16")
            c, p = T.alloc_fragment((size, size), "float32"), T.alloc_shared((size, size), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, p)
            T.gemm(p, p, c, clear_accum=True)
            T.copy(c, C)

    return tilelang.compile(main)


CASES = {
    "UB temporaries": expression,
    "L0C": squared,
    "UB": compared,
    "L1": lambda size: programs.minicv(128, 256, size, 128, 256),
}
TOO_LARGE = {"UB temporaries": 6143, "L0C": 256, "UB": 32768, "L1": 12288}


@pytest.mark.parametrize("memory", CASES)
def test_error_and_hint(memory, monkeypatch):
    monkeypatch.setattr(pipeline, "SPILLED_ROOM", ())  # Tiles of UB could go to GM.
    monkeypatch.setattr(pipeline, "SUMS_APART", ())  # Vector cores could keep the sums.
    with pytest.raises(OutOfMemory) as caught:
        CASES[memory](TOO_LARGE[memory])
    error = caught.value
    text = str(error)
    assert error.message.startswith(f"{memory.split()[0]} overflow: ") and "available on Ascend910B1" in error.message
    assert "alloc_" in text.splitlines()[1] and "^" in text.splitlines()[2]
    assert "no part of the rows can be worked on alone" in text
    assert "versions x bytes" in text and "takes" in text
    better = re.search(rf"(\d+) instead of {TOO_LARGE[memory]}", error.hint)
    assert better, error.hint
    size = int(better.group(1))
    assert size < TOO_LARGE[memory]
    CASES[memory](size)


def test_exactly_full_memory_is_no_error():
    assert programs.matmul(256, 256, 64, 128, 256, 64).artifact.steps[0].kernel_type == "aic_only"


def huge(kind, n):
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            if kind == "row":
                x = T.alloc_shared((n,), "float32")
                T.fill(x, 1.0)
                T.copy(x[0:64], C)
            if kind == "nest":
                x = T.alloc_shared((n,), "float32")
                for i in T.Parallel(n):
                    x[i] = 1.0
                T.copy(x[0:64], C)
            if kind == "matrix":
                x = T.alloc_shared((n, 64), "float16")
                y = T.alloc_fragment((n, 64), "float32")
                T.copy(x, y)
                T.copy(y[0, 0:64], C)
            if kind == "product":
                x, z = T.alloc_shared((n, 64), "float16"), T.alloc_shared((64, 64), "float16")
                y = T.alloc_fragment((n, 64), "float32")
                T.gemm(x, z, y)
                T.copy(y[0, 0:64], C)

    return kernel


def test_tiles_of_our_own_have_the_line_they_are_for():
    n = 1 << 24

    @T.prim_func
    def kernel(X: T.Tensor((2, n, 3), "float32"), Y: T.Tensor((2, n), "float16")):
        with T.Kernel(1):
            y = T.alloc_fragment((2, n), "float16")
            T.reduce_sum(X, y, dim=2)
            T.copy(y, Y)

    with pytest.raises(OutOfMemory) as error:
        tilelang.compile(kernel)
    assert "T.reduce_sum(X, y, dim=2)" in str(error.value)


def passes_run(kernel, monkeypatch):
    """How many attempts at lowering a kernel that does not fit takes."""
    from tilelang_ascend.transform import fit

    attempts = []
    monkeypatch.setattr(fit, "attempt", lambda *args: attempts.append(args))
    with pytest.raises(OutOfMemory) as error:
        tilelang.compile(kernel)
    return attempts, error.value


@pytest.mark.parametrize("kind", ["row", "nest", "matrix", "product"])
@pytest.mark.parametrize("log", [24, 30, 40, 61])
def test_a_tile_that_cannot_fit_is_refused_without_an_attempt(kind, log, monkeypatch):
    if kind == "nest" and log > 30:
        with pytest.raises(TilelangAscendError, match="at most 2147483647 can be counted"):
            huge(kind, 1 << log)
        return
    attempts, error = passes_run(huge(kind, 1 << log), monkeypatch)
    assert not attempts and "instead of " + str(1 << log) in error.hint and "alone takes" in str(error)


def test_a_dimension_of_no_memory_at_all():
    with pytest.raises(TilelangAscendError, match="no such memory|known when the kernel is compiled"):
        huge("row", 1 << 70)


def test_of_many_buffers_the_largest_are_named_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(pipeline, "SPILLED_ROOM", ())

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            tiles = [T.alloc_shared((4096 + 64 * k,), "float32") for k in range(16)]
            for x in tiles:
                T.copy(A, x[0:64])
            for x in tiles:
                T.copy(x[0:64], C)

    with pytest.raises(OutOfMemory) as error:
        tilelang.compile(kernel)
    text = str(error.value)
    assert text.count(" takes ") == 10 and "6 smaller buffers take" in text
    assert len(text.splitlines()) < 60


def test_a_copy_between_tensors_takes_parts_that_fit_in_either_dtype():
    @T.prim_func
    def main(X: T.Tensor((50000,), "int8"), n: T.int32, Y: T.Tensor((50000,), "float32")):
        with T.Kernel(1):
            T.copy(X[n : n + n * 9], Y[n * 2 : n * 2 + n * 9])

    x, want = np.random.default_rng(0).integers(-9, 9, 50000).astype(np.int8), np.zeros(50000, np.float32)
    want[10000:] = x[5000:45000]
    got = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(want)}, {"n": 5000}, text=False)["Y"]
    np.testing.assert_array_equal(got, want)
