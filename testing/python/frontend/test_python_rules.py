"""Python's rules for names, objects and ways out of blocks, where a kernel carries values through run-time control flow."""

import linecache
import operator
import textwrap

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidKernel, ScopeError, UnsupportedConstruct
from tilelang_ascend.sim.reference import run

VALUES = [5, 2, 9, 1, 7, 3, 8, 4]


class Ranges:
    serial = range

    @staticmethod
    def cast(value, dtype):
        return float(value)


def kernel(body: str):
    text = "@T.prim_func\ndef k(A: T.Tensor((8,), 'int32'), B: T.Tensor((8,), 'int32')):\n    with T.Kernel(1):\n"
    text += textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    name = f"<rules {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope["k"]


@pytest.mark.parametrize(
    "body",
    [
        """
        n = 0
        for i in T.serial(4):
            B[i] = n
            for n in [5, 6, A[i]]: pass
        """,
        """
        n = 5
        if A[0] > 3:
            for n in [1, 2]: B[n] = n
        B[7] = n
        """,
        """
        n = 0
        for i in T.serial(4):
            B[i] = n
            match 3:
                case n if n > 2: pass
        """,
        """
        for i in T.serial(4):
            try:
                raise ValueError("x")
            except ValueError as e:
                B[i] = A[i]
        B[7] = 2
        """,
        """
        def halved(n):
            while True:
                n = n // 2
                if n < 3: return n
        B[0] = halved(100)
        """,
        """
        class Point: pass
        p = Point(); p.x = 0
        ways = iter([p, p])
        next(ways).x += 1
        B[0] = p.x
        B[1] = len(list(ways))
        """,
        """
        square = lambda x: (y := x + 1) * y
        B[0] = square(A[0])
        """,
        """
        for i in T.serial(4):
            B[i] = 1 if T.cast(A[i], 'float32') * 0.5 in range(10) else 0
        """,
        """
        at = {k: A[k] for k in range(3)}
        B[0] = max(v for v in at.values())
        B[1] = min(at.values())
        B[2] = max([3, 1])
        """,
    ],
)
def test_names_hold_what_they_hold_in_python(body):
    out = np.zeros(8, np.int32)
    run(kernel(body), np.array(VALUES, np.int32), out)
    scope = {"T": Ranges, "A": VALUES, "B": [0] * 8}
    exec(textwrap.dedent(body), scope)
    assert out.tolist() == scope["B"]


@pytest.mark.parametrize(
    "body, error, words",
    [
        ("n = 0\nfor i in T.serial(4):\n    B[i] = n\n    for n in T.serial(3): pass", InvalidKernel, "read in the next iteration"),
        ("n = 5\nif A[0] > 3:\n    for n in T.serial(4): B[n] = n\nB[7] = n", ScopeError, "'n' cannot be read here"),
        ("for i in T.serial(4):\n    try:\n        if A[i] > 6: break\n    finally:\n        B[i] = 1", UnsupportedConstruct, "`finally`"),
        (
            "for i in T.serial(4):\n    try:\n        if A[i] > 6: continue\n    finally:\n        B[i] = 1",
            UnsupportedConstruct,
            "`finally`",
        ),
    ],
)
def test_what_no_variable_holds_is_refused(body, error, words):
    with pytest.raises(error, match=words):
        kernel(body)


def test_loops_inside_a_finally_and_around_it_are_left():
    out = np.zeros(8, np.int32)
    body = """
    for i in T.serial(4):
        try:
            for j in T.serial(4):
                if A[j] > 6: break
                B[j] = B[j] + 1
        finally:
            B[i + 4] = 1
        if A[i] > 6: break
    """
    run(kernel(body), np.array(VALUES, np.int32), out)
    assert out.tolist() == [3, 3, 0, 0, 1, 1, 1, 0]


def two(x):
    for i in range(2):
        yield x[i]


class Held:
    """Reads a tensor in methods that Python calls itself."""

    def __init__(self, x):
        self.x = x

    @property
    def first(self):
        return self.x[0]

    def __getitem__(self, i):
        return self.x[i]

    def __iter__(self):
        return iter([self.x[0], self.x[1]])


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda x: list(two(x)), id="generator"),
        pytest.param(lambda x: [Held(x).first, Held(x)[1]], id="property and brackets"),
        pytest.param(lambda x: list(Held(x)), id="iterator"),
        pytest.param(lambda x: list(map(operator.itemgetter(0, 1), [x]))[0], id="function without source"),
    ],
)
def test_elements_are_read_where_they_are_read_whoever_reads_them(values):
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            B[0], B[1] = A[0], A[1]
            old = values(B)
            B[0] = 100
            B[1] = 200
            B[2] = old[0]
            B[3] = old[1]

    out = np.zeros(8, np.int32)
    run(k, np.array(VALUES, np.int32), out)
    assert out[:4].tolist() == [100, 200, *VALUES[:2]]


def test_numbers_do_not_wrap_in_generators():
    def sums(x):
        yield x[0] + x[1]
        yield 3 - x[0] * x[1]
        yield -x[0]

    @T.prim_func
    def k(A: T.Tensor((8,), "int8"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i, v in enumerate(sums(A)):
                B[i] = v

    out = np.zeros(8, np.int32)
    run(k, np.full(8, -128, np.int8), out)
    assert out[:3].tolist() == [-256, 3 - 2**14, 128]


def comparisons(a, b):
    yield a == b
    yield a != b
    yield a < 300
    yield a > -129


def decided(a, b):
    yield 1 if a == b else 2


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    @property
    def agree(self):
        return self.a == self.b


def test_comparisons_by_python_are_those_of_the_kernel():
    """Equal in generators, properties and functions without source were values that are one object: hardly any."""
    own = eval("lambda a, b: a == b")  # without source

    @T.prim_func
    def k(A: T.Tensor((8,), "int8"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            x = T.alloc_var("int32", init=0)
            for i, v in enumerate(comparisons(A[0], A[1])):
                B[i] = T.if_then_else(v, 1, 0)
            x = A[0]
            B[4] = T.if_then_else(Pair(x, A[1]).agree, 1, 0)
            same = operator.eq(A[0], A[1])
            A[0] = 7
            if same:
                B[5] = 1
            B[6] = T.if_then_else(not own(A[0], 7) or any(map(operator.ne, (A[1], A[2]), (A[2], A[3]))), 1, 0)
            B[7] = T.Select(all([own(v, A[1]) for v in (A[1], A[2])]), 1, 0)

    for a, b in ((-128, -128), (5, 6)):
        out = np.zeros(8, np.int32)
        run(k, np.array([a, b, b, b, 0, 0, 0, 0], np.int8), out)
        assert out.tolist() == [a == b, a != b, 1, 1, a == b, a == b, 0, 1]


def test_equality_does_not_decide_in_python():
    with pytest.raises(UnsupportedConstruct, match="used as a Python condition"):

        @T.prim_func
        def k(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[2] = next(decided(A[0], A[1]))


@pytest.mark.parametrize("looked_up", [lambda d, k: d.get(k, 9), lambda d, k: d.pop(k, 9), lambda d, k: {k: 5}.get(0, 9)])
def test_a_dictionary_is_not_asked_for_keys_of_run_time(looked_up):
    """It gave the other value, whatever the key would be."""
    with pytest.raises(UnsupportedConstruct, match="known only when the kernel runs"):

        @T.prim_func
        def k(A: T.Tensor((8,), "int32")):
            with T.Kernel(1):
                A[2] = looked_up({0: 5, 1: 6}, A[0])


def test_a_value_of_the_kernel_finds_itself_in_a_dictionary():
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(8):
                found = {i: A[i]}
                B[i] = found.get(i, 0) + {0: 5}.get(0, 9) + {0: 5}.get(1, 9)

    out = np.zeros(8, np.int32)
    run(k, np.array(VALUES, np.int32), out)
    assert out.tolist() == [v + 14 for v in VALUES]
