"""A random kernel as data, and its two renderings: a TileLang program, and NumPy text that says what it means.

Every node holds a template for either text, side by side. The NumPy text (see `numbers` and `memory`) works on whole
arrays and knows nothing of the compiler: no IR, no front end, no interpreter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Iterator

import numpy as np

from .numbers import FLOAT8, is_float, numpy_dtype

INDENT = "    "


@dataclass(frozen=True)
class Expr:
    """An expression: `tile` and `numpy` are templates over the texts of `parts`; `tags` name features it uses."""

    dtype: str
    tile: str
    numpy: str
    parts: tuple[Expr, ...] = ()
    tags: frozenset = frozenset()

    def text(self, language: str) -> str:
        """The expression in ``tile`` or ``numpy``."""
        return getattr(self, language).format(*(p.text(language) for p in self.parts))

    def walk(self) -> Iterator[Expr]:
        """This expression and everything in it."""
        yield self
        for p in self.parts:
            yield from p.walk()


def index(text: str, numpy: str = "") -> Expr:
    """An index: plain integer arithmetic, the same in both languages."""
    return Expr("index", text, numpy or text)


@dataclass(frozen=True)
class Stmt:
    """One statement: templates of its lines over the texts of `exprs`, and nested statements.

    The lines of a compound statement are its head. `nest` is a `T.Parallel`, whose NumPy lines do not open a block;
    `mask` names a condition under which the elements of `body` (and not those of `orelse`) are stored.
    `fills` is the tile it writes completely before anything else, `defines` the local name it binds.
    """

    tile: tuple[str, ...]
    numpy: tuple[str, ...]
    exprs: tuple[Expr, ...] = ()
    body: tuple[Stmt, ...] = ()
    orelse: tuple[Stmt, ...] = ()
    kind: str = ""
    fills: str | None = None
    defines: str | None = None
    tags: frozenset = frozenset()

    def render(self, language: str, depth: int, mask: str = "True") -> list[str]:
        """Lines of the statement, indented by `depth` levels."""
        texts = [e.text(language) for e in self.exprs]
        if language == "numpy" and self.kind == "mask":
            return self._masked(texts, depth, mask)
        out = [INDENT * depth + line.format(*texts, mask=mask) for line in getattr(self, language)]
        inner = depth if language == "numpy" and self.kind == "nest" else depth + 1
        for s in self.body:
            out += s.render(language, inner, mask)
        if self.orelse:
            out.append(INDENT * depth + "else:")
            for s in self.orelse:
                out += s.render(language, inner, mask)
        return out

    def _masked(self, texts: list[str], depth: int, mask: str) -> list[str]:
        name = f"m{depth}" if mask == "True" else f"{mask}_{depth}"
        both = "{}" if mask == "True" else f"both({mask}, {{}})"
        # The body may change what the condition reads: both masks come first.
        out = [INDENT * depth + f"{name} = " + both.format(texts[0])]
        if self.orelse:
            out.append(INDENT * depth + f"{name}e = " + both.format(f"negate({texts[0]})"))
        for s in self.body:
            out += s.render("numpy", depth, name)
        for s in self.orelse:
            out += s.render("numpy", depth, name + "e")
        return out

    def walk(self) -> Iterator[Stmt]:
        """This statement and everything in it."""
        yield self
        for s in (*self.body, *self.orelse):
            yield from s.walk()

    def names(self) -> set[str]:
        """Every identifier the statement mentions."""
        return set(re.findall(r"[A-Za-z_]\w*", " ".join(self.render("tile", 0))))

    def all_tags(self) -> set[str]:
        """Features of the statement and everything in it."""
        return {t for s in self.walk() for t in (*s.tags, *(t for e in s.exprs for x in e.walk() for t in x.tags))}


@dataclass(frozen=True)
class Param:
    """A parameter in GM. `role`: ``in``, ``out``, ``index`` (values below `limit`) or ``permutation``; shape `()` is a scalar.

    `extents` are the dimensions as the program spells them: numbers, or names of dynamic dimensions.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str = "in"
    limit: int = 0
    extents: tuple[str, ...] = ()

    def declaration(self) -> str:
        """`X: T.Tensor(…)` of the parameter list."""
        if not self.shape:
            return f"{self.name}: T.{self.dtype}"
        dims = ", ".join(self.extents or map(str, self.shape))
        return f'{self.name}: T.Tensor(({dims},), "{self.dtype}")'

    def data(self, seed: int, number: int) -> str:
        """The expression that makes its values."""
        return f'data({seed}, {number}, {self.shape}, "{self.dtype}", "{self.role}", {self.limit})'


def data(seed: int, number: int, shape, dtype: str, role: str, limit: int) -> np.ndarray:
    """Values of parameter `number`: small multiples of 1/4, so that sums and products are exact for a while. Of 8-bit floats
    all codes up to 16, subnormals too."""
    rng = np.random.default_rng((seed, number))
    if role == "permutation":
        values = rng.permutation(shape[0])
    elif role == "index":
        values = rng.integers(0, limit, shape)
    elif dtype in FLOAT8:
        codes = np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype)).astype(np.float64)
        values = rng.choice(codes[np.abs(codes) <= 16], shape)
    elif is_float(dtype):
        values = rng.integers(-8, 9, shape) / 4
    elif dtype == "bool":
        values = rng.integers(0, 2, shape)
    else:
        values = rng.integers(0 if dtype.startswith("u") else -7, 8, shape)
    return np.asarray(values).astype(numpy_dtype(dtype))


@dataclass(frozen=True)
class Tile:
    """An on-chip buffer; `where` is ``shared``, ``fragment``, ``reducer`` (with its operation) or ``view``, which a statement declares."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    where: str
    operation: str = ""


@dataclass(frozen=True)
class Case:
    """A kernel, the chip it is for, and the seed of its data."""

    seed: int
    chip: str
    params: tuple[Param, ...]
    tiles: tuple[Tile, ...]
    grid: tuple[tuple[str, int], ...]
    """(extent as the program spells it, size of a block) of each dimension."""
    body: tuple[Stmt, ...]
    dynamic: dict[str, int] = field(default_factory=dict)
    tags: frozenset = frozenset()
    oracle = None

    def used(self) -> set[str]:
        """Identifiers of the body and the grid."""
        return {extent for extent, _ in self.grid}.union(*(s.names() for s in self.body))

    def live_params(self) -> list[tuple[int, Param]]:
        """Parameters the program mentions, and those that give dynamic dimensions their values, with their numbers."""
        used = self.used()
        needed = {d for d in self.dynamic if d in used}
        return [(k, p) for k, p in enumerate(self.params) if p.name in used or needed.intersection(p.extents)]

    def _body(self) -> tuple[Stmt, ...]:
        """The statements, after fills for tiles that are read before they are written."""
        written: set[str] = set()
        needs = self._needs_a_value(self.body, written)
        return (*(fill(t, literal(t.dtype, 1)) for t in self.tiles if t.name in needs), *self.body)

    def kernel(self) -> str:
        """The TileLang program, which defines `kernel`."""
        used, params = self.used(), [p for _, p in self.live_params()]
        declared = set().union(*(p.extents for p in params))
        # A dimension of no tensor has no value at launch: it is a number.
        lines = [f'{name} = T.dynamic("{name}")' if name in declared else f"{name} = {size}"
                 for name, size in self.dynamic.items() if name in used | declared]  # fmt: skip
        lines += ["", "", "@T.prim_func", f"def kernel({', '.join(p.declaration() for p in params)}):"]
        blocks = ["bx", "by"][: len(self.grid)]
        grid = ", ".join(f"T.ceildiv({n}, {b})" for n, b in self.grid)
        name = f"({', '.join(blocks)})" if len(blocks) > 1 else blocks[0]
        lines.append(f"{INDENT}with T.Kernel({grid}, threads=128) as {name}:")
        for t in self.tiles:
            if t.name in used:
                more = f', op="{t.operation}"' if t.operation else ""
                lines.append(f'{INDENT * 2}{t.name} = T.alloc_{t.where}({t.shape}, "{t.dtype}"{more})')
        body = [line for s in self._body() for line in s.render("tile", 2)]
        return "\n".join([*lines, *(body or [INDENT * 2 + "pass"])]) + "\n"

    def reference(self) -> str:
        """NumPy text that defines `reference`, which takes the tensors of `kernel` and changes them."""
        used, params = self.used(), [p for _, p in self.live_params()]
        lines = [f"def reference({', '.join(p.name for p in params)}):"]
        lines += [f"{INDENT}{name} = {size}" for name, size in self.dynamic.items()]
        for depth, (name, (n, b)) in enumerate(zip(("bx", "by"), self.grid), 1):
            lines.append(f"{INDENT * depth}for {name} in range(ceildiv({n}, {b})):")
        depth = 1 + len(self.grid)
        lines += [f'{INDENT * depth}{t.name} = tile({t.shape}, "{t.dtype}")' for t in self.tiles if t.name in used]
        body = [line for s in self._body() for line in s.render("numpy", depth)]
        return "\n".join([*lines, *(body or [INDENT * depth + "pass"])]) + "\n"

    def _needs_a_value(self, body, written: set[str]) -> set[str]:
        """Tiles some statement mentions before another one has written all of them."""
        tiles, needs = {t.name for t in self.tiles}, set()
        for s in body:
            if s.kind in ("if", "loop"):
                needs |= (s.names() & tiles) - written if s.kind == "if" else set()
                inner = set(written)
                needs |= self._needs_a_value((*s.body, *s.orelse), inner)
                if s.kind == "loop":
                    written |= inner
            else:
                needs |= (s.names() & tiles) - written - ({s.fills} if s.fills else set())
                written |= {s.fills} if s.fills else set()
        return needs

    def arrays(self) -> dict[str, np.ndarray]:
        """Fresh data of the live parameters."""
        return {p.name: data(self.seed, k, p.shape, p.dtype, p.role, p.limit) for k, p in self.live_params()}

    def all_tags(self) -> set[str]:
        """Features of the kernel."""
        return set(self.tags).union(*(s.all_tags() for s in self.body))

    def without(self, body: tuple[Stmt, ...]) -> Case:
        """The same case with another body."""
        return replace(self, body=body)


def literal(dtype: str, value) -> Expr:
    """A bare number, which takes the dtype of what it meets."""
    return Expr(dtype, str(value), f'of("{dtype}", {value})')


def fill(t: Tile, value: Expr) -> Stmt:
    """T.fill of a tile."""
    return Stmt((f"T.fill({t.name}, {{0}})",), (f"fill({t.name}, {{0}})",), (value,), kind="fill", fills=t.name)
