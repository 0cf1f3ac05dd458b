"""Random loops whose values go from the cube core to the vector cores and back: products, and vector work between them.

    python -m testing.fuzz.rounds FIRST LAST [--source]     seeds that fail are printed with their program

A program has a few 16-bit tiles, float32 accumulators and a vector of rows; a loop body loads, multiplies (into accumulators that are cleared,
kept, masked or rescaled), changes and converts them in any order, so that what overlaps with what is different in every one. The meaning of a
program is what the interpreter of its Python text says. Numbers stay small: what is compared is who wrote a value last, not rounding.
"""

from __future__ import annotations

import sys

import numpy as np

from .command import run
from .dice import Dice

SIZES = (16, 32, 32, 48)
WIDE = 1_000_000
"""Seeds from here on also leave iterations early, count iterations by data, multiply what is in an accumulator, keep sums in 16 bits, add to
tensors atomically and load what was stored; those below keep the kernels they have always given."""
BLOCKS = 4
"""Blocks of rows in the operands: at most so many iterations."""
TOLERANCE = 2.0**-7
"""Of the largest number of a tensor. Sums are of at most 48 products of numbers a 16-bit float holds to 2^-11, rounded again in each step."""


class Generator(Dice):
    """State of one random program."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.wide = seed >= WIDE
        self.n, self.dtype = int(self.pick(SIZES)), self.pick(("float16", "float16", "bfloat16"))
        self.c = [f"c{k}" for k in range(self.rng.integers(2, 5))]
        self.p = [f"p{k}" for k in range(self.rng.integers(1, 3))]
        self.a = [f"a{k}" for k in range(self.rng.integers(1, 3))]

    def number(self) -> str:
        return self.pick(("0.5", "0.25", "1.0", "-0.5"))

    # -- statements -----------------------------------------------------------------------------------------------

    def load(self, k: str) -> list[str]:
        return [f"T.copy({self.pick(('A', 'B'))}[({k}) * {self.n}, 0], {self.pick(self.a)})"]

    def product(self, k: str) -> list[str]:
        x, y, c = self.pick(self.a + self.p), self.pick(self.a + self.p), self.pick(self.c)
        if self.wide and self.chance(0.15):
            c = self.pick(self.p)
            kind = self.pick(("", ", clear_accum=True", f", clear_accum=({k}) == 0", f", clear_accum=({k}) < n"))
            small = self.nest(f"{c}[i, j] = T.min(T.max({c}[i, j], -2.0), 2.0) * 0.25")
            return [f"T.gemm({x}, {y}, {c}{kind})", *small]
        more = ", transpose_B=True" if self.chance(0.4) else ""
        kind = self.pick(("keep", "keep", "clear", "accum", "first", "masked"))
        if kind == "masked":
            return [*self.nest(f"{c}[i, j] = T.if_then_else(i + ({k}) >= j, 0.0, {self.number()})"), f"T.gemm({x}, {y}, {c}{more})"]
        if kind == "clear":
            return [f"T.clear({c})", f"T.gemm({x}, {y}, {c}{more})"]
        clear = {"keep": "", "accum": ", clear_accum=True", "first": f", clear_accum=({k}) == 0"}[kind]
        return [f"T.gemm({x}, {y}, {c}{more}{clear})"]

    def nest(self, *lines: str, rows: bool = False) -> list[str]:
        head = f"for i in T.Parallel({self.n}):" if rows else f"for i, j in T.Parallel({self.n}, {self.n}):"
        return [head, *(f"    {x}" for x in lines)]

    def change(self, k: str) -> list[str]:
        x, y, z = (self.pick(self.c) for _ in range(3))
        value = self.pick((
            f"{y}[i, j] * {self.number()}", f"{y}[i, j] * {self.number()} + {z}[i, j] * 0.5", f"T.max({y}[i, j], {z}[i, j])",
            f"{y}[i, j] + m[i]", f"{y}[i, j] * {self.number()} - m[i] * 0.25", f"T.if_then_else(i > j, {y}[i, j], {z}[i, j] * 0.5)",
        ))  # fmt: skip
        return self.nest(f"{x}[i, j] = T.min(T.max({value}, -4.0), 4.0)")

    def cast(self, k: str) -> list[str]:
        c, p = self.pick(self.c), self.pick(self.p)
        return [f"T.copy({c}, {p})"] if self.chance(0.3) else self.nest(f"{p}[i, j] = T.min(T.max({c}[i, j], -4.0), 4.0) * 0.125")

    def rows(self, k: str) -> list[str]:
        kind = self.pick(("max", "sum"))
        return [f"T.reduce_{kind}({self.pick(self.c)}, m, dim=1)", *self.nest("m[i] = T.min(T.max(m[i] * 0.125, -2.0), 2.0)", rows=True)]

    def memory(self, k: str) -> list[str]:
        """What other iterations see."""
        c, d, at = (
            self.pick(self.c),
            self.pick(self.c),
            self.pick(("0", f"({k}) * {self.n}", f"({k} + 1) % {BLOCKS} * {self.n}", f"I[{k}] * {self.n}")),
        )
        return self.pick((
            [f"T.copy({c}, Z[{at}, 0])"], [f"T.atomic_add(Z[{at}, 0], {c})"], [f"T.copy(Z[{at}, 0], {c})", *self.nest(f"{c}[i, j] = T.min(T.max({c}[i, j], -4.0), 4.0)")],
            self.nest(f"Z[{at} + i, j] = {c}[i, j] * 0.5"), self.nest(f"{c}[i, j] = {d}[i, j] * 0.5 + T.min(T.max(Z[{at} + i, j], -2.0), 2.0)"),
            self.nest(f"T.atomic_add(Z[{at} + i, j], {c}[i, j])"),
        ))  # fmt: skip

    def leave(self, k: str) -> list[str]:
        how = self.pick(("T.loop_break()", "continue"))
        return [f"if {self.pick((f'({k}) == n', f'I[{k}] > 1', f'I[({k})] == n', f'({k}) > 1'))}:", f"    {how}"]

    def swap(self, k: str) -> list[str]:
        x, y, z = (self.pick(self.c) for _ in range(3))
        return [f"T.copy({x}, {z})", f"T.copy({y}, {x})", f"T.copy({z}, {y})"]

    def store(self, k: str) -> list[str]:
        return [f"T.copy({self.pick(self.c)}, Z[({k}) * {self.n}, 0])"]

    def body(self, k: str, depth: int = 0) -> list[str]:
        kinds = [self.load, self.load, self.product, self.product, self.product, self.change, self.change, self.cast, self.cast, self.rows]
        if self.wide:
            kinds += [self.memory, self.leave, self.swap] if self.chance(0.5) else []
        out = []
        for _ in range(self.rng.integers(3, 10)):
            part = self.pick(kinds)(k)
            if self.chance(0.08):
                part = [f"if {self.pick((f'({k}) > 0', 'n > 1', f'({k}) == n'))}:", *(f"    {x}" for x in part)]
            elif self.chance(0.06) and not depth:
                part = [f"for q in T.serial({self.pick((1, 2, 'n'))}):", *(f"    {x}" for x in part)]
            out += part
        if self.chance(0.2):
            out += self.store(k)
        return out

    def loop(self, k: str) -> list[str]:
        head = self.pick((f"T.Pipelined({self.rng.integers(1, BLOCKS + 1)}, num_stages={self.pick((1, 2, 3))})", f"T.serial({self.rng.integers(1, BLOCKS + 1)})",
                          "T.Pipelined(n, num_stages=2)", "T.serial(n)", f"T.serial(1, {BLOCKS})"))  # fmt: skip
        if self.wide and self.chance(0.2):
            head = self.pick(
                ("T.Pipelined(I[0], num_stages=2)", "T.serial(I[n % 4])", "T.Pipelined(T.min(n, 3), num_stages=4)", "T.serial(n // 2, n)")
            )
        body = self.body(k)
        if self.chance(0.08):
            body = [f"if {k} == n:", "    T.loop_break()", *body]
        return [f"for {k} in {head}:", *(f"    {x}" for x in body)]

    def source(self) -> str:
        """The program: a kernel of tensors A, B (blocks of rows), a number n, results Y (all accumulators), M (rows) and Z (blocks)."""
        n, rows = self.n, self.n * BLOCKS
        lines = [f"{t} = T.alloc_shared(({n}, {n}), '{self.dtype}')" for t in self.a]
        lines += [f"{t} = T.alloc_{self.pick(('fragment', 'shared'))}(({n}, {n}), '{self.dtype}')" for t in self.p]
        lines += [f"{t} = T.alloc_fragment(({n}, {n}), 'float32')" for t in self.c] + [f"m = T.alloc_fragment(({n},), 'float32')"]
        lines += [f"T.copy({self.pick(('A', 'B'))}[0, 0], {t})" for t in self.a] + [f"T.copy(A[{n}, 0], {t})" for t in self.p]
        lines += [f"T.fill({t}, {self.pick(('0', '0', '0.5'))})" for t in self.c] + ["T.fill(m, 0.5)"]
        lines += self.loop("k") + (self.loop("l") if self.chance(0.25) else [])
        lines += [f"T.copy({t}, Y[{i * n}, 0])" for i, t in enumerate(self.c)] + ["T.copy(m, M)"]
        shape = f"({rows}, {n})"
        text = [
            "@T.prim_func",
            f"def kernel(A: T.Tensor({shape}, '{self.dtype}'), B: T.Tensor({shape}, '{self.dtype}'), n: T.int32,",
            f"           Y: T.Tensor(({len(self.c) * n}, {n}), 'float32'), M: T.Tensor(({n},), 'float32'), Z: T.Tensor({shape}, 'float32')"
            + (f", I: T.Tensor(({BLOCKS},), 'int32')):" if self.wide else "):"),
            "    with T.Kernel(1):",
            *(f"        {x}" for x in lines),
        ]
        return "\n".join(text) + "\n"


def check(seed: int) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    import ml_dtypes

    import tilelang_ascend as tilelang
    from tilelang_ascend import interpret

    from .check import located_refusal, trace

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    made = Generator(seed)
    func = trace(made.source(), f"<rounds {seed}>")
    try:
        compiled = tilelang.compile(func, target=made.pick(("a2", "a2", "a3", "a5")))
    except tilelang.errors.TilelangAscendError as error:
        return f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        return f"{type(error).__name__}: {str(error)[:1500]}"
    kind = np.float16 if made.dtype == "float16" else ml_dtypes.bfloat16
    shapes = {"A": (made.n * BLOCKS, made.n), "B": (made.n * BLOCKS, made.n)}
    arrays = {name: made.rng.integers(-2, 3, shape).astype(kind) * kind(0.5) for name, shape in shapes.items()}
    results = {"Y": (len(made.c) * made.n, made.n), "M": (made.n,), "Z": shapes["A"]}
    arrays.update({name: np.zeros(shape, np.float32) for name, shape in results.items()})
    n = int(made.pick((0, 1, 2, 3, BLOCKS)))
    names = ["A", "B", "n", "Y", "M", "Z"]
    if made.wide:
        names, arrays["I"] = [*names, "I"], made.rng.integers(0, BLOCKS, BLOCKS).astype(np.int32)
    try:
        found = strict.run(compiled, arrays, {"n": n}, text=made.chance(0.25))
    except Exception as error:  # noqa: BLE001  any error is a finding
        return f"{type(error).__name__}: {str(error)[:1500]}"
    mine = {name: a.copy() for name, a in arrays.items()}
    interpret.run(func, *(mine[p] if p in mine else n for p in names), seed=0)
    for name in results:
        have, want = found[name].astype(np.float64), mine[name].astype(np.float64)
        bad = ~(np.abs(have - want) <= TOLERANCE * max(1.0, np.abs(want).max()))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return f"{name}{list(at)} is {have[at]}, not {want[at]} ({bad.sum()} elements differ)"
    return None


if __name__ == "__main__":
    sys.exit(run("rounds", __doc__, check, lambda seed: Generator(seed).source()))
