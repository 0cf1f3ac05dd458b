"""Names that each stand for several of the one before, as the steps of a hash do: written out they double at every step, which no pass may do."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.analysis.index.linear import LinearForms
from tilelang_ascend.ir import LONGEST_INDEX, Bind, free_vars, nodes_in, sym, tirx, written_out

STEPS, N = 25, 32


@T.macro
def xorshift(x, steps):
    """`steps` times x ^ (x >> k); macros whose bounds are numbers of Python are written out."""
    if steps == 0:
        return x
    y = x ^ (x >> (steps % 9 + 1))
    return xorshift(y, steps - 1)


@T.macro
def congruence(x, steps):
    if steps == 0:
        return x
    y = (x * 3 + x // 2) % 1024
    return congruence(y, steps - 1)


def by_hand(x, function=xorshift):
    for k in range(STEPS, 0, -1):
        x = x ^ (x >> (k % 9 + 1)) if function is xorshift else (x * 3 + x // 2) % 1024
    return x


@pytest.mark.parametrize("function", [xorshift, congruence], ids=["xorshift", "congruence"])
def test_in_a_nest(function):
    """As a number, in a condition and in an index of a tile."""

    @T.prim_func
    def main(A: T.Tensor((N, N), "float32"), Y: T.Tensor((N, N), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((N, N), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(N, N):
                h = function(i * N + j, STEPS)
                if h % 3 != 1:
                    Y[i, j] = T.cast(h, "float32") + a[h % N, j]

    a = np.random.default_rng(0).integers(-9, 9, (N, N)).astype(np.float32)
    i, j = np.mgrid[:N, :N]
    h = by_hand(i * N + j, function)
    out = strict.run(tilelang.compile(main), {"A": a, "Y": np.zeros_like(a)}, text=False)
    np.testing.assert_array_equal(out["Y"], np.where(h % 3 != 1, h + a[h % N, j], 0))


def chain():
    """(name, what it stands for) of every step of a congruence."""
    x = tirx.Var("x", "int32")
    for k in range(STEPS):
        y = tirx.Var(f"y{k}", "int32")
        yield y, tirx.floormod(x * 3 + tirx.floordiv(x, 2), 64)
        x = y


def test_what_analyzers_know_of_the_last_one():
    """TVM is told its bounds, and forms look into few quotients within each other."""
    analyzer, forms = sym.Analyzer(), LinearForms()
    for y, value in chain():
        analyzer.bind(y, value)
        forms.bind(y, value)
    assert analyzer.can_prove(tirx.And(y >= 0, y < 64)) and not analyzer.can_prove(y < 63)
    assert forms(y + 1).interval({})[0] <= 1


def test_what_is_written_out():
    """Few names are, none of many."""
    steps = list(chain())
    few, many = ({}, {})
    for lets, found in ((few, steps[:3]), (many, steps)):
        for y, value in found:
            lets[y] = written_out(Bind(y, value), lets)
    assert free_vars(few[steps[2][0]]) == {v for v in free_vars(steps[0][1])}
    assert max(map(nodes_in, many.values())) <= LONGEST_INDEX and any(many[y].same_as(y) for y, _ in steps)
