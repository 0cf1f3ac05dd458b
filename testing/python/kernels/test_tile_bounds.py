"""Accesses outside of a tile never reach its neighbours: provable ones are errors at compile time, others hazards of the run."""

import sys
from pathlib import Path

import numpy as np
import pytest
import roads

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
def test_an_element_that_data_chooses_outside_of_the_tile_is_reported(kind, at, text):
    if text and kind in ("store", "load") and at in (16, 17):
        pytest.skip("the text says how much memory a tile has, which here is more than its elements")
    compiled = tilelang.compile(chosen_by_data(kind), target="a2")
    given = np.arange(3 * N, dtype=np.float32).reshape(3, N)
    arrays = {"A": given, "I": np.array([at], np.int32), "C": np.zeros_like(given)}
    entries = roads.twin_entries(compiled.artifact) if text else roads.program_of(compiled.artifact).entries
    _, result = roads.launch(compiled.artifact, entries, arrays, {})
    assert any(h.check == "memcheck" and "outside of" in h.message for h in result.hazards), [h.text() for h in result.hazards]
    if not text:
        with pytest.raises(SimulationError, match="outside of"):  # a plain call returns nothing of the kind either
            compiled(*arrays.values())


def test_elements_inside_are_what_they_are():
    compiled = tilelang.compile(chosen_by_data("store"), target="a2")
    given = np.arange(3 * N, dtype=np.float32).reshape(3, N)
    want = given.copy()
    want[1, 15] = 99
    got = roads.run(compiled, {"A": given, "I": np.array([15], np.int32), "C": np.zeros_like(given)}, {}, text=True)
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
    "for i in T.serial(I[0]):\n    b[i + 16] = 1.0",
    "for i in T.serial(4):\n    b[i * 4 + 3] = 1.0",
]


def kernel_of(lines):
    body = "".join("            " + line + "\n" for line in lines.splitlines())
    return trace(f"""
def kernel():
    @T.prim_func
    def kernel(A: T.Tensor((3, 16), "float32"), I: T.Tensor((1,), "int32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((16,), "float32")
            b = T.alloc_shared((16,), "float32")
            m = T.alloc_shared((4, 16), "float32")
            T.fill(a, 0.0)
            T.fill(b, 0.0)
{body}            T.copy(a, C)
    return kernel
kernel = kernel()
""")


@pytest.mark.parametrize("lines", CERTAIN)
def test_what_leaves_its_tile_whenever_the_kernel_runs_is_an_error_with_the_line(lines):
    with pytest.raises(IndexError) as caught:
        tilelang.compile(kernel_of(lines), target="a2")
    text = str(caught.value)
    assert CERTAIN[lines] in text and "is declared here" in text and "hint:" in text, text
    assert caught.value.location is not None


@pytest.mark.parametrize("lines", POSSIBLE)
def test_what_may_stay_inside_compiles(lines):
    arrays = {"A": np.zeros((3, 16), np.float32), "I": np.array([0], np.int32), "C": np.zeros(16, np.float32)}
    roads.run(tilelang.compile(kernel_of(lines), target="a2"), arrays, {}, text=False)
