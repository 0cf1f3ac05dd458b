"""Tile ops on every kind of operand, dtype and chip, against the reference and NumPy (`operand_cases.py` says which), and what is special
about global memory."""

import os
import random
import re

import numpy as np
import operand_cases as cases
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import tile
from tilelang_ascend.errors import TilelangAscendError, UnsupportedConstruct


def numbers_of(text: str) -> list[float]:
    """The values of printed lines, which stand behind what names them."""
    lines = (re.split("=|: ", line)[-1] for line in text.splitlines())
    return [float(x) for line in lines for x in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", line)]


def check(case, seed):
    """A case has the right values; or it is refused at its line with the reason the table gives, and then always."""
    arrays, want, shown = cases.arrays_of(case, seed)
    rows = cases.refusals(case)
    if rows:
        with pytest.raises(TilelangAscendError) as caught:
            strict.once(cases.kernel(case), case.chip, arrays)
        error = caught.value
        assert error.location is not None and any(re.search(row.says, error.message) for row in rows), f"{case}: {error}"
        return
    out, text = strict.once(cases.kernel(case), case.chip, arrays)
    got, want_ = (np.asarray(v).astype(np.float64) for v in (cases.seen(case, out["Y"]), want))
    step = 2 * float(cases.ml_dtypes.finfo(want.dtype).eps) if case.op == "exp" else 0
    np.testing.assert_allclose(got, want_, rtol=step, atol=0, err_msg=str(case))
    assert not shown or numbers_of(text) == shown, f"{case}: {text}"


@pytest.mark.parametrize("part", range(12))
@pytest.mark.one_in(9)
def test_operands(part):
    for case in cases.sample(190)[part::12]:
        check(case, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(*map(int, os.environ.get("OPERAND_PARTS", "0 1000 40").split())))
def test_all_operands(part):
    """A thousandth of all combinations each, in any order. All of them take a core a day: OPERAND_PARTS says which (first, last, every so many)."""
    found = list(cases.all_cases())
    random.Random(7).shuffle(found)
    for k, case in enumerate(found[part::1000]):
        check(case, seed=k)


def test_every_tile_op_has_a_row():
    tried = {op.record for op in cases.OPS} - {None}
    assert tried | cases.UNTRIED.keys() == set(tile.TABLE.values()) and not tried & cases.UNTRIED.keys()


# ---- global memory -----------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def run(func, arrays, scalars=None, text=False):
    return strict.run(tilelang.compile(func), arrays, scalars, text=text)


@pytest.mark.parametrize("shape", [(1, 1), (5, 513), (70, 1030), (300, 7)])
def test_tensors_of_any_size_are_filled_and_copied_in_parts(shape):
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(1):
            T.fill(A, 3.0)
            T.copy(B, C)

    b = normal(*shape)
    out = run(main, {"A": normal(*shape), "B": b, "C": np.zeros(shape, np.float16)}, {"m": shape[0], "n": shape[1]}, text=shape[0] == 5)
    np.testing.assert_array_equal(out["A"], np.full(shape, 3))
    np.testing.assert_array_equal(out["C"], b.astype(np.float16))


def test_fills_of_parts_by_blocks_and_under_conditions():
    @T.prim_func
    def main(I: T.Tensor((4,), "int32"), A: T.Tensor((30, 50), "float32"), v: T.float32):
        with T.Kernel(4) as bx:
            if I[bx] > 0:
                T.fill(A[bx * 9 : bx * 9 + 9, 3:47], v)
            else:
                T.clear(A[bx * 9, 0 : I[bx] + 10])

    a = normal(30, 50)
    want = a.copy()
    want[0:9, 3:47] = want[18:27, 3:47] = 2.5
    want[9, :7], want[27, :10] = 0, 0
    out = run(main, {"I": np.array([3, -3, 1, 0], np.int32), "A": a}, {"v": 2.5}, text=True)
    np.testing.assert_array_equal(out["A"], want)


def test_atomic_updates_between_tensors():
    @T.prim_func
    def main(A: T.Tensor((300, 301), "float32"), B: T.Tensor((300, 301), "float32")):
        with T.Kernel(2):
            T.atomic_add(B, A)

    a, b = (RNG.integers(-4, 5, (300, 301)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(run(main, {"A": a, "B": b})["B"], b + 2 * a)


@pytest.mark.parametrize("rows", [1, 7, 130])
def test_reductions_of_tensors_with_many_rows(rows):
    m = T.dynamic("m")

    @T.prim_func
    def main(
        A: T.Tensor((m, 300), "float32"),
        B: T.Tensor((m,), "float32"),
        C: T.Tensor((1000, 300), "float32"),
        D: T.Tensor((1000, 1), "float32"),
    ):
        with T.Kernel(1):
            T.reduce_max(A, B, dim=1)
            T.reduce_min(C, D, dim=1, clear=False)

    a, c, d = normal(rows, 300), normal(1000, 300), normal(1000, 1) - 3
    out = run(main, {"A": a, "B": normal(rows), "C": c, "D": d}, {"m": rows})
    np.testing.assert_array_equal(out["B"], a.max(1))
    np.testing.assert_array_equal(out["D"], np.minimum(d, c.min(1, keepdims=True)))


def test_a_reduction_along_a_size_of_run_time_is_refused():
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 30), "float32"), B: T.Tensor((30,), "float32")):
        with T.Kernel(1):
            T.reduce_sum(A, B, dim=0)

    with pytest.raises(UnsupportedConstruct, match="whose size is known only at run time") as caught:
        tilelang.compile(main)
    assert "T.reduce_sum(A, B, dim=0)" in str(caught.value)


def test_scans_in_place_of_large_tensors_and_of_parts_that_overlap():
    @T.prim_func
    def main(A: T.Tensor((700, 200), "float32"), B: T.Tensor((64,), "int32"), C: T.Tensor((17, 40), "float32")):
        with T.Kernel(1):
            T.cumsum(A, dim=1)
            T.cumsum(B[0:40], B[8:48])
            c = T.alloc_shared((17, 40), "float32")
            T.copy(C, c)
            T.cumsum(c[0:9, 0:20], c[1:10, 1:21], dim=0)
            T.copy(c, C)

    a, b = RNG.integers(-3, 4, (700, 200)).astype(np.float32), RNG.integers(-3, 4, 64).astype(np.int32)
    c = RNG.integers(-3, 4, (17, 40)).astype(np.float32)
    out = run(main, {"A": a, "B": b, "C": c})
    np.testing.assert_array_equal(out["A"], a.cumsum(1))
    want = b.copy()
    want[8:48] = b[:40].cumsum()
    np.testing.assert_array_equal(out["B"], want)
    want = c.copy()
    want[1:10, 1:21] = c[:9, :20].cumsum(0)
    np.testing.assert_array_equal(out["C"], want)


def test_parts_outside_of_a_tensor_read_as_zero_and_are_not_written():
    @T.prim_func
    def main(A: T.Tensor((50, 40), "float32"), B: T.Tensor((50,), "float32")):
        with T.Kernel(4) as bx:
            T.reduce_max(A[bx * 16 : bx * 16 + 16, 10:50], B[bx * 16 : bx * 16 + 16], dim=1)

    out = run(main, {"A": -np.abs(normal(50, 40)), "B": normal(50)}, text=True)
    np.testing.assert_array_equal(out["B"], np.zeros(50))


def test_scalar_variables_are_operands():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            s, v, w = T.alloc_shared((64,), "float32"), T.alloc_var("float32"), T.alloc_var("float32")
            T.copy(A, s)
            T.reduce_max(s, v, dim=0)
            T.fill(w, 2.0)
            for i in T.Parallel(64):
                s[i] = s[i] * w + v
            T.copy(s, B)
            T.copy(A[3:4], w)
            B[0] = w

    a = normal(64)
    want = a * 2 + a.max()
    want[0] = a[3]
    np.testing.assert_allclose(run(main, {"A": a, "B": normal(64)})["B"], want, rtol=1e-6)


@pytest.mark.parametrize("rows", [32, 33])
def test_tensors_beside_a_product(rows):
    """Two vector cores: one of them works on the tensors, and odd rows are divided."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 32), "float16"), B: T.Tensor((32, 32), "float16"), X: T.Tensor((rows, 5), "float32"), D: T.Tensor((rows, 20), "float32"),
        C: T.Tensor((rows, 32), "float32"), E: T.Tensor((rows,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1):
            a, b = T.alloc_shared((rows, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((rows, 32), "float32")
            T.fill(D[1:rows, 3:17], 5.0)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(rows, 32):
                c[i, j] = c[i, j] * X[i, 2]
            T.copy(c, C)
            T.reduce_sum(c, E, dim=1)

    a, b = (RNG.integers(-2, 3, s).astype(np.float16) for s in ((rows, 32), (32, 32)))
    x, d = RNG.integers(-2, 3, (rows, 5)).astype(np.float32), normal(rows, 20)
    out = run(main, {"A": a, "B": b, "X": x, "D": d, "C": normal(rows, 32), "E": normal(rows)})
    c = (a.astype(np.float32) @ b.astype(np.float32)) * x[:, 2:3]
    d[1:, 3:17] = 5
    np.testing.assert_array_equal(out["C"], c)
    np.testing.assert_array_equal(out["E"], c.sum(1))
    np.testing.assert_array_equal(out["D"], d)


def test_tensors_with_gaps():
    torch = pytest.importorskip("torch")

    @T.prim_func
    def main(
        A: T.StridedTensor((9, 20), (50, 2), "float32"), B: T.Tensor((9,), "float32"), C: T.StridedTensor((9, 20), (50, 2), "float32")
    ):
        with T.Kernel(1):
            T.reduce_max(A, B, dim=1)
            T.fill(C[2:5, 3:9], 4.0)

    a, c = (torch.as_strided(torch.randn(450), (9, 20), (50, 2)) for _ in range(2))
    b, want = torch.zeros(9), c.clone()
    want[2:5, 3:9] = 4
    tilelang.compile(main)(a, b, c)
    assert torch.equal(b, a.amax(1)) and torch.equal(c, want)
