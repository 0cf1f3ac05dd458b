"""Random cases. The same seed gives the same case on every machine."""

from __future__ import annotations

import numpy as np

from .case import FLOATS, Case, Param, Stmt, Tile
from .expressions import Expressions

DTYPES = (*FLOATS, "float32", "float32", "float16", "int32", "int16", "int8", "uint8")
SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100)
MOST_ELEMENTS = 160
"""Elements of the blocks together: the interpreter takes about 60 us for each."""

LOOP_VARIABLES = ("i", "j", "l")


class Generator:
    """State of one random kernel: its iteration space, its tiles, what has been declared."""

    def __init__(self, seed: int):
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.gemm = self.chance(0.2)
        self.rank = 2 if self.gemm else int(self.rng.choice([1, 2, 2, 2, 3]))
        self.dtype = "float32" if self.gemm else str(self.rng.choice(DTYPES))
        self.is_float = self.dtype in FLOATS
        self.params: dict[str, Param] = {}
        self.tiles: dict[str, Tile] = {}
        self.dynamic: dict[str, int] = {}
        self._choose_space()
        self.variables = LOOP_VARIABLES[: self.rank]
        self.exprs = Expressions(self)
        self.loop: str | None = None
        self.pending: list[Stmt] = []
        """Loads of tiles the statement under construction mentions for the first time."""

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    # --- iteration space ---------------------------------------------------------------------------------------------

    def _choose_space(self) -> None:
        """Tile shape, tensor shape, grid and the origin of a block in every dimension."""
        sizes = (16, 32) if self.gemm else SIZES
        most = 560 if self.gemm else MOST_ELEMENTS
        self.block = [int(self.pick(sizes)) for _ in range(self.rank)]
        while np.prod(self.block) > most:
            self.block[int(np.argmax(self.block))] //= 2
        room = max(1.0, most / float(np.prod(self.block)))
        self.size = list(self.block)
        gridded = [0] if self.rank == 1 else [0, self.rank - 1]
        for d in gridded:
            blocks = 1 + self.rng.random() * (room ** (1 / len(gridded)) - 0.5)
            self.size[d] = max(1, int(self.block[d] * min(blocks, 60)) - int(self.rng.integers(0, self.block[d])))
        self.spelled = [str(n) for n in self.size]
        for d in gridded:
            if self.chance(0.2):
                self.spelled[d] = f"N{d}"
                self.dynamic[f"N{d}"] = self.size[d]
        self.grid = [f"T.ceildiv({self.spelled[d]}, {self.block[d]})" for d in reversed(gridded)]
        self.origin = ["0"] * self.rank
        for name, d in zip(("bx", "by"), reversed(gridded)):
            self.origin[d] = f"{name} * {self.block[d]}"

    # --- declarations ------------------------------------------------------------------------------------------------

    def param(
        self, dims, dtype: str, role: str = "in", limit: int = 0, lead: tuple[int, ...] = (), fresh=False
    ) -> Param:
        """A tensor over dimensions `dims` of the space (after leading sizes `lead`); an existing one if it fits."""
        shape = (*lead, *(self.size[d] for d in dims))
        for p in self.params.values():
            if not fresh and (p.shape, p.dtype, p.role, p.limit) == (shape, dtype, role, limit) and self.chance(0.5):
                return p
        letter = {"in": "X", "out": "Y", "index": "I"}[role]
        extents = (*map(str, lead), *(self.spelled[d] for d in dims))
        p = Param(f"{letter}{len(self.params)}", shape, dtype, role, limit, extents)
        self.params[p.name] = p
        return p

    def scalar(self, dtype: str) -> str:
        name = f"s_{dtype}"
        self.params.setdefault(name, Param(name, (), dtype))
        return name

    def tile(self, dims, dtype: str, letter: str, reuse: float = 0.6) -> Tile:
        """A tile over dimensions `dims`. Letters: S is only ever loaded by copies, W is computed."""
        shape = tuple(self.block[d] for d in dims)
        known = [t for t in self.tiles.values() if (t.shape, t.dtype, t.name[0]) == (shape, dtype, letter)]
        if known and self.chance(reuse):
            return self.pick(known)
        where = "fragment" if letter == "W" and self.chance(0.7) else "shared"
        t = Tile(f"{letter}{len(self.tiles)}", shape, dtype, where)
        self.tiles[t.name] = t
        if letter == "S" and self.chance(0.9):
            self.pending.append(self._load(dims, t))
        return t

    def other_dtype(self) -> str:
        """Mostly the dtype of the kernel."""
        return self.dtype if self.chance(0.8) else str(self.pick(DTYPES))

    def at(self, d: int, v: str | None = None) -> str:
        """Global index of dimension `d` (of loop variable `v`, or of the block's origin)."""
        o = self.origin[d]
        return (v if o == "0" else f"{o} + {v}") if v else o

    # --- statements --------------------------------------------------------------------------------------------------

    def load(self) -> Stmt:
        dims = self.pick([tuple(range(self.rank)), tuple(range(self.rank)), (self.rank - 1,), (0,)])
        return self._load(dims, self.tile(dims, self.other_dtype(), "S"))

    def _load(self, dims, t: Tile) -> Stmt:
        lead = (3,) if self.loop and self.chance(0.6) else ()
        p = self.param(dims, t.dtype, lead=lead)
        where = ", ".join([*([self.loop] if lead else []), *(self.at(d) for d in dims)])
        return Stmt((f"T.copy({p.name}[{where}], {t.name})",), fills=t.name)

    def store(self) -> Stmt:
        dims = tuple(range(self.rank)) if self.chance(0.85) else (self.rank - 1,) if self.rank == 1 else (0,)
        t = self.tile(dims, self.dtype, "W" if self.chance(0.85) else "S", reuse=1)
        narrow = dims != tuple(range(self.rank))
        p = self.param(dims, self.dtype, "out", fresh=narrow)
        if narrow:  # several blocks share these elements, so the first along the other dimension writes them
            return Stmt(("if bx == 0:",), body=(Stmt((f"T.copy({t.name}, {p.name}[{self.at(0)}])",)),))
        return Stmt((f"T.copy({t.name}, {p.name}[{', '.join(self.at(d) for d in dims)}])",))

    def nest(self) -> Stmt:
        """A `T.Parallel` of one to three statements on tiles or on GM."""
        head = f"for {', '.join(self.variables)} in T.Parallel({', '.join(map(str, self.block))}):"
        targets, lines, fills = [], [], None
        for _ in range(int(self.pick([1, 1, 1, 2, 3]))):
            target, tile = self._target()
            targets.append((target, tile))
        self.exprs.written = {t.name for _, t in targets if t}
        for k, (target, tile) in enumerate(targets):
            indent = "    "
            value = self.exprs.value(int(self.rng.integers(1, 4)))
            if self.chance(0.15):
                lines.append(f"{indent}v{k} = {value}")
                value = f"v{k} + {self.exprs.value(1)}"
            if self.is_float:
                value = f"T.max(T.min({value}, 64.0), -64.0)"
            if self.chance(0.2):
                lines.append(f"{indent}if {self.exprs.condition()}:")
                lines.append(f"{indent * 2}{target} = {value}")
                if self.chance(0.3):
                    lines += [f"{indent}else:", f"{indent * 2}{target} = {self.exprs.value(1)}"]
            else:
                lines.append(f"{indent}{target} = {value}")
                if tile and k == 0 and not _mentions(lines, tile.name):
                    fills = tile.name
        self.exprs.written = set()
        return Stmt((head, *lines), fills=fills)

    def _target(self) -> tuple[str, Tile | None]:
        v = self.variables
        if self.chance(0.3):
            if self.rank == 2 and self.chance(0.15):
                p = self.param((1, 0), self.dtype, "out")
                return f"{p.name}[{self.at(1, v[1])}, {self.at(0, v[0])}]", None
            p = self.param(range(self.rank), self.dtype, "out")
            return f"{p.name}[{', '.join(self.at(d, x) for d, x in enumerate(v))}]", None
        t = self.tile(range(self.rank), self.dtype, "W")
        return f"{t.name}[{', '.join(v)}]", t

    def reduction(self) -> Stmt:
        if self.rank == 1 or self.dtype in ("int8", "uint8", "int16"):
            return self.nest()
        dim = int(self.rng.integers(self.rank)) if self.rank == 2 else int(self.pick([0, 2]))
        keep = tuple(d for d in range(self.rank) if d != dim)
        src = self.tile(range(self.rank), self.dtype, "W" if self.chance(0.7) else "S", reuse=0.95)
        dst = self.tile(keep, self.dtype, "W")
        kind = self.pick(["sum", "max", "min", *(["abssum", "absmax"] if self.is_float else [])])
        clear = kind.startswith("abs") or self.chance(0.75)
        more = "" if clear else ", clear=False"
        return Stmt((f"T.reduce_{kind}({src.name}, {dst.name}, dim={dim}{more})",), fills=dst.name if clear else None)

    def scan(self) -> Stmt:
        if self.dtype not in ("float32", "int32") or self.rank == 3:
            return self.nest()
        src = self.tile(range(self.rank), self.dtype, "S", reuse=0.9)
        dst = self.tile(range(self.rank), self.dtype, "W")
        dim, reverse = int(self.rng.integers(self.rank)), self.chance(0.3)
        return Stmt((f"T.cumsum({src.name}, {dst.name}, dim={dim}, reverse={reverse})",), fills=dst.name)

    def fill(self) -> Stmt:
        t = self.tile(self.pick([tuple(range(self.rank)), (self.rank - 1,)]), self.dtype, "W")
        text = f"T.clear({t.name})" if self.chance(0.4) else f"T.fill({t.name}, {self.exprs.constant()})"
        return Stmt((text,), fills=t.name)

    def move(self) -> Stmt:
        """Copy between tiles; between floats it may convert."""
        src = self.tile(range(self.rank), self.dtype, self.pick("SW"), reuse=1)
        dst = self.tile(range(self.rank), self.dtype, "W")
        if src == dst:
            return self.fill()
        return Stmt((f"T.copy({src.name}, {dst.name})",), fills=dst.name)

    def atomic(self) -> Stmt:
        if self.dtype not in ("float32", "int32") or self.rank != 2:
            return self.nest()
        t = self.tile((0, 1), self.dtype, "S", reuse=1)
        p = self.param((1,), self.dtype, "out", fresh=True)
        v = self.variables
        head = f"for {', '.join(v)} in T.Parallel({', '.join(map(str, self.block))}):"
        return Stmt((head, f"    T.atomic_add({p.name}[{self.at(1, v[1])}], {t.name}[{', '.join(v)}])"))

    def branch(self, depth: int) -> Stmt:
        n = self.scalar("int32")
        condition = self.pick(["bx == 0", "bx % 2 == 1", f"{n} > 0", f"{n} + bx < 3"])
        orelse = self.statements(1, depth + 1) if self.chance(0.3) else ()
        return Stmt((f"if {condition}:",), body=self.statements(int(self.rng.integers(1, 3)), depth + 1), orelse=orelse)

    def repeat(self, depth: int) -> Stmt:
        head = self.pick(["T.serial(3)", "T.Pipelined(3, num_stages=2)", "range(3)", "T.serial(2)"])
        self.loop = "k"
        body = self.statements(int(self.rng.integers(1, 4)), depth + 1)
        self.loop = None
        return Stmt((f"for k in {head}:",), body=body)

    def statements(self, count: int, depth: int = 0) -> tuple[Stmt, ...]:
        out = []
        for _ in range(count):
            kind = str(self.rng.choice(list(WEIGHTS), p=list(WEIGHTS.values())))
            if kind in ("branch", "repeat"):
                statement = getattr(self, kind)(depth) if depth == 0 else self.nest()
            else:
                statement = getattr(self, kind)()
            out += [*self.pending, statement]
            self.pending = []
        return tuple(out)

    def product(self) -> list[Stmt]:
        """A K loop of gemms into the work tile W0; K may end inside a tile."""
        dtype = str(self.pick(["float16", "bfloat16"]))
        step, k = int(self.pick([16, 32, 48])), int(self.rng.integers(1, 100))
        trans_a, trans_b = self.chance(0.25), self.chance(0.4)
        rows, columns = self.block
        parts = []
        for name, d, side, transposed in (("A", 0, rows, trans_a), ("B", 1, columns, not trans_b)):
            dims = (k, self.size[d]) if transposed else (self.size[d], k)
            spelled = (str(k), self.spelled[d]) if transposed else (self.spelled[d], str(k))
            tile = (step, side) if transposed else (side, step)
            where = [f"ko * {step}", self.at(d)] if transposed else [self.at(d), f"ko * {step}"]
            self.params[name] = Param(name, dims, dtype, extents=spelled)
            self.tiles[f"T{name}"] = Tile(f"T{name}", tile, dtype, "shared")
            parts.append(Stmt((f"T.copy({name}[{', '.join(where)}], T{name})",), fills=f"T{name}"))
        self.tiles["W0"] = Tile("W0", (rows, columns), "float32", "fragment")
        flags = f"transpose_A={trans_a}, transpose_B={trans_b}"
        parts.append(Stmt((f"T.gemm(TA, TB, W0, {flags})",)))
        loop = f"for ko in T.Pipelined({-(-k // step)}, num_stages={int(self.pick([0, 2, 3]))}):"
        return [Stmt(("T.clear(W0)",), fills="W0"), Stmt((loop,), body=tuple(parts))]

    def case(self) -> Case:
        first = self.product() if self.gemm else []
        body = [*first, *self.statements(int(self.rng.integers(1, 5 if self.gemm else 9)))]
        last = self.store() if self.chance(0.8) else self.nest()
        body += [*self.pending, last]
        if not any("Y" in n[:1] for s in body for n in s.names() if n in self.params):
            body.append(self.store())
        return Case(
            self.seed,
            tuple(self.params.values()),
            tuple(self.tiles.values()),
            tuple(self.grid),
            tuple(body),
            self.dynamic,
        )


WEIGHTS = {
    "load": 0.16, "nest": 0.36, "store": 0.1, "reduction": 0.12, "scan": 0.03, "fill": 0.04, "move": 0.05,
    "atomic": 0.02, "branch": 0.05, "repeat": 0.07,
}  # fmt: skip


def _mentions(lines: list[str], name: str) -> bool:
    """Whether `name` is read: it occurs apart from the store that stands first on the last line."""
    return " ".join(lines).count(name + "[") > 1


def generate(seed: int) -> Case:
    """The case of a seed."""
    return Generator(seed).case()
