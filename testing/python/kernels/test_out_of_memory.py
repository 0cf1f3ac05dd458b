"""Tiles that do not fit: the error names the declaration, shows the table, and the size it suggests does fit."""

import re

import programs
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import OutOfMemory


def expression(size):
    """Three tiles of 3 rows, and temporaries beside them."""

    @T.prim_func
    def main(A: T.Tensor((24, size), "float32"), B: T.Tensor((24, size), "float32"), C: T.Tensor((24, size), "float32")):
        with T.Kernel(8) as bx:
            a, b = T.alloc_fragment((3, size), "float32"), T.alloc_fragment((3, size), "float32")
            c = T.alloc_fragment((3, size), "float32")
            T.copy(A[bx * 3, 0], a)
            T.copy(B[bx * 3, 0], b)
            for i, j in T.Parallel(3, size):
                c[i, j] = T.tanh(a[i, j] * b[i, j]) + T.erf(a[i, j])
            T.copy(c, C[bx * 3, 0])

    return tilelang.compile(main)


CASES = {
    "UB temporaries": expression,
    "L0C": lambda size: programs.matmul(1024, 1024, 1024, size, size, 64),
    "UB": lambda size: programs.add_1d(1 << 20, size),
    "L1": lambda size: programs.minicv(256, 256, size, 128, 256),
}
TOO_LARGE = {"UB temporaries": 6143, "L0C": 256, "UB": 32768, "L1": 2048}


@pytest.mark.parametrize("memory", CASES)
def test_error_and_hint(memory):
    with pytest.raises(OutOfMemory) as caught:
        CASES[memory](TOO_LARGE[memory])
    error = caught.value
    text = str(error)
    assert error.message.startswith(f"{memory.split()[0]} overflow: ") and "available on Ascend910B1" in error.message
    assert "alloc_" in text.splitlines()[1] and "^" in text.splitlines()[2]
    assert "versions x bytes" in text and "takes" in text
    better = re.search(rf"(\d+) instead of {TOO_LARGE[memory]}", error.hint)
    assert better, error.hint
    size = int(better.group(1))
    assert size < TOO_LARGE[memory]
    CASES[memory](size)


def test_exactly_full_memory_is_no_error():
    assert programs.matmul(256, 256, 64, 128, 256, 64).artifact.kernel_type == "aic_only"
