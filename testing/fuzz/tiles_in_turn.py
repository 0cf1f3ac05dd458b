"""Random tiles that follow each other: several for each core, each with one loop of cube and vector work of surely some steps, and work of either kind of core
around it. `mixed_loops` seldom writes such kernels: whose loops may become one over the steps of all tiles (`chain_tiles`).

    python -m testing.fuzz.tiles_in_turn FIRST LAST [--source]     seeds that fail are printed with their program
"""

from __future__ import annotations

import sys

from . import mixed_loops
from .command import run


class Generator(mixed_loops.Generator):
    """State of one random program."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.blocks, self.steps = int(self.pick((5, 6, 7, 9))), int(self.pick((2, 3, 3, 4, 5, 6)))
        self.left_early = False

    def head(self, k: str, around: str | None) -> tuple[str, bool]:
        s = self.steps
        extent = self.pick((str(s), str(s), f"T.max({self.table('trips', 'bx')}, 3)", f"bx % {s} + 3", f"T.min(bx, {s}) + 2"))
        return f"for {k} in T.Pipelined({extent}, num_stages={self.rng.integers(1, 4)}):", True

    def steps_of(self, k: str, before: set) -> list[str]:
        """The body of the loop: scores of a tile `q`, what vector work makes of them, and their product, added to a sum that vector work scales."""
        now: set = set()
        (q, x, p), (s, o) = (self.operands * 2)[:3], self.numbers[:2]
        v = self.pick((x, x, self.operands[-1] if len(self.operands) > 3 else x))
        body = self.load(k, now, before, x) + self.product(k, now, before, s, q, x, True)
        for _ in range(int(self.rng.integers(0, 3))):
            body += self.change(k, now, before, s)
        body += self.reduce(k, now, before) if self.chance(0.7) else []
        body += self.operand(k, now, before, s, p)
        body += self.load(k, now, before, v) if v != x else []
        if self.chance(0.8):
            body += [
                f"for i, j in T.Parallel({self.n}, {self.n}):",
                f"    {o}[i, j] = {o}[i, j] * {self.pick(('0.5', f'T.min({self.rows[0]}[i], 1.0)'))}",
            ]
        body += self.product(k, now, before, o, p, v, False)
        for _ in range(int(self.pick((0, 0, 0, 1, 2)))):
            body += self.statement(k, now, before)
        return body

    def program(self) -> str:
        n, before = self.n, set()
        q, o = self.operands[0], self.numbers[1]
        lines = self.load(f"bx % {self.steps}", before, set(), q)
        for x in (o, *self.rows):
            before.add(x)
            lines.append(f"T.fill({x}, {self.pick(('0', '0', '0.5'))})" if x != o else f"T.fill({o}, 0)")
        head, _ = self.head("k", None)
        lines += [head, *(f"    {x}" for x in self.steps_of("k", before))]
        after = set(before)
        for _ in range(int(self.rng.integers(0, 3))):
            lines += self.pick((self.change, self.reduce))("0", after, before)
        for x in self.rows[: int(self.rng.integers(0, 2))]:
            self.tensor(f"O{x}", (self.blocks * n,), "float32", "result")
            lines.append(f"T.copy({x}, O{x}[bx * {n}])")
        self.tensor(f"O{o}", (self.blocks * n, n), "float32", "result")
        lines.append(f"T.copy({o}, O{o}[bx * {n}, 0])")
        return self.written(lines)


def check(seed: int, notes: list | None = None) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    return mixed_loops.checked(Generator(seed), seed, "tiles_in_turn", notes)


if __name__ == "__main__":
    sys.exit(run("tiles_in_turn", __doc__, check, lambda seed: Generator(seed).program()))
