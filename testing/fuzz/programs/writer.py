"""A program as data, and the state of one that is being written."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from ..program import INDENT, Param, Stmt, Tile
from . import cells

CHIPS = ("a2", "a2", "a2", "a5")


def line(tile: str, ref: str = "", *tags: str) -> Stmt:
    """A statement; the reference says the same unless `ref` is given."""
    return Stmt((_plain(tile),), (_plain(ref or tile),), kind="line", tags=frozenset(tags))


def block(head: str, body, ref: str = "", orelse=(), *, kind: str = "loop", tags=()) -> Stmt:
    """A statement with others in it."""
    return Stmt(
        (_plain(head),), (_plain(ref or head),), body=tuple(body) or (line("pass"),), orelse=tuple(orelse), kind=kind, tags=frozenset(tags)
    )


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Given(Param):
    """A parameter in GM of a program."""

    def data(self, seed: int, number: int) -> str:
        return f'values({seed}, {number}, {self.shape}, "{self.dtype}", "{self.role}", {self.limit})'

    def values(self, seed: int, number: int) -> np.ndarray:
        """Its values."""
        return cells.values(seed, number, self.shape, self.dtype, self.role, self.limit)


@dataclass(frozen=True)
class Operand:
    """What a tile op takes: its text, that of the reference, its shape and dtype, and what kind of operand it is."""

    tile: str
    ref: str
    shape: tuple[int, ...]
    dtype: str
    kind: str = "tile"
    base: str = ""


@dataclass(frozen=True)
class Program:
    """A program, the chip it is for, and the seed of its data."""

    seed: int
    chip: str
    params: tuple[Given, ...]
    tiles: tuple[Tile, ...]
    grid: tuple[tuple[str, str], ...]
    """(variable, extent) of each dimension."""
    body: tuple[Stmt, ...]
    prelude: tuple[Stmt, ...] = ()
    """Macros, in front of the kernel."""
    dynamic: dict[str, int] = field(default_factory=dict)
    tags: frozenset = frozenset()
    launches: int = 1
    """How often the kernel launches the body, each time on what the launch before left."""
    oracle = cells

    def used(self) -> set[str]:
        """Identifiers of the body and the grid."""
        return {extent for _, extent in self.grid}.union(*(s.names() for s in (*self.body, *self.prelude)))

    def live_params(self) -> list[tuple[int, Given]]:
        """Parameters the program mentions, and those that give dynamic dimensions their values, with their numbers."""
        used = self.used()
        needed = {d for d in self.dynamic if any(d in u for u in used)}
        return [(k, p) for k, p in enumerate(self.params) if p.name in used or needed.intersection(p.extents)]

    def kernel(self) -> str:
        """The TileLang program, which defines `kernel`."""
        used, params = self.used(), [p for _, p in self.live_params()]
        declared = set().union(*(p.extents for p in params))
        lines = [f'{name} = T.dynamic("{name}")' if name in declared else f"{name} = {size}" for name, size in self.dynamic.items()]
        for s in self.prelude:
            lines += ["", "", "@T.macro", *s.render("tile", 0)]
        lines += ["", "", "@T.prim_func", f"def kernel({', '.join(p.declaration() for p in params)}):"]
        names = ", ".join(v for v, _ in self.grid)
        launch = [
            f"{INDENT}with T.Kernel({', '.join(e for _, e in self.grid)}, threads=128) as {f'({names})' if len(self.grid) > 1 else names}:",
            *(f'{INDENT * 2}{t.name} = T.alloc_{t.where}({t.shape}, "{t.dtype}")' for t in self.tiles if t.name in used),
            *self._lines("tile"),
        ]
        return "\n".join([*lines, *launch * self.launches]) + "\n"

    def reference(self) -> str:
        """The text that defines `reference`, which takes the tensors of `kernel` and changes them."""
        used, params = self.used(), [p for _, p in self.live_params()]
        lines = [f"{name} = {size}" for name, size in self.dynamic.items()]
        for s in self.prelude:
            lines += ["", *s.render("numpy", 0)]
        lines.append(f"def reference({', '.join(p.name for p in params)}):")
        extents = ", ".join(e.replace("T.ceildiv(", "ceildiv(") for _, e in self.grid)
        launch = [
            f"{INDENT}for {', '.join(v for v, _ in self.grid)} in grid({extents}):",
            *(f'{INDENT * 2}{t.name} = tile({t.shape}, "{t.dtype}")' for t in self.tiles if t.name in used),
            *self._lines("numpy"),
        ]
        return "\n".join([*lines, *launch * self.launches]) + "\n"

    def _lines(self, language: str) -> list[str]:
        return [text for s in self.body for text in s.render(language, 2)] or [INDENT * 2 + "pass"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Fresh data of the live parameters."""
        return {p.name: p.values(self.seed, k) for k, p in self.live_params()}

    def all_tags(self) -> set[str]:
        """Features of the program."""
        return set(self.tags).union(*(s.all_tags() for s in self.body))

    def without(self, body: tuple[Stmt, ...]) -> Program:
        """The same program with another body."""
        return replace(self, body=body)


class Writer:
    """Names, tensors, tiles and random choices of a program."""

    def __init__(self, seed: int, attempt: int):
        self.seed, self.rng = seed, np.random.default_rng((seed, attempt))
        self.chip = self.pick(CHIPS)
        self.params: dict[str, Given] = {}
        self.tiles: dict[str, Tile] = {}
        self.prelude: list[Stmt] = []
        self.dynamic: dict[str, int] = {}
        self.count = 0
        self.sides = [int(self.pick((1, 1, 2, 3)))]
        """Blocks along the dimensions of the grid."""
        if self.chance(0.12):
            self.sides = [2, int(self.pick((1, 2)))] if self.chance(0.7) else [2, 1, 2]
        self.blocks = int(np.prod(self.sides))
        self.tags: set[str] = {f"chip {self.chip}", "several blocks" if self.blocks > 1 else "one block", f"grid of rank {len(self.sides)}"}
        self.ragged = self.number(1, 5) if self.chance(0.12) else 0
        """Rows that some tensors lack at their end."""
        self.named = self.chance(0.12)
        """Whether some dimensions are dynamic."""
        self.loops: list[str] = []
        """Integer names in scope, beside the block indices."""

    # --- choices -----------------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`."""
        return int(self.rng.integers(low, high + 1))

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # --- memory ------------------------------------------------------------------------------------------------------

    def tensor(self, shape, dtype: str, role: str = "in", limit: int = 3, letter: str = "", extents=()) -> str:
        """A new tensor."""
        name = self.fresh(letter or {"in": "X", "out": "Y", "index": "I", "mask": "M"}.get(role, "P"))
        shape = list(shape)
        if role in ("in", "out"):
            if self.ragged and shape[0] > 8 and len(shape) > 1 and self.chance(0.5):
                shape[0] -= self.ragged
                self.tags.add("tail")
            if self.named and shape[0] > 1 and not extents and self.chance(0.6):
                same = [n for n, size in self.dynamic.items() if size == shape[0]]
                n = same[0] if same else f"N{len(self.dynamic)}"
                self.dynamic[n] = shape[0]
                extents = (n, *map(str, shape[1:]))
                self.tags.add("dynamic shape")
        self.params[name] = Given(name, tuple(shape), dtype, role, limit, tuple(extents))
        return name

    def new_tile(self, shape, dtype: str, where: str = "") -> str:
        """A new on-chip buffer."""
        where = where or self.pick(("shared", "fragment"))
        name = self.fresh("s" if where == "shared" else "f")
        self.tiles[name] = Tile(name, tuple(shape), dtype, where)
        return name

    def at_block(self, size: int, offset: str = "0") -> str:
        """Place of this block in a dimension of `blocks * size` elements."""
        own = "0" if self.blocks == 1 and self.chance(0.5) else f"bx * {size}"
        if offset in ("0", ""):
            return own
        return offset if own == "0" else f"{own} + {offset}"

    # --- operands ----------------------------------------------------------------------------------------------------

    def whole(self, name: str) -> Operand:
        """A whole tile or tensor."""
        t = self.tiles.get(name) or self.params[name]
        if getattr(t, "extents", ()):  # A tile cannot be as large as something dynamic.
            return replace(self.region(name, ["0"] * len(t.shape), t.shape, head=False), kind="GM")
        return Operand(name, name, t.shape, t.dtype, "tile" if name in self.tiles else "GM", name)

    def region(self, name: str, origin, extents, head: bool | None = None, drop=()) -> Operand:
        """A region by its slices, or (with `head`) by its first element."""
        t = self.tiles.get(name) or self.params[name]
        gm = name in self.params
        if head is None:
            head = gm and self.chance(0.5)
        origin = [str(o) for o in origin]
        ref = f"part({name}, ({', '.join(origin)},), ({', '.join(map(str, extents))},))"
        if head:
            return Operand(f"{name}[{', '.join(origin)}]", ref, tuple(extents), t.dtype, "GM head" if gm else "tile head", name)
        slots = []
        spelled = getattr(t, "extents", ()) or map(str, t.shape)
        for o, n, size, dim in zip(origin, extents, t.shape, spelled):
            if o == "0" and n == size and dim.isdigit() and self.chance(0.7):
                slots.append(":")
            elif n == 1 and self.chance(0.5):
                slots.append(o)
            elif o.isdigit():
                slots.append(f"{o}:{int(o) + n}")
            else:
                slots.append(f"{o}:{o} + {n}")
        if not any(":" in s for s in slots):
            slots[-1] = f"{origin[-1]}:{origin[-1]} + {extents[-1]}"
        return Operand(f"{name}[{', '.join(slots)}]", ref, tuple(extents), t.dtype, "GM slice" if gm else "tile slice", name)

    # --- statements --------------------------------------------------------------------------------------------------

    def copy(self, src: Operand, dst: Operand, *tags: str) -> Stmt:
        """T.copy."""
        more = {f"copy from {src.kind}", f"copy to {dst.kind}", *(["copy with conversion"] if src.dtype != dst.dtype else [])}
        return line(f"T.copy({src.tile}, {dst.tile})", f"copy({src.ref}, {dst.ref})", *tags, *more)

    def fill(self, dst: Operand, value=0) -> Stmt:
        """T.fill or T.clear."""
        if value == 0 and self.chance(0.6):
            return line(f"T.clear({dst.tile})", f"fill({dst.ref}, 0)", f"clear of {dst.kind}")
        return line(f"T.fill({dst.tile}, {value})", f"fill({dst.ref}, {value})", f"fill of {dst.kind}")

    def show(self, name: str, dtype: str = "") -> list[Stmt]:
        """A tile stored to a tensor of its own, by a copy or element by element."""
        t = self.tiles[name]
        out = self.tensor((self.blocks * t.shape[0], *t.shape[1:]), dtype or t.dtype, "out")
        place = [f"bx * {t.shape[0]}", *("0" for _ in t.shape[1:])]
        if self.chance(0.75):
            return [self.copy(self.whole(name), self.region(out, place, t.shape))]
        names = ("i", "j", "l", "m")[: len(t.shape)]
        left = ", ".join([f"bx * {t.shape[0]} + i", *names[1:]])
        return [self.parallel(names, t.shape, [line(f"{out}[{left}] = {name}[{', '.join(names)}]")])]

    def parallel(self, names, extents, body, *tags: str) -> Stmt:
        """T.Parallel."""
        names, sizes = ", ".join(names), ", ".join(map(str, extents))
        return block(f"for {names} in T.Parallel({sizes}):", body, f"for {names} in parallel({sizes}):", tags={"T.Parallel", *tags})

    @contextmanager
    def inside(self, name: str):
        """`name` is an integer in scope."""
        self.loops.append(name)
        yield
        self.loops.remove(name)

    def program(self, body) -> Program:
        """What has been written."""
        if len(self.sides) == 1:
            grid = (("bx", str(self.blocks)),)
        else:
            names = ("ix", "iy", "iz")[: len(self.sides)]
            grid = tuple((v, str(n)) for v, n in zip(names, self.sides))
            number = f"iy * {self.sides[0]} + ix"
            if len(names) > 2:
                number = f"(iz * {self.sides[1]} + iy) * {self.sides[0]} + ix"
            body = [line(f"bx = {number}"), *body]
        return Program(self.seed, self.chip, tuple(self.params.values()), tuple(self.tiles.values()), grid, tuple(body),
                       tuple(self.prelude), dict(self.dynamic), frozenset(self.tags))  # fmt: skip
