"""Random kernels of many small blocks: rows that are loaded, changed and stored, at places that depend on the block, that data tells, and in loops whose
iterations may be blocks as well.

    python -m testing.fuzz.blocks FIRST LAST [--source]     seeds that fail are printed with their program

Whether neighbouring blocks become one (`lengthen_tiles`, `batch_blocks`), or iterations of a loop blocks (`spread_loops`), is a question of time: here
the answer is as random as the program, on a chip with few cores. The meaning of a program is the NumPy text beside it.
"""

from __future__ import annotations

import math
import random
import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from .command import run
from .dice import RowWriter, differs
from .few_cores import outcome

SIZES = (8, 16, 24, 32, 40, 64, 100)
GRIDS = ((5,), (6,), (8,), (9,), (12,), (13,), (16,), (4, 3), (3, 4), (5, 2), (1, 7), (2, 2, 3))
TRIPS = (1, 2, 3, 4, 5, 6, 8)
KINDS = ("own", "own", "own", "more", "less", "divided", "zero", "chosen", "loop")
BINS = 3
"""Rows to which blocks add atomically."""
TOLERANCE = {"float32": 1e-3, "float16": 0.06, "int32": 0.0}

HELPERS = """
def get(a, at, shape):
    out = np.zeros(shape, a.dtype)
    boxes = [(max(lo, 0), max(min(lo + n, size), 0)) for lo, n, size in zip(at, span(a, shape), a.shape)]
    if all(lo < hi for lo, hi in boxes):
        here = tuple(slice(lo - first, hi - first) for (lo, hi), first in zip(boxes, at))
        out.reshape(span(a, shape))[here] = a[tuple(slice(lo, hi) for lo, hi in boxes)]
    return out

def span(a, shape):
    return (1,) * (a.ndim - len(shape)) + tuple(shape)

def put(a, at, t, add=False):
    shape = span(a, t.shape)
    boxes = [(max(lo, 0), max(min(lo + n, size), 0)) for lo, n, size in zip(at, shape, a.shape)]
    if all(lo < hi for lo, hi in boxes):
        here = tuple(slice(lo - first, hi - first) for (lo, hi), first in zip(boxes, at))
        there = tuple(slice(lo, hi) for lo, hi in boxes)
        a[there] = t.reshape(shape)[here] + (a[there] if add else 0)
"""


class Generator(RowWriter):
    """State of one random program: lines of it, and of what it means."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.dtype = self.pick(("int32", "int32", "float32", "float32", "float16"))
        self.n = int(self.pick(SIZES))
        self.rows = int(self.pick((0, 0, 0, 1, 2, 3, 4, 8)))
        self.grid = self.pick(GRIDS)
        self.axes = ["bx", "by", "bz"][: len(self.grid)]
        self.blocks = math.prod(self.grid)
        self.tiles = [f"t{k}" for k in range(self.rng.integers(1, 4))]
        self.params: dict[str, np.ndarray] = {}
        self.results: list[str] = []
        self.loops: list[tuple[str, int]] = []
        self.short = self.chance(0.3)
        """Tensors end before the last block does."""
        self.plain = self.chance(0.5)
        """Most places are those of the block: what may become longer tiles."""
        self.layout = self.pick(("flat", "flat", "rows") if not self.rows else ("rows", "rows", "planes", "columns"))
        self.turned, self.loops_last, self.dim = self.chance(0.5), self.chance(0.7), int(self.pick((0, 1, 1, -1)))

    def same(self, *lines: str) -> None:
        self.say(list(lines), list(lines))

    # -- places ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.n) if self.rows else (self.n,)

    def numbers(self, shape) -> np.ndarray:
        return (self.rng.integers(-16, 17, shape) / (1 if self.dtype == "int32" else 4)).astype(self.dtype)

    def plainly(self) -> bool:
        return self.plain and self.chance(0.97)

    def own(self) -> tuple[str, int]:
        """(the number of this iteration of this block, how many there are)."""
        axes = list(zip(self.axes, self.grid))
        plainly = self.plainly()
        axes = axes[::-1] if (self.turned if plainly else self.chance(0.5)) else axes
        axes = [*axes, *self.loops] if (self.loops_last if plainly else self.chance(0.7)) else [*self.loops, *axes]
        text, total = "0", 1
        for v, most in axes:
            text, total = (f"({text}) * {most} + {v}" if text != "0" else v), total * most
        return text, total

    def data(self, values, dtype="int32") -> str:
        name = self.fresh("I")
        self.params[name] = np.asarray(values, dtype)
        return name

    def number(self) -> tuple[str, int]:
        """(another number for each iteration of each block, how many there are)."""
        text, total = self.own()
        kind = "own" if self.plainly() else self.pick(("own", "own", "own", "mirrored", "data", "data", "named"))
        if kind == "mirrored":
            return f"{total - 1} - ({text})", total
        if kind == "own":
            return text, total
        at = f"{self.data(self.rng.permutation(total))}[{text}]"
        if kind == "named":
            name = self.fresh("s")
            self.same(f"{name} = {at}")
            return name, total
        return at, total

    def any_number(self) -> tuple[str, int]:
        """(some number, how many there are at least)."""
        kind = "own" if self.plainly() else self.pick(KINDS)
        if kind == "zero":
            return "0", 2
        if kind == "loop" and self.loops:
            return self.loops[-1]
        text, total = self.own()
        if kind == "more":
            return f"{text} + {self.pick((1, 2, total))}", total
        if kind == "less":
            return f"{text} - {self.pick((1, 2))}", total
        if kind == "divided":
            return self.pick((f"({text}) // 2", f"({text}) % 3", f"({text}) * 2", f"T.min({text}, 3)")), total
        if kind == "chosen":
            return f"{self.data(self.rng.integers(-1 if self.chance(0.2) else 0, total, total))}[{text}]", total
        return text, total

    def tensor(self, letter: str, total: int, filled: bool) -> tuple[str, int]:
        """(a tensor with room for `total` tiles, its number of dimensions)."""
        name, height = self.fresh(letter), self.rows or 1
        cut = min(int(self.rng.integers(0, height * 2 + 1)), total * height // 2) if self.short else 0
        others = ("flat", "rows") if not self.rows else ("rows", "rows", "planes", "columns")
        kind = self.layout if self.plainly() else self.pick(others)
        shape = {
            "flat": (total * self.n - cut,), "rows": (total * height - cut, self.n), "planes": (total, height, self.n), "columns": (height, total * self.n),
        }[kind]  # fmt: skip
        self.params[name] = self.numbers(shape) if filled else np.zeros(shape, self.dtype)
        if not filled:
            self.results.append(name)
        return name, kind

    def place(self, name: str, kind: str, at: str) -> tuple[str, str]:
        """Where number `at` begins in TileLang, and in NumPy."""
        height = self.rows or 1
        first = {"flat": [f"({at}) * {self.n}"], "rows": [f"({at}) * {height}" if height > 1 else at, "0"], "planes": [at, "0", "0"],
                 "columns": ["0", f"({at}) * {self.n}"]}[kind]  # fmt: skip
        python = f"({', '.join(first)},)".replace("T.min", "min")
        if kind == "flat" and self.chance(0.6):
            return f"{name}[({at}) * {self.n}:({at}) * {self.n} + {self.n}]", python
        if kind == "rows" and not self.rows:
            return f"{name}[{at}, 0:{self.n}]", python
        return f"{name}[{', '.join(first)}]", python

    # -- statements -----------------------------------------------------------------------------------------------

    def load(self, t: str = "") -> None:
        t, (at, total) = t or self.pick(self.tiles), self.any_number()
        name, kind = self.tensor("X", total, True)
        kernel, python = self.place(name, kind, at)
        self.say(f"T.copy({kernel}, {t})", f"{t}[...] = get({name}, {python}, {self.shape})")

    def store(self, t: str = "") -> None:
        t, (at, total) = t or self.pick(self.tiles), self.number()
        name, kind = self.tensor("Y", total, False)
        kernel, python = self.place(name, kind, at)
        self.say(f"T.copy({t}, {kernel})", f"put({name}, {python}, {t})")

    def back(self) -> None:
        """What this block has stored."""
        (at, total), (t, u) = self.number(), (self.pick(self.tiles), self.pick(self.tiles))
        name, kind = self.tensor("Y", total, False)
        kernel, python = self.place(name, kind, at)
        self.say(f"T.copy({t}, {kernel})", f"put({name}, {python}, {t})")
        self.change()
        self.say(f"T.copy({kernel}, {u})", f"{u}[...] = get({name}, {python}, {self.shape})")

    def twice(self) -> None:
        """Stores to one place, of which the last one stays."""
        (at, total), (t, u) = self.number(), (self.pick(self.tiles), self.pick(self.tiles))
        name, kind = self.tensor("Y", total, False)
        kernel, python = self.place(name, kind, at)
        cond = self.condition()
        lines = [f"if {cond}:", f"    T.copy({t}, {kernel})", f"    T.copy({u}, {kernel})"]
        self.say(lines, [f"if {cond}:", f"    put({name}, {python}, {t})", f"    put({name}, {python}, {u})"])

    def add(self) -> None:
        t, (at, _) = self.pick(self.tiles), self.any_number()
        name, height = self.fresh("A"), self.rows or 1
        shape = (BINS * height, self.n)
        self.params[name] = np.zeros(shape, self.dtype)
        self.results.append(name)
        at = f"({at} + {BINS}) % {BINS}"
        kernel, python = self.place(name, "rows", at)
        if self.chance(0.5):
            row = f"({at}) * {height} + i" if self.rows else at
            lines = self.nest(f"T.atomic_add({name}[{row}, {self.at[-1]}], {t}[{self.at}])")
        else:
            lines = [f"T.atomic_add({kernel}, {t})"]
        self.say(lines, f"put({name}, {python}, {t}, True)")

    def change(self) -> None:
        t, u, v = (self.pick(self.tiles) for _ in range(3))
        a, b = (f"{x}[{self.at}]" for x in (u, v))
        w = self.pick([*self.axes, *(x for x, _ in self.loops)])
        few = 3 if self.plainly() else 7
        more = self.pick((
            (f"{a} + {b}", f"{u} + {v}"), (f"{a} * 2 - {b}", f"{u} * F(2) - {v}"), (f"T.max({a}, {b}) + 1", f"np.maximum({u}, {v}) + F(1)"),
            (f"{a} + T.cast({w} % 5, '{self.dtype}')", f"{u} + F({w} % 5)"), (f"T.if_then_else({a} > {b}, {a}, 3 - {a})", f"np.where({u} > {v}, {u}, F(3) - {u})"),
            (f"T.if_then_else({self.at[-1]} > {w}, {a}, {b})", f"np.where(np.arange({self.n}) > {w}, {u}, {v})"),
            (f"{a} + {(c := self.constant())}[{w}]", f"{u} + {c}[{w}]"),
        )[:few])  # fmt: skip
        kernel, numpy = more
        if self.dtype != "int32":
            kernel, numpy = f"T.min(T.max({kernel}, -8.0), 8.0)", f"np.clip({numpy}, F(-8), F(8))"
        if self.chance(0.15):
            half = self.n // 2
            self.say(
                self.nest(f"if {self.at[-1]} < {half}:", f"    {t}[{self.at}] = {kernel}"),
                f"{t}[...] = np.where(np.arange({self.n}) < {half}, {numpy}, {t})",
            )
        else:
            self.say(self.nest(f"{t}[{self.at}] = {kernel}"), f"{t}[...] = {numpy}")

    def constant(self) -> str:
        name = self.fresh("C")
        self.params[name] = self.numbers(64)
        return name

    def direct(self) -> None:
        """A nest on tensors."""
        (at, total), t = self.number(), self.pick(self.tiles)
        if self.plain and self.layout == "flat":
            return self.direct_flat(at, total, t)
        height = self.rows or 1
        name, other = self.fresh("Y"), self.fresh("X")
        self.params[other], self.params[name] = self.numbers((total * height, self.n)), np.zeros((total * height, self.n), self.dtype)
        self.results.append(name)
        row = f"({at}) * {height} + i" if self.rows else at
        last = self.at[-1]
        swap = self.pick((last, f"{self.n - 1} - {last}"))
        self.say(
            self.nest(f"{name}[{row}, {last}] = {other}[{row}, {swap}] + {t}[{self.at}]"),
            f"put({name}, (({at}) * {height}, 0), get({other}, (({at}) * {height}, 0), {self.shape}){'[..., ::-1]' if swap != last else ''} + {t})",
        )

    def direct_flat(self, at: str, total: int, t: str) -> None:
        name, other = self.fresh("Y"), self.fresh("X")
        self.params[other], self.params[name] = self.numbers(total * self.n), np.zeros(total * self.n, self.dtype)
        self.results.append(name)
        self.say(
            self.nest(f"{name}[({at}) * {self.n} + i] = {other}[({at}) * {self.n} + i] + {t}[i]"),
            f"put({name}, (({at}) * {self.n},), get({other}, (({at}) * {self.n},), {self.shape}) + {t})",
        )

    def gather(self) -> None:
        """Rows of a tile, or its elements, that data chooses."""
        t, (at, total) = self.pick(self.tiles), self.own()
        height = self.rows or 1
        name, where = self.fresh("X"), self.fresh("I")
        self.params[name] = self.numbers((7, self.n))
        self.params[where] = self.rng.integers(0, 7, (total, height if self.rows else self.n)).astype(np.int32)
        index = f"{where}[{at}, i]"
        self.say(
            self.nest(f"{t}[{self.at}] = {name}[{index}, {self.at[-1]}]"),
            f"{t}[...] = {name}[{where}[{at}]{'[:]' if self.rows else ', np.arange(' + str(self.n) + ')'}]",
        )

    def fill(self, t: str = "") -> None:
        t, k = t or self.pick(self.tiles), self.pick((0, 1, 3) if self.plainly() else (0, 1, 3, "w"))
        if k == "w":
            w = self.pick([*self.axes, *(x for x, _ in self.loops)])
            return self.say(f"T.fill({t}, T.cast({w} % 4, '{self.dtype}'))", f"{t}[...] = {w} % 4")
        self.say(f"T.fill({t}, {k})", f"{t}[...] = {k}")

    def move(self) -> None:
        t, u = self.pick(self.tiles), self.pick(self.tiles)
        self.say(f"T.copy({t}, {u})" if t != u else f"T.fill({t}, 2)", f"{u}[...] = {t}" if t != u else f"{t}[...] = 2")

    def reduce(self) -> None:
        t, u, kind = self.pick(self.tiles), self.pick(self.tiles), self.pick(("max", "sum", "min"))
        dim = (self.dim if self.plainly() else self.pick((0, 1, -1))) if self.rows else self.pick((0, -1))
        r = ("r" if dim else "q") if self.rows else "r"
        keep = self.chance(0.2)
        axis = dim if self.rows else 0
        value = f"{t}.{kind}({axis})"
        value = f"np.asarray({value}, F)" if self.dtype != "int32" else value
        if keep:
            value = {"max": f"np.maximum({r}, {value})", "min": f"np.minimum({r}, {value})", "sum": f"{r} + {value}"}[kind]
        self.say(
            f"T.reduce_{kind}({t}, {r}, dim={dim}{', clear=False' if keep else ''})",
            f"{r}[...] = np.clip({value}, -60000, 60000)" if self.dtype == "float16" else f"{r}[...] = {value}",
        )
        at, python = (("i", "r[:, None]") if r == "r" else ("j", "q[None, :]")) if self.rows else ("0", "r[0]")
        small = (f"T.min(T.max({r}[{at}], -4), 4)", f"np.clip({python}, F(-4), F(4))")
        if self.dtype != "int32":
            small = (f"T.min(T.max({r}[{at}], -4.0), 4.0)", small[1])
            kernel, numpy = f"T.min(T.max({u}[{self.at}] + {small[0]}, -8.0), 8.0)", f"np.clip({u} + {small[1]}, F(-8), F(8))"
        else:
            kernel, numpy = f"{u}[{self.at}] + {small[0]}", f"{u} + {small[1]}"
        self.say(self.nest(f"{u}[{self.at}] = {kernel}"), f"{u}[...] = {numpy}")

    def scan(self) -> None:
        t = self.pick(self.tiles)
        dim = self.pick((0, 1)) if self.rows else 0
        back = self.chance(0.3)
        flip = f"{t}[{'::-1' if dim == 0 else ':, ::-1'}]" if back else t
        numpy = f"np.cumsum({flip}, {dim}, dtype=F)"
        numpy = f"{numpy}[{'::-1' if dim == 0 else ':, ::-1'}]" if back else numpy
        self.say(f"T.cumsum({t}, dim={dim}{', reverse=True' if back else ''})", f"{t}[...] = {numpy}")
        if self.dtype != "int32":
            self.say(self.nest(f"{t}[{self.at}] = T.min(T.max({t}[{self.at}], -8.0), 8.0)"), f"{t}[...] = np.clip({t}, F(-8), F(8))")

    def element(self) -> None:
        """One element to memory, or of a tile as a number."""
        (at, total), t = self.number(), self.pick(self.tiles)
        name = self.fresh("E")
        self.params[name] = np.zeros(total, self.dtype)
        self.results.append(name)
        index = ", ".join(str(int(self.rng.integers(n))) for n in self.shape)
        self.same(f"{name}[{at}] = {t}[{index}]")

    # -- the scalar unit ------------------------------------------------------------------------------------------

    def some(self) -> str:
        """An element of a tile."""
        return f"{self.pick(self.tiles)}[{', '.join(str(int(self.rng.integers(n))) for n in self.shape)}]"

    def small(self, kernel: str, numpy: str = "") -> tuple[str, str]:
        """A number in TileLang and in NumPy, kept so small that sums of it are exact."""
        edge = "8" if self.dtype == "int32" else "8.0"
        return f"T.min(T.max({kernel}, -{edge}), {edge})", f"F(np.clip({numpy or kernel}, F(-8), F(8)))"

    def single(self) -> None:
        """One element of a tile, from others, from a tensor, or from what is known of the block."""
        at, total = self.any_number()
        name = self.fresh("X")
        self.params[name] = self.numbers(total + 3)
        out, a, b = self.some(), self.some(), self.pick((self.some(), f"{name}[T.min(T.max({at}, 0), {total})]", "v"))
        kernel, numpy = self.small(f"{a} + {b}", f"{a} + {b}")
        self.say(f"{out} = {kernel}", f"{out} = {numpy}")

    def variable(self) -> None:
        """A variable of the block takes another value, or changes a tile."""
        a = self.pick((self.some(), f"v + {self.some()}", f"{self.constant()}[{self.axes[0]}]"))
        kernel, numpy = self.small(a)
        self.say(f"v = {kernel}", f"v = {numpy}")
        if self.chance(0.6):
            self.scaled("v")

    def named(self) -> None:
        """A name for an element, which may change before the name is used."""
        name = self.fresh("p")
        self.same(f"{name} = {self.some()}")
        if self.chance(0.3):
            first, name = name, self.fresh("p")
            self.same(f"{name} = {first} * 2")
        if self.chance(0.5):
            self.pick((self.change, self.single, self.fill))()
        self.scaled(name)

    def shorter(self) -> None:
        """A nest as long as a number of this block, or an element, says."""
        t, u = self.pick(self.tiles), self.pick(self.tiles)
        w = self.pick([*self.axes, *(x for x, _ in self.loops)])
        data = self.data(self.rng.integers(0, self.n + 1, 64))
        length = self.pick((f"{w} % {self.n}", f"T.min({w} + 2, {self.n})", f"{data}[{w}]"))
        kernel, _ = self.small(f"{u}[{self.at}] + 1")
        part = f"[..., : {length}]"
        heads = (
            [f"for j in T.Parallel({length}):", f"    for i in T.serial({self.rows}):"]
            if self.rows
            else [f"for i in T.Parallel({length}):"]
        )
        self.say([*heads, "    " * len(heads) + f"{t}[{self.at}] = {kernel}"], f"{t}{part} = np.clip({u}{part} + F(1), F(-8), F(8))")

    def most(self) -> None:
        """The greatest of what rows have as their greatest."""
        t, u = self.pick(self.tiles), self.pick(self.tiles)
        self.say([f"T.reduce_max({t}, r, dim=-1)", "T.reduce_max(r, e, dim=0)"], [f"r[...] = {t}.max(-1)", "e[...] = r.max()"])
        kernel, _ = self.small(f"{u}[{self.at}] + e[0]")
        self.say(self.nest(f"{u}[{self.at}] = {kernel}"), f"{u}[...] = np.clip({u} + e[0], F(-8), F(8))")

    def scaled(self, number: str) -> None:
        t, u = self.pick(self.tiles), self.pick(self.tiles)
        kernel, _ = self.small(f"{u}[{self.at}] + {number}")
        self.say(self.nest(f"{t}[{self.at}] = {kernel}"), f"{t}[...] = np.clip({u} + {number}, F(-8), F(8))")

    def several(self) -> None:
        """As many times as data says."""
        v, most = self.fresh("k"), 3
        text, total = self.own()
        trips = f"{self.data(self.rng.integers(0, most + 1, total))}[{text}]"
        self.say(f"for {v} in T.serial({trips}):", f"for {v} in range({trips}):")
        self.loops.append((v, most))
        self.depth += 1
        self.pick((self.change, self.single, self.variable, self.load, *([self.most] if self.rows else [])))()
        self.depth -= 1
        self.loops.pop()

    def condition(self) -> str:
        if self.chance(0.1):
            return f"{self.some()} > {self.pick(('v', '0'))}"
        v = self.pick([*self.axes, *(x for x, _ in self.loops)])
        text, total = self.own()
        return self.pick(
            (f"{v} % 3 == 1", f"{v} > 1", f"{self.data(self.rng.integers(0, 2, total))}[{text}] > 0", f"({text}) < {total - 2}")
        )

    def statements(self, count: int) -> None:
        for _ in range(count):
            if len(self.loops) < 2 and self.chance(0.1) and not self.plainly():
                self.loop(1)
                continue
            few = (self.single, self.variable, self.named) if self.chance(0.3) else ()
            one = self.pick((self.load, self.store, self.change, self.change, self.direct, self.fill, self.move, *([self.reduce] if self.rows else []), *few)) if self.plainly() else self.pick((
                self.load, self.load, self.store, self.store, self.change, self.change, self.back, self.twice, self.add, self.direct, self.gather,
                self.fill, self.move, self.reduce, self.scan, self.shorter, *([self.most] if self.rows else []), *([self.element] if self.chance(0.3) else []), self.single, self.variable, self.named,
                *([self.several] if len(self.loops) < 2 else []),
            ))  # fmt: skip
            if self.chance(0.12) and not self.plainly():
                head = f"if {self.condition()}:"
                self.same(head)
                self.depth += 1
                one()
                self.depth -= 1
                if self.chance(0.3):
                    self.same("else:")
                    self.depth += 1
                    self.pick((self.fill, self.load, self.store))()
                    self.depth -= 1
            else:
                one()

    def loop(self, few: int = 0, init: bool = False) -> None:
        v, trips = self.fresh("k"), int(self.pick(TRIPS[:3] if few and self.loops else TRIPS))
        head = f"T.Pipelined({trips}, num_stages={self.rng.integers(1, 5)})" if self.chance(0.4) else f"T.serial({trips})"
        self.say(f"for {v} in {head}:", f"for {v} in range({trips}):")
        self.loops.append((v, trips))
        self.depth += 1
        if init:
            self.begin()
        self.statements(int(self.rng.integers(1, 4)))
        if init or self.chance(0.5):
            self.store()
        self.depth -= 1
        self.loops.pop()

    def begin(self) -> None:
        for t in self.tiles:
            self.pick((self.load, self.load, self.load, self.fill))(t)
        for r in ("r", "q") if self.rows else ("r",):
            self.say(f"T.fill({r}, 0)", f"{r}[...] = 0")
        self.say("T.fill(e, 0)", "e[...] = 0")
        self.say(f"v = {'0' if self.dtype == 'int32' else '0.0'}", "v = F(0)")

    def program(self) -> tuple[str, str]:
        """(the kernel, the function of arrays by name that it means)."""
        if self.chance(0.35):
            self.loop(init=True)
        else:
            self.begin()
            self.statements(int(self.rng.integers(1, 6)))
            for t in self.tiles:
                self.store(t)
        lines = [f"{t} = T.alloc_{self.pick(('shared', 'fragment'))}({self.shape}, '{self.dtype}')" for t in self.tiles]
        lines += [f"r = T.alloc_fragment(({self.rows or 1},), '{self.dtype}')"]
        lines += [f"v = T.alloc_var('{self.dtype}')", f"e = T.alloc_fragment((1,), '{self.dtype}')"]
        lines += [f"q = T.alloc_fragment(({self.n},), '{self.dtype}')"] if self.rows else []
        params = [f"{name}: T.Tensor({a.shape}, '{a.dtype}')" for name, a in self.params.items()]
        names = ", ".join(self.axes) if len(self.axes) == 1 else f"({', '.join(self.axes)})"
        head = f"@T.prim_func\ndef kernel({', '.join(params)}):\n    with T.Kernel({', '.join(map(str, self.grid))}) as {names}:\n"
        text = head + "".join(f"        {line}\n" for line in lines + self.text)
        made = [f"{t} = np.zeros({self.shape}, F)" for t in self.tiles] + [
            f"r = np.zeros({self.rows or 1}, F)",
            "e = np.zeros(1, F)",
            f"q = np.zeros({self.n}, F)",
        ]
        start = f"{HELPERS}\ndef reference({', '.join(self.params)}):\n    F = np.{self.dtype}\n"
        start += (
            f"    for {', '.join(self.axes)} in np.ndindex({self.grid}):\n"
            if len(self.axes) > 1
            else f"    for bx in range({self.grid[0]}):\n"
        )
        body = "".join(f"        {line}\n" for line in made + [x.replace("T.min", "min").replace("T.max", "max") for x in self.meaning])
        return text, start + body


@contextmanager
def random_models(seed: int):
    """Inside, passes make of several blocks one, and of iterations blocks, where they may and a die says so."""
    from tilelang_ascend.transform.nests import batch_blocks, core_time, lengthen_tiles, spread_loops

    rng = random.Random(seed)

    def times(cycles, rounds, extent, even, tiles, chip):
        room = math.floor(core_time.UB_SHARE * chip.capacity_bytes(core_time.Space.UB) / sum(map(core_time.fixed_bytes, tiles)))
        found = [n for n in range(1, min(extent, core_time.MOST_TIMES, room) + 1) if not even or extent % n == 0]
        return rng.choice(found[1:]) if len(found) > 1 and rng.random() < 0.8 else 1

    with ExitStack() as stack:
        for module, short in ((batch_blocks, "gains"), (lengthen_tiles, "is_short")):
            stack.enter_context(mock.patch.object(module, "best_times", times))
            stack.enter_context(mock.patch.object(module, short, lambda *_, p=rng.choice((0.4, 1.0)): rng.random() < p))
        if rng.random() < 0.5:  # Some statements are done by one block after the other.
            stack.enter_context(mock.patch.object(batch_blocks, "_largest_tile", lambda s: rng.choice((0, 0, 1, 2))))
        stack.enter_context(mock.patch.object(spread_loops, "GAIN", rng.choice((0.8, 1e9))))
        yield


def check(seed: int, notes: list | None = None) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    made = Generator(seed)
    text, meaning = made.program()
    arrays = {k: a.copy() for k, a in made.params.items()}
    found, wrong = outcome(seed, f"<blocks {seed}>", text, random_models, arrays, notes=notes)
    return wrong or differs(meaning, found, arrays, {}, TOLERANCE[made.dtype])


if __name__ == "__main__":
    sys.exit(run("blocks", __doc__, check, lambda seed: Generator(seed).program()[0], lambda seed: "\n".join(Generator(seed).program())))
