"""Do the two vector cores of a block stay out of each other's way in global memory when vector work is divided?

Nothing orders the two cores but what orders both with the cube core. So elements of a tensor that one of them writes may not be
read or written by the other in the same tile of the grid: the accesses have to be divided alike, or not at all. (A core that
works on a whole tile writes it alone, but both of them read.)
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    TensorLoad,
    Var,
    While,
    const_int,
    exprs,
    scope_of,
    statements,
    structural_equal,
    walk_expr,
)
from ...tile import tile_op_of
from ...tile.uses import CARRIED, INDEPENDENT, is_atomic, is_parallel, moved_regions, own_uses, uses_of
from ..index.affine import affine
from ..index.linear import INF, Linear, LinearForms


@dataclass
class GlobalAccess:
    """A box of a tensor in global memory one statement reads or writes.

    Attributes:
        buffer, stmt, kind: `kind` is ``read``, ``write`` or the name of an atomic operation.
        lows: linear form of the first index of every dimension, None where it is not known.
        extents: number of indices, None where it is not known.
        nodes: dimension -> what is divided along it: (buffer, dimension) of a tile or a variable of a nest.
        vars: variables of the nest around it.
        inner: loops around it inside of one tile of the grid, with their trip counts (INF if unknown).
        indices: index expressions of an element access in a nest.
        scalar: an element read or stored outside of nests.
    """

    buffer: Var
    stmt: Stmt
    kind: str
    lows: list
    extents: list
    nodes: dict = field(default_factory=dict)
    vars: tuple = ()
    inner: dict = field(default_factory=dict)
    indices: tuple = ()
    scalar: bool = False


def is_global(buffer) -> bool:
    """True for tensors and workspaces."""
    return scope_of(buffer) in ("global", "")


def carried_places(body: Stmt) -> set:
    """The places through which scalars go to the cube core; every vector core has its own."""
    return {s.buffer for s in statements(body) if isinstance(s, AllocBuffer) and CARRIED in s.annotations}


class _Collector:
    """Walks a body with the linear forms of its lets and loops."""

    def __init__(self, copy_dims, divisible):
        self.forms, self.copy_dims, self.divisible = LinearForms(), copy_dims, divisible
        self.inner: dict = {}
        self.found: list[GlobalAccess] = []

    def walk(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.walk(x)
            return
        if not is_parallel(s):
            self.scalars(s)
        if isinstance(s, Bind):
            self.forms.bind(s.var, s.value)
        elif is_parallel(s):
            self.nest(s)
        elif isinstance(s, For):
            atom = self.forms.loop(s.loop_var)
            outer = INDEPENDENT in s.annotations
            if not outer:
                self.inner[atom] = const_int(s.extent) or INF
            self.forms.enter(atom)
            self.walk(s.body)
            self.forms.leave()
            self.inner.pop(atom, None)
        elif isinstance(s, While):
            atom = self.forms.loop(Var("again", "int32"))
            self.inner[atom] = INF
            self.forms.enter(atom)
            self.walk(s.body)
            self.forms.leave()
            self.inner.pop(atom)
        elif isinstance(s, IfThenElse):
            self.walk(s.then_case)
            if s.else_case is not None:
                self.walk(s.else_case)
        elif moved_regions(s) is not None:
            self.move(s)

    def scalars(self, s: Stmt) -> None:
        """Elements the statement itself reads or stores as a scalar."""

        def load(e):
            if isinstance(e, TensorLoad) and is_global(e.source):
                self.element(s, "read", e.source, e.indices)

        for e in exprs(s):
            walk_expr(e, load)
        if isinstance(s, BufferStore) and is_global(s.buffer):
            self.element(s, "write", s.buffer, s.indices)
        if moved_regions(s) is None and (updated := _updated(s)) is not None:
            self.element(s, *updated)

    def element(self, s: Stmt, kind: str, buffer, indices) -> None:
        lows = [self.forms(i) for i in indices]
        self.found.append(GlobalAccess(buffer, s, kind, lows, [1] * len(lows), inner=dict(self.inner), scalar=True))

    def move(self, s: Stmt) -> None:
        src, dst = moved_regions(s)
        update = tile_op_of(s).op if is_atomic(s) else None
        for k, (r, other) in enumerate(((src, dst), (dst, src))):
            if not is_global(r.source) or not (is_global(other.source) or self.divisible(other.source)):
                continue  # The cube core is ordered with both vector cores.
            kind = update if update is not None and k == 1 else ("read", "write")[k]
            nodes = {}
            if not is_global(other.source):
                for a, b in self.copy_dims(src, dst):
                    nodes[(a, b)[k]] = (other.source, (b, a)[k])
            lows = [self.forms(x.min) for x in r.region]
            extents = [const_int(x.extent) for x in r.region]
            for d, (buffer, e) in nodes.items():
                extents[d] = const_int(buffer.ty.shape[e]) if extents[d] is None else extents[d]
            self.found.append(GlobalAccess(r.source, s, kind, lows, extents, nodes, inner=dict(self.inner)))

    def nest(self, nest: For) -> None:
        variables = {s.loop_var: const_int(s.extent) for s in statements(nest) if is_parallel(s)}

        def see(e, kind, buffer, indices):
            lows, extents, nodes = [], [], {}
            for d, i in enumerate(indices):
                form = affine(i, list(variables))
                known = form is not None and all(variables[v] is not None for v in form.coeffs)
                low, extent = form.hull(variables) if known else (None, None)
                if known and any(c < 0 for c in form.coeffs.values()):
                    low = None
                lows.append(None if low is None else self.forms(low))
                extents.append(extent)
                if isinstance(i, Var) and i in variables or known and list(form.coeffs.values()) == [1]:
                    nodes[d] = next(iter(form.coeffs))
            self.found.append(GlobalAccess(buffer, nest, kind, lows, extents, nodes, tuple(variables), dict(self.inner), tuple(indices)))

        def load(e):
            if isinstance(e, TensorLoad) and is_global(e.source):
                see(e, "read", e.source, e.indices)

        for s in statements(nest):
            for e in exprs(s):
                walk_expr(e, load)
            if isinstance(s, BufferStore) and is_global(s.buffer):
                see(s, "write", s.buffer, s.indices)
            if (updated := _updated(s)) is not None:
                see(s, *updated)


def _updated(s: Stmt) -> tuple | None:
    """(kind, tensor, indices) of the element that an atomic update of one changes; None for other statements."""
    if not is_atomic(s) or not is_global((target := s.value.args[0]).source):
        return None
    return tile_op_of(s).op, target.source, [x.min for x in target.region]


class GlobalConflicts:
    """Pairs of accesses below `body` that may meet in one element within a tile of the grid, at least one of them a write. `divisible`: tiles
    whose transfers count."""

    def __init__(self, body: Stmt, copy_dims, divisible):
        collector = _Collector(copy_dims, divisible)
        collector.walk(body)
        places = carried_places(body)
        found = [x for x in collector.found if x.buffer not in places]
        self.pairs = [
            (a, b) for k, a in enumerate(found) for b in found[k:]
            if a.buffer.same_as(b.buffer) and _ordered(a.kind, b.kind) and not _apart(a, b)
        ]  # fmt: skip

    def joined(self):
        """Pairs of nodes that can only be divided together."""
        for a, b in self.pairs:
            for d in a.nodes:
                if d in b.nodes:
                    yield a.nodes[d], b.nodes[d]

    def scalars(self):
        """Pairs of which one is a scalar both cores read, whether work is divided or not."""
        for a, b in self.pairs:
            for x, y in ((a, b), (b, a)):
                if x.scalar and x.kind == "read":
                    yield x, y

    def between_cores(self, is_divided, streamed: bool = False) -> tuple[GlobalAccess, GlobalAccess] | None:
        """Accesses that leave an element to both cores, None if there are none; `is_divided` tells which nodes are divided. streamed: parts are
        worked on one after the other by one core, on which what works on no part keeps its order with what does: it stands between sweeps."""

        def in_order(a: GlobalAccess, b: GlobalAccess) -> bool:
            return streamed and (any(not _on_parts(x, is_divided) for x in (a, b)) or not any(_divided(x, is_divided)[1] for x in (a, b)))

        return next(((a, b) for a, b in self.pairs if not in_order(a, b) and not _agree(a, b, is_divided)), None)

    def with_updates_by(self, summands: Set) -> tuple[GlobalAccess, GlobalAccess] | None:
        """Accesses of which one is an update by a tile of `summands`, which several parts make, and whose order matters; None if there are none."""
        return next(((a, b) for a, b in self.pairs if any(not own_uses(x.stmt).reads.isdisjoint(summands) for x in (a, b))), None)


def _ordered(a: str, b: str) -> bool:
    """True if the order of two accesses matters."""
    return a != b or a == "write"  # Reads commute, and so do updates of one kind.


def _divided(x: GlobalAccess, is_divided) -> tuple[list[int], bool]:
    """(dimensions along which the access is divided, whether its statement is)."""
    dims = [d for d, node in x.nodes.items() if is_divided(node)]
    return dims, bool(dims) or any(is_divided(v) for v in x.vars)


def _on_parts(x: GlobalAccess, is_divided) -> bool:
    """True if the statement of an access is divided, whatever it does with the tensor: it uses a divided tile, or has a divided loop."""
    nest = is_parallel(x.stmt)
    used = (uses_of if nest else own_uses)(x.stmt).all
    return (
        nest
        and any(is_divided(s.loop_var) for s in statements(x.stmt) if is_parallel(s))
        or any(is_divided((b, d)) for b in used if b.ty.shape for d in range(len(b.ty.shape)))
    )


def _agree(a: GlobalAccess, b: GlobalAccess, is_divided) -> bool:
    (da, a_divided), (db, b_divided) = _divided(a, is_divided), _divided(b, is_divided)
    if not (a_divided or b_divided):
        return "read" not in (a.kind, b.kind)  # One core writes, both read.
    if a.stmt.same_as(b.stmt) and a.indices and _same_indices(a, b) and not a.inner:
        return True  # An iteration of the nest, which one core runs.
    if len(da) != 1 or da != db:
        return False
    d = da[0]
    if a.extents[d] is None or a.extents[d] != b.extents[d] or a.lows[d] is None or b.lows[d] is None:
        return False
    (fixed_a, moving_a), (fixed_b, moving_b) = _parts(a.lows[d], a.inner), _parts(b.lows[d], b.inner)
    if _meet_as_a_whole(a.lows[d].plus(fixed_a, -1), b.lows[d].plus(fixed_b, -1), fixed_a.plus(fixed_b, -1), a.extents[d]):
        return True
    return fixed_a == fixed_b and moving_a == moving_b and _keeps_boxes_apart(moving_a, a.extents[d])


def _meet_as_a_whole(moving_a: Linear, moving_b: Linear, distance: Linear, extent: int) -> bool:
    """True if boxes of `extent` indices begin a multiple of that apart, whatever the iterations: they are the same, or have nothing in common. distance: of
    what is the same in all iterations."""
    steps = [*moving_a.terms.values(), *moving_b.terms.values(), *distance.terms.values(), distance.const]
    return all(c % extent == 0 for c in steps)


def _same_indices(a: GlobalAccess, b: GlobalAccess) -> bool:
    return len(a.indices) == len(b.indices) and all(structural_equal(i, j) for i, j in zip(a.indices, b.indices))


def _parts(form: Linear, inner: dict) -> tuple[Linear, list | None]:
    """(what is the same in a whole tile of the grid, [(coefficient, trip count)] of the loops inside; None if it changes otherwise)."""
    fixed, moving = dict(form.terms), []
    for atom, c in form.terms.items():
        if atom.varies & inner.keys():
            del fixed[atom]
            moving.append((c, inner[atom]) if atom.kind == "loop" else None)
    return Linear(form.const, fixed), None if None in moving else sorted(moving)


def _keeps_boxes_apart(moving: list | None, extent: int) -> bool:
    """True if boxes of `extent` indices at different iterations do not overlap."""
    if moving is None:
        return False
    span = extent
    for c, count in sorted(moving, key=lambda m: abs(m[0])):
        if abs(c) < span:
            return False
        span += abs(c) * (count - 1) if count != INF else INF
    return True


def _apart(a: GlobalAccess, b: GlobalAccess) -> bool:
    """True if two accesses have no element in common, whatever the iterations of the loops inside of the tile."""
    for low_a, n_a, low_b, n_b in zip(a.lows, a.extents, b.lows, b.extents):
        if low_a is None or low_b is None or n_a is None or n_b is None:
            continue
        (fixed_a, _), (fixed_b, _) = _parts(low_a, a.inner), _parts(low_b, b.inner)
        distance = fixed_a.plus(fixed_b, -1)
        if distance.terms:
            continue
        first = [
            (low + const, high + const)
            for const, (low, high) in (
                (distance.const, _moving(low_a, fixed_a).interval(a.inner)),
                (0, _moving(low_b, fixed_b).interval(b.inner)),
            )
        ]
        (low_1, high_1), (low_2, high_2) = first
        if low_1 >= high_2 + n_b or low_2 >= high_1 + n_a:
            return True
    return False


def _moving(form: Linear, fixed: Linear) -> Linear:
    """`form` without its fixed part."""
    return form.plus(fixed, -1)


__all__ = ["GlobalAccess", "GlobalConflicts", "carried_places", "is_global"]
