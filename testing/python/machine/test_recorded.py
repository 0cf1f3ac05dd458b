"""Recorded streams run again, on tensors elsewhere and without some of their records."""

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.isa import TABLE
from tilelang_ascend.runtime.simulation import programs_of
from tilelang_ascend.sim import machine
from tilelang_ascend.sim.streams import Recorded, records

OPTIONS = machine.SimOptions(record_stream=True, time=False)


@pytest.fixture(scope="module")
def artifact():
    @T.prim_func
    def main(X: T.Tensor((2, 64), "float32"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(2) as bx:
            x = T.alloc_shared((64,), "float32")
            T.copy(X[bx, 0], x)
            for i in T.Parallel(64):
                x[i] = x[i] + 1.0
            T.copy(x, Y[bx, 0])

    return tilelang.compile(main).artifact


def run(artifact, entries, x, y):
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, name, name == "Y") for name, a in (("X", x), ("Y", y))]
    chip = get_chip(artifact.chip)
    return machine.run(chip, artifact.steps[0].kernel_type, 2, entries, [t.address for t in tensors], tensors, OPTIONS)


def arrays(value):
    return np.full((2, 64), value, np.float32), np.zeros((2, 64), np.float32)


def test_other_tensors(artifact):
    result = run(artifact, programs_of(artifact)[0].entries, *arrays(1))
    x, y = arrays(5)
    again = run(artifact, {"aiv": [Recorded(s).issued([x.ctypes.data, y.ctypes.data]) for s in result.streams]}, x, y)
    assert again.ok and all(np.array_equal(a, b) for a, b in zip(result.streams, again.streams))
    np.testing.assert_array_equal(y, x + 1)


def test_without_a_line(artifact):
    """Without the addition, values go from load to store unchanged, and nothing orders the two."""
    result = run(artifact, programs_of(artifact)[0].entries, *arrays(1))
    line = next(r.line for r in records(result.streams[0]) if list(TABLE)[r.op] == "adds")
    x, y = arrays(5)
    entries = {"aiv": [Recorded(s).issued([x.ctypes.data, y.ctypes.data], without=line) for s in result.streams]}
    again = run(artifact, entries, x, y)
    assert not again.ok
    assert not any(r.line == line for s in again.streams for r in records(s))
