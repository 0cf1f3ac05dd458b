"""What generators of random programs have in common: a die, and the comparison of results with what a program means."""

from __future__ import annotations

import numpy as np


class Dice:
    """Draws from `rng`, which a generator sets."""

    rng: np.random.Generator
    names = 0
    """Names given so far."""

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def fresh(self, letter: str) -> str:
        """A name nobody has."""
        self.names += 1
        return f"{letter}{self.names}"


class Writer(Dice):
    """Lines of a program in `text`, and of what it means in `meaning`, at `depth`."""

    def __init__(self):
        self.text: list[str] = []
        self.meaning: list[str] = []
        self.depth = 0

    def say(self, lines, meaning) -> None:
        for out, more in ((self.text, lines), (self.meaning, meaning)):
            out += ["    " * self.depth + line for line in ([more] if isinstance(more, str) else more)]


class RowWriter(Writer):
    """Writes about tiles of `rows` rows (0: they have one dimension) of `n` elements."""

    rows: int
    n: int

    def nest(self, *lines: str) -> list[str]:
        """A nest over the elements of a tile."""
        head = f"for i, j in T.Parallel({self.rows}, {self.n}):" if self.rows else f"for i in T.Parallel({self.n}):"
        return [head, *(f"    {line}" for line in lines)]

    @property
    def at(self) -> str:
        return "i, j" if self.rows else "i"


class Operands(Dice):
    """Tensors of a program by name, in `params`: (shape, dtype, kind of its numbers)."""

    def __init__(self):
        self.params: dict[str, tuple] = {}

    def tensor(self, name: str, shape: tuple, dtype: str = "float16", kind: str = "number") -> str:
        self.params[name] = shape, dtype, kind
        return name

    def made(self, kinds: dict) -> dict[str, np.ndarray]:
        """Arrays for the tensors; kinds: kind -> an array for a shape."""
        return {name: np.asarray(kinds[kind](shape)).astype(dtype) for name, (shape, dtype, kind) in self.params.items()}


def differs(meaning: str, found: dict, arrays: dict, scalars: dict, tolerance: float) -> str | None:
    """The first element of `found` that is not what the function `reference` of the text `meaning` leaves in `arrays`; None if there is none.
    `scalars` are its first arguments."""
    scope: dict = {"np": np}
    exec(compile(meaning, "<meaning>", "exec"), scope)  # noqa: S102
    with np.errstate(all="ignore"):
        scope["reference"](*scalars.values(), *arrays.values())
    for name, want in arrays.items():
        have = found[name]
        bad = ~np.isclose(have.astype(float), want.astype(float), tolerance, tolerance) & (have != want)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            told = "".join(f"; {n} = {x}" for n, x in scalars.items())
            return f"{name}{list(at)} is {have[at]}, not {want[at]} ({bad.sum()} elements differ{told})"
    return None


__all__ = ["Dice", "Operands", "RowWriter", "Writer", "differs"]
