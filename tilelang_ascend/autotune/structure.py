"""What a traced kernel is made of: read so that traces of two configurations can be compared, number by number.

`read` walks Tile IR once. Two traces are *comparable* if they consist of the same statements on the same buffers (`Structure.shape`). Then

* `interface` tells whether both take the same arguments;
* `data` tells whether they compute the same: all constants and calls of expressions whose values get into tensors or tiles. Integers made of
  loop variables, lengths and constants only are places, not data: they are left out, since tile sizes are part of most of them;
* `reaches` are the parts of tensors it reads and writes;
* `numbers` are extents of tiles and loops, and depths of pipelines, in the order in which they stand. The same index is the same place of
  the kernel in all comparable traces.

Extents that are no constants get a nominal value (`ranges`).
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir import (
    AllocBuffer,
    AssertStmt,
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StringImm,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    attrs_of,
    children,
    const_int,
    dtype_of,
    expr_children,
    is_buffer_var,
    itemsize,
    op_name,
    scope_of,
    stmts_of,
    walk_expr,
)
from ..tile import GEMM, VIEW, Side, is_op, tile_op_of
from ..tile.uses import is_parallel, is_scalar_var, loads_in, on_chip, own_uses, uses_of
from .partial import lone_folds
from .ranges import NOMINAL, Ranges


class Kind(enum.Enum):
    """What a number is the extent of."""

    TILE = "tile"
    NEST = "nest"
    """A loop of a `Parallel` nest."""
    TRIPS = "trips"
    """A loop that runs one after the other, an axis of the grid, or a `while` loop, of which only the condition is known."""
    STAGES = "stages"
    MOVED = "moved"
    """A region that is copied."""


@dataclass(frozen=True)
class Number:
    """A number of a kernel.

    Attributes:
        kind: of what.
        value: nominal, if it is no constant.
        bound: the greatest it can be, if that is not `value`.
        known: whether loops and lengths tell the value.
        text: as written; tells apart what has the same nominal value.
        itemsize: bytes of an element of the tile, 0 for others.
        rank: dimensions of the tile or nest.
        last: whether it is the last one of them.
    """

    kind: Kind
    value: int
    text: str = ""
    itemsize: int = 0
    rank: int = 1
    last: bool = True
    known: bool = True
    bound: int = 0

    @property
    def most(self) -> int:
        """The greatest it can be."""
        return max(self.value, self.bound)


@dataclass(frozen=True)
class Tile:
    """Bytes on chip as a product: `itemsize` times the numbers at the places `extents`, times `stages` if that is a place."""

    itemsize: int
    extents: tuple[int, ...]
    stages: int | None = None


@dataclass(frozen=True)
class Product:
    """A gemm: its tiles, and places of the extents along each axis."""

    a: Tile
    b: Tile
    c: Tile
    axes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Move:
    """A transfer between GM and a core: the bytes, and places of the loops of the block and axes of the grid it stands in. `counted`: whether
    these say how often it happens; a `while` loop does not."""

    tile: Tile
    loops: tuple[int, ...]
    grid: tuple[int, ...]
    counted: bool = True


@dataclass(frozen=True)
class Reach:
    """The elements an access finds along one dimension of a tensor, over all loops: [start, end). `width`: of a region, or what a nest reaches."""

    start: int
    end: int
    width: int

    def same(self, other: "Reach") -> bool:
        """True if both reach the same elements, up to what does not fill the last tile."""
        return max(abs(self.start - other.start), abs(self.end - other.end)) < max(1, self.width, other.width)


@dataclass
class Structure:
    """See the head of this module. `products`, `moves` and `groups` (tiles one vector statement works on at a time) refer to `numbers`.

    Attributes:
        chained: whether a product consumes what another one made.
        reduces: whether elements are combined along a dimension, scanned or sorted.
        folds: lengths of the reductions, scans and sorts that are no part of a longer one (`partial`), as written.
        longest: dimension of the tensors, all but the last ones taken together.
    """

    interface: tuple = ()
    shape: list = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    reaches: list[Reach | None] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    groups: list[tuple[Tile, ...]] = field(default_factory=list)
    chained: bool = False
    reduces: bool = False
    folds: list[str] = field(default_factory=list)
    longest: int = NOMINAL

    def places(self, *kinds: Kind) -> list[int]:
        """Places of the numbers of these kinds."""
        return [i for i, n in enumerate(self.numbers) if n.kind in kinds]


def read(func: PrimFunc) -> Structure:
    """The structure of a Tile IR function."""
    reader = _Reader(func)
    for stmt in stmts_of(func.body):
        reader.visit(stmt)
    reader.finish(func.body)
    reader.out.folds = [reader.fold(s) for s in lone_folds(func)]
    return reader.out


@dataclass(frozen=True)
class _Around:
    """Places of what surrounds a statement."""

    grid: tuple[int, ...] = ()
    loops: tuple[int, ...] = ()
    nest: tuple[int, ...] = ()
    stages: int | None = None
    counted: bool = True


class _Reader:
    def __init__(self, func: PrimFunc):
        self.out = Structure()
        self.names: dict[Any, str] = {p: f"p{i}" for i, p in enumerate(func.params)}
        self.ranges = Ranges()
        self.inner = Ranges()
        """As `ranges`, with all variables of nests at 0."""
        self.extents: dict[Any, tuple[int, ...]] = {}
        self.stages: dict[Any, int] = {}
        self.gemms: list[list] = []
        self.vector_uses: list[set] = []
        attrs = dict(func.attrs or {})
        kept = [str(attrs.get(name)) for name in ("tl.out_idx", "tl.safe_values")]
        shapes = [list(map(self.ranges.nominal, p.ty.shape)) for p in func.params if is_buffer_var(p)]
        self.out.longest = max((n for shape in shapes for n in (*shape, math.prod(shape[:-1]))), default=NOMINAL)
        self.out.interface = (*map(_parameter, func.params), *kept)

    def visit(self, s: Stmt, around: _Around = _Around()) -> None:
        """Read `s` and everything below it."""
        if isinstance(s, SeqStmt):
            self._block(s, around)
        elif isinstance(s, For):
            self._loop(s, around)
        elif isinstance(s, AllocBuffer):
            self._allocate(s.buffer)
        elif isinstance(s, (IfThenElse, While)):
            arms = [s.body] if isinstance(s, While) else [s.then_case, s.else_case]
            self._note((type(s).__name__, *(arm is not None for arm in arms)), s.condition)
            if isinstance(s, While):
                self._number(Number(Kind.TRIPS, NOMINAL, self._text(s.condition), known=False))
            inside = replace(around, counted=around.counted and not isinstance(s, While))
            for arm in arms:
                self._block(arm, inside)
        elif isinstance(s, Bind):
            place = _is_integer(s.var)
            self._note(("Bind", dtype_of(s.var)), *([] if place else [s.value]))
            self._name(s.var, self._text(s.value) if place else "")
            for ranges in (self.ranges, self.inner):
                ranges.set(s.var, ranges.of(s.value) if place else None, ranges.nominal(s.value) if place else NOMINAL)
        elif isinstance(s, BufferStore):
            place = is_scalar_var(s.buffer) and _is_integer(s)
            self._note(("BufferStore", self._buffer(s.buffer)), *([] if place else [s.value]))
            self._element(s, around)
            self._reach_element(s.buffer, s.indices)
        elif isinstance(s, Evaluate):
            self._evaluate(s, around)
        else:
            assert isinstance(s, (AssertStmt, Break, Continue)), type(s).__name__
            self._note((type(s).__name__,))

    def finish(self, body: Stmt) -> None:
        """What can be told only when all statements are known."""
        self.out.chained = _is_chained(body)
        inputs = {b for a, b, _, _ in self.gemms for b in (a, b)}
        cube = inputs | {c for _, _, c, _ in self.gemms}
        touched = {b for uses in self.vector_uses for b in uses}
        for a, b, c, axes in self.gemms:
            self.out.products.append(Product(self._tile(a, True), self._tile(b, True), self._tile(c), axes))
        groups = [uses for uses in self.vector_uses] + [{b} for b in self.extents if b not in cube | touched]
        self.out.groups = [tuple(self._tile(b) for b in group if b in self.extents) for group in groups]

    def fold(self, s: Evaluate) -> str:
        """How many elements an op that sees a dimension as a whole takes at a time, as written."""
        source = s.value.args[0]
        record = tile_op_of(s)
        assert record is not None and record.whole is not None
        return self._text(source.region[record.whole(attrs_of(s), len(source.region))].extent)

    def _block(self, body: Stmt | None, around: _Around) -> None:
        for s in stmts_of(body):
            self.visit(s, around)

    def _loop(self, s: For, around: _Around) -> None:
        notes = {str(k): str(v) for k, v in s.annotations.items() if k != "num_stages"}
        self._note(("For", str(s.kind), tuple(sorted(notes.items()))))
        extent = self.ranges.nominal(s.extent)
        known = self.ranges.of(s.extent)
        last = None if known is None else max(known[1] - 1, 0)
        self._name(s.loop_var)
        self.ranges.set(s.loop_var, None if last is None else (0, last))
        self.inner.set(s.loop_var, (0, 0) if s.kind == ForKind.PARALLEL else None if last is None else (0, last))
        if s.kind == ForKind.PARALLEL:
            if not around.nest:
                self.vector_uses.append({b for b in uses_of(s).all if is_buffer_var(b) and on_chip(b)})
            innermost = not (len(stmts_of(s.body)) == 1 and is_parallel(stmts_of(s.body)[0]))
            place = self._number(Number(Kind.NEST, extent, self._text(s.extent), last=innermost, rank=len(around.nest) + 1))
            return self._block(s.body, replace(around, nest=(*around.nest, place)))
        place = self._number(Number(Kind.TRIPS, extent, self._text(s.extent), known=known is not None, bound=known[1] if known else extent))
        if "tl.grid" in s.annotations:
            return self._block(s.body, replace(around, grid=(*around.grid, place)))
        stages = self._number(Number(Kind.STAGES, const_int(s.annotations.get("num_stages", 0)) or 0))
        self._block(s.body, replace(around, loops=(*around.loops, place), stages=stages))

    def _allocate(self, buffer) -> None:
        self._note(("AllocBuffer", scope_of(buffer), dtype_of(buffer), len(buffer.ty.shape)))
        self.names[buffer] = f"b{len(self.names)}"
        if on_chip(buffer):
            rank, size = len(buffer.ty.shape), itemsize(dtype_of(buffer))
            self.extents[buffer] = tuple(
                self._number(Number(Kind.TILE, self.ranges.nominal(n), "", size, rank, i == rank - 1))
                for i, n in enumerate(buffer.ty.shape)
            )

    def _evaluate(self, s: Evaluate, around: _Around) -> None:
        args = list(s.value.args) if isinstance(s.value, Call) else []
        attrs = tuple(sorted((str(k), str(v)) for k, v in attrs_of(s).items()))
        self._note(("Evaluate", op_name(s), attrs), *args)
        for x in args:
            if isinstance(x, TensorRegion) and not on_chip(x.source):
                self._reach(x.source, [(r.min, self.ranges.nominal(r.extent)) for r in x.region])
        record = tile_op_of(s)
        if record is None:
            return
        self.out.reduces |= record.whole is not None
        buffers = [x.source for x in args if isinstance(x, TensorRegion)]
        if is_op(s, GEMM) and all(b in self.extents for b in buffers):
            self.gemms.append([*buffers, self._axes(buffers, attrs_of(s))])
        elif record.side is Side.VECTOR:
            self.vector_uses.append({b for b in own_uses(s).all if is_buffer_var(b) and on_chip(b)})
        if any(not on_chip(b) for b in buffers) and record.side is not Side.NONE:
            self._move([x for x in args if isinstance(x, TensorRegion)], around)

    def _axes(self, buffers: list, attrs: dict) -> dict[str, tuple[int, ...]]:
        a, b, c = ([*self.extents[x]][-2:] for x in buffers)
        a = a[::-1] if int(attrs["transpose_A"]) else a
        b = b[::-1] if int(attrs["transpose_B"]) else b
        return {"m": (a[0], c[0]), "n": (b[1], c[1]), "k": (a[1], b[0])}

    def _move(self, regions: list[TensorRegion], around: _Around) -> None:
        local = next((r for r in regions if on_chip(r.source)), regions[0])
        places = tuple(self._number(Number(Kind.MOVED, self.ranges.nominal(r.extent))) for r in local.region)
        self.out.moves.append(
            Move(Tile(itemsize(dtype_of(local.source)), places), (*around.loops, *around.nest), around.grid, around.counted)
        )
        if around.stages is not None:
            self.stages[local.source] = around.stages

    def _element(self, s: BufferStore, around: _Around) -> None:
        """Tensors a nest reads and writes itself."""
        if around.nest:
            for b in own_uses(s).all:
                if not on_chip(b) and not is_scalar_var(b):
                    self.out.moves.append(Move(Tile(itemsize(dtype_of(b)), around.nest), around.loops, around.grid, around.counted))

    def _reach_element(self, buffer, indices) -> None:
        if not on_chip(buffer) and not is_scalar_var(buffer):
            self._reach(buffer, [(i, 1) for i in indices])

    def _reach(self, buffer, dims: list[tuple]) -> None:
        for (first, extent), n in zip(dims, buffer.ty.shape):
            whole, inner, length = self.ranges.of(first), self.inner.of(first), self.ranges.of(n)
            if whole is None or inner is None or length is None:
                self.out.reaches.append(None)
                continue
            end, width = whole[1] + extent, whole[1] - inner[1] + extent
            self.out.reaches.append(Reach(max(0, whole[0]), min(end, length[1]), width))

    def _tile(self, buffer, staged: bool = False) -> Tile:
        return Tile(itemsize(dtype_of(buffer)), self.extents[buffer], self.stages.get(buffer) if staged else None)

    def _note(self, shape: tuple, *values) -> None:
        self.out.shape.append(shape)
        self.out.data.append(" ".join(map(self._data, values)))
        for value in values:
            for load in () if isinstance(value, TensorRegion) else loads_in(value):
                self._reach_element(load.source, load.indices)

    def _number(self, number: Number) -> int:
        self.out.numbers.append(number)
        return len(self.out.numbers) - 1

    def _name(self, var: Var, text: str = "") -> None:
        # What a name stands for belongs to the text of what uses it, in a form that does not grow.
        meaning = hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""
        self.names[var] = f"v{len(self.names)}{meaning}"

    def _buffer(self, buffer) -> str:
        return self.names.get(buffer, buffer.name)

    def _text(self, e) -> str:
        """All of an expression, with names that do not depend on the user's."""
        if isinstance(e, Var):
            return self.names.get(e, e.name)
        if isinstance(e, (TensorLoad, TensorRegion)):
            return f"{self._buffer(e.source)}[{','.join(map(self._text, expr_children(e)))}]"
        if isinstance(e, FloatImm) or const_int(e) is not None:
            return f"{e.value}:{dtype_of(e)}"
        if isinstance(e, StringImm):
            return str(e.value)
        name = op_name(e) or type(e).__name__
        return f"{name}:{_dtype(e)}({','.join(map(self._text, expr_children(e)))})"

    def _data(self, e) -> str:
        """As `_text`, with "#" for places."""
        if _is_place(e):
            return "#"
        if isinstance(e, (TensorLoad, TensorRegion)):
            return self._buffer(e.source)
        if isinstance(e, (Var, FloatImm, StringImm)) or const_int(e) is not None:
            return self._text(e)
        return f"{op_name(e) or type(e).__name__}:{_dtype(e)}({','.join(map(self._data, expr_children(e)))})"


def _parameter(p) -> tuple:
    if not is_buffer_var(p):
        return (dtype_of(p),)
    strides = getattr(p.ty, "strides", None) or ()
    return (dtype_of(p), tuple(map(str, p.ty.shape)), tuple(map(str, strides)))


def _dtype(e) -> str:
    return str(getattr(e.ty, "dtype", e.ty)) if hasattr(e, "ty") else ""


def _is_integer(e) -> bool:
    dtype = dtype_of(e.buffer if isinstance(e, BufferStore) else e)
    return dtype.startswith(("int", "uint")) or dtype == "bool"


def _is_place(e) -> bool:
    """True for integers and conditions of loop variables, lengths and mutable scalars, other than constants."""
    if isinstance(e, TensorRegion):
        return False
    found = {"variable": False, "other": False}

    def see(x):
        if isinstance(x, TensorLoad):
            found["variable" if is_scalar_var(x.source) else "other"] = True
        if isinstance(x, Var) and not is_buffer_var(x):
            found["variable"] = True
        if isinstance(x, (FloatImm, StringImm, TensorRegion)) or (hasattr(x, "ty") and _dtype(x).startswith(("float", "bfloat"))):
            found["other"] = True

    walk_expr(e, see)
    return found["variable"] and not found["other"]


def _is_chained(body: Stmt) -> bool:
    """True if some gemm multiplies what comes from the result of one, whatever the order of the statements is."""
    flows: list[tuple[Set, Set]] = []
    results: set = set()
    inputs: set = set()

    def visit(s: Stmt):
        if isinstance(s, Evaluate) and is_op(s, GEMM):
            a, b, c = (x.source for x in s.value.args[:3])
            results.add(c)
            inputs.update((a, b))
        elif isinstance(s, Evaluate) and is_op(s, VIEW):
            both = {x.source for x in s.value.args}
            flows.append((both, both))
        elif isinstance(s, (Evaluate, BufferStore)):
            uses = own_uses(s)
            flows.append((uses.reads, uses.writes))
        for child in children(s):
            visit(child)

    visit(body)
    grown = -1
    while grown != len(results):
        grown = len(results)
        for reads, writes in flows:
            if reads & results:
                results |= writes
    return bool(results & inputs)


__all__ = ["Kind", "Move", "Number", "Product", "Reach", "Structure", "Tile", "read"]
