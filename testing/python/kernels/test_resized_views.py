"""`T.view` of tiles as a dtype of another size."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(8)
PAIRS = [
    ("bfloat16", "float32"),
    ("float16", "int8"),
    ("int8", "int32"),
    ("float32", "float16"),
    ("int64", "int32"),
    ("int32", "uint8"),
    ("uint16", "int64"),
]


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def agree(func, arrays, expected, name):
    """Bit by bit, in a strict run."""
    out = strict.run(tilelang.compile(func), arrays)[name]
    assert out.tobytes() == expected.tobytes()
    own = {n: a.copy() for n, a in arrays.items()}
    interpret.run(func, *[own[p.name] for p in func.params])
    assert own[name].tobytes() == expected.tobytes()


@pytest.mark.parametrize("source, target", PAIRS)
@pytest.mark.one_in(6)
def test_bits(source, target):
    """Whole tiles, element-wise work and single elements of a view, and its storage afterwards."""
    s, t = numpy_dtype(source), numpy_dtype(target)
    w = 32 * s.itemsize // t.itemsize

    @T.prim_func
    def main(X: T.Tensor((4, 32), source), Z: T.Tensor((2, w), target), Y: T.Tensor((4, 32), source), V: T.Tensor((2, 2 * w), target)):
        with T.Kernel(1):
            x, z = T.alloc_fragment((4, 32), source), T.alloc_fragment((2, w), target)
            T.copy(X, x)
            T.copy(Z, z)
            v = T.view(x, (2, 2 * w), dtype=target)
            T.copy(v, V)
            for i, j in T.Parallel(2, w):
                v[i, j] = z[i, j]
            for j in T.serial(3):
                v[1, w + j] = v[0, j + 1]
            T.copy(x, Y)

    x = RNG.integers(-3, 4, (4, 32)).astype(s)
    z = RNG.integers(1, 5, (2, w)).astype(t)
    after = x.view(t).reshape(2, 2 * w).copy()
    before = after.copy()
    after[:, :w] = z
    after[1, w : w + 3] = after[0, 1:4]
    arrays = {"X": x, "Z": z, "Y": np.zeros_like(x), "V": np.zeros((2, 2 * w), t)}
    agree(main, arrays, after.view(s).reshape(4, 32), "Y")
    agree(main, arrays, before, "V")


def test_a_view_that_is_computed_on_and_one_that_meets_its_storage():
    @T.prim_func
    def main(X: T.Tensor((64,), "float16"), Y: T.Tensor((64,), "float16"), S: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            x, s = T.alloc_fragment((64,), "float16"), T.alloc_fragment((1,), "int32")
            T.copy(X, x)
            bits = T.view(x, (32,), dtype="int32")
            T.reduce_max(bits, s, dim=0)
            for i in T.Parallel(32):
                bits[i] = (bits[i] >> 16) & 65535 | bits[i] << 16  # neighbours change places
            for i in T.Parallel(16):
                x[i] = x[63 - i]
                bits[8 + i] = bits[8 + i] ^ -2147483648
            T.copy(x, Y)
            T.copy(s, S)

    x = RNG.integers(-9, 10, 64).astype(np.float16)
    y = x.reshape(32, 2)[:, ::-1].reshape(-1).copy()
    for i in range(16):
        y[i] = y[63 - i]
    for i in range(16):
        y[2 * (8 + i) + 1] = -y[2 * (8 + i) + 1]
    arrays = {"X": x, "Y": np.zeros_like(x), "S": np.zeros(1, np.int32)}
    agree(main, arrays, y, "Y")
    agree(main, arrays, x.view(np.int32).max()[None], "S")
