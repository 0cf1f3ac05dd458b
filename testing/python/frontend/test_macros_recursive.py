"""Functions of a kernel that call themselves, each other, or change names of their callers."""

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidKernel
from tilelang_ascend.sim.reference import run

X = np.arange(16, dtype=np.float32)


@T.macro
def tree(s, n):
    if n > 1:
        for i in T.Parallel(n // 2):
            s[i] = s[i] + s[i + n // 2]
        tree(s, n // 2)


def even(s, n):
    if n > 1:
        for i in T.Parallel(n // 2):
            s[i] += s[i + n // 2]
        odd(s, n // 2)


@T.macro
def odd(s, n):
    if n > 1:
        for i in T.Parallel(n // 2):
            s[i] += s[i + n // 2]
        even(s, n // 2)


@T.macro
def total(s, low, n):
    if n == 1:
        return s[low]
    return total(s, low, n // 2) + total(s, low + n // 2, n // 2)


def apply(body) -> np.ndarray:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((16,), "float32")
            T.copy(A, s)
            body(s)
            T.copy(s, C)

    out = np.zeros(16, np.float32)
    run(kernel, X.copy(), out)
    return out


def into_first(function):
    def body(s):
        s[0] = function(s, 0, 16)

    return body


@pytest.mark.parametrize(
    "body", [lambda s: tree(s, 16), lambda s: even(s, 16), lambda s: odd(s, 16), into_first(total)], ids=["itself", "even", "odd", "value"]
)
def test_sums(body):
    assert apply(body)[0] == X.sum()


def test_recursion_of_a_local_macro_in_a_parallel_loop():
    @T.macro
    def doubled(x, n):
        return x if n == 0 else doubled(x + x, n - 1)

    def body(s):
        for i in T.Parallel(16):
            s[i] = doubled(s[i], 3)

    np.testing.assert_array_equal(apply(body), X * 8)


def test_recursion_under_a_condition_of_run_time():
    @T.macro
    def clear_from(s, n):
        if s[n] > 3.0:
            s[n] = 0.0
            if n > 0:
                clear_from(s, n - 1)

    np.testing.assert_array_equal(apply(lambda s: clear_from(s, 15)), np.where(X > 3, 0, X))


def test_a_function_defined_in_the_kernel_calls_itself():
    @T.prim_func
    def kernel(C: T.Tensor((1,), "int32")):
        with T.Kernel(1):

            def factorial(n):
                return 1 if n <= 1 else n * factorial(n - 1)

            C[0] = factorial(5)

    out = np.zeros(1, np.int32)
    run(kernel, out)
    assert out[0] == 120


def test_a_macro_assigns_a_name_of_its_caller_inside_while():
    def body(s):
        at = T.alloc_var("int32", init=1)

        @T.macro
        def advance(n):
            nonlocal at
            for k in T.serial(n):
                s[0] += s[at + k]
            at = at + n

        while at < 16:
            advance(T.min(4, 16 - at))

    assert apply(body)[0] == X.sum()


def test_a_macro_advances_a_reference_inside_while():
    @T.macro
    def advance(s, at: T.Ref, n):
        for k in T.serial(n):
            s[0] += s[at + k]
        at = at + n

    def body(s):
        at = T.alloc_var("int32", init=1)
        while at < 16:
            advance(s, at, T.min(4, 16 - at))

    assert apply(body)[0] == X.sum()


@T.macro
def endless(s, n):
    s[0] += 1.0
    endless(s, n + 1)


def test_recursion_without_end_points_at_the_call():
    with pytest.raises(InvalidKernel, match="recursion without end") as error:
        apply(lambda s: endless(s, 0))
    assert "endless(s, n + 1)" in str(error.value)


def test_recursion_that_ends_at_run_time_only():
    @T.macro
    def down(s, n):
        if n > 0:
            s[0] += 1.0
            down(s, n - 1)

    with pytest.raises(InvalidKernel, match="known at compile time"):

        @T.prim_func
        def kernel(A: T.Tensor((16,), "float32")):
            with T.Kernel(4) as bx:
                down(A, bx)
