"""What no kernel may do is an error that names the line; `print` and pdb see NumPy values."""

import inspect
import io
import pdb
import re

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import (
    ArgumentError,
    DeviceAssertionError,
    InvalidArgument,
    KernelSyntaxError,
    ShapeMismatch,
    TilelangAscendError,
    UnknownArgument,
    UnsupportedConstruct,
)
from tilelang_ascend.interpret import InterpretError

Vec = T.Tensor((8,), "float32")


def vector():
    return np.arange(8, dtype=np.float32)


def line_of(text: str) -> int:
    """The only line of this file that ends with the comment `text`."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    found = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    assert len(found) == 1
    return found[0]


def fails(func, kind, match, mark, *more):
    with pytest.raises(kind, match=match) as caught:
        interpret.run(func, vector(), vector() * 0, *more)
    where = caught.value.location
    assert (where.file, where.line) == (__file__, line_of(mark)), caught.value


def test_computing_with_an_undefined_element():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            s = T.alloc_shared((8,), "float32")
            for i in T.serial(4):
                s[i] = A[i]
            for i in T.serial(8):
                x = s[i] * 2  # undefined read
                B[i] = x

    fails(k, InterpretError, r"s\[4\].*never written", "undefined read")


def test_branching_on_an_undefined_variable():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            v = T.alloc_var("int32")
            if v > 0:  # undefined branch
                B[0] = 1

    fails(k, InterpretError, r"v\[0\].*never written", "undefined branch")


def test_an_undefined_accumulator():
    @T.prim_func
    def k(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1):
            a, c = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c)

    with pytest.raises(InterpretError, match="accumulator C reads .* never written"):
        interpret.run(k, np.zeros((16, 16), "float16"), np.zeros((16, 16), "float32"))


def test_undefined_elements_may_be_copied_but_not_leave_the_chip():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            s, t = T.alloc_shared((8,), "float32"), T.alloc_shared((8,), "float32")
            T.copy(A[0:4], s[0:4])
            T.copy(s, t)
            for i in T.Parallel(8):
                s[i] = t[i]
            T.copy(s[0:4], B[0:4])
            T.copy(s, B)  # undefined store

    fails(k, InterpretError, r"undefined element is stored to B\[4\]", "undefined store")


def test_reading_outside_of_a_tile():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((8,), "float32")
            T.copy(A, s)
            B[0] = s[n]  # outside read

    fails(k, InterpretError, r"s\[8\].*outside of its shape \[8\]", "outside read", 8)


@pytest.mark.parametrize("index", [8, -9])
def test_elements_outside_of_a_tensor(index):
    """They read as zero and are not stored."""

    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            B[0] = A[n] + 5
            B[n] = 1
            T.atomic_add(B[n], 1.0)

    b = vector()
    interpret.run(k, vector(), b, index)
    assert b.tolist() == [5, *vector()[1:].tolist()]


def test_storing_outside_of_a_tile():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((4,), "float32")
            for i in T.Parallel(4):
                s[i + bx] = A[i]  # outside store

    fails(k, InterpretError, r"a store of s\[4\]", "outside store")


def test_a_slice_outside_of_a_tile():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            T.copy(s[n : n + 2], B[0:2])  # outside slice

    fails(k, InterpretError, "elements 3 to 5 of s", "outside slice", 3)


def test_parallel_loops_over_tensors_are_clipped():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(2) as bx:
            for i in T.Parallel(6):
                B[bx * 6 + i] = A[bx * 6 + i + 1] + 1

    b = vector() * 0
    interpret.run(k, vector(), b)
    assert b.tolist() == [2, 3, 4, 5, 6, 7, 8, 1]


def test_gathers_outside_of_a_tensor():
    @T.prim_func
    def k(A: Vec, B: Vec, I: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(2):
                B[i] = A[I[i]]

    b = vector()
    interpret.run(k, vector(), b, np.array([3, 8], "int32"))
    assert b.tolist() == [vector()[3], 0, *vector()[2:].tolist()]


def test_parts_outside_of_a_tensor_are_legal():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            s = T.alloc_shared((16,), "float32")
            T.copy(A[4], s)
            T.copy(s, B[0])

    b = vector() * 0 + 5
    interpret.run(k, vector(), b)
    assert b.tolist() == [4, 5, 6, 7, 0, 0, 0, 0]  # loaded past the end, stored past the end


@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_zero(op):
    divide = (lambda a, b: a // b) if op == "//" else (lambda a, b: a % b)

    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = T.if_then_else(A[i] != 0, divide(7, A[i]), 0)
            B[0] = divide(7, A[0])

    with pytest.raises(InterpretError, match=f"7 {op} 0: division by zero"):
        interpret.run(k, np.arange(4, dtype="int32"), np.zeros(4, "int32"))


def test_a_broken_promise():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            T.assume(n < 4)  # promise
            B[0] = n

    fails(k, InterpretError, "T.assume", "promise", 4)


@pytest.mark.parametrize("python", [True, False])
def test_assertions(python):
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            if python:
                assert A[3] < 3, "too large"
            T.device_assert(A[3] < 3, "too large")

    with pytest.raises(DeviceAssertionError, match="too large"):
        interpret.run(k, vector(), vector())


def test_a_loop_whose_iterations_depend_on_each_other_shows():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = B[i - 1] + A[i] if i > 0 else A[i]

    results = set()
    for seed in range(4):
        b = vector() * 0
        interpret.run(k, vector() + 1, b, seed=seed)
        results.add(tuple(b.tolist()))
    assert len(results) > 1


def test_blocks_that_depend_on_each_other_show():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(8) as bx:
            B[bx] = A[bx] + (B[bx - 1] if bx > 0 else 0)

    results = set()
    for seed in range(4):
        b = vector() * 0
        interpret.run(k, vector() + 1, b, seed=seed)
        results.add(tuple(b.tolist()))
    assert len(results) > 1


MISTAKES = {
    "int / int": (lambda A, s, n: n / 2, UnsupportedConstruct, "between two integers"),
    "T.copy shapes": (lambda A, s, n: T.copy(A, s), ShapeMismatch, "different shapes"),
    "unknown keyword": (lambda A, s, n: T.copy(A[0], s, colour=1), UnknownArgument, "colour"),
    "too many indices": (lambda A, s, n: A[0, 1], InvalidArgument, "2 indices"),
    "float index": (lambda A, s, n: A[1.5], InvalidArgument, "an index is"),
    "literal too large": (lambda A, s, n: T.fill(T.alloc_shared((4,), "int8"), 300), InvalidArgument, "does not fit int8"),
    "float too large": (lambda A, s, n: T.fill(T.alloc_shared((4,), "float16"), -1e9), InvalidArgument, "does not fit float16"),
    "whole tile": (lambda A, s, n: A + 1, UnsupportedConstruct, "on a whole tile"),
    "shape of run time": (lambda A, s, n: T.alloc_shared((n,), "int8"), TilelangAscendError, "not known when the kernel is compiled"),
    "gemm of GM": (lambda A, s, n: T.gemm(A, A, s), InvalidArgument, "global memory"),
    "step zero": (lambda A, s, n: list(T.serial(0, 4, 0)), UnsupportedConstruct, "step 0"),
    "float bound": (lambda A, s, n: T.serial(3.5), InvalidArgument, "integer"),
    "launch in a launch": (lambda A, s, n: T.Kernel(1).__enter__(), KernelSyntaxError, "inside T.Kernel"),
    "unknown name": (lambda A, s, n: T.gem, TilelangAscendError, "no name 'gem'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_have_the_line(name, monkeypatch):
    body, kind, match = MISTAKES[name]
    monkeypatch.setenv("TILELANG_INTERPRET", "1")

    @T.prim_func
    def k(A: Vec, n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "int32")
            body(A, s, n)

    with pytest.raises(kind, match=match) as caught:
        k(vector(), 3)
    assert caught.value.location.file == __file__


def test_an_error_of_python_is_left_alone(monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")

    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            if n > 0:
                {}["missing"]  # noqa: B018
            B[0] = 1

    with pytest.raises(KeyError):
        k(vector(), vector(), 1)


def test_arguments_are_checked(monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n, 4), "float32"), B: T.Tensor((n,), "float32"), c: T.int8):
        with T.Kernel(1):
            B[0] = A[0, 0] + c

    a, b = np.zeros((2, 4), "float32"), np.zeros(2, "float32")
    k(a, b, 1)
    for args in ((a, b), (a, b, 1, 2), (a, b[:1], 1), (a[:, :3], b, 1), (a.astype("float16"), b, 1), (a, b, 200), (a, b, "x"), (a, 3, 1)):
        with pytest.raises(ArgumentError):
            k(*args)


def test_print_shows_values(monkeypatch, capsys):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float32")
            T.copy(A[0:2], s[0:2])
            print("tile", s, "element", s[1], f"{s[1] + 1:.2f}")
            T.print(s[0], msg="first")
            T.printf("%d %f\n", 3, s[1])

    interpret.run(k, vector(), vector())
    out = capsys.readouterr().out
    assert "tile [0.0 1.0 -- --] element 1.0 2.00" in out and "first: 0.0" in out and "3 1.000000" in out


def test_pdb_stops_in_the_kernel(monkeypatch, capsys):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    commands = io.StringIO("p s\np v\nn\np v\nw\nc\n")

    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((4,), "float32")
            v = T.alloc_var("int32", init=1)
            T.copy(A[bx * 4], s)
            if bx == 1:
                debugger.set_trace()
            v = v + s[1]  # stepped over
            B[bx] = v

    debugger = pdb.Pdb(stdin=commands, stdout=None, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    b = vector() * 0
    k(vector(), b)
    out = capsys.readouterr().out
    assert b[:2].tolist() == [2, 6]
    assert "[4.0 5.0 6.0 7.0]" in out and re.search(r"\(Pdb\) int32\(1\)", out) and re.search(r"\(Pdb\) int32\(6\)", out)
    assert f"{__file__}({line_of('stepped over') + 1})" in out


def test_compiled_calls_are_interpreted(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    seen = []

    @tilelang.jit(out_idx=[-1])
    def scaled(n, factor):
        @T.prim_func
        def main(A: T.Tensor((n,), "bfloat16"), B: T.Tensor((n,), "bfloat16")):
            with T.Kernel(T.ceildiv(n, 4)) as bx:
                seen.append(int(bx))
                for i in T.Parallel(4):
                    if bx * 4 + i < n:
                        B[bx * 4 + i] = A[bx * 4 + i] * factor

        return main

    @tilelang.jit
    def eager(A, B, factor: T.float32):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], "float32"]
        B: T.Tensor[[N], "float32"]
        C = T.empty((M, N), "float32")
        with T.Kernel(M) as (bx,):
            for j in T.Parallel(N):
                C[bx, j] = A[bx, j] * factor + B[j]
        return C

    x = torch.arange(10).bfloat16()
    kernel = scaled(10, 2)
    assert torch.equal(kernel(x), x * 2) and sorted(seen) == [0, 1, 2]
    with pytest.raises(AttributeError, match="TILELANG_INTERPRET"):
        kernel.get_kernel_source()
    a, b = torch.randn(3, 5), torch.randn(5)
    torch.testing.assert_close(eager(a, b, 2.0), a * 2 + b)
    with pytest.raises(ArgumentError):
        eager(a, b[:3], 2.0)


def test_a_kernel_that_was_traced_before_is_interpreted(monkeypatch):
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            T.copy(A, B)

    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    assert "interpreted" in repr(tilelang.compile(k))
