"""Nests over GM whose statements depend on each other, and the same source run iteration after iteration in plain Python.

Every case is a function `case(n, m, dtype, index, F)` that returns a kernel of 2 blocks with `n` iterations each and, where it has some, inner loops
of `m`. `F(a, b)` is a function of two elements that stays small, so that all results are exact in every dtype. Parameters: `A`, `B` are read,
`C`, `D` are updated (2n x m each), `P` is a permutation of the rows of a block, `Q` of the columns, `I` are columns with repetitions.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import re
import textwrap

import numpy as np

import tilelang_ascend.language as T

CASES: dict = {}


def case(function):
    """Register."""
    CASES[function.__name__] = function
    return function


# ---- the oracle ----------------------------------------------------------------------------------------------------


class _Plain(ast.NodeTransformer):
    """The source of a kernel as plain Python: blocks are loops, atomics are updates."""

    def visit_With(self, node):
        self.generic_visit(node)
        item = node.items[0]
        return ast.copy_location(ast.For(target=item.optional_vars, iter=item.context_expr, body=node.body, orelse=[]), node)

    def visit_Expr(self, node):
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.startswith("atomic_"):
            place = ast.Subscript(value=call.args[0].value, slice=call.args[0].slice, ctx=ast.Store())
            return ast.Assign(targets=[place], value=call, lineno=node.lineno)
        return node


class _T:
    """What a kernel says, in plain Python."""

    int32 = int64 = None
    Tensor = staticmethod(lambda *a: None)
    prim_func = staticmethod(lambda f: f)
    serial = unroll = staticmethod(range)
    alloc_var = staticmethod(lambda dtype: 0)
    min, max = staticmethod(min), staticmethod(max)

    @staticmethod
    def Kernel(*extents, threads=None):
        return range(extents[0]) if len(extents) == 1 else itertools.product(*map(range, extents))

    Parallel = Kernel

    @staticmethod
    def alloc_shared(shape, dtype):
        return np.zeros(shape, NUMPY[dtype])

    @staticmethod
    def fill(tile, value):
        tile[...] = value

    @staticmethod
    def copy(source, target):
        target[...] = source

    @staticmethod
    def cast(value, dtype):
        return NUMPY[dtype](value)

    atomic_add = staticmethod(lambda old, value: old + value)
    atomic_max, atomic_min = staticmethod(max), staticmethod(min)


def _bfloat16():
    import ml_dtypes

    return ml_dtypes.bfloat16


NUMPY = {
    "float32": np.float32, "float16": np.float16, "bfloat16": _bfloat16(), "int32": np.int32, "int64": np.int64, "int8": np.int8,
    "bool": np.bool_, "int16": np.int16,
}  # fmt: skip


def small(dtype: str, kernel: bool):
    """F for a dtype: in a kernel, and of NumPy scalars."""
    if dtype == "bool":
        return lambda a, b: a != b
    if kernel:
        return lambda a, b: T.max(a, b) - T.cast(1, dtype)
    return lambda a, b: max(a, b) - NUMPY[dtype](1)


def plain(function, n: int, m: int, dtype: str, index: str):
    """The kernel of a case as a Python function of arrays."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list = []
    tree = ast.fix_missing_locations(_Plain().visit(tree))
    scope = {"T": _T, "np": np}
    exec(compile(tree, f"<plain {function.__name__}>", "exec"), scope)
    return scope[function.__name__](n, m, dtype, index, small(dtype, False))


@functools.cache
def on_tiles(function):
    """A case whose kernel has its tensors in tiles, loaded in front and stored behind; None if its grid is another one."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()[1:]
    head = next((k for k, line in enumerate(lines) if "with T.Kernel(2) as bx" in line), None)
    if head is None:
        return None
    text = "\n".join(lines[:head])
    tensors = [t for t in "ACDP" if re.search(rf"\b{t}: T.Tensor", text)]
    pad = " " * 12
    front, back = [], []
    body = "\n".join(lines[head + 1 :])
    for t in tensors:
        shape, dtype = ("(2 * n,)", "index") if t == "P" else ("(2 * n, m)", "dtype")
        # Other blocks change other rows meanwhile.
        rows = "[bx * n : bx * n + n, :]" if t in "CD" else ""
        front += [f"{pad}{t}s = T.alloc_shared({shape}, {dtype})", f"{pad}T.copy({t}{rows}, {t}s{rows})"]
        body = re.sub(rf"\b{t}\[", f"{t}s[", body)
        if t in "CD":
            back.append(f"{pad}T.copy({t}s{rows}, {t}{rows})")
    work, end = body.rsplit("\n\n    return main", 1)
    text = "\n".join([text, lines[head], *front, work, *back, "", "    return main" + end, ""])
    name = f"<{function.__name__} on tiles>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope[function.__name__]


def arguments(n: int, m: int, dtype: str, index: str, seed: int) -> dict:
    """Arrays for the parameters of a case."""
    rng = np.random.default_rng(seed)
    high = 2 if dtype == "bool" else 9
    value = lambda: rng.integers(0, high, (2 * n, m)).astype(NUMPY[dtype])  # noqa: E731
    out = {name: value() for name in "ABCD"}
    out["P"] = np.concatenate([rng.permutation(n), rng.permutation(n)]).astype(index)
    out["Q"], out["I"] = rng.permutation(m).astype(index), rng.integers(0, m, (2 * n, m)).astype(index)
    return out


# ---- recurrences ------------------------------------------------------------------------------------------------------


@case
def forward(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                C[bx * n + i, 0] = A[bx * n + i, 0]
                for k in T.serial(1, m):
                    C[bx * n + i, k] = F(C[bx * n + i, k - 1], A[bx * n + i, k])

    return main


@case
def forward_without_start(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    C[bx * n + i, k + 1] = F(C[bx * n + i, k], A[bx * n + i, k + 1])

    return main


@case
def backward(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    C[bx * n + i, m - 2 - k] = F(C[bx * n + i, m - 1 - k], A[bx * n + i, m - 2 - k])

    return main


@case
def down_columns(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for j in T.Parallel(m):
                for k in T.serial(n - 1):
                    C[bx * n + k + 1, j] = F(C[bx * n + k, j], A[bx * n + k + 1, j])

    return main


@case
def two_steps_back(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 2):
                    C[bx * n + i, k + 2] = F(C[bx * n + i, k], C[bx * n + i, k + 1])

    return main


@case
def triangular(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(7):
                    C[bx * n + i, k] = A[bx * n + i, k]
                    for j in T.serial(k):
                        C[bx * n + i, k] = F(C[bx * n + i, k], C[bx * n + i, j])

    return main


@case
def neighbours_sorted(n, m, dtype, index, F):
    @T.prim_func
    def main(C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for p in T.serial(4):
                    for k in T.serial(m - 1):
                        if C[bx * n + i, k] > C[bx * n + i, k + 1]:
                            t = C[bx * n + i, k]
                            C[bx * n + i, k] = C[bx * n + i, k + 1]
                            C[bx * n + i, k + 1] = t

    return main


@case
def conditional_recurrence(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(1, m):
                    if A[bx * n + i, k] > C[bx * n + i, k - 1]:
                        C[bx * n + i, k] = F(C[bx * n + i, k - 1], A[bx * n + i, k])

    return main


@case
def by_data(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), Q: T.Tensor((m,), index), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    C[bx * n + i, Q[k + 1]] = F(C[bx * n + i, Q[k]], A[bx * n + i, k])

    return main


@case
def stepped_by_two(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m // 2 - 1):
                    C[bx * n + i, 2 * k + 2] = F(C[bx * n + i, 2 * k], C[bx * n + i, 2 * k + 1])

    return main


@case
def lengths_by_data(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(T.cast(I[bx * n + i, 0], "int32")):
                    C[bx * n + i, k + 1] = F(C[bx * n + i, k], A[bx * n + i, k])

    return main


# ---- several statements -----------------------------------------------------------------------------------------------


@case
def orders(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                t = C[bx * n + i, j]
                C[bx * n + i, j] = F(C[bx * n + i, j], A[bx * n + i, j])
                C[bx * n + i, j] = F(t, C[bx * n + i, j])
                D[bx * n + i, j] = F(C[bx * n + i, j], t)

    return main


@case
def written_differently(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                C[bx * n + (i // 4) * 4 + i % 4, j] = A[bx * n + i, j]
                D[bx * n + i, j] = F(C[i + n * bx, j], A[bx * n + i, j])

    return main


@case
def pairs(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m // 2):
                C[bx * n + i, 2 * j] = A[bx * n + i, j]
                C[bx * n + i, 2 * j + 1] = F(C[bx * n + i, 2 * j], C[bx * n + i, 2 * j + 1])

    return main


@case
def transposed(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(7, 7):
                C[bx * n + j, i] = A[bx * n + i, j]
                D[bx * n + i, j] = F(C[bx * n + j, i], D[bx * n + i, j])

    return main


@case
def around(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                C[bx * n + i, (j + 3) % m] = A[bx * n + i, j]
                D[bx * n + i, j] = F(C[bx * n + i, (j + 3) % m], D[bx * n + i, j])

    return main


@case
def rows_by_data(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), P: T.Tensor((2 * n,), index), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                C[bx * n + P[bx * n + i], j] = F(C[bx * n + P[bx * n + i], j], A[bx * n + i, j])
                D[bx * n + i, j] = C[bx * n + P[bx * n + i], j]

    return main


@case
def elements_by_data(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), Q: T.Tensor((m,), index), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                C[bx * n + i, Q[j]] = A[bx * n + i, j]
                if A[bx * n + i, j] > C[bx * n + i, Q[j]]:
                    D[bx * n + i, Q[j]] = A[bx * n + i, j]
                D[bx * n + i, Q[j]] = F(D[bx * n + i, Q[j]], C[bx * n + i, Q[j]])

    return main


@case
def after_the_loop(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m):
                    C[bx * n + i, k] = F(A[bx * n + i, k], C[bx * n + i, k])
                D[bx * n + i, 0] = C[bx * n + i, m - 1]
                for k in T.serial(m - 1):
                    D[bx * n + i, k + 1] = F(C[bx * n + i, k + 1], C[bx * n + i, k])

    return main


@case
def guarded_rows(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                if i > 1:
                    for k in T.serial(m - 1):
                        C[bx * n + i, k + 1] = F(C[bx * n + i, k], A[bx * n + i - 1, k])

    return main


@case
def inner_sums(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), B: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                for k in T.serial(4):
                    C[bx * n + i, j] = F(C[bx * n + i, j], F(A[bx * n + i, k], B[k, j]))

    return main


# ---- loops that end early ---------------------------------------------------------------------------------------------


@case
def first_larger(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m):
                    if A[bx * n + i, k] > C[bx * n + i, k]:
                        C[bx * n + i, k] = A[bx * n + i, k]
                        break
                D[bx * n + i, 0] = C[bx * n + i, 0]

    return main


@case
def skipped(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(1, m):
                    if A[bx * n + i, k] > A[bx * n + i, k - 1]:
                        continue
                    C[bx * n + i, k] = F(C[bx * n + i, k - 1], A[bx * n + i, k])

    return main


@case
def while_larger(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                k = T.alloc_var("int32")
                k = 1
                while k < m and A[bx * n + i, k] > A[bx * n + i, 0]:
                    C[bx * n + i, k] = F(C[bx * n + i, k - 1], A[bx * n + i, k])
                    k = k + 1

    return main


# ---- variables --------------------------------------------------------------------------------------------------------


@case
def compaction(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), B: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                pos = T.alloc_var("int32")
                pos = 0
                for k in T.serial(m):
                    if A[bx * n + i, k] > B[bx * n + i, k]:
                        C[bx * n + i, pos] = A[bx * n + i, k]
                        pos = pos + 1

    return main


@case
def place_by_condition(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), B: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                pos = T.alloc_var("int32")
                pos = 1
                if A[bx * n + i, 0] > B[bx * n + i, 0]:
                    pos = 3
                C[bx * n + i, pos] = F(C[bx * n + i, pos], A[bx * n + i, pos])

    return main


@case
def walked(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                p = T.alloc_var("int32")
                p = 0
                for k in T.serial(m):
                    C[bx * n + i, k] = F(A[bx * n + i, p], C[bx * n + i, k])
                    p = T.cast(I[bx * n + i, p], "int32")

    return main


@case
def kept_in_a_variable(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                t = T.alloc_var(dtype)
                t = C[bx * n + i, 0]
                for k in T.serial(1, m):
                    C[bx * n + i, k - 1] = t
                    t = F(t, C[bx * n + i, k])
                C[bx * n + i, m - 1] = t

    return main


# ---- atomics ----------------------------------------------------------------------------------------------------------


@case
def atomic_then_read(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, 8):
                T.atomic_add(C[bx * n + i, j], A[bx * n + i, j])
                D[bx * n + i, j] = F(C[bx * n + i, j], A[bx * n + i, j])

    return main


@case
def store_then_atomic(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, 8):
                C[bx * n + i, j] = F(C[bx * n + i, j], A[bx * n + i, j])
                T.atomic_max(C[bx * n + i, j], A[bx * n + i, j])

    return main


@case
def histogram(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            for i in T.Parallel(7):
                for k in T.serial(4):
                    T.atomic_add(C[bx * n, I[bx * n + i, k]], A[bx * n + i, k])

    return main


@case
def conditional_histogram(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            for i, k in T.Parallel(7, 4):
                b = I[bx * n + i, k]
                if A[bx * n + i, k] > A[bx * n, 0]:
                    T.atomic_max(C[bx * n, b], A[bx * n + i, k])
                    T.atomic_min(C[bx * n + 1, b], A[bx * n + i, k])

    return main


@case
def tile_histogram(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            h = T.alloc_shared((m,), dtype)
            T.fill(h, 0)
            for i in T.Parallel(7):
                for k in T.serial(2):
                    T.atomic_add(h[I[bx * n + i, k]], A[bx * n + i, k])
            for j in T.Parallel(m):
                C[bx * n, j] = h[j]

    return main


@case
def tile_sums(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            h = T.alloc_shared((m,), dtype)
            T.fill(h, 1)
            for i, j in T.Parallel(4, m):
                T.atomic_add(h[j], A[bx * n + i, j])
                T.atomic_add(h[j // 2], A[bx * n + i, j])
            for j in T.Parallel(m):
                T.atomic_max(h[j], A[bx * n, j])
                C[bx * n, j] = F(h[j], A[bx * n + 1, j])

    return main


@case
def lengths_of_updates(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), P: T.Tensor((2 * n,), index), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(4):
                for k in T.serial(T.min(T.cast(P[bx * n + i], "int32"), 4)):
                    T.atomic_add(C[bx * n + k, 0], A[bx * n + i, k])

    return main


# ---- offsets, tails and shapes ----------------------------------------------------------------------------------------


@case
def offset_from_a_tensor(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), Q: T.Tensor((m,), index), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(4):
                    C[bx * n + i, (Q[0] + k + 1) % m] = F(C[bx * n + i, (Q[0] + k) % m], A[bx * n + i, k])

    return main


@case
def two_offsets(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), P: T.Tensor((2 * n,), index), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            a = T.min(P[bx * n], m - 5)
            b = T.min(P[bx * n + 1], m - 5)
            for i in T.Parallel(n):
                for k in T.serial(4):
                    C[bx * n + i, a + k] = F(A[bx * n + i, k], C[bx * n + i, b + k])
                    D[bx * n + i, k] = C[bx * n + i, b + k]

    return main


@case
def tail_of_rows(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(3) as bx:
            for i in T.Parallel(n - 1):
                if bx * (n - 1) + i < 2 * n:
                    for k in T.serial(m - 1):
                        C[bx * (n - 1) + i, k + 1] = F(C[bx * (n - 1) + i, k], A[bx * (n - 1) + i, k])

    return main


@case
def tail_of_columns(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2, 3) as (bx, by):
            for i, j in T.Parallel(n, 64):
                if by * 64 + j < m:
                    C[bx * n + i, by * 64 + j] = F(C[bx * n + i, by * 64 + j], A[bx * n + i, by * 64 + j])
                    if C[bx * n + i, by * 64 + j] > A[bx * n + i, by * 64 + j]:
                        D[bx * n + i, by * 64 + j] = C[bx * n + i, by * 64 + j]
                    C[bx * n + i, by * 64 + j] = F(C[bx * n + i, by * 64 + j], D[bx * n + i, by * 64 + j])

    return main


@case
def some_rows_of_a_block(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), P: T.Tensor((2 * n,), index), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                if P[bx * n + i] > 2:
                    for k in T.serial(m - 1):
                        C[bx * n + i, k + 1] = F(C[bx * n + i, k], A[bx * n + i, k])

    return main


@case
def both_sides(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), B: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m // 2):
                if A[bx * n + i, j] > B[bx * n + i, j]:
                    C[bx * n + i, j] = A[bx * n + i, j]
                else:
                    C[bx * n + i, j + m // 2] = C[bx * n + i, j]
                C[bx * n + i, j] = F(C[bx * n + i, j + m // 2], C[bx * n + i, j])

    return main


@case
def forwards_and_back(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    C[bx * n + i, k + 1] = F(C[bx * n + i, k], A[bx * n + i, k])
                for k in T.serial(m - 1):
                    C[bx * n + i, m - 2 - k] = F(C[bx * n + i, m - 2 - k], C[bx * n + i, m - 1 - k])

    return main


@case
def passed_between_tensors(n, m, dtype, index, F):
    @T.prim_func
    def main(C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    D[bx * n + i, k + 1] = F(C[bx * n + i, k], D[bx * n + i, k])
                    C[bx * n + i, k + 1] = F(D[bx * n + i, k + 1], C[bx * n + i, k + 1])

    return main


@case
def whole_rows_in_a_loop(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for r in T.serial(n - 1):
                for j in T.Parallel(m):
                    C[bx * n + r + 1, j] = F(C[bx * n + r, j], A[bx * n + r, j])

    return main


@case
def reversed_rows(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                C[bx * n + n - 1 - i, m - 1 - j] = F(A[bx * n + i, j], C[bx * n + n - 1 - i, m - 1 - j])
                D[bx * n + i, j] = C[bx * n + n - 1 - i, m - 1 - j]

    return main


@case
def lets(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), Q: T.Tensor((m,), index), C: T.Tensor((2 * n, m), dtype), D: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n, m):
                r = bx * n + i
                q = Q[j]
                x = C[r, q]
                y = D[r, j]
                C[r, q] = F(A[r, j], x)
                D[r, j] = F(x, y)
                D[r, j] = F(C[r, q], D[r, j])

    return main


@case
def swapped_rows(n, m, dtype, index, F):
    @T.prim_func
    def main(C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(n // 2, m):
                x = C[bx * n + i, j]
                y = C[bx * n + n - 1 - i, j]
                C[bx * n + i, j] = y
                C[bx * n + n - 1 - i, j] = x

    return main


@case
def rotated_by_a_condition(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i in T.Parallel(n):
                k = T.alloc_var("int32")
                k = 0
                for s in T.serial(m - 1):
                    if A[bx * n + i, s] > C[bx * n + i, k]:
                        k = s
                    else:
                        C[bx * n + i, s + 1] = F(C[bx * n + i, k], A[bx * n + i, k])
                C[bx * n + i, k] = A[bx * n + i, 0]

    return main


@case
def updates_of_a_row_by_data(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), P: T.Tensor((2 * n,), index), C: T.Tensor((2 * n, m), dtype)):
        with T.Kernel(2) as bx:
            for i, j in T.Parallel(4, m):
                T.atomic_add(C[bx * n + P[bx * n + i] // 2, j], A[bx * n + i, j])

    return main


@case
def updates_while(n, m, dtype, index, F):
    @T.prim_func
    def main(A: T.Tensor((2 * n, m), dtype), I: T.Tensor((2 * n, m), index), C: T.Tensor((2 * n, m), dtype)):  # noqa: E741
        with T.Kernel(2) as bx:
            for i in T.Parallel(4):
                p = T.alloc_var("int32")
                p = m - 1
                while p > 0:
                    T.atomic_add(C[bx * n, p], A[bx * n + i, p])
                    p = T.min(T.cast(I[bx * n + i, p], "int32"), p - 1)

    return main
