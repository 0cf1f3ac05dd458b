"""Random nests of `T.Parallel` that read and store tensors in GM at all kinds of places.

    python -m testing.fuzz.places FIRST LAST [--source]     seeds that fail are printed with their program

Indices are moved, mirrored, strided, divided, clamped or chosen by data, and leave the tensor at either end; conditions say less or more than
bounds; a third of the programs carries a variable through the iterations of its nests. Every tensor that is stored is stored, and read, at
one place an iteration, which no other iteration has. The meaning of a program is what the interpreter of its Python text says, for one order
of iterations and another, or, where a variable is carried, what its Tile IR says.
"""

from __future__ import annotations

import sys

import numpy as np

from .check import located_refusal, trace
from .command import run
from .dice import Dice

DTYPES = ("float32", "float32", "float16", "int32", "int8", "uint8", "int64")
SAME = "{g}, j"
"""The place of an iteration."""


class Generator(Dice):
    """State of one random program."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.dtype, self.carried, self.dynamic = self.pick(DTYPES), seed % 3 == 0, self.chance(0.4)
        self.rows, self.columns = int(self.pick((4, 5, 8))), int(self.pick((8, 9, 32, 70)))
        self.blocks, self.short = int(self.rng.integers(1, 4)), int(self.pick((0, 0, 1, 3)))
        self.height, self.width = self.rows * self.blocks - self.short, self.columns - int(self.pick((0, 0, 1, 3)))
        self.n = "n" if self.dynamic else str(self.height)
        self.index = self.pick(("int32", "int64"))
        self.stored = {name: self.target() for name in "YZ"}

    def filled(self, text: str) -> str:
        return text.format(g=f"(bx * {self.rows} + i)", n=self.n, w=self.width)

    # -- places ---------------------------------------------------------------------------------------------------------

    def target(self) -> str:
        """Where iterations store."""
        return self.filled(
            self.pick((SAME, SAME, "{n} - 1 - {g}, j", "{g} + 1, j", "{g}, {w} - 1 - j", "{g}, j - 1", "{g}, j + 2", "P[{g}], j"))
        )

    def source(self) -> str:
        """Where they read."""
        row = self.pick(
            (
                "{g}",
                "{g}",
                "{g} + 1",
                "{g} - 1",
                "{n} - 1 - {g}",
                "I[{g}]",
                "I[{g}]",
                "P[{g}] + 1",
                "T.min(I[{g}] + 1, {n} - 1)",
                "{g} // 2",
                "0",
            )
        )
        column = self.pick(
            ("j", "j", "j - 1", "j - 9", "j + 1", "j - m", "j + m", "{w} - 1 - j", "T.min(j + 2, {w} - 1)", "j // 2", "j % 3")
        )
        return self.filled(f"{row}, {column}")

    def condition(self) -> str:
        return self.filled(self.pick((
            "{g} < {n}", "j < {w}", "{g} < {n} and j < {w}", "j >= m", "{g} >= 1", "j + 1 < {w}", "j <= {g}", "I[{g}] > 2", "t[i, j] > 1", "m > 3",
            "X[{g}, j] > 0", "(i + j) % 2 == 0",
        )))  # fmt: skip

    # -- statements -----------------------------------------------------------------------------------------------------

    def value(self, own: str, depth: int = 0) -> str:
        kind = self.pick(("load", "load", "own", "sum", "product", "choice", "tile")) if depth < 2 else "load"
        if kind in ("sum", "product"):
            return f"({self.value(own, depth + 1)} {'+' if kind == 'sum' else '*'} {self.value(own, depth + 1)})"
        if kind == "choice":
            return f"T.if_then_else({self.condition()}, {self.value(own, depth + 1)}, {self.value(own, depth + 1)})"
        return {"load": f"X[{self.source()}]", "own": own, "tile": "t[i, j]"}[kind]

    def store(self) -> str:
        name = self.pick("YZt")
        place = f"{name}[{self.stored.get(name, 'i, j')}]"
        more = " + u" if self.carried and self.chance(0.5) else ""
        return f"{place} = T.cast({self.value(place)}{more}, '{self.dtype}')"

    def body(self, depth: int = 0) -> list[str]:
        out: list[str] = []
        for _ in range(self.rng.integers(1, 4)):
            if depth < 2 and self.chance(0.35):
                out += [f"if {self.condition()}:", *(f"    {x}" for x in self.body(depth + 1))]
                if self.chance(0.3):
                    out += ["else:", *(f"    {x}" for x in self.body(depth + 1))]
            else:
                out.append(self.pick(("u = u + 1", "u = u * 2 + j")) if self.carried and self.chance(0.3) else self.store())
        return out

    def text(self) -> str:
        """The program: X, I, P and m are read, Y and Z changed, U gets the variable of each block."""
        shape, lines = f"({self.n}, {self.width})", []
        for _ in range(self.rng.integers(1, 4)):
            rows = f"T.min(m + 1, {self.rows})" if self.carried and self.chance(0.3) else str(self.rows)
            lines += [f"for i, j in T.Parallel({rows}, {self.columns}):", *(f"    {x}" for x in self.body())]
        tile = f"({self.rows}, {self.columns})"
        return "\n".join([
            "n = T.dynamic('n')", "@T.prim_func",
            f"def kernel(X: T.Tensor({shape}, '{self.dtype}'), I: T.Tensor(({self.n},), 'int32'), P: T.Tensor(({self.rows * self.blocks},), '{self.index}'), m: T.int32, Y: T.Tensor({shape}, '{self.dtype}'),",
            f"           Z: T.Tensor({shape}, '{self.dtype}'), U: T.Tensor(({self.blocks},), 'int32')):",
            f"    with T.Kernel(T.ceildiv({self.n}, {self.rows})) as bx:",
            f"        t = T.alloc_shared({tile}, '{self.dtype}')", "        u = T.alloc_var('int32')", "        u = 0",
            f"        T.copy(X[bx * {self.rows}, 0], t)", *(f"        {x}" for x in lines), "        U[bx] = u",
        ]) + "\n"  # fmt: skip

    def inputs(self) -> tuple[dict, dict]:
        """(arrays by name, scalars by name)"""
        numbers = lambda: self.rng.integers(0, 5, (self.height, self.width)).astype(self.dtype)  # noqa: E731
        places = self.rng.integers(0, self.height, self.height).astype(np.int32)
        moved = self.rng.permutation(self.rows * self.blocks) + int(self.pick((0, 0, -2, 3)))
        arrays = {
            "X": numbers(),
            "I": places + int(self.pick((0, -1, 2))),
            "P": moved.astype(self.index),
            "Y": numbers(),
            "Z": numbers(),
            "U": np.zeros(self.blocks, np.int32),
        }
        return arrays, {"m": int(self.pick((0, 1, 3, 11, self.columns)))}


def check(seed: int) -> str | None:
    """None if the program of a seed is compiled as it means, or means different things in different orders; "refused: …" if it is refused, else
    what is wrong."""
    import tilelang_ascend as tilelang
    from tilelang_ascend import interpret

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    made = Generator(seed)
    func = trace(made.text(), f"<places {seed}>")
    (arrays, scalars), chip = made.inputs(), made.pick(("a2", "a3", "a5"))
    wanted: list[dict] = []
    for order in () if made.carried else (0, 1, 2):
        mine = {name: a.copy() for name, a in arrays.items()}
        try:
            interpret.run(func, *(mine[p] if p in mine else scalars[p] for p in ("X", "I", "P", "m", "Y", "Z", "U")), seed=order)
        except interpret.InterpretError:
            return None  # It reads what has no value.
        if wanted and any(wanted[0][name].tobytes() != a.tobytes() for name, a in mine.items()):
            return None
        wanted.append(mine)
    try:
        found = strict.run(tilelang.compile(func, target=chip), arrays, {**scalars, "n": made.height}, text=made.chance(0.1))
    except tilelang.errors.TilelangAscendError as error:
        return f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        return f"{type(error).__name__}: {str(error)[:1500]}"
    wrong = [name for mine in wanted[:1] for name in "YZ" if mine[name].tobytes() != found[name].tobytes()]
    return f"{wrong[0]} is not what the interpreter says" if wrong else None


if __name__ == "__main__":
    sys.exit(run("places", __doc__, check, lambda seed: Generator(seed).text()))
