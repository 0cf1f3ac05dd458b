"""Scalar variables that straight-line code sets before it reads them are names; all others stay variables. Values against plain Python."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import AllocBuffer, Bind, TensorLoad, statements
from tilelang_ascend.jit.build import lower_stages
from tilelang_ascend.tile.uses import is_scalar_var

I32 = "int32"
N = 64


def variables(kernel) -> list[str]:
    """Names of the scalar variables that are left once `name_variables` has run."""
    stage = next(func for name, func in lower_stages(kernel.artifact) if name == "name_variables")
    return [s.buffer.name for s in statements(stage.body) if isinstance(s, AllocBuffer) and is_scalar_var(s.buffer)]


def kernel_of(body):
    """`body(X, A, Y, t, bx)`, two blocks: X has eight int32, A and Y float32, t is a tile of N of them."""

    @T.prim_func
    def main(X: T.Tensor((8,), I32), A: T.Tensor((4 * N,), "float32"), Y: T.Tensor((2, N), "float32")):
        with T.Kernel(2) as bx:
            t = T.alloc_shared((N,), "float32")
            body(X, A, Y, t, bx)

    return tilelang.compile(main)


def run(kernel):
    x, a = np.array([3, 1, 64, 2, 5, 0, 4, 7], np.int32), np.arange(4 * N, dtype=np.float32)
    return x, a, strict.run(kernel, {"X": x, "A": a, "Y": np.full((2, N), -1, np.float32)})["Y"]


def place(X, A, Y, t, bx):
    first = T.alloc_var(I32)
    first = X[bx]
    T.copy(A[first : first + N], t)
    T.copy(t, Y[bx, :])


def twice(X, A, Y, t, bx):
    n = T.alloc_var(I32, init=5)
    n = X[bx]
    T.copy(A[n : n + N], t)
    n = n + X[3]
    for i in T.Parallel(N):
        t[i] = t[i] + n
    T.copy(t, Y[bx, :])


def in_a_loop(X, A, Y, t, bx):
    n = T.alloc_var(I32, init=7)
    T.clear(t)
    for k in T.serial(3):
        n = X[k]
        for i in T.Parallel(N):
            t[i] = t[i] + n * A[i]
    T.copy(t, Y[bx, :])


def under_a_condition(X, A, Y, t, bx):
    n = T.alloc_var(I32)
    n = X[bx]
    if n > 2:
        T.copy(A[n : n + N], t)
    else:
        T.copy(A[2 * n : 2 * n + N], t)
    T.copy(t, Y[bx, :])


@pytest.mark.parametrize(
    "body, expected",
    [
        (place, lambda x, a, b: a[x[b] : x[b] + N]),
        (twice, lambda x, a, b: a[x[b] : x[b] + N] + x[b] + x[3]),
        (in_a_loop, lambda x, a, b: a[:N] * (x[0] + x[1] + x[2])),
        (under_a_condition, lambda x, a, b: a[x[b] : x[b] + N] if x[b] > 2 else a[2 * x[b] : 2 * x[b] + N]),
    ],
)
def test_names(body, expected):
    kernel = kernel_of(body)
    assert not variables(kernel)
    x, a, y = run(kernel)
    np.testing.assert_array_equal(y, np.stack([expected(x, a, b) for b in range(2)]))


def carried(X, A, Y, t, bx):
    n = T.alloc_var(I32)
    n = X[bx]
    for k in T.serial(3):
        n = n + X[k]
    T.copy(A[n : n + N], t)
    T.copy(t, Y[bx, :])


def read_before(X, A, Y, t, bx):
    """The first iteration finds what stands in front of the loop, the others what the one before has left."""
    n = T.alloc_var(I32)
    n = X[4]
    T.clear(t)
    for k in T.serial(3):
        for i in T.Parallel(N):
            t[i] = t[i] + n
        n = X[k]
    T.copy(t, Y[bx, :])


def chosen(X, A, Y, t, bx):
    n = T.alloc_var(I32)
    n = X[bx]
    if X[3] > 1:
        n = X[4]
    T.copy(A[n : n + N], t)
    T.copy(t, Y[bx, :])


def asked_again(X, A, Y, t, bx):
    n = T.alloc_var(I32)
    n = X[bx]
    T.clear(t)
    while n > 0:
        for i in T.Parallel(N):
            t[i] = t[i] + n
        n = n - 1
    T.copy(t, Y[bx, :])


def behind(X, A, Y, t, bx):
    """The loop sets it last: what is read behind it is not what its first statement of an iteration sets."""
    n = T.alloc_var(I32)
    n = X[5]
    T.clear(t)
    for k in T.serial(X[5], X[3]):
        n = X[k]
        for i in T.Parallel(N):
            t[i] = t[i] + n
    for i in T.Parallel(N):
        t[i] = t[i] * 10 + n
    T.copy(t, Y[bx, :])


def before_again(x, a, b):
    return np.full(N, x[4] + x[0] + x[1])


@pytest.mark.parametrize(
    "body, expected",
    [
        (carried, lambda x, a, b: a[(n := x[b] + x[0] + x[1] + x[2]) : n + N]),
        (read_before, before_again),
        (chosen, lambda x, a, b: a[x[4] : x[4] + N]),
        (asked_again, lambda x, a, b: np.full(N, x[b] * (x[b] + 1) // 2)),
        (behind, lambda x, a, b: np.full(N, (x[0] + x[1]) * 10 + x[1])),
    ],
)
def test_variables_that_stay(body, expected):
    kernel = kernel_of(body)
    assert variables(kernel)
    x, a, y = run(kernel)
    np.testing.assert_array_equal(y, np.stack([expected(x, a, b) for b in range(2)]))


def largest(X, A, Y, t, bx):
    end = T.alloc_var(I32)
    end = -5
    for q in T.serial(5):
        end = T.max(end, X[q + 3] - bx)
    if X[2] == 64:
        end = end - 1
    T.clear(t)
    for k in T.serial(end):
        for i in T.Parallel(N):
            t[i] = t[i] + A[k * N + i] * end
    T.copy(t, Y[bx, :])


def of_each_iteration(X, A, Y, t, bx):
    """What an iteration finds in front is no last value, what it leaves is one until the next."""
    n = T.alloc_var(I32)
    n = bx
    T.clear(t)
    for k in T.serial(3):
        for i in T.Parallel(N):
            t[i] = t[i] + n
        for q in T.serial(2):
            n = n + X[q] + k
        for j in T.serial(n % 3):
            for i in T.Parallel(N):
                t[i] = t[i] + n * 10 + j
    T.copy(t, Y[bx, :])


def set_again(X, A, Y, t, bx):
    n = T.alloc_var(I32)
    n = 0
    T.clear(t)
    for q in T.serial(2):
        n = n + X[q]
    for k in T.serial(n):
        for i in T.Parallel(N):
            t[i] = t[i] + n
    for q in T.serial(2):
        n = n - X[q + 3]
    for k in T.serial(-n):
        for i in T.Parallel(N):
            t[i] = t[i] - k * n
    for i in T.Parallel(N):
        t[i] = t[i] + n
    T.copy(t, Y[bx, :])


def each_iteration(x, a, b):
    n, t = b, 0
    for k in range(3):
        t += n
        n += x[0] + x[1] + 2 * k
        t += sum(n * 10 + j for j in range(n % 3))
    return np.full(N, t)


def largest_end(x, a, b):
    end = max(x[3:8]) - b - 1
    return a.reshape(-1, N)[:end].sum(0) * end if end > 0 else np.zeros(N)


def twice_set(x, a, b):
    first, n = x[0] + x[1], x[0] + x[1] - x[3] - x[4]
    return np.full(N, first * first - n * sum(range(-n)) + n)


@pytest.mark.parametrize("body, expected", [(largest, largest_end), (of_each_iteration, each_iteration), (set_again, twice_set)])
def test_last_values_have_names(body, expected):
    kernel = kernel_of(body)
    stage = next(func for name, func in lower_stages(kernel.artifact) if name == "name_variables")
    named = [s for s in statements(stage.body) if isinstance(s, Bind) and isinstance(s.value, TensorLoad) and is_scalar_var(s.value.source)]
    assert len(named) == 1
    x, a, y = run(kernel)
    np.testing.assert_array_equal(y, np.stack([expected(x, a, b) for b in range(2)]))
