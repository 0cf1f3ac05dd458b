"""Random element expressions as source text."""

from __future__ import annotations

from .case import FLOATS

UNARY = ("T.exp(T.min({}, 2.0))", "T.sqrt(T.abs({}))", "T.sigmoid({})", "T.tanh({})", "T.abs({})", "T.erf({})")


class Expressions:
    """Expressions of a kernel's dtype over its loop variables.

    What decides (conditions, conversions to integers, rounding) is taken from inputs only: computed values may differ
    in the last bit between two correct compilers, and a decision would make that difference large.
    """

    def __init__(self, generator):
        self.g = generator
        self.written: set[str] = set()

    def constant(self) -> str:
        """A literal of the kernel's dtype."""
        n = int(self.g.rng.integers(0 if self.g.dtype.startswith("u") else -3, 4))
        return f"{n / 2}" if self.g.is_float else str(n)

    def value(self, depth: int) -> str:
        """An expression of at most `depth` operations on each path."""
        g = self.g
        if depth == 0 or g.chance(0.12):
            return self.leaf()
        kind = int(g.rng.integers(10))
        a = self.value(depth - 1)
        if kind <= 2:
            return f"({a} {g.pick('+-')} {self.value(depth - 1)})"
        if kind == 3:
            return f"({a} * {self.pure()})"
        if kind == 4:
            return f"T.{g.pick(['max', 'min'])}({a}, {self.value(depth - 1)})"
        if kind <= 6:
            return f"T.if_then_else({self.condition()}, {a}, {self.value(depth - 1)})"
        if g.is_float:
            if kind == 7:
                return f"({a} / {g.pick(['2.0', '4.0', '3.0'])})"
            return f"T.floor({self.pure()})" if g.chance(0.15) else str(g.pick(UNARY)).format(a)
        if kind == 7:
            return f"({a} {g.pick(['//', '%'])} {g.pick([2, 3, 4, 7])})"
        if kind == 8:
            return f"({a} {g.pick(['&', '|', '^'])} {self.value(depth - 1)})"
        return f"({a} {g.pick(['<<', '>>'])} {g.pick([1, 2])})"

    def condition(self) -> str:
        """A comparison of inputs or of indices."""
        g = self.g
        op = g.pick(["<", "<=", ">", ">=", "==", "!="])
        if g.chance(0.3):
            d = int(g.rng.integers(g.rank))
            left = g.variables[d] if g.chance(0.5) else g.at(d, g.variables[d])
            first = f"{left} {op} {int(g.rng.integers(0, g.block[d] + 1))}"
        elif g.rank > 1 and g.chance(0.15):
            first = f"{g.at(0, g.variables[0])} {op} {g.at(1, g.variables[1])}"
        else:
            first = f"{self.pure()} {op} {self.pure() if g.chance(0.5) else self.constant()}"
        if g.chance(0.2):
            return f"T.{g.pick(['And', 'Or'])}({first}, {self.condition()})"
        return f"T.Not({first})" if g.chance(0.07) else first

    def leaf(self) -> str:
        """A constant, a scalar, an index or an element."""
        g = self.g
        roll = g.rng.random()
        if roll < 0.1:
            return self.constant()
        if roll < 0.14 and g.dtype in ("float32", "int32"):
            return g.scalar(g.dtype)
        if roll < 0.2:
            return f'T.cast({g.pick(g.variables) if not g.loop or g.chance(0.7) else g.loop}, "{g.dtype}")'
        return self.computed() if roll < 0.6 else self.pure()

    def computed(self) -> str:
        """An element of a computed tile; of those this nest writes, only the own one."""
        g, v = self.g, self.g.variables
        dims = g.pick([tuple(range(g.rank)), tuple(range(g.rank)), (0,), (g.rank - 1,)])
        t = g.tile(dims, g.dtype, "W", reuse=0.9)
        if t.name in self.written:
            return f"{t.name}[{', '.join(v)}]" if len(dims) == g.rank else self.pure()
        return self._element(t, dims)

    def pure(self) -> str:
        """An element of an input: staged in a tile or straight from GM."""
        g = self.g
        dtype = g.other_dtype()
        text = self._staged(dtype) if g.chance(0.5) else self._global(dtype)
        return text if dtype == g.dtype else f'T.cast({text}, "{g.dtype}")'

    def _staged(self, dtype: str) -> str:
        g = self.g
        dims = g.pick([tuple(range(g.rank)), tuple(range(g.rank)), (0,), (g.rank - 1,)])
        return self._element(g.tile(dims, dtype, "S", reuse=0.9), dims)

    def _element(self, t, dims) -> str:
        g = self.g
        index = [g.variables[d] for d in dims]
        last, n = index[-1], t.shape[-1]
        roll = g.rng.random()
        if roll < 0.06:
            index[-1] = f"{n - 1} - {last}"
        elif roll < 0.1:
            index[-1] = f"{last} // 2"
        elif roll < 0.14:
            moved = f"{t.name}[{', '.join([*index[:-1], f'{last} + 1'])}]"
            return f"T.if_then_else({last} + 1 < {n}, {moved}, {t.name}[{', '.join(index)}])"
        elif roll < 0.17:
            index[0] = str(int(g.rng.integers(t.shape[0])))
        return f"{t.name}[{', '.join(index)}]"

    def _global(self, dtype: str) -> str:
        g, v = self.g, self.g.variables
        whole = list(range(g.rank))
        last = g.rank - 1
        roll = g.rng.random()
        if roll < 0.1:
            p = g.param((last,), "int32", "index", limit=g.size[last])
            source = g.param((last,), dtype)
            return f"{source.name}[{p.name}[{g.at(last, v[last])}]]"
        dims = whole if roll < 0.6 else [last] if roll < 0.8 else [0]
        if roll > 0.95 and g.rank == 2:
            p = g.param((1, 0), dtype)
            return f"{p.name}[{g.at(1, v[1])}, {g.at(0, v[0])}]"
        p = g.param(dims, dtype)
        index = [g.at(d, v[d]) for d in dims]
        if g.chance(0.1):
            index[-1] += f" + {g.pick([1, 2, 8])}"
        elif g.chance(0.06):
            index[-1] = f"{g.spelled[dims[-1]]} - 1 - ({index[-1]})"
        return f"{p.name}[{', '.join(index)}]"


__all__ = ["FLOATS", "Expressions"]
