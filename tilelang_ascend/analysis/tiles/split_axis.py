"""Along which axis can the work of a kernel be divided: vector work between the two vector cores of a block, or all work into parts that come
in turn?

Every dimension of a tile (of UB, for vector work) and every variable of a `Parallel` nest is a node; nodes that must be divided together are joined
(`buf[.., v, ..]` joins the dimension with `v`; copies and reductions join dimensions of source and destination). A set of
joined groups is a legal division if every statement then works on its half alone, in global memory too (`split_globals`).

Groups are tried in the order of the work they divide; one that cannot be added to those taken before is left whole. What forbids the
division of most work is told if there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, NamedTuple

from ...ir import (
    AllocBuffer,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    attrs_of,
    children,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    itemsize,
    op_name,
    scope_of,
    statements,
    structural_equal,
    walk_expr,
)
from ...ir.functions import fixed_bytes
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ...tile import ATOMIC_ADD, COPY, CUMMAX, CUMSUM, FILL, GEMM, REDUCE, is_op
from ...tile.clears import is_zero_fill
from ...tile.reductions import carried_in, scan_carried_in
from ...tile.uses import is_atomic, is_output, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, own_uses, uses_of, work_of
from ..index.affine import affine
from .carried_scalars import carried_scalars
from .split_globals import GlobalConflicts

ENOUGH = 0.9
"""Share of the bytes the best division divides that another one has to divide to be as good."""
USUAL_TRIPS = 4
"""Iterations of a loop of unknown length, where work is compared."""


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be divided. `span`: of the statement that forbids it."""

    reason: str
    span: Any = None


@dataclass
class SplitPlan:
    """`dims[buffer]` = divided dimension; `nest_vars[variable]` = extent of a divided loop. `summands`: tiles of which every part adds its own to
    global memory. refusal: why nothing is divided, or None."""

    dims: dict = field(default_factory=dict)
    nest_vars: dict = field(default_factory=dict)
    summands: frozenset = frozenset()
    refusal: Refusal | None = None


class _Groups:
    """Union-find over hashable nodes."""

    def __init__(self):
        self.parent: dict = {}

    def find(self, x):
        """The node that stands for all of the group of `x`: always the same object, so that nodes need not be compared on the way."""
        root = self.parent.setdefault(x, x)
        while (above := self.parent[root]) is not root:
            root = above
        self.parent[x] = root
        return root

    def join(self, a, b):
        self.parent[self.find(a)] = self.find(b)


def is_ub(buffer) -> bool:
    """True for tile buffers in UB."""
    return scope_of(buffer) == "shared.ub"


def statements_on(stmt: Stmt, divisible, runs: int = 1) -> list[tuple[Stmt, int]]:
    """Nests, tile ops, and scalar statements and control flow that read or write `divisible` buffers themselves, in order, and how often each
    runs."""
    if isinstance(stmt, SeqStmt):
        return [x for s in stmt.seq for x in statements_on(s, divisible, runs)]
    if is_parallel(stmt):
        return [(stmt, runs)]
    own = [(stmt, runs)] if any(divisible(b) for b in own_uses(stmt).all) else []
    inside = (
        runs * (const_int(stmt.extent) or USUAL_TRIPS) if isinstance(stmt, For) else runs * USUAL_TRIPS if isinstance(stmt, While) else runs
    )
    return own + [x for s in children(stmt) for x in statements_on(s, divisible, inside)]


def copy_dims(src: TensorRegion, dst: TensorRegion) -> list[tuple[int, int]]:
    """Pairs (dimension of src, dimension of dst) that correspond: non-unit extents, right-aligned; else plain right alignment."""
    a = [d for d, r in enumerate(src.region) if const_int(r.extent) != 1]
    b = [d for d, r in enumerate(dst.region) if const_int(r.extent) != 1]
    if len(a) == len(b):
        return list(zip(a, b))
    n = min(len(src.region), len(dst.region))
    return [(len(src.region) - k, len(dst.region) - k) for k in range(n, 0, -1)]


class _Fact(NamedTuple):
    """A statement, its accesses (None unless it is a nest), and how often it runs."""

    stmt: Stmt
    accesses: _Accesses | None
    runs: int


class _Accesses:
    """Index expressions of UB accesses inside one nest."""

    def __init__(self, nest: For, divisible):
        self.divisible = divisible
        self.vars: dict[Var, int | None] = {}
        self.reads: list[tuple] = []
        self.writes: list[tuple] = []
        self.scalars: set = set()
        """Variables it stores to."""
        self.found = uses_of(nest).reads
        """What some iteration reads."""
        self.writes_gm = False
        self.indirect = False
        """An index is read from memory."""
        for s in statements(nest):
            if is_parallel(s):
                self.vars[s.loop_var] = const_int(s.extent)
            for e in exprs(s):
                walk_expr(e, self._see)
            if isinstance(s, BufferStore):
                self._look(s.indices)
                if divisible(s.buffer):
                    self.writes.append((s.buffer, list(s.indices)))
                elif is_scalar_var(s.buffer):
                    self.scalars.add(s.buffer)
                elif scope_of(s.buffer) in ("global", ""):
                    self.writes_gm = True

    def updates(self, buffer, indices) -> bool:
        """True if all accesses to elements of a tile have the same `indices`."""
        found = [i for b, i in self.reads + self.writes if b.same_as(buffer)]
        return all(structural_equal(a, b) for i in found for a, b in zip(i, indices))

    def _see(self, e):
        if isinstance(e, TensorLoad):
            self._look(e.indices)
            if self.divisible(e.source):
                self.reads.append((e.source, list(e.indices)))

    def _look(self, indices):
        self.indirect |= any(scope_of(x.source) != "local.var" for i in indices for x in loads_in(i))


@dataclass(frozen=True)
class _Division:
    """A choice of what is divided into `parts`: the roots `chosen` among the nodes of `groups`, the dimensions of `divisible` buffers and the
    loops of nests. `carried`: variables that leave iterations of nests. `streamed`: what one part finds may be carried to the next. `sizes`:
    extents of the divided dimensions, by root. `added`: tiles that may be sums over what is divided (`added_sums`)."""

    groups: _Groups
    chosen: frozenset
    parts: int
    divisible: Callable[[Any], bool]
    carried: set
    streamed: bool = False
    sizes: dict = field(default_factory=dict)
    added: frozenset = frozenset()
    known: dict = field(default_factory=dict, init=False)
    """What `dims` has told: many statements ask about the same buffers."""

    def __contains__(self, node) -> bool:
        return self.groups.find(node) in self.chosen

    def dims(self, buffer) -> list[int]:
        """The divided dimensions of a buffer."""
        known = self.known.get(buffer)
        if known is None:
            known = self.known[buffer] = [d for d in range(len(buffer.ty.shape)) if (buffer, d) in self]
        return known


def find_split(body: Stmt, parts: int = VECTOR_CORES_PER_BLOCK, in_turn: str | None = None, streamed: bool = False) -> SplitPlan:
    """The legal division of the vector work below `body` that divides most, or why there is none; not on cores side by side, where the last part
    may be shorter, but, with `in_turn`, of all work below `body` into equal parts that run one after the other, so that most bytes of tiles in
    that memory (a scope) are divided. `streamed`: of vector work along one axis, reductions and scans along it included, of which every part
    continues what those before it found (`continued`, `scanned`); who divides sees to it that results are read behind the last part.
    """
    for s in statements(body):
        if is_parallel(s) and any(is_output(x) or is_atomic(x) for x in statements(s)):
            # An undivided nest runs on both cores and would print twice; atomic transfers are element by element, in the order of iterations.
            return SplitPlan(refusal=Refusal("its iterations print or update elements atomically", s.span))
    divisible = on_chip if in_turn and not streamed else is_ub
    groups, facts = _joined_by_statements(body, divisible)
    conflicts = GlobalConflicts(body, copy_dims, divisible)
    # Parts one after the other on one core leave in order what is not divided, all that the scalar unit does.
    if not streamed and (pair := next(conflicts.scalars(), None)):
        return SplitPlan(
            refusal=Refusal(f"an element of '{pair[0].buffer.name}' that the block writes is read as a scalar", pair[0].stmt.span)
        )
    for a, b in conflicts.joined():
        groups.join(a, b)
    buffers = _divisible_buffers(facts, divisible)
    added = added_sums(body) if in_turn and not streamed else frozenset()
    nothing = _Division(groups, frozenset(), parts, divisible, carried_scalars(body), streamed, added=added)
    division, refusal = _most_divided(facts, buffers, nothing, in_turn)
    if not division.chosen:
        return SplitPlan(refusal=refusal or Refusal("there is no tile with more than one row"))
    # The divisions of several groups may only together be one of a tensor.
    summands = _summands(facts, division)
    pair = conflicts.between_cores(division.__contains__, streamed) or conflicts.with_updates_by(summands)
    if pair is not None:
        name = pair[0].buffer.name
        return SplitPlan(
            refusal=Refusal(f"several parts would touch elements of '{name}', and not in the order of the statements", pair[1].stmt.span)
        )
    for s, acc, _ in facts:
        if acc and acc.writes_gm and acc.writes and not any(v in division for v in acc.vars):
            # The tile is needed on both cores, and only one may store the elements.
            return SplitPlan(refusal=Refusal("it is not divided, and stores to a tile and to global memory", s.span))
    plan = _plan(facts, division, buffers)
    plan.summands = summands
    return plan


def plan_along(body: Stmt, buffer, dim: int, parts: int | None = None, size: int | None = None) -> SplitPlan:
    """What is divided along with dimension `dim` of a tile on the chip; with `parts`, its refusal says why so many equal parts cannot be worked on
    alone, with `size`, why parts of so many elements cannot, the last of which may have less."""
    groups, facts = _joined_by_statements(body, on_chip)
    buffers = _divisible_buffers(facts, on_chip)
    division = _Division(groups, frozenset([groups.find((buffer, dim))]), parts or 1, on_chip, carried_scalars(body))
    plan = _plan(facts, division, buffers)
    plan.refusal = None if parts is None and size is None else _refused(facts, division, buffers, even=True, size=size)
    return plan


def _joined_by_statements(body: Stmt, divisible) -> tuple[_Groups, list]:
    """What statements divide together, and the facts of all that work on tiles."""
    groups, facts = _Groups(), []
    for s, runs in statements_on(body, divisible):
        if not is_parallel(s):
            facts.append(_Fact(s, None, runs))
            if is_op(s, GEMM):
                for a, b in _product_axes(s):
                    groups.join(a, b)
            elif is_op(s, COPY) or _whole_dimension(s) is not None:
                _join_operands(groups, s, divisible)
            continue
        acc = _Accesses(s, divisible)
        facts.append(_Fact(s, acc, runs))
        for buffer, indices in acc.reads + acc.writes:
            for d, i in enumerate(indices):
                if isinstance(i, Var) and i in acc.vars:
                    groups.join((buffer, d), i)
    return groups, facts


def _product_axes(s: Stmt) -> tuple:
    """((buffer, dimension) of an operand, of another one) for M, N and K of a gemm."""
    attrs, (a, b, c) = attrs_of(s), (x for x in s.value.args[:3])
    rows_a, rows_b, rows_c = (len(x.region) - 2 for x in (a, b, c))
    m, k_a = (rows_a + 1, rows_a) if int(attrs["transpose_A"]) else (rows_a, rows_a + 1)
    k_b, n = (rows_b + 1, rows_b) if int(attrs["transpose_B"]) else (rows_b, rows_b + 1)
    a, b, c = a.source, b.source, c.source
    return ((a, m), (c, rows_c)), ((b, n), (c, rows_c + 1)), ((a, k_a), (b, k_b))


def _join_operands(groups: _Groups, s: Stmt, divisible) -> None:
    """Dimensions of source and destination of a tile op that correspond are divided together."""
    src, dst = s.value.args[:2]
    if divisible(src.source) and divisible(dst.source):
        reduced = int(s.value.attrs["dim"]) if is_op(s, REDUCE) else None
        alike = not is_op(s, COPY, REDUCE)  # Scans and sorts have the same dimensions on both sides.
        pairs = list(enumerate(range(len(src.region)))) if alike else _pairs(src, dst, reduced)
        for a, b in pairs:
            groups.join((src.source, a), (dst.source, b))


def _most_divided(facts, buffers, nothing: _Division, in_turn: str | None) -> tuple[_Division, Refusal | None]:
    """Groups of dimensions that can be divided together, those with most work or, with `in_turn`, most bytes of that memory first, and what
    forbids the first that cannot."""
    groups = nothing.groups
    nodes = [(b, d) for b in buffers for d in range(len(b.ty.shape)) if const_int(b.ty.shape[d]) > 1]
    candidates = list(dict.fromkeys(groups.find(node) for node in nodes))

    alone = {root: replace(nothing, chosen=frozenset([root])) for root in candidates}
    work = {root: _divided_work(facts, alone[root]) for root in candidates}
    nbytes = {root: sum(fixed_bytes(b) for b in buffers if scope_of(b) == in_turn and alone[root].dims(b)) for root in candidates}
    enough = ENOUGH * max(nbytes.values(), default=0)
    candidates.sort(key=lambda root: (nbytes[root] >= enough, work[root]), reverse=True)
    division, first = nothing, None
    for root in candidates:
        more = replace(division, chosen=division.chosen | {root})
        refusal = _refused(facts, more, buffers, in_turn is not None and not more.streamed)
        if refusal is None:
            division = more
            if division.streamed:
                break  # What is divided goes through GM where a result is waited for: no more than has to.
        first = first or refusal
    return division, first


def _divided_work(facts, division: _Division) -> int:
    """Elements of the vector statements that a division divides. Half of every row counts half: instructions and transfers get shorter
    instead of fewer."""
    work = 0
    for s, acc, runs in facts:
        if acc is not None:
            axes = [(v in division, n or 1) for v, n in acc.vars.items()]
        else:
            regions = [a for a in op_regions(s) if division.divisible(a.source)]
            largest = max(regions, key=lambda a: math.prod(const_int(r.extent) or 1 for r in a.region), default=None)
            dims = [] if largest is None else division.dims(largest.source)
            axes = [] if largest is None else [(d in dims, const_int(r.extent) or 1) for d, r in enumerate(largest.region)]
        if any(divided for divided, _ in axes):
            in_rows = axes[-1][0] and any(n > 1 for _, n in axes[:-1])
            work += runs * math.prod(n for _, n in axes) * (1 if in_rows else 2)
    return work


def _pairs(src, dst, reduced):
    if reduced is None:
        return copy_dims(src, dst)
    dims = [d for d in range(len(src.region)) if d != reduced % len(src.region)]
    targets = list(range(len(dst.region)))
    if len(targets) == len(src.region):
        targets = dims
    return list(zip(dims, targets))


def _divisible_buffers(facts, divisible) -> list:
    seen: dict = {}
    for s, acc, _ in facts:
        seen |= dict.fromkeys([b for b, _ in acc.writes + acc.reads] if acc else [b for b in own_uses(s).all if divisible(b)])
    return sorted(seen, key=lambda b: -len(b.ty.shape))


def _refused(facts, division: _Division, buffers, even: bool, size: int | None = None) -> Refusal | None:
    """What forbids a division; None if it is legal. size: of its parts, where these are not equal ones."""
    sizes: dict = {}
    for b in buffers:
        dims = division.dims(b)
        if len(dims) > 1:
            return Refusal(f"two dimensions of '{b.name}' would be divided at once")
        for d in dims:
            n = const_int(b.ty.shape[d])
            if sizes.setdefault(division.groups.find((b, d)), n) != n:
                return Refusal(f"dimension {d} of '{b.name}' has {n} elements, and others that go with it have not")
            if division.streamed and n < division.parts:
                return Refusal(f"dimension {d} of '{b.name}' has {n} elements, fewer than {division.parts} parts")
            if even and n % division.parts:
                return Refusal(f"dimension {d} of '{b.name}' has {n} elements, which are not {division.parts} equal parts")
            length = size or n // division.parts
            if even and not is_ub(b) and (length % FRACTAL_ROWS or length * itemsize(dtype_of(b)) % BLOCK_BYTES):
                return Refusal(f"parts of {length} of dimension {d} of '{b.name}', which has {n} elements, are not whole fractals")
    division = replace(division, sizes=sizes)
    summands = _summands(facts, division)
    for s, acc, _ in facts:
        reason = _statement_needs_all(s, division) if acc is None else _nest_needs_all(acc, division)
        if reason is None and is_op(s, GEMM) and s.value.args[2].source in summands and _product_axes(s)[2][0] not in division:
            reason = f"'{s.value.args[2].source.name}' is a sum over what is divided and over what is not"
        if reason is not None:
            return Refusal(reason, s.span)
    return None


def _summands(facts, division: _Division) -> frozenset:
    """The tiles that are sums over what is divided: all of them is the sum of what the parts make."""
    return frozenset(s.value.args[2].source for s, _, _ in facts if is_op(s, GEMM) and _product_axes(s)[2][0] in division)


def added_sums(body: Stmt) -> frozenset:
    """Accumulators that are sums of products, and that nobody reads but atomic additions to tensors of their dtype: these may be made of parts of the sum."""
    found = {s.value.args[2].source for s in statements(body) if is_op(s, GEMM)}
    for s in statements(body):
        uses = own_uses(s)
        if is_op(s, GEMM):
            found -= {a.source for a in s.value.args[:2]}
        elif is_zero_fill(s):
            continue
        elif is_op(s, ATOMIC_ADD) and moved_regions(s) is not None:
            source, target = moved_regions(s)
            if dtype_of(source.source) != dtype_of(target.source) or on_chip(target.source):
                found.discard(source.source)
            found.discard(target.source)
        elif not isinstance(s, AllocBuffer):
            found -= uses.all
    return frozenset(found)


def _nest_needs_all(acc: _Accesses, division: _Division) -> str | None:
    """Why a nest does not work on half of what is divided, None if it does."""
    split_vars = [v for v in acc.vars if v in division]
    reason = _loops_stay_whole(acc, split_vars, division) if split_vars else None
    if reason is not None:
        return reason
    uneven = [v for v in split_vars if acc.vars[v] % division.parts and not division.streamed]
    # The second core has a row that is nobody's: what it holds may not choose an element, nor go to GM.
    if uneven and (acc.writes_gm or acc.indirect):
        return "an odd number of rows would be divided, and elements go to global memory or choose others"
    for buffer, indices in acc.reads + acc.writes:
        dims = division.dims(buffer)
        if any(not (isinstance(indices[d], Var) and indices[d] in split_vars) for d in dims):
            return f"'{buffer.name}' is not indexed by the divided loop alone"
        if any(not _holds_one_more(buffer, d, i, uneven, acc.vars) for d, i in enumerate(indices) if d not in dims):
            return f"an odd number of rows would be divided, and an index of '{buffer.name}' would leave the tile"
    whole = next((b for b, i in acc.writes if not division.dims(b) and not _stays(acc, b, i, split_vars, division)), None)
    if split_vars:
        return None if whole is None else f"all of '{whole.name}' is written by every part of the loop"
    half = next((b for b, _ in acc.writes + acc.reads if division.dims(b)), None)
    return None if half is None else f"it needs all of '{half.name}'"


def _stays(acc: _Accesses, buffer, indices, split_vars: list, division: _Division) -> bool:
    """True if parts one after the other leave in an undivided tile, or variable, what the whole nest leaves: iterations that store to one element
    differ in the divided loop only, so that the last of them stays the last, and those that read it store to it, too: what they find was left by
    those before them."""
    others = [v for v, n in acc.vars.items() if v not in split_vars and n != 1]
    alone = buffer not in acc.found or is_scalar_var(buffer) or acc.updates(buffer, indices)
    return division.streamed and alone and all(any(v.same_as(i) for i in indices) for v in others)


def _loops_stay_whole(acc: _Accesses, split_vars: list, division: _Division) -> str | None:
    """Why the loops `split_vars` of a nest cannot be divided, whatever they index."""
    if len(split_vars) > 1:
        return f"its loops '{split_vars[0].name}' and '{split_vars[1].name}' would be divided at once"
    carried = sorted(b.name for b in acc.scalars & division.carried if not _stays(acc, b, (), split_vars, division))
    if carried:
        return f"'{carried[0]}' goes from one iteration to the next, or out of the loop"
    if acc.vars[split_vars[0]] != division.sizes.get(division.groups.find(split_vars[0])):
        return f"loop '{split_vars[0].name}' has other bounds than the tile"
    return None


def _statement_needs_all(s: Stmt, division: _Division) -> str | None:
    """The same of a tile op, or of what the scalar unit does."""
    if work_of(s) is None:
        half = next((b for b in own_uses(s).all if division.divisible(b) and division.dims(b)), None)
        return None if half is None else f"elements of '{half.name}' are read or stored one by one"
    # What says where a region begins, or is a number, is read element by element: on both cores.
    bounds = [e for a in s.value.args for e in ([y for r in a.region for y in (r.min, r.extent)] if isinstance(a, TensorRegion) else [a])]
    half = next((x.source for e in bounds for x in loads_in(e) if division.divisible(x.source) and division.dims(x.source)), None)
    if half is not None:
        return f"elements of '{half.name}' are read one by one"
    regions = [a for a in op_regions(s) if division.divisible(a.source)]
    part = next((r.source for r in regions for d in division.dims(r.source) if not spans(r, d) and not _ends_at_run_time(s, r, d)), None)
    if part is not None:
        return f"it works on a part of '{part.name}'"
    return (
        None if _legal_operands(s, regions, division) else "it needs the divided dimension as a whole, or divides its operands differently"
    )


def op_regions(s: Stmt) -> list[TensorRegion]:
    """Regions among the operands of a tile op."""
    return [a for a in s.value.args if isinstance(a, TensorRegion)] if op_name(s) else []


def spans(r: TensorRegion, d: int) -> bool:
    """True if a region is all of dimension `d` of its tile."""
    return const_int(r.region[d].min) == 0 and const_int(r.region[d].extent) == const_int(r.source.ty.shape[d])


def _ends_at_run_time(s: Stmt, r: TensorRegion, d: int) -> bool:
    """True if `s` moves the first rows of a tile from or to global memory, as many as run time tells: every part has some of them, or none."""
    found = moved_regions(s)
    if found is None or const_int(r.region[d].min) != 0 or const_int(r.region[d].extent) is not None:
        return False
    k = 0 if found[0].same_as(r) else 1
    other = found[1 - k]
    pairs = [(pair[k], pair[1 - k]) for pair in copy_dims(*found)]
    return not on_chip(other.source) and any(a == d and structural_equal(r.region[a].extent, other.region[b].extent) for a, b in pairs)


def _legal_operands(s: Stmt, regions: list[TensorRegion], division: _Division) -> bool:
    """True if a tile op divides the `regions` on the chip it works on together, none along a dimension it has to see as a whole."""
    if not any(division.dims(r.source) for r in regions):
        return True
    if is_op(s, GEMM):
        return (
            _product_axes(s)[2][0] not in division or s.value.args[2].source in division.added and not division.dims(s.value.args[2].source)
        )
    if is_op(s, REDUCE):
        src, dst = s.value.args[:2]
        dims = division.dims(src.source)
        if division.streamed and _whole_dimension(s) in dims:
            return continued(s, division.dims) is not None
        return _whole_dimension(s) not in dims and bool(dims) == bool(division.dims(dst.source))
    if _whole_dimension(s) is not None:
        dims = [division.dims(r.source) for r in regions]
        on_parts = _whole_dimension(s) not in dims[0] or division.streamed and scanned(s, division.dims) is not None
        return on_parts and all(d == dims[0] for d in dims)
    if moved_regions(s) is not None and len(regions) == 2:
        src, dst = (division.dims(r.source) for r in regions)
        return all((a in src) == (b in dst) for a, b in copy_dims(*regions))
    return is_op(s, FILL) or moved_regions(s) is not None


def _whole_dimension(s: Stmt) -> int | None:
    """The dimension of its source that a tile op has to see as a whole."""
    record = work_of(s)
    return None if record is None or record.whole is None else record.whole(attrs_of(s), len(s.value.args[0].region))


def continued(s: Stmt, dims: Callable[[Any], list[int]]) -> str | None:
    """dtype in which a reduction along a divided dimension goes on from part to part; None if `s` is something else. `dims(buffer)`: its
    divided dimensions."""
    if not is_op(s, REDUCE) or _whole_dimension(s) not in dims(s.value.args[0].source) or dims(s.value.args[1].source):
        return None
    attrs, (src, dst) = attrs_of(s), (dtype_of(x.source) for x in s.value.args)
    return carried_in(str(attrs["kind"]), src, dst, bool(int(attrs.get("clear", 1))))


def scanned(s: Stmt, dims: Callable[[Any], list[int]]) -> str | None:
    """dtype in which a scan along a divided dimension goes on from part to part; None if `s` is something else."""
    if not is_op(s, CUMSUM, CUMMAX) or _whole_dimension(s) not in dims(s.value.args[0].source):
        return None
    src, dst = s.value.args[:2]
    if any(const_int(r.extent) is None for r in dst.region):
        return None
    return scan_carried_in(is_op(s, CUMMAX), dtype_of(src.source), dtype_of(dst.source), const_int(dst.region[_whole_dimension(s)].extent))


def _holds_one_more(buffer, d: int, index, uneven: list, extents: dict) -> bool:
    """True if `index` stays inside dimension `d` where the second core goes one further than the loop (the shares are equally long)."""
    if not any(v in free_vars(index) for v in uneven):
        return True
    form = affine(index, list(extents))
    if form is None or any(extents[v] is None for v in form.coeffs):
        return False
    low, span = form.hull({v: n + (v in uneven) for v, n in extents.items()})
    first, size = const_int(low), const_int(buffer.ty.shape[d])
    return None not in (first, size) and 0 <= first and first + span <= size


def _plan(facts, division: _Division, buffers) -> SplitPlan:
    plan = SplitPlan()
    for b in buffers:
        for d in division.dims(b):
            plan.dims[b] = d
    for _, acc, _ in facts:
        if acc is not None:
            plan.nest_vars.update({v: n for v, n in acc.vars.items() if v in division})
    return plan


__all__ = ["Refusal", "SplitPlan", "continued", "copy_dims", "find_split", "is_ub", "op_regions", "plan_along", "scanned", "spans"]
