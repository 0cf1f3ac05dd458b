"""Random products of matrices on a grid: sizes that are no multiple of the tiles, axes in any order and direction, operands that lie in any way, and all
that kernels do around the loop over K.

    python -m testing.fuzz.product_grids FIRST LAST [--source]     seeds that fail are printed with their program

Whether blocks get larger tiles (`coarsen_blocks`), or one operand stays where it is (`keep_operands`), is a question of time: here the answer is as
random as the program, on a chip with few cores. Numbers are small integers, so that sums are exact. NumPy says what a program means.
"""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import ml_dtypes
import numpy as np

from .blocks import HELPERS
from .command import run
from .dice import Dice, differs
from .few_cores import outcome


class Generator(Dice):
    """State of one random program."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.dtype = self.pick(("float16", "float16", "bfloat16", "float32", "int8"))
        self.accum = "int32" if self.dtype == "int8" else "float32"
        self.bm, self.bn, self.bk = (int(self.pick((16, 16, 32, 48))), int(self.pick((16, 16, 32, 48))), int(self.pick((16, 32, 32, 64))))
        self.bk = max(self.bk, 32) if self.dtype == "int8" else self.bk
        self.rows, self.columns, self.steps = (int(self.pick((1, 2, 3, 4, 4, 6, 8))) for _ in range(3))
        self.batches = int(self.pick((0, 0, 0, 1, 2, 3)))
        cut = lambda b: int(self.rng.integers(0, b)) if self.chance(0.3) else 0  # noqa: E731
        self.m, self.n, self.k = (
            self.rows * self.bm - cut(self.bm),
            self.columns * self.bn - cut(self.bn),
            self.steps * self.bk - cut(self.bk),
        )
        self.ta, self.tb = self.chance(0.3), self.chance(0.4)
        self.params: dict[str, np.ndarray] = {}

    def numbers(self, *shape) -> np.ndarray:
        return self.rng.integers(-3, 4, shape).astype(self.dtype if self.dtype != "bfloat16" else "float32")

    def operand(self, name: str, turned: bool, first: tuple[str, int], second: tuple[str, int], size: tuple[int, int]) -> list[str]:
        """(where a tile of an operand is in TileLang, and in NumPy): tensor, first indices along both dimensions and sizes of it."""
        order = 1 if not turned else -1
        at, shape = [first[0], second[0]][::order], [size[0], size[1]][::order]
        tile = [first[1], second[1]][::order]
        batch = self.batches and self.chance(0.8)
        self.params[name] = self.numbers(*([self.batches] if batch else []), *shape)
        index = ", ".join([*(["bz"] if batch else []), *at])
        return f"{name}[{index}]", f"get({name}, ({index},), {tuple(tile)})"

    def program(self) -> tuple[str, str]:
        """(the kernel, the function of arrays by name that it means)."""
        rows = self.pick(("by", "by", "by", "by", f"{self.rows - 1} - by"))
        columns = self.pick(("bx", "bx", "bx", "bx", f"{self.columns - 1} - bx"))
        k = self.pick(("k", "k", "k", "k", f"{self.steps - 1} - k", f"(k + 1) % {self.steps}"))
        fixed = self.pick(("", "", "", "", "", "a", "b"))
        at_a = "0" if fixed == "a" else f"({rows}) * {self.bm}"
        at_b = "0" if fixed == "b" else f"({columns}) * {self.bn}"
        load_a, get_a = self.operand("A", self.ta, (at_a, self.bm), (f"({k}) * {self.bk}", self.bk), (self.m, self.k))
        load_b, get_b = self.operand("B", not self.tb, (at_b, self.bn), (f"({k}) * {self.bk}", self.bk), (self.n, self.k))
        steps = self.pick((str(self.steps), str(self.steps), str(self.steps), "m"))
        head = f"T.Pipelined({steps}, num_stages={self.rng.integers(1, 5)})" if self.chance(0.85) else f"T.serial({steps})"
        clear = self.pick(("clear", "clear", "clear", "first", "fill in loop"))
        shapes = [(self.bk, self.bm) if self.ta else (self.bm, self.bk), (self.bn, self.bk) if self.tb else (self.bk, self.bn)]
        lines = [f"a = T.alloc_shared({shapes[0]}, '{self.dtype}')", f"b = T.alloc_shared({shapes[1]}, '{self.dtype}')"]
        lines += [f"c = T.alloc_fragment(({self.bm}, {self.bn}), '{self.accum}')"]
        inside, means = [f"T.copy({load_a}, a)", f"T.copy({load_b}, b)"], []
        if self.chance(0.3):
            inside.reverse()
        turned = "".join(f", transpose_{x}=True" for x, t in (("A", self.ta), ("B", self.tb)) if t)
        product = f"{get_a}{'.T' if self.ta else ''}.astype(float) @ {get_b}{'.T' if self.tb else ''}.astype(float)"
        if clear == "clear" or steps == "m":
            lines += ["T.clear(c)"]  # A loop may have no iteration.
        elif clear == "fill in loop":
            inside += ["if k == 0:", "    T.clear(c)"]
        inside += [f"T.gemm(a, b, c{turned}{', clear_accum=k == 0' if clear == 'first' else ''})"]
        means += [f"c += {product}"]
        if self.chance(0.06):
            cond = self.pick(("k != 1", "k % 2 == 0", "by > 0", "(k + bx) % 3 != 1"))
            if clear != "clear":
                lines += ["T.clear(c)"]
            inside[-1:] = [f"if {cond}:", f"    T.gemm(a, b, c{turned})"]
            means = [f"if {cond}:", f"    {means[0]}"]
        lines += [f"for k in {head}:", *(f"    {x}" for x in inside)]
        means = [f"c = np.zeros(({self.bm}, {self.bn}))", f"for k in range({steps}):", *(f"    {x}" for x in means)]
        more, meant = self.end(f"({rows}) * {self.bm}", f"({columns}) * {self.bn}")
        lines, means = lines + more, means + meant
        axes = [("bx", self.columns), ("by", self.rows)]
        axes = axes[::-1] if self.chance(0.4) else axes
        if self.batches:
            axes.insert(int(self.rng.integers(0, 3)), ("bz", self.batches))
        dtypes = {n: self.dtype if n in "AB" else str(a.dtype) for n, a in self.params.items()}
        params = ", ".join(["m: T.int32", *(f"{n}: T.Tensor({a.shape}, '{dtypes[n]}')" for n, a in self.params.items())])
        names, sizes = ", ".join(n for n, _ in axes), ", ".join(str(n) for _, n in axes)
        text = f"@T.prim_func\ndef kernel({params}):\n    with T.Kernel({sizes}) as ({names}):\n" + "".join(f"        {x}\n" for x in lines)
        start = f"{HELPERS}\ndef reference(m, {', '.join(self.params)}):\n    for {names} in np.ndindex({sizes}):\n"
        return text, start + "".join(f"        {x}\n" for x in means)

    def end(self, row: str, column: str) -> tuple[list[str], list[str]]:
        """What happens to the result."""
        out = self.pick(("float32", "float16")) if self.accum == "float32" else "int32"
        batch = bool(self.batches)
        at = f"{'bz, ' if batch else ''}{row}, {column}"
        shape = ((self.batches,) if batch else ()) + (self.m, self.n)
        self.params["C"] = np.zeros(shape, out)
        kind = self.pick(("copy", "copy", "copy", "copy", "nest", "shared", "add", "two", "bias", "turned", "direct", "half"))
        lines, means = [], []
        if kind in ("nest", "bias"):
            more = "2"
            if kind == "bias":
                self.params["V"] = self.rng.integers(-3, 4, self.n).astype(out)
                more = f"T.cast(V[T.min({column} + j, {self.n - 1})], '{self.accum}')"
            lines += [
                f"for i, j in T.Parallel({self.bm}, {self.bn}):",
                f"    c[i, j] = T.max(c[i, j] + {more}, {'0' if out == 'int32' else '0.0'})",
            ]
            means += [
                f"c = np.maximum(c + {'2' if kind == 'nest' else f'V[np.minimum({column} + np.arange({self.bn}), {self.n - 1})]'}, 0)"
            ]
        if kind == "shared":
            lines = [f"d = T.alloc_shared(({self.bm}, {self.bn}), '{out}')", "T.copy(c, d)", f"T.copy(d, C[{at}])"]
            return lines, [f"put(C, ({at},), c.astype(C.dtype))"]
        if kind == "add" and out != "float16":
            times = int(self.rng.integers(1, 3))
            return [f"T.atomic_add(C[{at}], c)"] * times, [f"put(C, ({at},), c.astype(C.dtype), True)"] * times
        if kind == "direct":
            at = f"{'bz, ' if batch else ''}{row} + i, {column} + j"
            lines += [
                f"for i, j in T.Parallel({self.bm}, {self.bn}):",
                f"    if {row} + i < {self.m} and {column} + j < {self.n}:",
                f"        C[{at}] = c[i, j]",
            ]
            return lines, [f"put(C, ({'bz, ' if batch else ''}{row}, {column}), c.astype(C.dtype))"]
        if kind == "half":
            half = self.bm // 2
            return [f"T.copy(c[0:{half}, :], C[{at}])"], [f"put(C, ({at},), c[:{half}].astype(C.dtype))"]
        if kind == "two":
            self.params["D"] = np.zeros(shape, "float32" if out != "int32" else out)
            return [f"T.copy(c, C[{at}])", f"T.copy(c, D[{at}])"], [
                f"put(C, ({at},), c.astype(C.dtype))",
                f"put(D, ({at},), c.astype(D.dtype))",
            ]
        return [*lines, f"T.copy(c, C[{at}])"], [*means, f"put(C, ({at},), c.astype(C.dtype))"]


@contextmanager
def random_models(seed: int):
    """Inside, passes take larger blocks, and keep operands, where they may and a die says so."""
    from tilelang_ascend.transform.nests import keep_operands, product_grid

    rng = random.Random(seed)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(product_grid, "GAIN", rng.choice((0.95, 1e9, 1e9))))
        stack.enter_context(mock.patch.object(keep_operands, "GAIN", rng.choice((0.0, 0.0, 1e9))))
        stack.enter_context(mock.patch.object(keep_operands, "CLOSE", rng.choice((1.03, 1e9))))
        yield


def check(seed: int, notes: list | None = None) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    made = Generator(seed)
    text, meaning = made.program()
    arrays, scalars = {k: a.copy() for k, a in made.params.items()}, {"m": random.Random(seed).randint(0, made.steps)}
    if made.dtype == "bfloat16":
        arrays.update({k: arrays[k].astype(ml_dtypes.bfloat16) for k in "AB"})
    found, wrong = outcome(seed, f"<product_grids {seed}>", text, random_models, arrays, scalars, notes)
    return wrong or differs(meaning, found, arrays, scalars, 0.0)


if __name__ == "__main__":
    sys.exit(
        run("product_grids", __doc__, check, lambda seed: Generator(seed).program()[0], lambda seed: "\n".join(Generator(seed).program()))
    )
