"""Element-wise statements over tiles whose temporaries do not fit UB are worked off in parts."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.isa.base import Space
from tilelang_ascend.tile.nests import nest_of
from tilelang_ascend.transform.nests import split_nests as split_nests_module


@tilelang.jit
def one_hot(rows, n):
    """How often each of the first `rows` numbers occurs: comparisons over a tile that takes a third of UB."""

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Count: T.Tensor((rows,), "int32")):
        with T.Kernel(1, threads=128) as _:
            x, hit = T.alloc_shared((n,), "int32"), T.alloc_fragment((rows, n), "int32")
            count = T.alloc_fragment((rows,), "int32")
            T.copy(X, x)
            for b, i in T.Parallel(rows, n):
                hit[b, i] = T.if_then_else(x[i] == b and i != 3, 1, 0)
            T.reduce_sum(hit, count, dim=1)
            T.copy(count, Count)

    return main


@pytest.mark.parametrize("rows, n", [(16, 1024), (15, 1100), (1, 16000)])
def test_comparisons(rows, n):
    x = np.random.default_rng(0).integers(-1, rows + 1, n).astype(np.int32)
    out = strict.run(one_hot(rows, n), {"X": x, "Count": np.zeros(rows, np.int32)}, text=rows == 15)
    expected = [np.sum(np.delete(x, 3) == b) for b in range(rows)]
    np.testing.assert_array_equal(out["Count"], expected)


def nest(*extents):
    """A nest over a tile, as the lowering sees it."""

    @T.prim_func
    def main():
        with T.Kernel(1) as _:
            x = T.alloc_fragment(extents, "float32")
            if len(extents) == 1:
                for i in T.Parallel(*extents):
                    x[i] = i
            else:
                for i, j in T.Parallel(*extents):
                    x[i, j] = i * 3 + j

    return main


def parts(func) -> list:
    """Extents of all nests, in order."""
    from tilelang_ascend.ir import For, children
    from tilelang_ascend.tile.uses import is_parallel

    found = []

    def visit(s, times):
        if is_parallel(s):
            found.append((times, *(int(e.value) for _, e in nest_of(s)[0])))
            return
        inner = int(s.extent.value) if isinstance(s, For) else 1
        for c in children(s):
            visit(c, times * inner)

    visit(func.body, 1)
    return found


@pytest.mark.parametrize(
    "extents, lanes, expected",
    [
        ((16, 1024), 32768, [(1, 16, 1024)]),
        ((16, 1024), 2048, [(8, 2, 1024)]),
        ((5, 1000), 2048, [(2, 2, 1000), (1, 1, 1000)]),
        ((2, 3000), 512, [(2 * 5, 1, 512), (2, 1, 440)]),
        ((4000,), 512, [(7, 512), (1, 416)]),
    ],
)
def test_parts(extents, lanes, expected):
    assert parts(split_nests_module.split_nests(nest(*extents), lanes)) == expected


@tilelang.jit
def cut_with_a_loop_inside(n):
    """int64 work over a tile that is split into parts, with a serial loop in each part."""

    @T.prim_func
    def main(A: T.Tensor((7, 12, n), "int64"), C: T.Tensor((7, 12, n), "int64")):
        with T.Kernel(1, threads=128):
            a, b, c = (T.alloc_fragment((7, 12, n), "int64") for _ in range(3))
            d = T.alloc_fragment((7, 12, n), "int64")
            T.copy(A, a)
            T.fill(c, 1)
            for i, j, k in T.Parallel(7, 12, n):
                b[i, j, k] = a[i, j, k] * 3
                for _ in T.serial(2):
                    c[i, j, k] = c[i, j, k] + b[i, j, k]
            for i, j, k in T.Parallel(7, 12, n):
                d[i, j, k] = T.if_then_else(a[i, j, k] > 0, c[i, j, k], b[i, j, k])
            T.copy(d, C)

    return main


def test_parts_define_their_own_variables():
    a = np.random.default_rng(3).integers(-9, 10, (7, 12, 40))
    out = strict.run(cut_with_a_loop_inside(40), {"A": a, "C": np.zeros_like(a)})
    np.testing.assert_array_equal(out["C"], np.where(a > 0, 1 + 6 * a, 3 * a))


@tilelang.jit
def cut_with_variables(m, n):
    """A nest on GM that is split into parts, with a variable that a loop inside changes."""

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), I: T.Tensor((n,), "int32"), C: T.Tensor((m, 2 * n), "int32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(m, n):
                v = T.cast(0, "int32")
                for k in T.serial(2):
                    v = v + i
                C[i, 2 * j] = v & X[I[j]]

    return main


def test_parts_have_their_own_variables():
    m, n = 70, 31
    rng = np.random.default_rng(4)
    x, index = rng.integers(0, 99, n, np.int32), rng.permutation(n).astype(np.int32)
    before = np.full((m, 2 * n), -7, np.int32)
    out = strict.run(cut_with_variables(m, n), {"X": x, "I": index, "C": before})
    before[:, ::2] = 2 * np.arange(m)[:, None] & x[index]
    np.testing.assert_array_equal(out["C"], before)


@pytest.mark.parametrize("where", ["tile", "tensor"])
def test_an_extent_that_is_an_element_of_a_tensor(where):
    """It is read once, in front of the nest."""

    @T.prim_func
    def main(A: T.Tensor((5, 16), "float32"), Count: T.Tensor((5,), "int32"), B: T.Tensor((5, 16), "float32")):
        with T.Kernel(1) as _:
            row = T.alloc_shared((16,), "float32")
            T.clear(row)
            for k in T.serial(5):
                for i in T.Parallel(Count[k]):
                    if where == "tile":
                        row[i] = A[k, i]
                    else:
                        B[k, i] = A[k, i]
                        if i == 0:
                            Count[k] = 0
                if where == "tile":
                    T.copy(row, B[k, 0])

    a = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
    count, row, want = np.array([16, 5, 0, 9, 1], np.int32), np.zeros(16, np.float32), np.zeros((5, 16), np.float32)
    for k, n in enumerate(count):
        row[:n] = a[k, :n]
        want[k, : (16 if where == "tile" else n)] = row[: (16 if where == "tile" else n)]
    out = strict.run(tilelang.compile(main), {"A": a, "Count": count, "B": np.zeros((5, 16), np.float32)}, text=False)
    np.testing.assert_array_equal(out["B"], want)


def test_a_short_outer_loop_around_a_long_one_that_reaches_far(monkeypatch):
    """One iteration of the outermost loop, diagonals of matrices and every 40th element of a row, takes more than a small UB."""
    n, usual = 48, ChipSpec.capacity_bytes
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: 8192 if space is Space.UB else usual(chip, space))

    @T.prim_func
    def main(X: T.Tensor((2, n, n), "float32"), W: T.Tensor((2, 40 * n), "float32"), Y: T.Tensor((2, n), "float32")):
        with T.Kernel(1):
            for b, i in T.Parallel(2, n):
                Y[b, i] = X[b, i, n - 1 - i] - W[b, i * 40]
                X[b, i, i] = Y[b, i]

    x, w = (np.random.default_rng(k).integers(-99, 99, shape).astype(np.float32) for k, shape in enumerate([(2, n, n), (2, 40 * n)]))
    out = strict.run(tilelang.compile(main), {"X": x, "W": w, "Y": np.zeros((2, n), np.float32)}, text=False)
    at = np.arange(n)
    y = x[:, at, n - 1 - at] - w[:, ::40]
    np.testing.assert_array_equal(out["Y"], y)
    expected = x.copy()
    expected[:, at, at] = y
    np.testing.assert_array_equal(out["X"], expected)
