"""Loops around gemm: how they run, how they are left, what clears the accumulator, what reads it. See gemm_loops.py."""

import gemm_loops
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import UnsupportedConstruct

CHOSEN = [
    # The clear is lost where the first iteration does not come to the gemm.
    dict(flow="continue before"), dict(loop="pipelined2", flow="break before"), dict(loop="while", flow="continue before"),
    dict(nested=True, clear="outer", flow="count", read="in the outer loop"),
    # A condition of the user beside a fill.
    dict(condition="k < 1"), dict(nested=True, condition="first of all"), dict(condition="k == 0", flow="if"), dict(condition="data"),
    # K steps that may not become one, a condition that is not the first iteration of all.
    dict(loop="pipelined2", clear="never", condition="k % 2 == 0"), dict(nested=True, clear="before", condition="k == 0", flow="count"),
    # Parts.
    dict(parts="rows"), dict(parts="row loop", flow="continue before"), dict(clear="part", parts="rows", flow="if"),
    dict(parts="columns", condition="data", read="in the loop"),
    # Both cores.
    dict(loop="pipelined3", operand="vector", flow="continue before", read="vector in the loop"),
    dict(nested=True, clear="never", condition="k < 1", operand="dynamic", read="in place"),
]  # fmt: skip


def check(case, text=False):
    arrays, want = gemm_loops.inputs(case)
    scalars = {"K": arrays["A"].shape[1]} if case.operand == "dynamic" else {}
    out = strict.run(gemm_loops.build(case), arrays, scalars, text=text)
    np.testing.assert_array_equal(out["C"], want)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("choice", CHOSEN, ids=lambda choice: str(gemm_loops.Case(**choice)))
def test_chosen(choice):
    check(gemm_loops.Case(**choice), text=True)


@pytest.mark.parametrize("case", gemm_loops.cases(16, seed=7), ids=str)
@pytest.mark.one_in(6)
def test_drawn(case):
    _holds_or_says_why(case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many(seed):
    for case in gemm_loops.cases(20, seed):
        try:
            _holds_or_says_why(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error


def _holds_or_says_why(case):
    """A product may not be added to what vector statements have changed; nothing else is refused."""
    try:
        check(case)
    except UnsupportedConstruct as error:
        assert case.read == "in place" and "which vector statements have changed" in str(error), str(error)


@pytest.mark.parametrize("clears", [(True, True), (False, True), (True, False), (False, False)], ids=str)
def test_two_products_in_one_step(clears):
    """What the first gemm of an iteration adds is lost where the second one starts from zero: in one step, however K is divided."""
    M, step, trips = 16, 16, 8

    @T.prim_func
    def main(A: T.Tensor((2, M, step * trips), "float16"), B: T.Tensor((step * trips, M), "float16"), C: T.Tensor((M, M), "float32")):
        with T.Kernel(1) as _:
            a, other, b = T.alloc_shared((M, step), "float16"), T.alloc_shared((M, step), "float16"), T.alloc_shared((step, M), "float16")
            c = T.alloc_fragment((M, M), "float32")
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=2):
                T.copy(A[0, 0, k * step], a)
                T.copy(A[1, 0, k * step], other)
                T.copy(B[k * step, 0], b)
                T.gemm(a, b, c, clear_accum=(k == 0) if clears[0] else False)
                T.gemm(other, b, c, clear_accum=(k == 0) if clears[1] else False)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((2, M, step * trips), (step * trips, M)))
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((M, M), np.float32)}, text=False)
    a, b = a.astype(np.float32), b.astype(np.float32)
    first = a[0] @ b - (a[0, :, :step] @ b[:step] if clears[1] else 0)
    np.testing.assert_array_equal(out["C"], first + a[1] @ b)
