"""expand_lane_numbers: the numbers are right, nothing beyond them is written, and no instruction of that name is left."""

import numpy as np
import pytest
from ascend_ir_samples import Builder, Sample, at, gm, module
from ir_and_text import run_ir

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import BufferLoad, imm, intrin, reinterpret, seq
from tilelang_ascend.transform.lower.expand_lane_numbers import lane_numbers

ROOM = 4096
SENTINEL = -7


def numbers(dtype: str, count: int, first: int, stored_as: str):
    """All `ROOM` elements of a tile that was full of sentinels."""
    b, out = Builder(), gm("out", dtype, ROOM)
    size = np.dtype(dtype).itemsize
    u = b.alloc("u", stored_as, "ub", ROOM * size // np.dtype(stored_as).itemsize, 0)
    head = at(u, 0, 0) if stored_as == dtype else reinterpret(BufferLoad(u, [imm(0), imm(0)]), dtype)
    number = float if dtype.startswith("float") else int
    body = seq(
        intrin("duplicate", head, imm(number(SENTINEL), dtype), ROOM), intrin("pipe_barrier", pipe="V"),
        *(s for x in _flat(lane_numbers(head, imm(number(first), dtype), imm(count))) for s in (x, intrin("pipe_barrier", pipe="V"))),
        intrin("set_flag", 0, event="V_MTE3"), intrin("wait_flag", 0, event="V_MTE3"),
        intrin("copy_ub_to_gm", at(out, 0), head, 1, ROOM * size, 0, 0),
    )  # fmt: skip
    ir = module(b.function("numbers", "aiv", "aiv_only", [out], body))
    (have,), result = run_ir(Sample("numbers", ir, 1, [], [np.zeros(ROOM, dtype)], {}))
    assert not result.hazards, result.text()
    return have


def _flat(s):
    return list(getattr(s, "seq", [s]))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["int16", "int32", "float16", "float32"])
def test_numbers(dtype):
    for count in (1, 2, 3, 8, 17, 63, 64, 65, 127, 128, 129, 200, 256, 1000, 1025, 2000):
        for first in (0, -5):
            have = numbers(dtype, count, first, dtype)
            np.testing.assert_array_equal(have[:count], np.arange(first, first + count))
            assert (have[count:] == SENTINEL).all()


def test_a_tile_of_another_dtype():
    have = numbers("int32", 300, 3, "uint8")
    np.testing.assert_array_equal(have[:300], np.arange(3, 303))
    assert (have[300:] == SENTINEL).all()


@pytest.mark.parametrize("n", [5, 64, 200])
def test_kernels_with_lane_numbers(n):
    @T.prim_func
    def ramp(X: T.Tensor((n,), "int32"), Y: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((n,), "int32")
            T.copy(X, s)
            for k in T.serial(3):
                for i in T.Parallel(n):
                    s[i] = s[i] + i * k
            T.copy(s, Y)

    kernel = tilelang.compile(ramp)
    assert "CreateVecIndex" not in kernel.get_kernel_source()
    y = np.zeros(n, np.int32)
    kernel(np.ones(n, np.int32), y)
    np.testing.assert_array_equal(y, 1 + 3 * np.arange(n))
