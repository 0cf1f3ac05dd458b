"""Random element expressions."""

from __future__ import annotations

from .numbers import FLOAT8, is_float
from .program import Expr, Param, Tile, index, literal

FUNCTIONS = {  # name: (template of the argument that keeps it in the domain, NumPy name)
    "exp": ("T.min({0}, 2.0)", "minimum({0}, 2.0)", "exp"),
    "exp2": ("T.min({0}, 3.0)", "minimum({0}, 3.0)", "exp2"),
    "log": ("T.abs({0}) + 0.5", "absolute({0}) + 0.5", "log"),
    "log2": ("T.abs({0}) + 0.5", "absolute({0}) + 0.5", "log2"),
    "log1p": ("T.abs({0})", "absolute({0})", "log1p"),
    "sqrt": ("T.abs({0})", "absolute({0})", "sqrt"),
    "rsqrt": ("T.abs({0}) + 0.5", "absolute({0}) + 0.5", "rsqrt"),
    "sin": ("{0}", "{0}", "sin"),
    "cos": ("{0}", "{0}", "cos"),
    "tan": ("T.max(T.min({0}, 1.0), -1.0)", "maximum(minimum({0}, 1.0), -1.0)", "tan"),
    "tanh": ("{0}", "{0}", "tanh"),
    "sigmoid": ("{0}", "{0}", "sigmoid"),
    "erf": ("{0}", "{0}", "erf"),
    "abs": ("{0}", "{0}", "absolute"),
}
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "nearest"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def cast(e: Expr, dtype: str) -> Expr:
    """T.cast."""
    return Expr(dtype, f'T.cast({{0}}, "{dtype}")', f'cast({{0}}, "{dtype}")', (e,), frozenset({f"cast {e.dtype}->{dtype}", "cast"}))


def access(memory: Param | Tile, indices, *tags: str) -> Expr:
    """An element of a tensor or a tile."""
    slots = ", ".join(f"{{{k}}}" for k in range(len(indices)))
    where = {"": "GM", "shared": "shared", "fragment": "fragment"}.get(getattr(memory, "where", ""), "other")
    found = frozenset({f"{where} operand", *tags, *(["8-bit float operand"] if memory.dtype in FLOAT8 else [])})
    return Expr(memory.dtype, f"{memory.name}[{slots}]", f"at({memory.name}, {slots})", tuple(indices), found)


def operation(dtype: str, tile: str, numpy: str, *parts: Expr, tags=()) -> Expr:
    """A node with the given templates."""
    return Expr(dtype, tile, numpy or tile, parts, frozenset(tags))


class Expressions:
    """Expressions over the loop variables of the nest under construction.

    Any value may decide (conditions, conversions to integers): the oracle knows where a decision hangs on a rounding and
    does not look there. Most decisions are taken from exact inputs, so that little is lost.
    """

    def __init__(self, generator):
        self.g = generator
        self.written: set[str] = set()
        self.locals: list[tuple[str, str]] = []

    def constant(self, dtype: str) -> Expr:
        """A bare number."""
        n = int(self.g.rng.integers(0 if dtype.startswith("u") else -3, 4))
        return literal(dtype, n / 2 if is_float(dtype) else bool(n > 0) if dtype == "bool" else n)

    def varying(self, e: Expr) -> Expr:
        """`e`, or an element when `e` is a bare number: operators on two of those would be Python's."""
        return self.pure(e.dtype) if not e.parts and "s_" not in e.tile and not e.tags else e

    def value(self, dtype: str, depth: int) -> Expr:
        """An expression of at most `depth` operations on each path."""
        g = self.g
        if depth == 0 or g.chance(0.1):
            return self.leaf(dtype)
        if dtype == "bool":
            return self.condition()
        kind = int(g.rng.integers(12))
        if kind == 11:
            other = g.any_dtype()
            return cast(self.varying(self.value(other, depth - 1)), dtype) if other != dtype else self.pure(dtype)
        a = self.varying(self.value(dtype, depth - 1))
        if kind <= 2:
            op = g.pick("+-")
            b = self.value(dtype, depth - 1)
            return operation(dtype, f"({{0}} {op} {{1}})", "", *((b, a) if g.chance(0.3) else (a, b)), tags=["arithmetic"])
        if kind == 3:
            return operation(dtype, "({0} * {1})", "", a, self.pure(dtype), tags=["arithmetic"])
        if kind == 4:
            name = g.pick(["max", "min"])
            return operation(dtype, f"T.{name}({{0}}, {{1}})", f"{name}imum({{0}}, {{1}})", a, self.value(dtype, depth - 1), tags=[name])
        if kind <= 6:
            b = self.value(dtype, depth - 1)
            return operation(dtype, "T.if_then_else({0}, {1}, {2})", "where({0}, {1}, {2})", self.condition(), a, b, tags=["if_then_else"])
        return self._float(dtype, kind, a, depth) if is_float(dtype) else self._integer(dtype, kind, a, depth)

    def _float(self, dtype: str, kind: int, a: Expr, depth: int) -> Expr:
        g = self.g
        if kind == 7:
            b = literal(dtype, g.pick([2.0, 4.0, 3.0]))
            if g.chance(0.3):
                b = operation(dtype, "(T.abs({0}) + 1.0)", "(absolute({0}) + 1.0)", self.pure(dtype))
            return operation(dtype, "({0} / {1})", "", a, b, tags=["/"])
        if kind == 8 and g.chance(0.5):
            name = g.pick(list(ROUNDINGS))
            return operation(dtype, f"T.{name}({{0}})", f"{ROUNDINGS[name]}({{0}})", self.pure(dtype), tags=["rounding functions"])
        if kind == 8 and dtype == "float32":
            half = self.pure(g.pick(["float16", "float32"]))
            return operation(dtype, "({0} * {1})", "", a, half, tags=["mixed float dtypes"] if half.dtype != dtype else [])
        if kind == 9 and g.chance(0.2):
            b = literal(dtype, g.pick([0.5, 1.5, 2.0]))
            return operation(dtype, "T.pow(T.abs({0}) + 0.5, {1})", "power(absolute({0}) + 0.5, {1})", a, b, tags=["pow"])
        name = g.pick(list(FUNCTIONS))
        tile, numpy, function = FUNCTIONS[name]
        return operation(dtype, f"T.{name}({tile})", f"{function}({numpy})", a, tags=[name])

    def _integer(self, dtype: str, kind: int, a: Expr, depth: int) -> Expr:
        g = self.g
        if kind == 7:
            op = g.pick(["//", "%"])
            return operation(dtype, f"({{0}} {op} {{1}})", "", a, literal(dtype, g.pick([2, 3, 4, 7])), tags=[op])
        if kind == 8:
            op = g.pick("&|^")
            return operation(dtype, f"({{0}} {op} {{1}})", "", a, self.value(dtype, depth - 1), tags=["bit operations"])
        if kind == 9 and g.chance(0.4):
            return operation(dtype, "(~{0})", "", a, tags=["bit operations"])
        if kind == 9 and not dtype.startswith("u"):
            return operation(dtype, "T.abs({0})", "absolute({0})", a, tags=["abs"])
        op = g.pick(["<<", ">>"])
        return operation(dtype, f"({{0}} {op} {{1}})", "", a, literal(dtype, g.pick([1, 2])), tags=["shifts"])

    def condition(self) -> Expr:
        """A comparison, mostly of inputs or of indices."""
        g = self.g
        op = g.pick(COMPARISONS)
        roll = g.rng.random()
        if roll < 0.25:
            d = int(g.rng.integers(g.rank))
            left = g.var(d) if g.chance(0.5) else g.at(d)
            bound = int(g.rng.integers(0, g.block[d] + 1))
            first = operation("bool", f"{{0}} {op} {bound}", "", left, tags=["condition on indices"])
        elif roll < 0.35 and g.rank > 1:
            first = operation("bool", f"{{0}} {op} {{1}}", "", g.at(0), g.at(1), tags=["condition on indices"])
        elif roll < 0.42:
            first = cast(self.pure("bool"), "bool") if g.chance(0.2) else self.pure("bool")
        else:
            dtype = g.dtype if g.chance(0.8) and g.dtype != "bool" else g.any_dtype()
            if dtype == "bool":
                dtype = "int32"
            left = self.pure(dtype) if g.chance(0.7) else self.varying(self.computed(dtype))
            right = self.pure(dtype) if g.chance(0.5) else self.constant(dtype)
            first = operation("bool", f"({{0}} {op} {{1}})", "", left, right, tags=["comparison"])
        if g.chance(0.2):
            name, function = g.pick([("And", "both"), ("Or", "either")])
            return operation("bool", f"T.{name}({{0}}, {{1}})", f"{function}({{0}}, {{1}})", first, self.condition(), tags=["and/or/not"])
        return operation("bool", "T.Not({0})", "negate({0})", first, tags=["and/or/not"]) if g.chance(0.07) else first

    def leaf(self, dtype: str) -> Expr:
        """A constant, a scalar, a local, an index or an element."""
        g = self.g
        roll = g.rng.random()
        if roll < 0.1:
            return self.constant(dtype)
        if roll < 0.15 and dtype in ("float32", "int32"):
            return Expr(dtype, *[g.scalar(dtype)] * 2, tags=frozenset({"scalar argument"}))
        if roll < 0.21 and dtype != "bool":
            return cast(g.pick(g.index_values()), dtype) if g.chance(0.9) else cast(operation(
                "int32", "({0} * 3 + {1})", "", g.var(0), g.var(g.rank - 1)), dtype)  # fmt: skip
        known = [name for name, d in self.locals if d == dtype]
        if known and roll < 0.4:
            return Expr(dtype, *[g.pick(known)] * 2, tags=frozenset({"local scalar"}))
        return self.computed(dtype) if roll < 0.6 else self.pure(dtype)

    def computed(self, dtype: str) -> Expr:
        """An element of a computed tile; of those this nest writes, only the own one."""
        g = self.g
        dims = g.some_dims()
        t = g.tile(dims, dtype, "W", reuse=0.9)
        if t.name in self.written:
            return access(t, [g.var(d) for d in dims]) if len(dims) == g.rank else self.pure(dtype)
        return self._element(t, dims)

    def pure(self, dtype: str) -> Expr:
        """An element of an input: staged in a tile or straight from GM."""
        g = self.g
        source = dtype if g.chance(0.85) else g.stored_dtype()
        e = self._staged(source) if g.chance(0.5) else self._global(source)
        return e if source == dtype else cast(e, dtype)

    def _staged(self, dtype: str) -> Expr:
        g = self.g
        dims = g.some_dims()
        return self._element(g.tile(dims, dtype, "S", reuse=0.9), dims)

    def _element(self, t: Tile, dims) -> Expr:
        g = self.g
        place = [g.var(d) for d in dims]
        tags = ["broadcast"] if len(dims) < g.rank else []
        k = int(g.rng.integers(len(dims))) if g.chance(0.3) else len(dims) - 1
        here, n = place[k], t.shape[k]
        roll = g.rng.random()
        if roll < 0.06:
            place[k] = index(f"{n - 1} - {here.tile}")
            return access(t, place, "reversed index", *tags)
        if roll < 0.09:
            place[k] = index(f"{here.tile} // 2")
            return access(t, place, "divided index", *tags)
        if roll < 0.13:
            by = int(g.pick([1, 2, 8]))
            there = [*place[:k], index(f"{here.tile} + {by}"), *place[k + 1 :]]
            test = operation("bool", f"{{0}} + {by} < {n}", "", here)
            return operation(t.dtype, "T.if_then_else({0}, {1}, {2})", "where({0}, {1}, {2})", test,
                             access(t, there, "shifted index", *tags), access(t, place, *tags), tags=["if_then_else"])  # fmt: skip
        if roll < 0.16:
            place[k] = index(str(int(g.rng.integers(n))))
            return access(t, place, "fixed index", "broadcast")
        if roll < 0.2 and g.loop_in_nest and n >= 3:
            place[k] = index(g.loop_in_nest)
            return access(t, place, "index of an inner loop", *tags)
        if len(dims) == 2 and roll < 0.3:
            turned = g.tile(dims[::-1], t.dtype, t.name[0], reuse=0.8)
            if turned.name not in self.written:
                return access(turned, [g.var(d) for d in dims[::-1]], "transposed index", *tags)
        return access(t, place, *tags)

    def _global(self, dtype: str) -> Expr:
        g = self.g
        last = g.rank - 1
        roll = g.rng.random()
        if roll < 0.08:
            d = int(g.rng.integers(g.rank))
            table = g.param((d,), "int32", "index", limit=g.size[d])
            place = Expr("index", f"{table.name}[{{0}}]", f"index(at({table.name}, {{0}}))", (g.at(d),))
            if g.rank > 1 and d == 0 and g.chance(0.5):
                return access(g.param((0, last), dtype), [place, g.at(last)], "indirect index (rows)")
            return access(g.param((d,), dtype), [place], "indirect index")
        if roll < 0.14 and g.rank >= 2:
            dims = (last, *range(1, last), 0) if g.chance(0.6) else tuple(g.rng.permutation(g.rank).tolist())
            return access(g.param(dims, dtype), [g.at(d) for d in dims], *(["transposed index"] if list(dims) != sorted(dims) else []))
        if roll < 0.2 and g.loop_in_nest:
            dims = g.some_dims()
            p = g.param(dims, dtype, lead=(3,))
            return access(p, [index(g.loop_in_nest), *(g.at(d) for d in dims)], "index of an inner loop")
        dims = g.some_dims()
        tags = ["broadcast"] if len(dims) < g.rank else []
        place = [g.at(d) for d in dims]
        if roll < 0.28:
            place[-1] = index(f"{place[-1].tile} + {g.pick([1, 2, 8])}")
            tags.append("shifted index")
        elif roll < 0.33:
            place[-1] = index(f"{g.spelled[dims[-1]]} - 1 - ({place[-1].tile})")
            tags.append("reversed index")
        elif roll < 0.38 and g.spelled[dims[-1]].isdigit():
            by = int(g.pick([2, 3]))
            first = f" + {int(g.rng.integers(by))}" if g.some(5 * g.mix.gaps) else ""
            place[-1] = index(f"({place[-1].tile}) * {by}{first}")
            return access(g.param(dims, dtype, stretch=by), place, "strided index", *tags)
        return access(g.param(dims, dtype), place, *tags)
