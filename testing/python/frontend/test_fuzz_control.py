"""Random control flow: the traced kernel computes what Python computes.

A program assigns integers to a few names under nested `if`, `for`, `while`, unrolled loops, `break`, `continue`, swaps, helpers and
conditional expressions, `and` and `or` of numbers; some conditions are known at compile time, some only at run time. The same text runs as Python.
"""

import linecache
import random
import textwrap

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.sim.reference import run

NAMES = "abcd"
SIZE = 8
FUNCTIONS = ("max({}, {})", "min({}, {}, 20)", "abs({} - {})", "divmod({} + {}, 7)[1]", "int({} == {})", "sum([{}, {}])")


class Program:
    """Text of one random program."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.counter = 0
        self.loops: list[str] = []  # kinds of the enclosing loops; "if" marks a branch inside the innermost one

    def expr(self, depth=0) -> str:
        r = self.rng.random()
        if r < 0.3 or depth > 1:
            return self.rng.choice(NAMES)
        if r < 0.5:
            return str(self.rng.randint(0, 9))
        if r < 0.65:
            return f"A[{self.rng.randrange(SIZE)}]"
        if r < 0.75:
            return f"({self.expr(depth + 1)} if {self.cond()} else {self.expr(depth + 1)})"
        if r < 0.8:
            return f"helper({self.expr(depth + 1)}, {self.expr(depth + 1)})"
        if r < 0.86:
            return f"({self.expr(depth + 1)} {self.rng.choice(['and', 'or'])} {self.expr(depth + 1)})"
        if r < 0.9:
            return self.rng.choice(FUNCTIONS).format(self.expr(depth + 1), self.expr(depth + 1))
        return f"({self.expr(depth + 1)} {self.rng.choice('+-*')} {self.expr(depth + 1)}) % 97"

    def cond(self) -> str:
        left = self.rng.choice([*NAMES, f"A[{self.rng.randrange(SIZE)}]"])
        text = f"{left} {self.rng.choice(['<', '>', '==', '!=', '<='])} {self.rng.choice([*NAMES, '3', '40'])}"
        if self.rng.random() < 0.1:
            return f"{self.rng.choice(NAMES)} {self.rng.choice(['and', 'or'])} {self.rng.choice(NAMES)} % 3"
        if self.rng.random() < 0.25:
            text = f"{text} {self.rng.choice(['and', 'or'])} not {self.rng.choice(NAMES)} > 20"
        return text

    def block(self, depth: int) -> list[str]:
        out: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            out += self.statement(depth)
        return out

    def statement(self, depth: int) -> list[str]:
        r = self.rng.random()
        name = self.rng.choice(NAMES)
        if depth > 2 or r < 0.4:
            return [f"{name} = {self.expr()}"]
        if r < 0.5:
            return [f"{name} += {self.expr()}", f"{name} %= 97"]
        if r < 0.55:
            return ["a, b = b, a"]
        if r < 0.75:
            out = [f"if {self.cond()}:", *self.nested("if", depth)]
            return out + (["else:", *self.nested("if", depth)] if self.rng.random() < 0.5 else [])
        if r < 0.82 and self.loops and self.loops[-1] != "if":
            return []
        self.counter += 1
        k = f"k{self.counter}"
        if r < 0.9:
            return [f"for {k} in T.serial({self.rng.randint(0, 4)}):", *self.nested("serial", depth)]
        if r < 0.95:
            return [f"for {k} in [1, 2]:", *self.nested("python", depth)]
        body = self.nested("serial", depth)
        return [f"{k} = 0", f"while {k} < {self.rng.choice(['3', 'A[1]'])} and {k} < 5:", f"    {k} += 1", *body]

    def nested(self, kind: str, depth: int) -> list[str]:
        self.loops.append(kind)
        body = self.block(depth + 1)
        runtime_loop = next((k for k in reversed(self.loops) if k != "if"), None)
        if kind == "if" and runtime_loop == "serial" and self.rng.random() < 0.25:
            body.append(self.rng.choice(["break", "continue"]))
        self.loops.pop()
        return ["    " + line for line in body or ["pass"]]

    def text(self) -> str:
        start = [f"{n} = {self.rng.choice([str(self.rng.randint(0, 9)), f'A[{self.rng.randrange(SIZE)}]'])}" for n in NAMES]
        end = [f"B[{i}] = {n}" for i, n in enumerate(NAMES)]
        return "\n".join(start + self.block(0) + self.block(0) + end)


HELPER = """
def helper(x, y):
    z = x
    if x > y:
        z = y + 1
    return z % 97
"""


def trace(body: str, name: str):
    text = HELPER + "def make():\n    @T.prim_func\n    def k(A: T.Tensor((8,), 'int32'), B: T.Tensor((8,), 'int32')):\n"
    text += "        with T.Kernel(1):\n" + textwrap.indent(body, " " * 12) + "\n    return k\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": T, "__name__": "fuzz"}
    exec(compile(text, name, "exec"), scope)
    return scope["make"]()


class Ranges:
    serial = range


def python(body: str, values) -> list[int]:
    scope = {"T": Ranges, "A": [int(v) for v in values], "B": [0] * SIZE}
    exec(HELPER + body, scope)
    return scope["B"]


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.one_in(6)
def test_traced_program_computes_what_python_computes(seed):
    body = Program(seed).text()
    kernel = trace(body, f"<fuzz {seed}>")
    for trial in range(3):
        values = np.random.default_rng(trial).integers(0, 60, SIZE).astype(np.int32)
        out = np.zeros(SIZE, np.int32)
        run(kernel, values.copy(), out)
        assert out.tolist() == python(body, values), body


def test_the_comparison_notices_a_front_end_that_does_not_carry_values(monkeypatch):
    from tilelang_ascend.frontend import control

    monkeypatch.setattr(control._Statement, "_promoted", lambda self, name, flags, value: value)
    monkeypatch.setattr(control._Statement, "_merged", lambda self, name, before, after: after[0])
    wrong = 0
    for seed in range(30):
        body = Program(seed).text()
        try:
            out = np.zeros(SIZE, np.int32)
            values = np.arange(SIZE, dtype=np.int32) * 7
            run(trace(body, f"<mutant {seed}>"), values, out)
            wrong += out.tolist() != python(body, values)
        except Exception:  # noqa: BLE001  an error is noticed too
            wrong += 1
    assert wrong > 10
