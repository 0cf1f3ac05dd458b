"""Along which axis can the vector work of a kernel be divided between the two vector cores of a block?

Every dimension of a UB buffer and every variable of a `Parallel` nest is a node; nodes that must be divided together are joined
(`buf[.., v, ..]` joins the dimension with `v`; copies and reductions join dimensions of source and destination). A set of
joined groups is a legal division if every statement then works on its half alone, in global memory too (`split_globals`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...errors import UnsupportedConstruct
from ...ir import (
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    attrs_of,
    children,
    const_int,
    exprs,
    free_vars,
    scope_of,
    statements,
    walk_expr,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile import COPY, FILL, REDUCE, is_op
from ...tile.uses import is_atomic, is_output, is_parallel, loads_in, moved_regions, own_uses, work_of
from ..index.affine import affine
from .split_globals import GlobalConflicts

"""Vector cores of a block."""


@dataclass
class SplitPlan:
    """`dims[buffer]` = divided dimension; `nest_vars` = divided loop variables; `extents` of both in elements."""

    dims: dict = field(default_factory=dict)
    nest_vars: dict = field(default_factory=dict)


class _Groups:
    """Union-find over hashable nodes."""

    def __init__(self):
        self.parent: dict = {}

    def find(self, x):
        self.parent.setdefault(x, x)
        while self.parent[x] != x:
            x = self.parent[x]
        return x

    def join(self, a, b):
        self.parent[self.find(a)] = self.find(b)


def is_ub(buffer) -> bool:
    """True for tile buffers in UB."""
    return scope_of(buffer) == "shared.ub"


def vector_statements(stmt: Stmt) -> list[Stmt]:
    """Nests, tile ops, and scalar statements and control flow that read or write UB themselves, in order."""
    if isinstance(stmt, SeqStmt):
        return [x for s in stmt.seq for x in vector_statements(s)]
    if is_parallel(stmt):
        return [stmt]
    own = [stmt] if any(is_ub(b) for b in own_uses(stmt).all) else []
    return own + [x for s in children(stmt) for x in vector_statements(s)]


def copy_dims(src: TensorRegion, dst: TensorRegion) -> list[tuple[int, int]]:
    """Pairs (dimension of src, dimension of dst) that correspond: non-unit extents, right-aligned; else plain right alignment."""
    a = [d for d, r in enumerate(src.region) if const_int(r.extent) != 1]
    b = [d for d, r in enumerate(dst.region) if const_int(r.extent) != 1]
    if len(a) == len(b):
        return list(zip(a, b))
    n = min(len(src.region), len(dst.region))
    return [(len(src.region) - k, len(dst.region) - k) for k in range(n, 0, -1)]


class _Accesses:
    """Index expressions of UB accesses inside one nest."""

    def __init__(self, nest: For):
        self.vars: dict[Var, int | None] = {}
        self.reads: list[tuple] = []
        self.writes: list[tuple] = []
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
                if is_ub(s.buffer):
                    self.writes.append((s.buffer, list(s.indices)))
                elif scope_of(s.buffer) in ("global", ""):
                    self.writes_gm = True

    def _see(self, e):
        if isinstance(e, TensorLoad):
            self._look(e.indices)
            if is_ub(e.source):
                self.reads.append((e.source, list(e.indices)))

    def _look(self, indices):
        self.indirect |= any(scope_of(x.source) != "local.var" for i in indices for x in loads_in(i))


@dataclass(frozen=True)
class _Division:
    """A choice of what is divided: the roots `chosen` among the nodes of `groups`. `sizes`: extents of the divided dimensions, by root."""

    groups: _Groups
    chosen: frozenset
    sizes: dict = field(default_factory=dict)

    def __contains__(self, node) -> bool:
        return self.groups.find(node) in self.chosen

    def dims(self, buffer) -> list[int]:
        """The divided dimensions of a buffer."""
        return [d for d in range(len(buffer.ty.shape)) if (buffer, d) in self]


def find_split(body: Stmt) -> SplitPlan | None:
    """A legal division of the vector work below `body`, or None."""
    for s in statements(body):
        # An undivided nest runs on both cores and would print twice; atomic transfers are element by element, in the order of iterations.
        if is_parallel(s) and any(is_output(x) or is_atomic(x) for x in statements(s)):
            return None
    groups, facts = _joined_by_statements(body)
    conflicts = GlobalConflicts(body, copy_dims)
    _refuse_shared_scalars(conflicts)
    for a, b in conflicts.joined():
        groups.join(a, b)
    buffers = _ub_buffers(facts)
    division = _most_divided(groups, facts, buffers)
    # The divisions of several groups may only together be one of a tensor.
    if not division.chosen or not conflicts.legal(division.__contains__):
        return None
    if any(acc and acc.writes_gm and acc.writes and not any(v in division for v in acc.vars) for _, acc in facts):
        return None  # The tile is needed on both cores, and only one may store the elements.
    return _plan(facts, division, buffers)


def _joined_by_statements(body: Stmt) -> tuple[_Groups, list]:
    """What statements divide together, and (statement, its accesses or None unless it is a nest) for all vector statements."""
    groups, facts = _Groups(), []
    for s in vector_statements(body):
        if not is_parallel(s):
            facts.append((s, None))
            if is_op(s, COPY) or _whole_dimension(s) is not None:
                _join_operands(groups, s)
            continue
        acc = _Accesses(s)
        facts.append((s, acc))
        for buffer, indices in acc.reads + acc.writes:
            for d, i in enumerate(indices):
                if isinstance(i, Var) and i in acc.vars:
                    groups.join((buffer, d), i)
    return groups, facts


def _join_operands(groups: _Groups, s: Stmt) -> None:
    """Dimensions of source and destination of a tile op that correspond are divided together."""
    src, dst = s.value.args[:2]
    if is_ub(src.source) and is_ub(dst.source):
        reduced = int(s.value.attrs["dim"]) if is_op(s, REDUCE) else None
        alike = not is_op(s, COPY, REDUCE)  # Scans and sorts have the same dimensions on both sides.
        pairs = list(enumerate(range(len(src.region)))) if alike else _pairs(src, dst, reduced)
        for a, b in pairs:
            groups.join((src.source, a), (dst.source, b))


def _most_divided(groups: _Groups, facts, buffers) -> _Division:
    """One dimension of every buffer, as far as that is legal."""
    division = _Division(groups, frozenset())
    for buffer in buffers:
        if division.dims(buffer):
            continue
        for d in range(len(buffer.ty.shape)):
            more = _Division(groups, division.chosen | {groups.find((buffer, d))})
            if const_int(buffer.ty.shape[d]) > 1 and _legal(facts, more, buffers):
                division = more
                break
    return division


def _refuse_shared_scalars(conflicts: GlobalConflicts) -> None:
    """A scalar decides what every core does; a tensor that changes meanwhile would let them decide differently."""
    for read, other in conflicts.scalars():
        name = read.buffer.name
        raise UnsupportedConstruct(
            f"an element of '{name}' is read as a scalar, which both vector cores of a block do, and '{name}' is written in the same block: "
            "in a kernel with gemm nothing orders one vector core after the other",
            at=read.stmt.span,
            notes=[(f"'{name}' is written here", other.stmt.span)],
            hint=f"write the new values to another tensor than '{name}', or do this in a kernel without gemm",
        )


def _pairs(src, dst, reduced):
    if reduced is None:
        return copy_dims(src, dst)
    dims = [d for d in range(len(src.region)) if d != reduced % len(src.region)]
    targets = list(range(len(dst.region)))
    if len(targets) == len(src.region):
        targets = dims
    return list(zip(dims, targets))


def _ub_buffers(facts) -> list:
    seen: list = []
    for s, acc in facts:
        found = [b for b, _ in acc.writes + acc.reads] if acc else [b for b in own_uses(s).all if is_ub(b)]
        for b in found:
            if not any(b.same_as(x) for x in seen):
                seen.append(b)
    return sorted(seen, key=lambda b: -len(b.ty.shape))


def _legal(facts, division: _Division, buffers) -> bool:
    sizes: dict = {}
    for b in buffers:
        dims = division.dims(b)
        if len(dims) > 1:
            return False
        for d in dims:
            if sizes.setdefault(division.groups.find((b, d)), const_int(b.ty.shape[d])) != const_int(b.ty.shape[d]):
                return False
    division = replace(division, sizes=sizes)
    return all(_legal_statement(s, division) if acc is None else _legal_nest(acc, division) for s, acc in facts)


def _legal_nest(acc: _Accesses, division: _Division) -> bool:
    split_vars = [v for v in acc.vars if v in division]
    if len(split_vars) > 1 or any(acc.vars[v] != division.sizes.get(division.groups.find(v)) for v in split_vars):
        return False
    uneven = [v for v in split_vars if acc.vars[v] % VECTOR_CORES_PER_BLOCK]
    # The second core has a row that is nobody's: what it holds may not choose an element, nor go to GM.
    if uneven and (acc.writes_gm or acc.indirect):
        return False
    for buffer, indices in acc.reads + acc.writes:
        dims = division.dims(buffer)
        for d in dims:
            if not (isinstance(indices[d], Var) and indices[d] in split_vars):
                return False
        if any(not _holds_one_more(buffer, d, i, uneven, acc.vars) for d, i in enumerate(indices) if d not in dims):
            return False
    divided = [bool(division.dims(b)) for b, _ in acc.writes]
    if split_vars:
        return all(divided)
    return not any(divided) and not any(division.dims(b) for b, _ in acc.reads)


def _legal_statement(s: Stmt, division: _Division) -> bool:
    """For a tile op, or what the scalar unit does."""
    if work_of(s) is None:
        return not any(division.dims(b) for b in own_uses(s).all if is_ub(b))
    # What says where a region begins, or is a number, is read element by element: on both cores.
    bounds = [e for a in s.value.args for e in ([y for r in a.region for y in (r.min, r.extent)] if isinstance(a, TensorRegion) else [a])]
    if any(is_ub(x.source) and division.dims(x.source) for e in bounds for x in loads_in(e)):
        return False
    regions = [a for a in s.value.args if isinstance(a, TensorRegion) and is_ub(a.source)]
    if not all(_spans(r, d) for r in regions for d in division.dims(r.source)):
        return False
    return _legal_operands(s, regions, division)


def _spans(r: TensorRegion, d: int) -> bool:
    """True if a region is all of dimension `d` of its tile."""
    return const_int(r.region[d].min) == 0 and const_int(r.region[d].extent) == const_int(r.source.ty.shape[d])


def _legal_operands(s: Stmt, regions: list[TensorRegion], division: _Division) -> bool:
    """True if a tile op divides the `regions` in UB it works on together, none along a dimension it has to see as a whole."""
    if is_op(s, REDUCE):
        src, dst = s.value.args[:2]
        dims = division.dims(src.source)
        return _whole_dimension(s) not in dims and bool(dims) == bool(division.dims(dst.source))
    if _whole_dimension(s) is not None:
        dims = [division.dims(r.source) for r in regions]
        return _whole_dimension(s) not in dims[0] and all(d == dims[0] for d in dims)
    if moved_regions(s) is not None and len(regions) == 2:
        src, dst = (division.dims(r.source) for r in regions)
        return all((a in src) == (b in dst) for a, b in copy_dims(*regions))
    return is_op(s, FILL) or moved_regions(s) is not None


def _whole_dimension(s: Stmt) -> int | None:
    """The dimension of its source that a tile op has to see as a whole."""
    record = work_of(s)
    return None if record is None or record.whole is None else record.whole(attrs_of(s), len(s.value.args[0].region))


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
    for _, acc in facts:
        if acc is not None:
            plan.nest_vars.update({v: n for v, n in acc.vars.items() if v in division})
    return plan


__all__ = ["SplitPlan", "copy_dims", "find_split", "is_ub", "vector_statements"]
