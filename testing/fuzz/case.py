"""A random kernel as data: parameters, tiles, statements, and its rendering as a TileLang program."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from tilelang_ascend.sim.reference import numpy_dtype

FLOATS = ("float32", "float16", "bfloat16")
INDENT = "    "


@dataclass(frozen=True)
class Param:
    """A parameter in GM. `role`: ``in``, ``out`` or ``index`` (values below `limit`); shape `()` is a scalar.

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


@dataclass(frozen=True)
class Tile:
    """An on-chip buffer; `where` is ``shared`` or ``fragment``."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    where: str

    def allocation(self) -> str:
        """The statement that declares it."""
        return f'{self.name} = T.alloc_{self.where}({self.shape}, "{self.dtype}")'


@dataclass(frozen=True)
class Stmt:
    """One statement: its lines, the tile it writes completely before anything else (or None), and nested statements.

    The lines of a compound statement are its head; `orelse` is the other branch of an `if`.
    """

    lines: tuple[str, ...]
    fills: str | None = None
    body: tuple[Stmt, ...] = ()
    orelse: tuple[Stmt, ...] = ()

    def render(self, depth: int) -> list[str]:
        """Source lines, indented by `depth` levels."""
        out = [INDENT * depth + line for line in self.lines]
        for s in self.body:
            out += s.render(depth + 1)
        if self.orelse:
            out.append(INDENT * depth + "else:")
            for s in self.orelse:
                out += s.render(depth + 1)
        return out

    def names(self) -> set[str]:
        """Every identifier the statement mentions."""
        found = set(re.findall(r"[A-Za-z_]\w*", " ".join(self.lines)))
        return found.union(*(s.names() for s in (*self.body, *self.orelse)))


@dataclass(frozen=True)
class Case:
    """A kernel and the seed of its data."""

    seed: int
    params: tuple[Param, ...]
    tiles: tuple[Tile, ...]
    grid: tuple[str, ...]
    body: tuple[Stmt, ...]
    dynamic: dict[str, int] = field(default_factory=dict)

    def used(self) -> set[str]:
        """Identifiers of the body and the grid."""
        return set().union(set(re.findall(r"\w+", " ".join(self.grid))), *(s.names() for s in self.body))

    def live_params(self) -> list[Param]:
        """Parameters the program mentions, and those that give dynamic dimensions their values."""
        used = self.used()
        needed = {d for d in self.dynamic if d in used}
        return [p for p in self.params if p.name in used or needed.intersection(p.extents)]

    def source(self) -> str:
        """The program: a module with one traced kernel called `kernel`."""
        used, params = self.used(), self.live_params()
        spelled = used.union(*(p.extents for p in params))
        lines = ["import tilelang_ascend.language as T", ""]
        lines += [f'{name} = T.dynamic("{name}")' for name in self.dynamic if name in spelled]
        lines += ["", "@T.prim_func", f"def kernel({', '.join(p.declaration() for p in params)}):"]
        blocks = ", ".join(["bx", "by"][: len(self.grid)])
        lines.append(f"{INDENT}with T.Kernel({', '.join(self.grid)}, threads=128) as {_tuple(blocks, len(self.grid))}:")
        written: set[str] = set()
        needs = self._needs_a_value(self.body, written)
        for t in self.tiles:
            if t.name in used:
                lines.append(INDENT * 2 + t.allocation())
        lines += [INDENT * 2 + f"T.fill({t.name}, 1)" for t in self.tiles if t.name in needs]
        for s in self.body:
            lines += s.render(2)
        if not self.body:
            lines.append(INDENT * 2 + "pass")
        return "\n".join(lines) + "\n"

    def _needs_a_value(self, body, written: set[str]) -> set[str]:
        """Tiles some statement mentions before another one has written all of them."""
        tiles, needs = {t.name for t in self.tiles}, set()
        for s in body:
            if s.body:
                needs |= (s.names() & tiles) - written if s.lines[0].startswith("if") else set()
                inner = set(written)
                needs |= self._needs_a_value((*s.body, *s.orelse), inner)
                if not s.lines[0].startswith("if"):
                    written |= inner
            else:
                mentioned = s.names() & tiles
                needs |= mentioned - written - ({s.fills} if s.fills else set())
                written |= {s.fills} if s.fills else set()
        return needs

    def arrays(self) -> dict[str, np.ndarray]:
        """Fresh data: small multiples of 1/4, so that sums and products are exact for a while."""
        out = {}
        for k, p in enumerate(self.params):
            rng = np.random.default_rng((self.seed, k))
            if p.role == "index":
                values = rng.integers(0, p.limit, p.shape)
            elif p.dtype in FLOATS:
                values = rng.integers(-8, 9, p.shape) / 4
            else:
                values = rng.integers(0 if p.dtype.startswith("u") else -7, 8, p.shape)
            out[p.name] = np.asarray(values).astype(numpy_dtype(p.dtype))
        return {p.name: out[p.name] for p in self.live_params()}

    def without(self, body: tuple[Stmt, ...]) -> Case:
        """The same case with another body."""
        return replace(self, body=body)


def _tuple(names: str, count: int) -> str:
    return f"({names})" if count > 1 else names
