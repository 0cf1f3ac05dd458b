"""Indices, bounds and extents of 64 bits: torch's default integers, wherever a kernel takes an integer."""

import linecache
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.sim import reference

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))

import strict  # noqa: E402

ROWS, COLUMNS, N = 32, 16, 3
_RNG = np.random.default_rng(0)
I = _RNG.permutation(ROWS).astype(np.int64)  # noqa: E741
X = _RNG.standard_normal((ROWS, COLUMNS)).astype(np.float32)
_HEAD = "I: T.Tensor((32,), 'int64'), X: T.Tensor((32, 16), 'float32'), Y: T.Tensor((32, 16), 'float32'), n: T.int64"


def trace(body: str, grid: str):
    name = f"<int64 {len(linecache.cache)}>"
    text = f"def make():\n    @T.prim_func\n    def k({_HEAD}):\n        with T.Kernel({grid}) as bx:\n"
    text += "            s = T.alloc_shared((1, 16), 'float32')\n"
    text += textwrap.indent(body, " " * 12) + "\n    return k\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope["make"]()


def first(values):
    out = np.zeros_like(X)
    out[: len(values)] = values
    return out


INCREMENT = "for j in T.Parallel(16): Y[i, j] = X[i, j] + 1"
THREE = first(X[:N] + 1)
CASES = {
    "gather": ("for i, j in T.Parallel(32, 16): Y[i, j] = X[I[i], j]", X[I]),
    "copy a row": ("for i in T.serial(32):\n    T.copy(X[I[i], 0:16], s)\n    T.copy(s, Y[i, 0:16])", X[I]),
    "head of a row": ("for i in T.serial(32):\n    r = I[i]\n    T.copy(X[r, 0], s)\n    T.copy(s, Y[i, 0])", X[I]),
    "scatter": ("for i, j in T.Parallel(32, 16): Y[I[i], j] = X[i, j]", X[np.argsort(I)]),
    "mixed": ("for i, j in T.Parallel(32, 16): Y[i, j] = X[(I[i] + i) % 32, j]", X[(I + np.arange(32)) % 32]),
    "serial": (f"for i in T.serial(n):\n    {INCREMENT}", THREE),
    "range": (f"for i in range(n):\n    {INCREMENT}", THREE),
    "range from an element": ("for k in range(I[0] * 0 + 2, n + 2):\n    for j in T.Parallel(16): Y[k - 2, j] = X[k - 2, j] + 1", THREE),
    "range with a step": (
        "for i in range(0, n, 2): Y[i, 0] = X[i, 0]",
        first([[X[k, 0] if k % 2 == 0 else 0, *[0] * 15] for k in range(N)]),
    ),
    "parallel": ("for i, j in T.Parallel(n, 16): Y[i, j] = X[i, j] + 1", THREE),
    "pipelined": ("for i in T.Pipelined(n, num_stages=2):\n    T.copy(X[I[i], 0], s)\n    T.copy(s, Y[i, 0])", first(X[I[:N]])),
    "persistent": (f"for i in T.Persistent([n], 1, bx):\n    {INCREMENT}", THREE),
    "while": (f"i = T.alloc_var('int64', init=0)\nwhile i < n:\n    {INCREMENT}\n    i = i + 1", THREE),
    "carried": (f"i = n * 0\nwhile i < n:\n    {INCREMENT}\n    i += 1", THREE),
    "ceildiv": (f"for i in T.serial(T.ceildiv(n * 4, 4)):\n    {INCREMENT}", THREE),
    "negative": ("for i in T.serial(n - 5000000000): Y[i, 0] = 1.0\nfor i in T.serial(n - 4294967296): Y[i, 0] = 1.0", np.zeros_like(X)),
    "slice": ("t = T.alloc_shared((4, 16), 'float32')\nT.copy(X[n:n + 4, :], t)\nT.copy(t, Y[0:4, :])", first(X[N : N + 4])),
    "slice of a variable": (
        "t = T.alloc_shared((4, 16), 'float32')\nv = T.alloc_var('int64', init=n)\nT.copy(X[v:v + 4, 0:16], t)\nT.copy(t, Y[n - 3:n + 1, :])",
        first(X[N : N + 4]),
    ),
    "choice": (
        "for i, j in T.Parallel(32, 16): Y[i, j] = T.if_then_else(I[i] > n, X[I[i] - n, j], 0.0)",
        np.where((I > N)[:, None], X[np.maximum(I - N, 0)], 0),
    ),
    "guard": ("for i, j in T.Parallel(32, 16):\n    if I[i] < n: Y[i, j] = X[i, j]", np.where((I < N)[:, None], X, 0)),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_kernel(name):
    body, want = CASES[name]
    check(trace(body, "1"), want)


@pytest.mark.parametrize("grid", ["n", "T.ceildiv(n * 4, 4)"])
def test_grid(grid):
    check(trace("for j in T.Parallel(16): Y[bx, j] = X[bx, j] + 1", grid), THREE)


def check(func, want):
    y = np.zeros_like(X)
    reference.run(func, I.copy(), X.copy(), y, N)
    np.testing.assert_array_equal(y, want)
    out = strict.run(tilelang.compile(func), {"I": I, "X": X, "Y": np.zeros_like(X)}, {"n": N}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


def test_a_loop_beyond_the_counter():
    with pytest.raises(InvalidArgument, match="1099511627776 iterations"):
        trace("for i in T.serial(2**40): Y[0, 0] = 1.0", "1")
