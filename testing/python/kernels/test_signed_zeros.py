"""The sign of a zero that is summed up: a sum of nothing but -0 is -0, and where nothing is added -0 stays, on all roads."""

import numpy as np
import pytest
import strict
from dtype_cases import numpy_dtype

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.sim import reference


def roads(func, chip: str, arrays: dict, name: str) -> list:
    """What the compiled kernel, Tile IR as traced and plain Python leave in a tensor."""
    found = [strict.run(tilelang.compile(func, target=chip), {k: v.copy() for k, v in arrays.items()})[name]]
    for run in (reference.run, interpret.run):
        own = {k: v.copy() for k, v in arrays.items()}
        run(func, *(own[p.name] for p in func.params))
        found.append(own[name])
    return [x.astype(np.float32) for x in found]


def minus_zeros(dtype, *shape):
    return (-np.zeros(shape, np.float32)).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("source, result", [("float32", "float32"), ("float16", "float16"), ("bfloat16", "float32")])
@pytest.mark.parametrize("rows, n", [(1, 8), (3, 40), (2, 256)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.one_in(9)
def test_scans(rows, n, source, result, reverse):
    """The first element of a scan is that of the row, as in NumPy."""

    @T.prim_func
    def main(X: T.Tensor((rows, n), source), Y: T.Tensor((rows, n), result)):
        with T.Kernel(1):
            x, y = T.alloc_shared((rows, n), source), T.alloc_shared((rows, n), result)
            T.copy(X, x)
            T.cumsum(x, y, dim=1, reverse=reverse)
            T.copy(y, Y)

    x = minus_zeros(source, rows, n)
    x[0, n // 2] = 1
    turn = slice(None, None, -1 if reverse else 1)
    want = np.cumsum(x.astype(np.float32)[:, turn], 1)[:, turn]
    for found in roads(main, "a5" if n == 40 else "a2", {"X": x, "Y": np.zeros((rows, n), numpy_dtype(result))}, "Y"):
        np.testing.assert_array_equal(found.view(np.int32), want.view(np.int32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.one_in(3)
def test_reductions(dim, clear, dtype):
    rows, n = 3, 40

    @T.prim_func
    def main(X: T.Tensor((rows, n), dtype), Y: T.Tensor(((n, rows)[dim],), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared((rows, n), dtype), T.alloc_shared(((n, rows)[dim],), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            T.reduce_sum(x, y, dim=dim, clear=clear)
            T.copy(y, Y)

    for found in roads(main, "a2", {"X": minus_zeros(dtype, rows, n), "Y": minus_zeros(dtype, (n, rows)[dim])}, "Y"):
        assert not found.any() and np.signbit(found).all()


WAYS = ("one each", "several each", "at data", "on chip", "+", "-", "in a loop")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype, chip", [("float32", "a2"), ("float32", "a5"), ("float16", "a2"), ("bfloat16", "a2")])
@pytest.mark.one_in(9)
def test_where_nothing_is_added(way, dtype, chip):
    n = 32

    @T.prim_func
    def main(X: T.Tensor((4, n), dtype), I: T.Tensor((4, n), "int32"), Y: T.Tensor((2, n), dtype)):  # noqa: E741
        with T.Kernel(1):
            x, at, y = T.alloc_shared((4, n), dtype), T.alloc_shared((4, n), "int32"), T.alloc_shared((n,), dtype)
            T.copy(X, x)
            T.copy(I, at)
            T.copy(Y[1, 0], y)
            if way == "one each":
                for j in T.Parallel(n):
                    if at[0, j] > 0:
                        T.atomic_add(Y[0, j], x[0, j])
            elif way == "in a loop":
                for i in T.serial(4):
                    for j in T.Parallel(n):
                        if at[i, j] > 0:
                            T.atomic_add(Y[0, j], x[i, j])
            else:
                for i, j in T.Parallel(4, n):
                    if at[i, j] > 0:
                        if way == "several each":
                            T.atomic_add(Y[0, j], x[i, j])
                        elif way == "at data":
                            T.atomic_add(Y[0, at[i, j]], x[i, j])
                        elif way == "on chip":
                            T.atomic_add(y[j], x[i, j])
                        elif way == "+":
                            y[j] = y[j] + x[i, j]
                        else:
                            y[j] = y[j] - x[i, j]
            T.copy(y, Y[1, 0])

    arrays = {"X": np.ones((4, n), numpy_dtype(dtype)), "I": np.zeros((4, n), np.int32), "Y": minus_zeros(dtype, 2, n)}
    for found in roads(main, chip, arrays, "Y"):
        assert not found.any() and np.signbit(found).all()
