"""Random cases. The same seed gives the same case on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .accumulators import Accumulators
from .expressions import Expressions
from .nests import Nests
from .numbers import FLOAT8, is_float
from .orders import Orders
from .program import Case, Expr, Param, Stmt, Tile, fill, index
from .storage import Storage

FLOATS = ("float32", "float16", "bfloat16")
DTYPES = (*FLOATS, *FLOATS, "float32", "int32", "int32", "int16", "int8", "uint8", "uint16", "uint32", "int64", "bool")
SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 128, 200)
RANKS = (1, 1, 2, 2, 2, 2, 3, 3, 4)
STATEMENTS = (1, 1, 2, 2, 2, 3, 3, 4, 5, 8)
MOST_ELEMENTS = 2500
"""Elements of the blocks together."""
GEMM_ELEMENTS = 2000
CHIPS = ("a2", "a2", "a5")
LOOP_VARIABLES = ("i", "j", "l", "m")


class Generator(Nests, Accumulators, Orders, Storage):
    """State of one random kernel: its iteration space, its tiles, what has been declared."""

    def __init__(self, seed: int):
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.mix = next(mix for first, mix in MIXES if seed >= first)
        self.chip = self.pick(CHIPS)
        self.gemm = self.chance(0.15)
        self.rank = 2 if self.gemm else int(self.pick(RANKS))
        self.dtype = "float32" if self.gemm else str(self.pick(DTYPES))
        self.params: dict[str, Param] = {}
        self.tiles: dict[str, Tile] = {}
        self.dynamic: dict[str, int] = {}
        self.tags: set[str] = {f"chip {self.chip}", f"rank {self.rank}", f"dtype {self.dtype}"}
        self._choose_space()
        self.exprs = Expressions(self)
        self.extents, self.offsets = list(self.block), [0] * self.rank
        self.loop: str | None = None
        self.loop_in_nest: str | None = None
        self.names = 0
        self.float8 = self.some(self.mix.float8)
        self.view: Tile | None = None
        """The view whose elements are the iteration space."""
        self.hidden = ""
        """The tile a view names, which the same statement does not mention by its own name."""
        self.pending: list[Stmt] = []
        """Loads of tiles the statement under construction mentions for the first time."""

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def some(self, p: float) -> bool:
        """`chance` of what not every mix knows: draws nothing where it never happens."""
        return p > 0 and self.chance(p)

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # --- iteration space ---------------------------------------------------------------------------------------------

    def _choose_space(self) -> None:
        """Tile shape, tensor shape, grid and the origin of a block in every dimension."""
        sizes = (16, 32) if self.gemm else SIZES
        most = GEMM_ELEMENTS if self.gemm else MOST_ELEMENTS
        self.block = [int(self.pick(sizes)) for _ in range(self.rank)]
        # Rows are padded to 32 bytes on chip.
        while np.prod(self.block[:-1]) * (-(-self.block[-1] // 8) * 8) > most:
            longest = int(np.argmax(self.block[:-1])) if self.rank > 1 and self.block[-1] <= 8 else int(np.argmax(self.block))
            self.block[longest] //= 2
        room = max(1.0, most / float(np.prod(self.block)))
        self.size = list(self.block)
        gridded = [0] if self.rank == 1 else [0, self.rank - 1]
        for d in gridded:
            blocks = 1 + self.rng.random() * (room ** (1 / len(gridded)) - 0.5)
            self.size[d] = max(1, int(self.block[d] * min(blocks, 60)) - int(self.rng.integers(0, self.block[d])))
        if any(self.size[d] % self.block[d] for d in gridded):
            self.tags.add("tail")
        self.spelled = [str(n) for n in self.size]
        for d in gridded:
            if self.chance(0.2):
                self.spelled[d] = f"N{d}"
                self.dynamic[f"N{d}"] = self.size[d]
                self.tags.add("dynamic shape")
        self.grid = [(self.spelled[d], self.block[d]) for d in reversed(gridded)]
        self.origin = ["0"] * self.rank
        for name, d in zip(("bx", "by"), reversed(gridded)):
            self.origin[d] = f"{name} * {self.block[d]}"

    def var(self, d: int) -> Expr:
        """The loop variable of dimension `d`, as an index of a tile."""
        v = LOOP_VARIABLES[d]
        return index(f"({v} + {self.offsets[d]})" if self.offsets[d] else v)

    def at(self, d: int) -> Expr:
        """Index of dimension `d` in a tensor."""
        v = self.var(d)
        return v if self.origin[d] == "0" else index(f"{self.origin[d]} + {v.tile}")

    def index_values(self) -> list[Expr]:
        """What may be turned into a value."""
        inner = [index(name) for name in (self.loop, self.loop_in_nest) if name]
        return [*map(self.var, range(self.rank)), *map(self.at, range(self.rank)), *inner]

    def some_dims(self) -> tuple[int, ...]:
        """Mostly all dimensions; otherwise some of them, in order."""
        if self.rank == 1 or self.chance(0.55):
            return tuple(range(self.rank))
        chosen = [d for d in range(self.rank) if self.chance(0.5)]
        return tuple(chosen or [int(self.rng.integers(self.rank))])

    # --- declarations ------------------------------------------------------------------------------------------------

    def param(self, dims, dtype: str, role: str = "in", limit: int = 0, lead=(), fresh=False, stretch: int = 1) -> Param:
        """A tensor over dimensions `dims` of the space, the last one `stretch` times as long, after leading sizes `lead`; an
        existing one if it fits. A `fresh` one stays with its statement: blocks may share its elements in their own way."""
        shape = [*lead, *(self.size[d] for d in dims)]
        shape[-1] *= stretch
        letter = "Z" if fresh else {"in": "X", "out": "Y"}.get(role, "I")
        for p in self.params.values():
            if (
                not fresh
                and p.name[0] == letter
                and (p.shape, p.dtype, p.role, p.limit) == (tuple(shape), dtype, role, limit)
                and self.chance(0.5)
            ):
                return p
        extents = [*map(str, lead), *(self.spelled[d] for d in dims)]
        if stretch > 1:
            extents[-1] = str(shape[-1])
        p = Param(f"{letter}{len(self.params)}", tuple(shape), dtype, role, limit, tuple(extents))
        self.params[p.name] = p
        return p

    def scalar(self, dtype: str) -> str:
        name = f"s_{dtype}"
        self.params.setdefault(name, Param(name, (), dtype))
        return name

    def tile(self, dims, dtype: str, letter: str, reuse: float = 0.6) -> Tile:
        """A tile over dimensions `dims`. Letters: S is only ever loaded by copies, W is computed."""
        shape = tuple(self.block[d] for d in dims) or (1,)
        v = self.view
        if v and (v.shape, v.dtype, letter) == (shape, dtype, "W") and self.chance(0.7):
            return v
        known = [t for t in self.tiles.values() if (t.shape, t.dtype, t.name[0]) == (shape, dtype, letter) and t.name != self.hidden]
        if known and self.chance(reuse):
            return self.pick(known)
        t = self.new_tile(shape, dtype, letter)
        if letter == "S":
            self.pending.append(self._load(dims, t))
        return t

    def new_tile(self, shape, dtype: str, letter: str = "W") -> Tile:
        """A tile of any shape that nothing mentions yet."""
        where = "fragment" if letter == "W" and self.chance(0.7) else "shared"
        t = Tile(f"{letter}{len(self.tiles)}", tuple(shape), dtype, where)
        self.tiles[t.name] = t
        return t

    def stored_dtype(self) -> str:
        """Any dtype of a tensor or a tile: one that is only stored, too."""
        return str(self.pick(FLOAT8)) if self.float8 and self.chance(0.6) else self.any_dtype()

    def any_dtype(self) -> str:
        """Any dtype, more often the kernel's."""
        return self.dtype if self.chance(0.4) else str(self.pick(DTYPES))

    # --- statements --------------------------------------------------------------------------------------------------

    def _origins(self, dims) -> list[Expr]:
        return [index(self.origin[d]) for d in dims]

    def _copy(self, dst, dst_at, src, src_at, extents, **more) -> Stmt:
        """A copy of a box between tiles and tensors; a tile is named without an origin."""

        def spell(memory, place, first):
            slots = ", ".join(f"{{{first + k}}}" for k in range(len(place)))
            name = memory.name if isinstance(memory, Tile) else f"{memory.name}[{slots}]"
            return name, f"{memory.name}, ({slots},)"

        (dst_tile, dst_numpy), (src_tile, src_numpy) = spell(dst, dst_at, 0), spell(src, src_at, len(dst_at))
        numpy = f"copy({dst_numpy}, {src_numpy}, {tuple(extents)})"
        return Stmt((f"T.copy({src_tile}, {dst_tile})",), (numpy,), (*dst_at, *src_at), kind="copy", **more)

    def load(self) -> Stmt:
        dims = self.some_dims()
        return self._load(dims, self.tile(dims, self.stored_dtype(), "S"))

    def _load(self, dims, t: Tile) -> Stmt:
        lead = (3,) if self.loop and self.chance(0.6) else ()
        source = t.dtype if self.chance(0.9) else self.stored_dtype()
        p = self.param(dims, source, lead=lead)
        place = [*([index(self.loop)] if lead else []), *self._origins(dims)]
        tags = {"copy with conversion"} if source != t.dtype else set()
        return self._copy(t, [index("0")] * len(dims), p, place, t.shape, fills=t.name, tags=frozenset(tags))

    def store(self) -> Stmt:
        dims = tuple(range(self.rank)) if self.chance(0.85) or self.rank == 1 else (0,)
        t = self.tile(dims, self.dtype, "W" if self.chance(0.85) else "S", reuse=1)
        narrow = len(dims) < self.rank
        p = self.param(dims, self.dtype if self.chance(0.9) else self.stored_dtype(), "out", fresh=narrow)
        tags = frozenset({"copy with conversion"} if p.dtype != t.dtype else set())
        copy = self._copy(p, self._origins(dims), t, [index("0")] * len(dims), t.shape, tags=tags)
        if narrow:  # several blocks share these elements, so the first along the other dimension writes them
            return Stmt(("if bx == 0:",), ("if bx == 0:",), body=(copy,), kind="if", tags=frozenset({"runtime if"}))
        return copy

    def reduction(self) -> Stmt:
        if self.dtype == "bool":
            return self.nest()
        dim = int(self.rng.integers(self.rank))
        src = self.tile(range(self.rank), self.dtype, "W" if self.chance(0.7) else "S", reuse=0.95)
        dst = self.tile(tuple(d for d in range(self.rank) if d != dim), self.dtype, "W")
        kinds = ["sum", "max", "min", "sum", "max"]
        kinds += ["abssum", "absmax"] if is_float(self.dtype) else ["bitand", "bitor", "bitxor", "any", "all"]
        kind = self.pick(kinds)
        clear = kind == "abssum" or self.chance(0.75)
        name = f"T.reduce_{kind}" if kind not in ("any", "all") else "T.reduce"
        more = f', "{kind}"' if kind in ("any", "all") else ""
        tail = "" if clear else ", clear=False"
        if src.name == dst.name:
            return self.nest()
        tags = {f"reduce {kind}", f"reduction of dimension {dim} of {self.rank}", *([] if clear else ["clear=False"])}
        return Stmt((f"{name}({src.name}, {dst.name}{more}, dim={dim}{tail})",),
                    (f'reduce({dst.name}, {src.name}, "{kind}", {dim}, {clear})',),
                    kind="reduce", fills=dst.name if clear else None, tags=frozenset(tags))  # fmt: skip

    def scan(self) -> Stmt:
        if self.dtype == "bool":
            return self.nest()
        src = self.tile(range(self.rank), self.dtype, self.pick("SW"), reuse=0.9)
        dst = self.tile(range(self.rank), self.dtype, "W")
        dim, reverse = int(self.rng.integers(self.rank)), self.chance(0.3)
        kind = "sum" if self.chance(0.7) else "max"
        inplace = src.name == dst.name
        target = "" if inplace else f"{dst.name}, "
        return Stmt((f"T.cum{kind}({src.name}, {target}dim={dim}, reverse={reverse})",),
                    (f'scan({dst.name}, {src.name}, "{kind}", {dim}, {reverse})',),
                    kind="scan", fills=None if inplace else dst.name, tags=frozenset({f"cum{kind}"}))  # fmt: skip

    def fill(self) -> Stmt:
        t = self.tile(self.some_dims(), self.dtype, "W")
        if self.chance(0.4):
            return Stmt((f"T.clear({t.name})",), (f"fill({t.name}, 0)",), kind="fill", fills=t.name, tags=frozenset({"fill"}))
        return fill(t, self.exprs.constant(t.dtype))

    def move(self) -> Stmt:
        """Copy between tiles, which may convert, or a transpose."""
        src = self.tile(range(self.rank), self.dtype, self.pick("SW"), reuse=1)
        if self.rank == 2 and self.chance(0.4):
            dst = self.tile((1, 0), self.dtype, "W")
            if src != dst:
                return Stmt((f"T.transpose({src.name}, {dst.name})",), (f"transpose({dst.name}, {src.name})",),
                            kind="transpose", fills=dst.name, tags=frozenset({"transpose"}))  # fmt: skip
        dst = self.tile(range(self.rank), self.any_dtype() if self.chance(0.4) else self.dtype, "W")
        if src == dst:
            return self.fill()
        zeros = [index("0")] * self.rank
        tags = frozenset({"copy of a tile", *(["copy with conversion"] if src.dtype != dst.dtype else [])})
        return self._copy(dst, zeros, src, zeros, src.shape, fills=dst.name, tags=tags)

    def atomic(self) -> Stmt:
        """A tile added to a tensor, which other blocks may add to as well."""
        if self.dtype in ("bool", "uint8", "uint16", "uint32", "int64"):
            return self.nest()
        dims = self.some_dims()
        t = self.tile(dims, self.dtype, self.pick("SW"), reuse=1)
        p = self.param(dims, self.dtype, "out", fresh=True)
        kind = self.pick(["add", "add", "max", "min"])
        slots = ", ".join(f"{{{k}}}" for k in range(len(dims)))
        zeros = ("0, " * len(dims)).strip()
        return Stmt((f"T.atomic_{kind}({p.name}[{slots}], {t.name})",),
                    (f'update({p.name}, box(({slots},), {t.shape}), at({t.name}, *box(({zeros}), {t.shape})), "{kind}")',),
                    tuple(self._origins(dims)), kind="atomic", tags=frozenset({f"atomic_{kind} of a tile"}))  # fmt: skip

    def element(self) -> Stmt:
        """A local scalar read from a tensor."""
        p, name = self.param((0,), self.dtype), self.fresh("c")
        if self.loop is None and not self.inside:
            self.exprs.locals.append((name, self.dtype))
        return Stmt((f"{name} = {p.name}[bx]" if self.rank == 1 else f"{name} = {p.name}[by]",),
                    (f"{name} = at({p.name}, {'bx' if self.rank == 1 else 'by'})",),
                    kind="let", defines=name, tags=frozenset({"scalar from a buffer"}))  # fmt: skip

    def branch(self, depth: int) -> Stmt:
        n = self.scalar("int32")
        conditions = [("bx == 0",) * 2, ("bx % 2 == 1",) * 2, (f"{n} > 0", f"truth({n} > 0)"), (f"{n} + bx < 3", f"truth({n} + bx < 3)")]
        tile, numpy = self.pick(conditions)
        if self.chance(0.2) and self.dtype != "bool":
            p = self.param((0,), self.dtype)
            tile, numpy = f"{p.name}[0] > 0", f"truth(at({p.name}, 0) > 0)"
        self.inside = True
        body = self.statements(int(self.rng.integers(1, 3)), depth + 1)
        orelse = self.statements(1, depth + 1) if self.chance(0.3) else ()
        self.inside = False
        return Stmt((f"if {tile}:",), (f"if {numpy}:",), body=body, orelse=orelse, kind="if", tags=frozenset({"runtime if"}))

    def repeat(self, depth: int) -> Stmt:
        tile, count = self.pick([("T.serial(3)", 3), ("T.Pipelined(3, num_stages=2)", 3), ("range(3)", 3), ("T.serial(2)", 2)])
        kind, tags = "loop", {"T.Pipelined"} if "Pipe" in tile else {"serial loop outside"}
        if self.chance(0.15):
            n = self.scalar("int32")
            tile, count, kind, tags = f"T.serial(T.min({n}, 3))", f"min(int(index({n})), 3)", "if", {"runtime trip count"}
        self.loop = "k"
        body = self.statements(self.pick((1, 1, 2, 3)), depth + 1)
        self.loop = None
        return Stmt((f"for k in {tile}:",), (f"for k in range({count}):",), body=body, kind=kind, tags=frozenset(tags))

    def statements(self, count: int, depth: int = 0) -> tuple[Stmt, ...]:
        out = []
        for _ in range(count):
            kind = str(self.rng.choice(list(self.mix.weights), p=list(self.mix.weights.values())))
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
            turn = (lambda x: x) if transposed else (lambda x: x[::-1])
            self.params[name] = Param(name, turn((k, self.size[d])), dtype, extents=turn((str(k), self.spelled[d])))
            t = self.tiles[f"T{name}"] = Tile(f"T{name}", turn((step, side)), dtype, "shared")
            where = turn([index(f"ko * {step}"), index(self.origin[d])])
            parts.append(self._copy(t, [index("0")] * 2, self.params[name], where, t.shape, fills=t.name))
        self.tiles["W0"] = Tile("W0", (rows, columns), "float32", "fragment")
        flags = f"transpose_A={trans_a}, transpose_B={trans_b}"
        parts.append(Stmt((f"T.gemm(TA, TB, W0, {flags})",), (f"gemm(W0, TA, TB, {trans_a}, {trans_b})",), kind="gemm",
                          tags=frozenset({"gemm", *(["gemm transposed"] if trans_a or trans_b else [])})))  # fmt: skip
        count = -(-k // step)
        loop = f"for ko in T.Pipelined({count}, num_stages={int(self.pick([0, 2, 3]))}):"
        clear = Stmt(("T.clear(W0)",), ("fill(W0, 0)",), kind="fill", fills="W0")
        return [clear, Stmt((loop,), (f"for ko in range({count}):",), body=tuple(parts), kind="loop", tags=frozenset({"T.Pipelined"}))]

    def seen(self, body) -> list[Stmt]:
        """Stores of some more tiles: what no tensor shows is not compared."""
        whole = tuple(range(self.rank))
        written = set().union(*(s.names() for s in body))
        tiles = [t for t in self.tiles.values() if t.name[0] == "W" and t.shape == tuple(self.block) and t.name in written]
        out, zeros = [], [index("0")] * self.rank
        for _ in range(min(self.mix.shown, len(tiles))):
            t = tiles.pop(int(self.rng.integers(len(tiles))))
            out.append(self._copy(self.param(whole, t.dtype, "out", fresh=True), self._origins(whole), t, zeros, t.shape))
        return out

    def case(self) -> Case:
        self.inside = False
        first = self.product() if self.gemm else []
        body = [*first, *self.statements(self.pick((1, 2, 3) if self.gemm else STATEMENTS))]
        last = self.store() if self.chance(0.8) else self.nest()
        body += [*self.pending, last]
        self.pending = []
        if not any(p.role == "out" and p.name in s.names() for s in body for p in self.params.values()):
            last = self.store()
            body += [*self.pending, last]
        body += self.seen(body)
        params, tiles = tuple(self.params.values()), tuple(self.tiles.values())
        return Case(self.seed, self.chip, params, tiles, tuple(self.grid), tuple(body), self.dynamic, frozenset(self.tags))


@dataclass(frozen=True)
class Mix:
    """What kernels are made of: statements and how often each is chosen; shares of kernels with 8-bit floats, and of locals that are
    declared as variables; how many more tiles are stored in the end; share of nests that store with gaps."""

    weights: dict[str, float]
    float8: float = 0.0
    variables: float = 0.0
    shown: int = 0
    gaps: float = 0.0


MIXES = (
    (10_000, Mix({
        "load": 0.08, "nest": 0.26, "store": 0.06, "reduction": 0.08, "scan": 0.03, "fill": 0.03, "move": 0.04,
        "atomic": 0.02, "element": 0.02, "branch": 0.05, "repeat": 0.06,
        "reducer": 0.06, "variable": 0.05, "sort": 0.05, "argmax": 0.03, "reshaped": 0.05, "narrow": 0.03,
    }, float8=0.2, variables=0.4, shown=2, gaps=0.1)),
    (0, Mix({
        "load": 0.1, "nest": 0.37, "store": 0.08, "reduction": 0.12, "scan": 0.05, "fill": 0.04, "move": 0.06,
        "atomic": 0.03, "element": 0.04, "branch": 0.05, "repeat": 0.06,
    })),
)  # fmt: skip
"""First seed -> mix. Seeds below 10 000 keep the kernels they have always given: tests, commits and reports name them."""


PROGRAMS = 100_000
"""The first seed of the second family, see `programs`."""


def generate(seed: int):
    """The case of a seed."""
    if seed >= PROGRAMS:
        from .programs.generate import generate as program

        return program(seed)
    return Generator(seed).case()
