"""What the compiler believes about integer scalars, and what it must not believe."""

import pytest

import tilelang_ascend.language as T
from tilelang_ascend.analysis.index.magnitude import magnitude
from tilelang_ascend.analysis.index.value_facts import facts_about, walk_with_facts
from tilelang_ascend.ir import Var, op_name, tirx


def starts(kernel) -> list[bool]:
    """For every fill of the kernel, in order: is the first index of its region known to be at least 0?"""
    func = kernel
    facts, found = facts_about(func), []

    def see(s):
        if op_name(s) == "tl.fill":
            found.append(facts.nonnegative(s.value.args[0].region[0].min))

    walk_with_facts(func.body, facts, see)
    return found


def kernel_of(body):
    """A kernel over A: float32[4096] and idx: int32[8] whose body marks places with ``see(index)``."""

    @T.macro
    def see(A, i):
        T.fill(A[i : i + 1], 0.0)

    return body(see)


def grows(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as bx:
            x = T.alloc_var("int32", init=bx * 3)
            while x < n:
                step = T.min(7, n - x)
                see(A, x)
                see(A, n - x)
                x += step
                see(A, x)
                see(A, n - x - 1)

    return main, [True, True, True, False]


def shrinks(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            x = T.alloc_var("int32", init=5)
            see(A, x)
            for _i in T.serial(9):
                see(A, x)
                x -= 1

    return main, [False, False]


def bits(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32, m: T.int32):
        with T.Kernel(4) as bx:
            found = T.alloc_var("int32", init=0)
            for i in T.serial(31):
                found = found | (T.int32(1) << (30 - i))
                see(A, found >> i)
                see(A, n | (1 << (30 - i)))
                see(A, (n & i) + (bx ^ i))
                see(A, n ^ m)
                see(A, (n >> i) - 1)

    return main, [True, False, True, False, False]


def two_that_hold_each_other(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            x, y = T.alloc_var("int32", init=0), T.alloc_var("int32", init=1)
            for i in T.serial(9):
                x = y + i
                y = x
                see(A, x + y)

    return main, [True]


def one_that_spoils_the_other(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            x, y = T.alloc_var("int32", init=0), T.alloc_var("int32", init=1)
            for i in T.serial(9):
                x = y + i
                y = x - 20
                see(A, x)

    return main, [False]


def guards(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            if n > 3:
                see(A, n - 4)
            else:
                see(A, 3 - n)
            see(A, n)
            for i in T.serial(9):
                if i * 5 > n:
                    break
                see(A, n - i * 5)
            see(A, n)

    return main, [True, True, False, True, False]


def stale_guards(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            x = T.alloc_var("int32", init=n)
            if x >= 0:
                see(A, x)
                x = x - 9
                see(A, x)
            for _i in T.serial(4):
                if x < 0:
                    break
                see(A, x)
                x = x - n
                see(A, x)
            see(A, x)

    return main, [True, False, True, False, False]


def sides_that_stay(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as _:
            x = T.alloc_var("int32", init=n)
            for _i in T.serial(4):
                if x < 0:
                    break
                else:
                    x = x - 9
                see(A, x)

    return main, [False]


def memory(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), idx: T.Tensor((8,), "int32")):
        with T.Kernel(4) as bx:
            see(A, idx[bx])
            see(A, T.max(idx[bx], 0))
            if idx[bx] >= 0:
                see(A, idx[bx])

    return main, [False, True, False]


def promises(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as bx:
            see(A, n - 5)
            if bx > 1:
                T.assume(n >= 5)
                see(A, n - 5)
            see(A, n - 5)

    return main, [False, True, False]


def divisions(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int32):
        with T.Kernel(4) as bx:
            see(A, bx // T.max(n, 1))
            see(A, bx // n)
            see(A, bx % n)
            see(A, n - n // 8 * 8)
            see(A, n // 8 * 8)

    return main, [True, False, False, True, False]


def ends_of_loops(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), idx: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(40) as bx:
            first = bx * 2
            for k in T.serial(90 - first):
                see(A, 89 - first - k)
                see(A, 88 - first - k)
                see(A, (90 - first - k) * 64 - 64)
            see(A, n)
            for k in T.serial(n):
                see(A, n - k - 1)
                see(A, n * 2 - k * 2 - 2)
                see(A, n - k * 2)
                if k + first < n:
                    see(A, n * 3 - first * 3 - k * 3 - 3)
                    see(A, n * 3 - first * 3 - k * 3 - 4)
            m = idx[0]
            for k in T.serial(m + 5):
                see(A, m + 4 - k)
                see(A, m - k)
            x = T.alloc_var("int32", init=n)
            for k in T.serial(x):
                see(A, x - k - 1)
                x = x - 1
                see(A, x - k)

    return main, [True, False, True, False, True, True, False, True, False, False, False, False, False]


def wider_guards(see):
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), n: T.int64, m: T.int32):
        with T.Kernel(1) as _:
            for k in T.serial(20):
                if n <= k:  # n may be -2**32 + 100
                    see(A, k - T.cast(n, "int32"))
                if T.cast(m, "int64") <= k:
                    see(A, k - m)

    return main, [False, True]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "body",
    [
        ends_of_loops,
        wider_guards,
        grows,
        shrinks,
        bits,
        two_that_hold_each_other,
        one_that_spoils_the_other,
        guards,
        stale_guards,
        sides_that_stay,
        memory,
        promises,
        divisions,
    ],
)
def test_first_indices(body):
    kernel, expected = kernel_of(body)
    assert starts(kernel) == expected


def test_sizes_of_what_may_become_a_large_unsigned_number():
    """-5 is 4294967291 as a uint32, and so is 0 - 5."""
    i, u = Var("i", "int32"), Var("u", "uint32")
    bounds = {i: 5, u: 5}
    assert magnitude(tirx.Cast("int64", i), bounds) == magnitude(tirx.Cast("int64", u), bounds) == 5
    assert magnitude(tirx.Cast("uint64", u), bounds) == 5 and magnitude(u + u, bounds) == 10
    assert magnitude(tirx.Cast("int64", tirx.Cast("uint32", i)), bounds) is None
    assert magnitude(tirx.Cast("int64", u - tirx.const(5, "uint32")), bounds) is None
