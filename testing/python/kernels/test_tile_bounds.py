"""Accesses outside of a tile never reach its neighbours: provable ones are errors at compile time, others hazards of the run."""

import sys
from pathlib import Path

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import SimulationError

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from testing.fuzz.check import trace

N = 16
"""A tile of 64 bytes: its memory has room for four times as much."""


def chosen_by_data(kind):
    @T.prim_func
    def kernel(A: T.Tensor((3, N), "float32"), I: T.Tensor((1,), "int32"), C: T.Tensor((3, N), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((N,), "float32")
            b = T.alloc_shared((N,), "float32")
            c = T.alloc_shared((N,), "float32")
            rows = T.alloc_shared((4, N), "float32")
            T.copy(A[0, :], a)
            T.copy(A[1, :], b)
            T.copy(A[2, :], c)
            T.fill(rows, 0.0)
            if kind == "store":
                b[I[0]] = 99.0
            elif kind == "load":
                c[0] = b[I[0]]
            elif kind == "scatter":
                for i in T.Parallel(4):
                    b[I[0] + i] = 99.0
            elif kind == "part":
                T.copy(A[0, 0 : I[0]], b[0 : I[0]])
            elif kind == "row":
                T.copy(rows[I[0], :], c)
            T.copy(a, C[0, :])
            T.copy(b, C[1, :])
            T.copy(c, C[2, :])

    return kernel


@pytest.mark.parametrize("text", [False, True], ids=["ir", "text"])
@pytest.mark.parametrize("kind, at", [
    ("store", 16), ("store", 17), ("store", 64), ("store", -1), ("store", -64), ("store", 100000), ("store", -100000), ("store", 2**31 - 1),
    ("load", 16), ("load", 64), ("load", -1), ("scatter", 64), ("scatter", -2), ("row", 4), ("row", -1), ("row", 4000),
])  # fmt: skip
@pytest.mark.one_in(2)
def test_an_element_that_data_chooses_outside_of_the_tile_is_reported(kind, at, text):
    if text and kind in ("store", "load") and at in (16, 17):
        pytest.skip("the text says how much memory a tile has, which here is more than its elements")
    compiled = tilelang.compile(chosen_by_data(kind), target="a2")
    given = np.arange(3 * N, dtype=np.float32).reshape(3, N)
    arrays = {"A": given, "I": np.array([at], np.int32), "C": np.zeros_like(given)}
    entries = strict.twin_entries(compiled.artifact) if text else strict.entries_of(compiled.artifact)
    _, result = strict.launch(compiled.artifact, entries, arrays, {})
    assert any(h.check == "memcheck" and "outside of" in h.message for h in result.hazards), [h.text() for h in result.hazards]
    if not text:
        with pytest.raises(SimulationError, match="outside of"):  # a plain call returns nothing of the kind either
            compiled(*arrays.values())


def test_elements_inside_are_what_they_are():
    compiled = tilelang.compile(chosen_by_data("store"), target="a2")
    given = np.arange(3 * N, dtype=np.float32).reshape(3, N)
    want = given.copy()
    want[1, 15] = 99
    got = strict.run(compiled, {"A": given, "I": np.array([15], np.int32), "C": np.zeros_like(given)}, {}, text=True)
    np.testing.assert_array_equal(got["C"], want)


CERTAIN = {
    "T.fill(b, 0.0)\nb[16] = 1.0": "index 16 of dimension 0 of 'b': the tile has 16 there",
    "for i in T.Parallel(80):\n    b[i] = 1.0": "indices 0 to 79 of dimension 0 of 'b'",
    "for i in T.serial(4):\n    for j in T.Parallel(8):\n        b[i * 4 + j] = 1.0": "indices 0 to 19",
    "for i in T.Parallel(16):\n    a[i] = b[i + 8]": "indices 8 to 23 of dimension 0 of 'b'",
    "for i in T.Parallel(16):\n    a[i] = b[i - 1]": "indices -1 to 14",
    "for i in T.serial(16):\n    a[i] = b[i + 64]": "indices 64 to 79",
    "for i in T.Parallel(8):\n    k = i * 2 + 1\n    m[3, k * 2] = 1.0": "indices 2 to 30 of dimension 1 of 'm'",
    "for i, j in T.Parallel(4, 8):\n    m[j, i] = 1.0": "indices 0 to 7 of dimension 0 of 'm'",
    "for i in T.Parallel(16):\n    a[i] = T.if_then_else(b[i + 1] > 0, 1.0, 2.0)": "indices 1 to 16",
    "for i in T.serial(4):\n    T.copy(A[0, :], m[i + 1, :])": "indices 1 to 4 of dimension 0 of 'm'",
    "for i in T.serial(4):\n    T.copy(A[0, 0:8], b[i * 4 : i * 4 + 8])": "indices 0 to 19 of dimension 0 of 'b'",
    "if I[0] + b[16] > 3:\n    a[0] = 1.0": "index 16",
    "T.atomic_add(b[16], 1.0)": "index 16",
}
POSSIBLE = [
    "for i in T.Parallel(80):\n    if i < 16:\n        b[i] = 1.0",
    "for i in T.Parallel(16):\n    a[i] = T.if_then_else(i < 8, b[i + 8], 0.0)",
    "for i in T.Parallel(16):\n    a[i] = T.if_then_else(i + 1 < 16 and b[i + 1] > 0, 1.0, 0.0)",
    "for i in T.serial(80):\n    if i == 16:\n        break\n    b[i] = 1.0",
    "if I[0] > 100:\n    b[16] = 1.0",
    "while I[0] > 100:\n    b[16] = 1.0",
    "for i in T.serial(I[0] - 2):\n    b[i + 16] = 1.0",
    "for i in T.serial(4):\n    b[i * 4 + 3] = 1.0",
]


def kernel_of(lines, n=16):
    """A kernel with three tiles of `n` elements and one of four rows, which `lines` may change."""
    body = "".join("            " + line + "\n" for line in lines.splitlines())
    return trace(f"""
def kernel():
    @T.prim_func
    def kernel(A: T.Tensor((4, {n}), "float32"), I: T.Tensor((1,), "int32"), C: T.Tensor((3, {n}), "float32"), D: T.Tensor((4, {n}), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared(({n},), "float32")
            b = T.alloc_shared(({n},), "float32")
            c = T.alloc_shared(({n},), "float32")
            m = T.alloc_shared((4, {n}), "float32")
            T.copy(A[0, :], a)
            T.copy(A[1, :], b)
            T.copy(A[2, :], c)
            T.copy(A, m)
{body}            T.copy(a, C[0, :])
            T.copy(b, C[1, :])
            T.copy(c, C[2, :])
            T.copy(m, D)
    return kernel
kernel = kernel()
""")


def outputs(lines, chip="a2", n=16, text=False):
    """What `lines` make of rows 0, 1, 2 of a random matrix in `a`, `b` and `c`, and of all of it in `m`; (given, C, D)."""
    given = np.random.default_rng(0).standard_normal((4, n)).astype(np.float32)
    arrays = {"A": given, "I": np.array([2], np.int32), "C": np.zeros((3, n), np.float32), "D": np.zeros((4, n), np.float32)}
    got = strict.run(tilelang.compile(kernel_of(lines, n), target=chip), arrays, {}, text=text)
    return given, got["C"], got["D"]


@pytest.mark.parametrize("lines", CERTAIN)
def test_what_leaves_its_tile_whenever_the_kernel_runs_is_an_error_with_the_line(lines):
    with pytest.raises(IndexError) as caught:
        tilelang.compile(kernel_of(lines), target="a2")
    text = str(caught.value)
    assert CERTAIN[lines] in text and "is declared here" in text and "hint:" in text, text
    assert caught.value.location is not None


@pytest.mark.parametrize("lines", POSSIBLE)
def test_what_may_stay_inside_compiles(lines):
    outputs(lines)


def _set(tile, part, value):
    tile[part] = value


GUARDED = {
    "for i in T.Parallel(80):\n    if i < 16:\n        b[i] = 1.0": lambda a, b, c, m: _set(b, slice(16), 1),
    "for i in T.Parallel(320):\n    if i < 64:\n        b[i] = a[i] + 1.0": lambda a, b, c, m: _set(b, slice(None), a + 1),
    "for i in T.Parallel(128):\n    if i < I[0]:\n        b[i] = 1.0": lambda a, b, c, m: _set(b, slice(2), 1),
    "for i in T.Parallel(128):\n    if i < 64:\n        a[i] = 1.0\n    else:\n        b[i - 64] = 2.0": lambda a, b, c, m: (a.fill(1), b.fill(2)),
    "for i in T.Parallel(128):\n    if i % 2 == 0:\n        a[i // 2] = b[i // 2]": lambda a, b, c, m: _set(a, slice(None), b),
    "for i in T.Parallel(64):\n    if i >= 8:\n        c[i - 8] = b[i]": lambda a, b, c, m: _set(c, slice(56), b[8:]),
    "for i in T.Parallel(64):\n    if i >= 8:\n        c[63 - i + 8] = b[i]": lambda a, b, c, m: _set(c, slice(8, None), b[:7:-1]),
    "for i in T.Parallel(64):\n    c[i] = T.if_then_else(i < 56, b[i + 8], 0.0)": lambda a, b, c, m: _set(c, slice(None), [*b[8:], *[0] * 8]),
    "for i in T.Parallel(64):\n    c[i] = T.if_then_else(i >= 8, b[i - 8], 0.0)": lambda a, b, c, m: _set(c, slice(None), [*[0] * 8, *b[:-8]]),
    "for i, j in T.Parallel(8, 64):\n    if i < 4:\n        m[i, j] = m[i, j] + 1.0": lambda a, b, c, m: _set(m, slice(None), m + 1),
    "for i, j in T.Parallel(4, 100):\n    if j < 64:\n        m[i, j] = m[i, j] + 1.0": lambda a, b, c, m: _set(m, slice(None), m + 1),
    "for i, j in T.Parallel(4, 64):\n    if i + I[0] < 4:\n        m[i + I[0], j] = 5.0": lambda a, b, c, m: _set(m, slice(2, None), 5),
    "for i, j in T.Parallel(4, 64):\n    if i + j < 64:\n        c[i + j] = 4.0": lambda a, b, c, m: c.fill(4),
    "for i in T.Parallel(128):\n    if i < 64:\n        a[i] = b[i]\n        b[i] = 3.0\n        c[i] = a[i]": lambda a, b, c, m: (
        _set(a, slice(None), b), _set(c, slice(None), b), b.fill(3)),
    "for i in T.Parallel(128):\n    if i < 64 and b[i] > 0:\n        b[i] = b[i] + 3.0": lambda a, b, c, m: _set(b, b > 0, b[b > 0] + 3),
    "for i in T.Parallel(128):\n    if i < 64:\n        if b[i] > 0:\n            b[i] = -1.0\n        else:\n            b[i] = 1.0":
        lambda a, b, c, m: _set(b, slice(None), np.where(b > 0, -1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("lines", GUARDED)
@pytest.mark.one_in(6)
def test_a_nest_may_be_longer_than_its_tiles_where_conditions_leave_out_the_rest(lines, chip):
    given, got, rows = outputs(lines, chip, 64)
    a, b, c, m = given[0].copy(), given[1].copy(), given[2].copy(), given.copy()
    GUARDED[lines](a, b, c, m)
    np.testing.assert_array_equal(got, np.stack([a, b, c]))
    np.testing.assert_array_equal(rows, m)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lines", [
    "for i in T.Parallel(128):\n    if i < 100:\n        b[i] = 1.0", "if I[0] == 2:\n    for i in T.Parallel(80):\n        b[i] = 1.0",
    "for i in T.Parallel(128):\n    if i != 64:\n        b[i] = 1.0", "for i in T.Parallel(128):\n    if i % 2 == 1:\n        b[i] = 1.0",
    "for i in T.Parallel(128):\n    if i < 32 or i > 66:\n        b[i] = 1.0", "for i in T.Parallel(128):\n    if i != 63:\n        b[i - 64] = 1.0",
])  # fmt: skip
def test_a_condition_that_lets_iterations_leave_the_tile_does_not_hide_them(lines):
    compiled = tilelang.compile(kernel_of(lines, 64), target="a2")
    arrays = [np.zeros((4, 64), np.float32), np.array([2], np.int32), np.zeros((3, 64), np.float32), np.zeros((4, 64), np.float32)]
    assert "outside of tile 'b'" in compiled.simulate(*arrays).hazards[0].message
    with pytest.raises(AssertionError, match="outside its shape"):  # the interpreter of Tile IR
        outputs(lines, n=64)


MASKED = [
    "for i, j in T.Parallel(m, n):\n    y[p + i, j] = x[i, j]",
    "for i, j in T.Parallel(7, 9):\n    if i < m and j < n:\n        y[p + i, j] = x[i, j]",
    "for i, j in T.Parallel(7, 9):\n    r = p + i\n    if j < n and r < p + m:\n        y[r, j] = x[i, j]",
    "T.copy(x[0:m, 0:n], y[p : p + m, 0:n])",
    "T.copy(X[0:m, 0:n], y[p : p + m, 0:n])",
]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("lines", MASKED)
@pytest.mark.one_in(2)
def test_lanes_left_out_behind_an_offset_of_run_time_are_not_written(lines, dtype):
    body = "".join("        " + line + "\n" for line in lines.splitlines())
    compiled = tilelang.compile(
        trace(f"""
@T.prim_func
def kernel(X: T.Tensor((7, 9), "{dtype}"), I: T.Tensor((7, 9), "{dtype}"), Y: T.Tensor((7, 9), "{dtype}"), p: T.int32, m: T.int32, n: T.int32):
    with T.Kernel(1):
        x = T.alloc_shared((7, 9), "{dtype}")
        y = T.alloc_shared((7, 9), "{dtype}")
        T.copy(X, x)
        T.copy(I, y)
{body}        T.copy(y, Y)
"""),
        target="a2",
    )
    x, y = np.random.default_rng(1).integers(-9, 9, (2, 7, 9)).astype(dtype)
    for p, m, n in ((0, 7, 9), (6, 1, 4), (2, 4, 9), (5, 0, 3)):
        want = y.copy()
        want[p : p + m, :n] = x[:m, :n]
        got = strict.run(compiled, {"X": x, "I": y, "Y": np.zeros_like(y)}, {"p": p, "m": m, "n": n}, text=False)
        np.testing.assert_array_equal(got["Y"], want)


@pytest.mark.parametrize("line", [
    "if i < n and x[i] > 0:\n    y[i] = 1.0\nelse:\n    y[i] = 2.0", "if not (i < n and x[i] > 0):\n    y[i] = 2.0\nelse:\n    y[i] = 1.0",
    "if i < m:\n    y[i] = T.if_then_else(i < n and x[i] > 0, 1.0, 2.0)", "if i >= n or x[i] <= 0:\n    y[i] = 2.0\nelse:\n    y[i] = 1.0",
])  # fmt: skip
def test_iterations_run_whose_conditions_do_not_come_to_what_lies_outside(line):
    body = "".join("            " + x + "\n" for x in line.splitlines())
    compiled = tilelang.compile(
        trace(f"""
@T.prim_func
def kernel(X: T.Tensor((64,), "float32"), Y: T.Tensor((128,), "float32"), n: T.int32, m: T.int32):
    with T.Kernel(1):
        x = T.alloc_shared((64,), "float32")
        y = T.alloc_shared((128,), "float32")
        T.copy(X, x)
        for i in T.Parallel(128):
{body}        T.copy(y, Y)
"""),
        target="a2",
    )
    x = np.arange(64, dtype=np.float32) - 30
    for n in (10, 40, 64):
        want = np.where((np.arange(128) < n) & (np.pad(x, (0, 64)) > 0), 1, 2)
        got = strict.run(compiled, {"X": x, "Y": np.zeros(128, np.float32)}, {"n": n, "m": 128}, text=n == 40)
        np.testing.assert_array_equal(got["Y"], want)
