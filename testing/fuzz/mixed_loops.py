"""Random loops of cube and vector work together: products whose operands vector work makes, states carried over iterations, tiles that are loaded now and then
or used an iteration later, trip counts and pages from tables, masks, iterations left early, several loops behind each other and in each other.

    python -m testing.fuzz.mixed_loops FIRST LAST [--source]     seeds that fail are printed with their program

What a program means is what its Tile IR does before any pass. It is lowered for a chip with few cores, so that a core has several blocks.
"""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from .command import run
from .dice import Operands
from .few_cores import outcome

TABLE = 64
"""Elements of the tables."""


class Generator(Operands):
    """State of one random program."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.n = int(self.pick((16, 16, 32)))
        self.blocks, self.steps = int(self.pick((1, 2, 3, 5, 8))), int(self.pick((1, 2, 3, 4, 5, 6, 7, 8, 9)))
        self.operands = [f"h{i}" for i in range(int(self.rng.integers(3, 6)))]
        self.numbers = [f"f{i}" for i in range(int(self.rng.integers(2, 5)))]
        self.rows = [f"v{i}" for i in range(int(self.rng.integers(1, 4)))]
        self.filled: dict[str, str] = {}
        """Tiles that are read before anything surely wrote them, and what they start from."""
        self.stored: list[str] = []
        self.left_early = self.chance(0.15)
        self.depth = 0

    def table(self, kind: str, at: str) -> str:
        """An element of a table of numbers of steps ("trips") or of tiles ("page")."""
        return f"{self.tensor({'trips': 'L', 'page': 'P'}[kind], (TABLE,), 'int32', kind)}[{at}]"

    # ---- tiles

    def read(self, tiles: list[str], now: set, before: set) -> str:
        """One of `tiles` to read: mostly what this iteration (`now`) wrote, or what stands since `before`."""
        for known, share in ((now, 0.8), (before, 0.7)):
            found = [x for x in tiles if x in known]
            if found and self.chance(share):
                return self.pick(found)
        tile = self.pick(tiles)
        if tile not in now | before:
            self.filled.setdefault(tile, self.pick(("0", "0.5", "-1.0")))
        return tile

    # ---- where

    def place(self, k: str) -> str:
        """The number of a tile of a tensor of `steps` tiles."""
        s = self.steps
        return self.pick((k, k, k, k, f"{s - 1} - {k}", f"({k} + bx) % {s}", f"{k} // 2", self.table("page", k), self.table("page", f"(bx + {k}) % {TABLE}"), f"bx % {s}"))  # fmt: skip

    def condition(self, k: str) -> str:
        return self.pick((
            f"{k} > 0", f"{k} % 2 == 0", f"{k} < {self.table('trips', 'bx')}", f"{self.table('page', k)} > 1", f"{k} == bx", f"{k} + bx != 2", "bx > 0",
            f"{self.table('trips', k)} > {k}", f"{k} == {self.steps - 1}",
        ))  # fmt: skip

    def mask(self, k: str) -> str:
        n = self.n
        return self.pick(
            (
                f"bx * {n} + i >= {k} * {n} + j",
                f"{k} * {n} + j < {self.table('trips', 'bx')} * {n // 2}",
                "i >= j",
                f"(i + j + {k}) % 3 != 0",
            )
        )

    def head(self, k: str, around: str | None) -> tuple[str, bool]:
        """(the head of a loop over `k`, does it surely run?)"""
        s = self.steps
        if around is None:
            extent, sure = self.pick((
                (str(s), True), (str(s), True), (str(s), True), (self.table("trips", "bx"), False), (f"T.min(bx + 1, {s})", True), (f"T.max({s} - bx, 0)", False),
                (self.table("trips", "0"), False), (f"T.min({self.table('trips', 'bx')} + 1, {s})", False), ("m", False),
            ))  # fmt: skip
        else:
            small = str(int(self.pick((1, 2, 2, 3))))
            extent, sure = self.pick(
                ((small, True), (small, True), (self.table("trips", around) + " % 3", False), (f"{around} % 3", False))
            )
        first = self.pick(("", "", "", "", "1, ", "T.min(bx, 2), ")) if around is None else ""
        kind = f"T.Pipelined({first}{extent}, num_stages={self.rng.integers(1, 4)})" if self.chance(0.75) else f"T.serial({first}{extent})"
        return f"for {k} in {kind}:", sure and not first

    # ---- statements: lines; `now` is added to

    def load(self, k, now, before, tile=None) -> list[str]:
        tile = tile or self.pick(self.operands)
        now.add(tile)
        name = self.tensor(self.pick(("X0", "X1", "X2")), (self.steps * self.n, self.n))
        return [f"T.copy({name}[({self.place(k)}) * {self.n}, 0], {tile})"]

    def product(self, k, now, before, out=None, a=None, b=None, fresh=None) -> list[str]:
        a, b = a or self.read(self.operands, now, before), b or self.read(self.operands, now, before)
        out = out or self.pick(self.numbers)
        turned = self.pick(("", "", ", transpose_B=True", ", transpose_A=True"))
        if fresh is None:
            fresh = self.chance(0.5)
        if not fresh and out not in now | before:
            self.filled.setdefault(out, "0")
        now.add(out)
        if fresh and self.chance(0.3):
            return [f"T.clear({out})", f"T.gemm({a}, {b}, {out}{turned})"]
        return [f"T.gemm({a}, {b}, {out}{turned}{', clear_accum=True' if fresh else ''})"]

    def change(self, k, now, before, tile=None) -> list[str]:
        """A tile from itself and others, element by element."""
        x = tile or self.read(self.numbers, now, before)
        out = x if tile or self.chance(0.7) else self.pick(self.numbers)
        low = self.pick(("-T.infinity('float32')", "0.0", "-4.0"))
        value = self.pick((
            f"{x}[i, j] * 0.5", f"T.max(T.min({x}[i, j], 4.0), -4.0)", f"T.max({x}[i, j], 0.0) + 0.5", f"T.if_then_else({self.mask(k)}, {x}[i, j], {low})",
            f"{x}[i, j] * 0.5 + T.cast({k} - i, 'float32') * 0.25", f"{x}[i, j] + {self.read(self.rows, now, before)}[i]",
            f"T.exp2(T.min({x}[i, j] - {self.read(self.rows, now, before)}[i], 2.0))", f"T.min({x}[i, j], {self.read(self.numbers, now, before)}[i, j])",
        ))  # fmt: skip
        now.add(out)
        return [f"for i, j in T.Parallel({self.n}, {self.n}):", f"    {out}[i, j] = {value}"]

    def reduce(self, k, now, before) -> list[str]:
        x, out = self.read(self.numbers, now, before), self.pick(self.rows)
        keep = self.chance(0.3)
        if keep and out not in now | before:
            self.filled.setdefault(out, "-2.0")
        now.add(out)
        kind = self.pick(("max", "max", "sum"))
        clip = [f"for i in T.Parallel({self.n}):", f"    {out}[i] = T.max(T.min({out}[i], 8.0), -8.0)"]
        return [f"T.reduce_{kind}({x}, {out}, dim=1{', clear=False' if keep else ''})", *clip]

    def operand(self, k, now, before, x=None, out=None) -> list[str]:
        """What vector work made as operand of a product."""
        x, out = x or self.read(self.numbers, now, before), out or self.pick(self.operands)
        now.add(out)
        value = f"T.max(T.min({x}[i, j], 2.0), -2.0)"
        if self.chance(0.5):
            return [f"for i, j in T.Parallel({self.n}, {self.n}):", f"    {out}[i, j] = {value}"]
        now.add(x)
        return [f"for i, j in T.Parallel({self.n}, {self.n}):", f"    {x}[i, j] = {value}", f"T.copy({x}, {out})"]

    def store(self, k, now, before) -> list[str]:
        name = self.fresh("Y")
        self.tensor(name, (self.blocks * (self.steps + 4) * self.n, self.n), self.pick(("float32", "float32", "float16")), "result")
        self.stored.append(name)
        x = self.read(self.numbers, now, before)
        return [f"T.copy({x}, {name}[(bx * {self.steps + 4} + {k}) * {self.n}, 0])"]

    def back(self, k, now, before) -> list[str]:
        """What the kernel stored, perhaps, loaded again."""
        names = [x for x in self.stored if self.params[x][1] == "float16"]
        if not names:
            return self.store(k, now, before)
        tile = self.pick(self.operands)
        now.add(tile)
        return [f"T.copy({self.pick(names)}[(bx * {self.steps + 4} + {self.pick((k, f'T.max({k} - 1, 0)', '0'))}) * {self.n}, 0], {tile})"]

    def copy(self, k, now, before) -> list[str]:
        tiles = self.pick((self.numbers, self.rows))
        a, b = self.read(tiles, now, before), self.pick(tiles)
        now.add(b)
        return [f"T.copy({a}, {b})"] if a != b else []

    def statement(self, k, now, before) -> list[str]:
        make = self.pick(
            (self.load, self.load, self.product, self.change, self.change, self.reduce, self.operand, self.store, self.copy, self.back)
        )
        if self.chance(0.15):
            # `copy` of what is read is no news: what a branch writes is not surely written.
            inside = set(now)
            body = make(k, inside, before)
            return [f"if {self.condition(k)}:", *(f"    {x}" for x in body)] if body else []
        return make(k, now, before)

    # ---- loops

    def attention(self, k, now, before) -> list[str]:
        """What most loops of this kind do."""
        q, x, p, v = (self.operands * 2)[:4]
        s, o = self.numbers[:2]
        if q not in before:
            self.filled.setdefault(q, "0.5")
        out = self.load(k, now, before, x) + self.product(k, now, before, s, q, x, True)
        for _ in range(int(self.rng.integers(0, 3))):
            out += self.change(k, now, before, s)
        out += self.reduce(k, now, before) if self.chance(0.7) else []
        out += self.operand(k, now, before, s, p)
        loads = self.load(k, now, before, v) if self.chance(0.8) and v not in (q, p) else []
        out = loads + out if self.chance(0.3) else out + loads
        values = v if loads else x
        if self.chance(0.6):
            if o not in before:
                self.filled.setdefault(o, "0")
            out += self.change(k, now | {o}, before, o) if self.chance(0.6) else []
            out += self.product(k, now, before, o, p, values, False)
        else:
            out += self.product(k, now, before, o, p, values, True) + (self.store(k, now, before) if self.chance(0.5) else [])
        return out

    def loop(self, before: set, around: str | None = None) -> list[str]:
        k = self.fresh("k")
        head, sure = self.head(k, around)
        now: set = set()
        body: list = []
        deep = self.depth
        self.depth += 1
        if around is None and self.chance(0.75):
            groups = [self.attention(k, now, before)]
            for _ in range(int(self.rng.integers(0, 4))):
                if self.chance(0.5):
                    groups.append(self.statement(k, now, before))
                else:
                    groups.insert(0, self.statement(k, set(), before))  # It finds what the iteration before has left.
            body = [x for g in groups for x in g]
        else:
            for _ in range(int(self.rng.integers(2, 8)) if around is None else int(self.rng.integers(1, 5))):
                body += self.statement(k, now, before)
        if deep == 0 and self.chance(0.25):
            body += self.loop(before | now, k)
            for _ in range(int(self.rng.integers(0, 3))):
                body += self.statement(k, now, before)
        jumps = self.left_early and self.chance(0.6)
        if jumps:
            leave = [f"if {self.condition(k)}:", f"    {self.pick(('continue', 'break', 'continue'))}"]
            body = [*leave, *body] if self.chance(0.5) else [*body, *leave, *self.statement(k, set(), before)]
        self.depth = deep
        if sure and not jumps:
            before |= now
        return [head, *(f"    {x}" for x in body or ["T.clear(f0)"])]

    def program(self) -> str:
        n, before = self.n, set()
        lines: list = []
        for _ in range(int(self.rng.integers(0, 4))):
            lines += self.load(f"bx % {self.steps}", before, set())
        for _ in range(int(self.pick((1, 1, 1, 2, 2, 3)))):
            for _ in range(int(self.rng.integers(0, 2))):
                lines += self.statement("0", before, set())
            lines += self.loop(before)
        for x in self.numbers[: int(self.rng.integers(1, 3))]:
            if x not in before:
                self.filled.setdefault(x, "0")
            self.tensor(f"O{x}", (self.blocks * n, n), "float32", "result")
            lines += [f"T.copy({x}, O{x}[bx * {n}, 0])"]
        return self.written(lines)

    def written(self, lines: list[str]) -> str:
        """The program of statements, with its tiles and tensors."""
        n = self.n
        start = [f"{x} = T.alloc_{self.pick(('shared', 'shared', 'fragment'))}(({n}, {n}), 'float16')" for x in self.operands]
        start += [f"{x} = T.alloc_fragment(({n}, {n}), 'float32')" for x in self.numbers]
        start += [f"{x} = T.alloc_fragment(({n},), 'float32')" for x in self.rows]
        start += [f"T.fill({x}, {value})" for x, value in self.filled.items()]
        params = ", ".join(["m: T.int32", *(f"{name}: T.Tensor({shape}, '{dtype}')" for name, (shape, dtype, _) in self.params.items())])
        text = f"@T.prim_func\ndef kernel({params}):\n    with T.Kernel({self.blocks}) as bx:\n"
        return text + "".join(f"        {x}\n" for x in [*start, *lines])

    def arrays(self, rng) -> dict[str, np.ndarray]:
        """Operands and results by name."""
        kinds = {
            "number": lambda shape: rng.integers(-2, 3, shape) / 2, "trips": lambda shape: rng.integers(0, self.steps + 1, shape),
            "page": lambda shape: rng.integers(0, self.steps, shape), "result": np.zeros,
        }  # fmt: skip
        return self.made(kinds)


@contextmanager
def random_models(seed: int):
    """Inside, loops may rotate that are usually too short for it, as a die says."""
    from tilelang_ascend.transform.schedule import skew_stages

    rng = random.Random(seed)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(skew_stages, "DISTANCE", rng.choice((1, 2, 2, 3))))
        stack.enter_context(mock.patch.object(skew_stages, "WORTH_TRIPS", rng.choice((1, 4))))
        yield


def check(seed: int, notes: list | None = None) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    return checked(Generator(seed), seed, "mixed_loops", notes)


def checked(made: Generator, seed: int, name: str, notes: list | None) -> str | None:
    """What `check` says of the program of a generator called `name`."""
    text = made.program()
    scalars = {"m": random.Random(seed).randint(0, made.steps)}
    return outcome(seed, f"<{name} {seed}>", text, random_models, made.arrays(np.random.default_rng(seed)), scalars, notes)[1]


if __name__ == "__main__":
    sys.exit(run("mixed_loops", __doc__, check, lambda seed: Generator(seed).program()))
