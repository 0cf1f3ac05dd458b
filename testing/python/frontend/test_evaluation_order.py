"""Python's evaluation order: an expression has its value where it stands, wherever it is used.

Random programs keep numbers, elements and slices in tuples, lists, dicts, ranges, arguments, defaults and closures, and change what they
were made of before using them. The same text runs as Python, on NumPy arrays.
"""

import linecache
import random
import textwrap

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.sim.reference import run

SIZE = 16
NAMES = "xyz"  # carried names; u is a mutable scalar, c and d are tiles

HELPERS = """
def bump(c, k):
    old = c[k]
    c[k] = (old + 3) % 97
    return old

def peek(c, k):
    return c[k]

def poke(c, k, e):
    c[k] = e % 97
    return e + 1

def pair(c, e):
    return c[0], e

class Two(NamedTuple):
    first: object
    second: object
"""


class Program:
    """Text of one random program."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.counter = 0
        self.visible: list[list[str]] = [[]]  # expressions made of names of this block and those around it
        self.calls: list[list[str]] = [[]]  # the same for calls, which may change memory

    def fresh(self, kind: str) -> str:
        self.counter += 1
        return f"{kind}{self.counter}"

    def index(self, depth=1) -> str:
        if self.rng.random() < 0.5:
            return str(self.rng.randrange(SIZE))
        return f"({self.expr(depth + 1)}) % {SIZE}"

    def expr(self, depth=0) -> str:
        r = self.rng.random()
        if depth > 2 or r < 0.2:
            return self.rng.choice([*NAMES, "u", str(self.rng.randint(0, 9))])
        if r < 0.4:
            return f"{self.rng.choice('ccd')}[{self.index(depth)}]"
        kept = [e for block in self.visible + self.calls for e in block]
        if r < 0.6 and kept:
            return self.rng.choice(kept)
        if r < 0.66:
            return f"({self.expr(depth + 1)} if {self.cond(depth + 1)} else {self.expr(depth + 1)})"
        if r < 0.7:
            return f"T.if_then_else({self.cond(depth + 1)}, {self.expr(depth + 1)}, {self.expr(depth + 1)})"
        if r < 0.76:
            return f"{self.rng.choice(['bump', 'peek'])}(c, {self.index(depth)})"
        if r < 0.8:
            return f"poke(c, {self.index(depth)}, {self.expr(depth + 1)})"
        return f"({self.expr(depth + 1)} {self.rng.choice('+-*')} {self.expr(depth + 1)}) % 97"

    def cond(self, depth=1) -> str:
        text = f"{self.expr(depth + 1)} {self.rng.choice(['<', '>', '==', '!='])} {self.pure()}"
        if self.rng.random() < 0.2:
            return f"{self.pure()} <= {text}"
        return text if self.rng.random() < 0.8 else f"{text} {self.rng.choice(['and', 'or'])} {self.pure()} > 20"

    def pure(self) -> str:
        """An expression without effects."""
        kept = [e for block in self.visible for e in block]
        return self.rng.choice([*NAMES, "u", f"c[{self.rng.randrange(SIZE)}]", "11", *kept])

    def keep(self, *texts: str) -> None:
        self.visible[-1] += texts

    def statement(self, depth: int) -> list[str]:
        r, rng = self.rng.random(), self.rng
        if r < 0.2:
            return self.container()
        if r < 0.3:
            return [f"{rng.choice([*NAMES, 'u'])} = {self.expr()} % 97"]
        if r < 0.4:
            return [f"{rng.choice('cd')}[{self.index()}] = {self.expr()} % 97"]
        if r < 0.45:
            return [f"{rng.choice('cd')}[{self.index()}] += {self.expr()} % 7"]
        if r < 0.5:
            a, b = self.index(), self.index()
            return [rng.choice(["x, y = y, x", f"c[{a}], c[{b}] = c[{b}], c[{a}]", f"x = c[{a}] = y = c[{b}]", f"y, c[{a}] = c[{a}], u"])]
        if r < 0.6:
            return self.slice()
        if r < 0.68:
            return self.function()
        if depth > 1:
            return [f"u = (u + {self.expr()}) % 97"]
        if r < 0.8:
            out = [f"if {self.cond()}:", *self.nested(depth)]
            return out + (["else:", *self.nested(depth)] if rng.random() < 0.5 else [])
        k = self.fresh("k")
        if r < 0.95:
            start, extent = self.pure(), f"{self.pure()} % 4"
            head = rng.choice(
                [f"range({start}, {start} + {extent})", f"T.serial({start}, {start} + {extent})", f"T.serial({extent})", "[1, 2]"]
            )
            return [f"for {k} in {head}:", *self.nested(depth, k)]
        return [f"{k} = {self.pure()} % 4", f"while {k} < {self.pure()} and {k} < 5:", f"    {k} += 1", *self.nested(depth)]

    def container(self) -> list[str]:
        p, a, b = self.fresh("p"), self.expr(), self.expr()
        text, items = self.rng.choice(
            [
                (f"({a}, {b})", ["[0]", "[1]"]),
                (f"[{a}, ({b}, {self.pure()})]", ["[0]", "[1][0]", "[1][1]"]),
                (f"{{'a': {a}, 'b': {b}}}", ["['a']", "['b']"]),
                (f"[c[k] for k in range(4)] + [{a}]", ["[0]", "[3]", "[-1]"]),
                (f"Two({a}, {b})", [".first", ".second"]),
                (f"pair(c, {a})", ["[0]", "[1]"]),
                (f"[*({a}, c[3]), u]", ["[0]", "[1]", "[2]"]),
                (f"({a}, (lambda: {self.pure()})())", ["[0]", "[1]"]),
            ]
        )
        self.keep(*(p + i for i in items))
        return [f"{p} = {text}"]

    def slice(self) -> list[str]:
        s, start = self.fresh("s"), f"{self.pure()} % 8"
        source, target = self.rng.choice(["cd", "dc"])
        made = [f"{s} = {source}[{start}:{start} + 4]"]
        change = self.statement(9) if self.rng.random() < 0.7 else []
        return [*made, *change, f"T.copy({s}, {target}[{self.rng.choice(['0:4', '5:9', '12:16'])}])"]

    def function(self) -> list[str]:
        f, kept = self.fresh("f"), self.pure()
        text, call = self.rng.choice(
            [
                (f"def {f}(k={self.expr()}):\n    return k + {kept}", f"{f}()"),
                (f"{f} = lambda k: k + {kept} + c[2]", f"{f}({self.pure()})"),
                (f"def {f}(k, *rest):\n    c[1] = rest[0] % 97\n    return k + rest[1]", f"{f}({kept}, u, c[1])"),
                (f"def {f}(k):\n    c[5] = 4\n    return k", f"{f}(c[5])"),
            ]
        )
        self.calls[-1].append(call)
        return text.split("\n")

    def nested(self, depth: int, *made: str) -> list[str]:
        self.visible.append(list(made)), self.calls.append([])
        body = [line for _ in range(self.rng.randint(1, 3)) for line in self.statement(depth + 1)]
        self.visible.pop(), self.calls.pop()
        return ["    " + line for line in body]

    def text(self) -> str:
        start = ["u = T.alloc_var('int32', init=A[0])", "x = A[1]", "y = A[2]", "z = 5", "T.copy(A, c)", "T.copy(A, d)"]
        body = [line for _ in range(7) for line in self.statement(0)]
        end = [f"B[{k}] = {e}" for k, e in enumerate([*NAMES, "u", *(self.visible[0][-6:])])]
        return "\n".join([*start, *body, *end, "T.copy(c, C)", "T.copy(d, D)"])


_HEAD = "A: T.Tensor((16,), 'int32'), B: T.Tensor((16,), 'int32'), C: T.Tensor((16,), 'int32'), D: T.Tensor((16,), 'int32')"


def trace(body: str, name: str):
    text = f"from typing import NamedTuple\n{HELPERS}\ndef make():\n    @T.prim_func\n    def k({_HEAD}):\n"
    text += "        with T.Kernel(1):\n            c = T.alloc_shared((16,), 'int32')\n            d = T.alloc_shared((16,), 'int32')\n"
    text += textwrap.indent(body, " " * 12) + "\n    return k\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T, "__name__": "evaluation"}
    exec(compile(text, name, "exec"), scope)
    return scope["make"]()


class _Python:
    """The few functions of the language the programs use, for plain Python."""

    serial = range

    @staticmethod
    def alloc_var(dtype, init):
        return init

    @staticmethod
    def if_then_else(cond, a, b):
        return a if cond else b

    @staticmethod
    def copy(source, target):
        target[...] = source


def python(body: str, values) -> list:
    arrays = {name: np.zeros(SIZE, np.int64) for name in "BCDcd"}
    scope = {"T": _Python, "A": values.astype(np.int64), "__name__": "evaluation", **arrays}
    exec("from typing import NamedTuple\n" + HELPERS + body, scope)
    return [arrays[k].tolist() for k in "BCD"]


def traced(body: str, name: str, values) -> list:
    out = [np.zeros(SIZE, np.int32) for _ in "BCD"]
    run(trace(body, name), values.copy(), *out)
    return [o.tolist() for o in out]


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.one_in(12)
def test_values_are_those_of_the_moment_they_were_written(seed):
    body = Program(seed).text()
    for trial in range(2):
        values = np.random.default_rng(trial).integers(0, 60, SIZE).astype(np.int32)
        want = python(body, values)
        assert traced(body, f"<evaluation {seed}>", values) == want, body
