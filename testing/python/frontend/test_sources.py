"""Where functions come from: files, exec with linecache, notebook-like names; and where their statements point back
to.
"""

import inspect
import linecache

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import SourceChanged, SourceUnavailable
from tilelang_ascend.ir import statements
from tilelang_ascend.sim.reference import run

TEXT = """
from __future__ import annotations
import tilelang_ascend.language as T

def make(n, dtype):
    only_in_annotation = n * 2

    @T.prim_func
    def k(A: T.Tensor((only_in_annotation,), dtype), s: T.int32):
        with T.Kernel(n) as i:
            if i < s:
                A[i] = A[i] + 1
    return k
"""


def execute(name, register=True):
    if register:
        linecache.cache[name] = (len(TEXT), None, TEXT.splitlines(True), name)
    scope = {"__name__": "generated"}
    exec(compile(TEXT, name, "exec"), scope)
    return scope["make"]


@pytest.mark.parametrize("name", ["<ipython-input-7-abc>", "/nowhere/generated.py", "<string with linecache>"])
def test_exec_with_linecache_and_postponed_annotations(name):
    k = execute(name)(4, "float32")
    a = np.zeros(8, np.float32)
    run(k, a, 3)
    assert a.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert statements(k.body)[1].span.source_name.name == name


def test_exec_without_source():
    with pytest.raises(SourceUnavailable, match="source of 'k' is not available") as info:
        execute("<no such text>", register=False)(4, "float32")
    assert "linecache" in info.value.hint


ADDS = """
import tilelang_ascend.language as T

def before():
    return 1

def make(n):
    def helper(x):
        return x + 2.0

    less = lambda x: x - 7.0

    @T.prim_func
    def k(A: T.Tensor((n,), "float32")):
        with T.Kernel(n) as i:
            A[i] = less(helper(A[i]) * 3.0 + 7.0)
    return k
"""


@pytest.mark.parametrize("old, new", [
    ("3.0", "4.0"), ("2.0", "5.0"), ("- 7.0", "- 8.0"), ("+ 2.0", "+ A_new"), ("def before", "# a line\n# more\n# lines\ndef before"), ("def k(A", "def k(B"),
    ("    return 1\n", "    return 1\n\n\n\n\n\n\n"),
])  # fmt: skip
def test_a_function_that_is_not_what_its_file_says_is_refused(tmp_path, old, new):
    """Not compiled as what it would be after the edit, or as what stands at its lines now."""
    file = tmp_path / "kernels.py"
    file.write_text(ADDS)
    scope = {"__name__": "generated"}
    exec(compile(ADDS, str(file), "exec"), scope)
    a = np.ones(2, np.float32)
    run(scope["make"](2), a)
    assert a.tolist() == [9, 9]
    exec(compile(ADDS, str(file), "exec"), scope)
    file.write_text(ADDS.replace(old, new))
    with pytest.raises(SourceChanged, match="has changed since Python has read it"):
        scope["make"](2)


def test_asserts_and_methods_are_recognized():
    """pytest has rewritten the first."""

    class Scale:
        by = 3.0

        def make(self):
            @T.prim_func
            def k(A: T.Tensor((2,), "float32")):
                with T.Kernel(2) as i:
                    assert i in [0, 1, 2], "a block"
                    A[i] = A[i] * self.by

            return k

    a = np.ones(2, np.float32)
    run(Scale().make(), a)
    assert a.tolist() == [3, 3]


def test_every_statement_has_its_line_and_columns():
    def helper(A, i):
        A[i] = A[i] * 2  # helper line

    @T.prim_func
    def k(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((8, 8), "float32")
            T.copy(A[bx, 0], s)
            for i, j in T.Parallel(8, 8):
                v = s[i, j]
                if v > 0:
                    s[i, j] = v + 1
            helper(s, (0, 0))
            x = 0
            while x < 3:
                x += 1
            s[0, x] = 5

    lines, first = inspect.getsourcelines(test_every_statement_has_its_line_and_columns)
    for s in statements(k.body):
        if type(s).__name__ == "SeqStmt":
            continue
        assert s.span is not None, s
        text = lines[s.span.line - first]
        assert s.span.source_name.name == __file__ and text[s.span.column - 1].strip(), (type(s).__name__, text)
        kind = {
            "For": ("for", "with"),
            "While": ("while",),
            "IfThenElse": ("if",),
            "AllocBuffer": ("alloc", "while", "x = 0"),
        }
        assert any(w in text for w in kind.get(type(s).__name__, ("=", "T.", "while")))
    assert any("helper line" in lines[s.span.line - first] for s in statements(k.body) if s.span is not None)


def test_names_come_from_the_source():
    @T.prim_func
    def k(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(2) as bx:
            A_shared, B_shared = T.alloc_shared((8, 8), "float32"), T.alloc_shared((8, 8), "float32")
            row = bx * 8
            for ko in T.serial(4):
                T.copy(A[row, ko * 8], A_shared)
            T.copy(A_shared, B_shared)

    text = k.script()
    for name in ("A_shared", "B_shared", "row", "for ko", "for bx"):
        assert name in text


def test_rewriting_is_cached():
    import time

    def make(n):
        @T.prim_func
        def k(A: T.Tensor((n,), "float32")):
            with T.Kernel(n) as i:
                A[i] = 1

        return k

    make(3)
    start = time.perf_counter()
    for n in range(4, 24):
        make(n)
    assert (time.perf_counter() - start) / 20 < 0.02
