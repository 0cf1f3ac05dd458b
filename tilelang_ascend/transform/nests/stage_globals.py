"""stage_globals: give `T.Parallel` nests that read or write GM directly a tile in UB to work on.

Before:  Parallel(i): C[b * 128 + i] = A[b * 128 + i] + 1
After:   copy(A[b * 128 : +128], A_t); Parallel(i): C_t[i] = A_t[i] + 1; copy(C_t, C[b * 128 : +128])

Copies that change the dtype become a copy and an element-wise conversion, so that the transfer has a tile of its own:

Before:  copy(A[0:128], x)                                   # float16 to float32
After:   copy(A[0:128], x_raw); Parallel(i): x[i] = float32(x_raw[i])

The region of a tile is the hull of the indices over the nest. Accesses that leave gaps share a tile when their hulls overlap:
`C[2 * i]` and `C[2 * i + 1]` together are one row. What an iteration uses after it has stored to the same tensor (`nest_order`) is in
the tile it stored to, or neither is staged and the nest runs in order. A nest whose tiles exceed the budget is split along its outermost loop.
What conditions leave out at the end of a tensor that the kernel also writes is not loaded: another block may be writing there.
Being in bounds implies the usual tail guard (`bounds_guards`). Under other conditions the tile is read first and written back whole if
no other block touches it (`owned_tiles`); otherwise what the condition selects is transferred (`store_selected`), also into the tile if
elements are updated in place.
An index that is another function of loop variables, `j // 32` say, is staged with all values it may have, if these are no more than iterations.
A dimension whose index is data is staged whole when there is room, so that one instruction gathers what the nest chooses (not where
the data chooses long rows, and not from tensors that the kernel also writes: other cores may be writing beside the chosen elements).
Other indices stay; the vectoriser has a transfer for each row or element.

Requires: placed Tile IR. Ensures: nests read and write GM only through indices that are data, or in order.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce

from ...analysis.index.affine import affine
from ...analysis.index.nest_indices import NestIndices, ReadLimits, implied_by_bounds
from ...analysis.index.nest_order import NestOrder
from ...analysis.index.safe_values import safe_values
from ...analysis.index.value_facts import believable, sizes_of, tell_sizes
from ...analysis.tiles.core_kinds import uses_cube
from ...analysis.tiles.owned_tiles import OwnedTiles
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    full_region,
    imm,
    is_if_then_else,
    itemsize,
    map_children,
    op_name,
    region,
    renew,
    scope_of,
    seq,
    statements,
    structural_equal,
    substitute,
    sym,
    tirx,
    walk_expr,
)
from ...ir.grids import is_grid_axis, rewrite_grid_bodies
from ...isa.base import VECTOR_CORES_PER_BLOCK, Space
from ...tile import tile_op
from ...tile.division import even_size, split_nest
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.uses import is_parallel, is_scalar_var, loads_in, moved_regions, uses_of, with_regions
from ...tileop.base.tensor_bounds import all_of, unproven
from ..budget import TILE_BUDGET_SHARE
from .bounds_guards import DropBoundsGuards
from .store_selected import Selection, all_it_may_store, covers, fills_hull, needs_whole_rows, updates_in_place

# All tiles of a kernel and tensors staged whole together may take this share: the rest is for versions and temporaries.
TABLE_SHARE = 1 / 2
# Bytes of a tensor that are worth loading for each element that is chosen from it.
TABLE_BYTES_FOR_EACH = 1024
# From this length on, rows chosen by data are transfers of their own.
ROW_BYTES = 256


class _Tile:
    """One staged region of one GM buffer. `forms`: the affine forms of the indices it was made for, None if these have none."""

    def __init__(self, buffer, mins, extents, forms=None):
        self.mins, self.extents, self.forms = mins, extents, forms
        kept = [d for d, n in enumerate(extents) if n != 1] or [len(extents) - 1]
        self.kept = kept
        self.buffer = decl_buffer([extents[d] for d in kept], dtype_of(buffer), f"{buffer.name}_t", scope="shared.ub")
        self.source = buffer
        self.read = self.written = False
        self.walked: set = set()
        """Loop variables whose iterations use different elements."""
        self.reach: list = [[] for _ in kept]
        """For each dimension: (first, end) of the reads, as indices of the tile; None where they may begin at 0 or go to its end."""
        # A copy region has the rank of the GM buffer; the tile drops unit dimensions.
        self.region = region(buffer, mins, extents)

    def store_regions(self, limits: dict, local):
        """(tile region, GM region) of the transfer back, cut to `limits` of the variables that index the tile at `local`."""
        if not limits:
            return full_region(self.buffer), self.region
        starts, extents = [imm(0)] * len(self.kept), [self.extents[d] for d in self.kept]
        for k, index in enumerate(local):
            low, high = limits.get(index, (None, None)) if isinstance(index, Var) else (None, None)
            end = imm(extents[k]) if high is None else tirx.min(imm(extents[k]), high)
            if low is not None:
                starts[k] = tirx.max(low, imm(0))
                end = end if high is None else tirx.max(end, imm(0))  # the difference of these does not overflow
            if low is not None or high is not None:
                extents[k] = tirx.max(end - starts[k], imm(0))
        return region(self.buffer, starts, extents), self.box(starts, extents)

    def read_whole(self) -> None:
        """Every element is read."""
        self.read = True
        self.reach = [[] for _ in self.kept]

    def reads_between(self, spans: dict, local) -> None:
        """The element at `local` is read, by iterations inside of `spans` of the loop variables."""
        for reach, index in zip(self.reach, local):
            form = affine(index, list(spans)) if spans else None
            one = form is not None and list(form.coeffs.values()) == [1] and const_int(form.base) is not None
            span = spans[next(iter(form.coeffs))] if one else (None, None)
            span = tuple(None if e is None else sym.Analyzer().simplify(e + form.base) for e in span)
            if not any(all(map(_same_limit, span, known)) for known in reach):
                reach.append(span)

    def load(self, span) -> list[Stmt]:
        """The transfer of what is read. Elements around it may belong to other blocks, which write them; they are zero here."""
        firsts, ends = (
            [reduce(f, e) if e and all(x is not None for x in e) else None for e in self._sides(k)]
            for k, f in enumerate((tirx.min, tirx.max))
        )
        firsts[-1] = None  # Transfers begin at a 32-byte boundary of the tile.
        whole = [self.extents[d] for d in self.kept]
        if all(e is None for e in (*firsts, *ends)):
            return [tile_op("copy", self.region, full_region(self.buffer), span=span)]
        first = [imm(0) if e is None else tirx.max(e, imm(0)) for e in firsts]
        last = [imm(n) if e is None else tirx.max(tirx.min(imm(n), e), imm(0)) for n, e in zip(whole, ends)]
        sizes = [e if f is None else tirx.max(e - b, imm(0)) for f, b, e in zip(firsts, first, last)]
        return [
            tile_op("fill", full_region(self.buffer), imm(0, dtype_of(self.buffer)), span=span),
            tile_op("copy", self.box(first, sizes), region(self.buffer, first, sizes), span=span),
        ]

    def _sides(self, k: int) -> list:
        """Where the reads begin (k = 0) or end (k = 1) in each dimension."""
        return [[span[k] for span in reach] for reach in self.reach]

    def box(self, indices: list, extents: list):
        """The region of GM that belongs to a box of the tile."""
        mins, sizes = list(self.mins), [1] * len(self.mins)
        for d, index, size in zip(self.kept, indices, extents):
            mins[d], sizes[d] = mins[d] + index, size
        return region(self.source, mins, sizes)

    @property
    def nbytes(self) -> int:
        total = itemsize(dtype_of(self.buffer))
        for d in self.kept:
            total *= self.extents[d]
        return total


def _same_limit(a, b) -> bool:
    return a is b if a is None or b is None else structural_equal(a, b)


@dataclass(frozen=True)
class _Launch:
    """What nests of one function have around them: the axes of its grids with their sizes, what its tensors read as outside of their
    bounds, where that is not 0, and the sizes of its tensors that are known at run time."""

    axes: tuple
    outside: dict
    sizes: tuple

    @classmethod
    def of(cls, func: PrimFunc) -> _Launch:
        axes = tuple((s.loop_var, s.extent) for s in statements(func.body) if is_grid_axis(s))
        return cls(axes, safe_values(func), tuple(sizes_of(func)))

    @property
    def several(self) -> bool:
        """True unless there is one block."""
        return any(const_int(n) != 1 for _, n in self.axes)

    def analyzer(self, extents: dict) -> sym.Analyzer:
        """Knows the ranges of the axes and of loop variables."""
        analyzer = sym.Analyzer()
        for v, n in (*self.axes, *extents.items()):
            if n is not None:
                analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), n if not isinstance(n, int) else imm(n, dtype_of(v))))
        return analyzer

    def facts(self) -> sym.Analyzer:
        """Knows the ranges of the axes, and that sizes are not negative."""
        analyzer = self.analyzer({})
        tell_sizes(analyzer, self.sizes)
        return analyzer


@dataclass(frozen=True)
class _Nest:
    """A nest to stage. Loops inside of it whose variables are `stepped` are reached element by element; `order`: what has to share tiles or
    stay where it is."""

    stmt: For
    loops: list
    body: Stmt
    stepped: frozenset
    order: NestOrder

    @classmethod
    def of(cls, stmt: For, stepped: frozenset) -> _Nest:
        loops, body = nest_of(stmt)
        body = inline_index_binds(body)
        return cls(stmt, loops, body, stepped, NestOrder(loops, body, stepped))

    def cut(self, inner: bool) -> tuple[Var, int]:
        """(variable, iterations) of the loop along which the nest is split: the outermost one or, with `inner`, the first that has several. One whose
        length is known only at run time is not split."""
        var, extent = next((x for x in self.loops if inner and const_int(x[1]) != 1), self.loops[0])
        return var, const_int(extent) or 1

    def of_body(self, body: Stmt) -> For:
        """The same loops around another body."""
        return rebuild_nest(self.stmt, self.loops, body, self.order.in_order)


class _Stager(StmtMutator):
    """Replaces GM accesses of one nest by accesses to tiles; `body` is what the nest holds. `room`: bytes for tensors staged whole;
    `written`: what the kernel writes; `launch`: what is around the nest; `limits`: where reads end of tensors that other blocks write;
    `shared`: (tensor, minimums, extents) of further tiles for everything inside of them."""

    def __init__(self, nest: _Nest, body: Stmt, room: int, written: set, launch: _Launch, limits: ReadLimits, shared=()):
        self.nest, self.order = NestIndices(nest.loops, body, nest.stepped), nest.order
        self.loops, self.room, self.written = nest.loops, room, written
        self.shared = [*((b, *box) for b, boxes in self.order.boxes.items() for box in boxes), *shared]
        self.tiles: list[_Tile] = []
        self.tables: list[_Tile] = []
        self.analyzer = sym.Analyzer()
        self.written_at: dict = {}
        self.launch, self.ranges, self.limits = launch, launch.analyzer(self.nest.extents), limits
        self.into = None
        """The store to GM the walk is in."""

    def tile(self, buffer, indices):
        """The tile of this access and the indices into it, or None if the access is not affine."""
        if buffer in self.order.unstaged:
            return None
        nest = self.order.indices if buffer in self.order.boxes else self.nest
        forms = nest.forms(indices)
        if forms is None:
            return None
        hulls = [f.hull(nest.extents) for f in forms]
        for source, mins, extents in self.shared:
            steps = self.steps(mins, [h[0] for h in hulls]) if source.same_as(buffer) else None
            if steps and all(0 <= k <= n - h[1] for k, n, h in zip(steps, extents, hulls)):
                hulls = list(zip(mins, extents))
                break
        return self.placed(self.tiles, buffer, indices, hulls, forms)

    def steps(self, a: list, b: list) -> list | None:
        """`b` - `a` in every dimension, None unless all are constants."""
        out = [const_int(self.analyzer.simplify(y - x)) for x, y in zip(a, b)]
        return None if None in out else out

    def overlapping(self) -> list:
        """What tiles that leave gaps may share: (tensor, minimums, extents) of boxes around tiles of one tensor, where the box is not larger
        than these."""
        several = [t for t in self.tiles if sum(x.source.same_as(t.source) for x in self.tiles) > 1]
        boxes: list = []
        joined: list = []
        for t in several:
            if t.forms is None or t.source in self.order.boxes or fills_hull(t.forms, self.nest.extents):
                continue
            box = (t.source, t.mins, t.extents)
            for k, other in enumerate(boxes):
                around = self.around(other, box) if other[0].same_as(t.source) else None
                if around is not None:
                    boxes[k] = around
                    joined.append(k)
                    break
            else:
                boxes.append(box)
        return [boxes[k] for k in dict.fromkeys(joined)]

    def around(self, a: tuple, b: tuple) -> tuple | None:
        """The box around two boxes of one tensor, None where it is larger than these or not known."""
        steps = self.steps(a[1], b[1])
        if steps is None:
            return None
        mins = [self.analyzer.simplify(m + min(k, 0)) for m, k in zip(a[1], steps)]
        extents = [max(n, k + e) - min(k, 0) for n, e, k in zip(a[2], b[2], steps)]
        return (a[0], mins, extents) if math.prod(extents) <= math.prod(a[2]) + math.prod(b[2]) else None

    def between(self, buffer, indices):
        """The tile of what loop variables choose in another way than by sums, and the indices into it, or None if there is none, or it would hold more
        elements than there are iterations."""
        if buffer in self.written or buffer in self.order.unstaged or buffer in self.order.boxes:
            return None
        hulls, lanes = self.nest.hulls(indices), [const_int(e) for _, e in self.loops]
        if hulls is None or None in lanes or math.prod(h[1] for h in hulls) > math.prod(lanes):
            return None
        return self.placed(self.tiles, buffer, indices, hulls)

    def table(self, buffer, indices):
        """The tile of a tensor of which data chooses elements and the indices into it, or None if there is none."""
        chosen, hulls = False, []
        for index, n in zip(indices, buffer.ty.shape):
            form = self.nest.forms([index])
            chosen = chosen or form is None
            hulls.append(form[0].hull(self.nest.extents) if form else (imm(0), const_int(n)))
        lanes = [const_int(e) for _, e in self.loops]
        extents = [h[1] for h in hulls]
        if not chosen or None in extents or None in lanes or buffer in self.written or self.long_rows(buffer, indices):
            return None
        nbytes = math.prod(extents) * itemsize(dtype_of(buffer))
        if nbytes > min(self.room, TABLE_BYTES_FOR_EACH * math.prod(lanes)):
            return None
        before = len(self.tables)
        found = self.placed(self.tables, buffer, indices, hulls)
        self.room -= nbytes * (len(self.tables) - before)
        return found

    def loaded(self) -> list[_Tile]:
        """All tiles in an order in which they can be loaded: a table may begin where an element that a tile holds says."""
        held = {t.buffer for t in self.tiles}
        behind = [t for t in self.tables if any(x.source in held for e in t.mins for x in loads_in(e))]
        return [*(t for t in self.tables if t not in behind), *self.tiles, *behind]

    def long_rows(self, buffer, indices) -> bool:
        """True if the innermost index walks along a row and the others choose which."""
        form = self.nest.forms([indices[-1]])
        if not form or list(form[0].coeffs.values()) != [1]:
            return False
        (v,) = form[0].coeffs
        alone = not any(v in free_vars(i) for i in indices[:-1])
        return alone and (self.nest.extents[v] or 0) * itemsize(dtype_of(buffer)) >= ROW_BYTES

    def placed(self, tiles: list, buffer, indices, hulls, forms=None):
        """The tile among `tiles` for this hull, new if there is none yet, and the indices into it."""
        mins = [self.analyzer.simplify(h[0]) for h in hulls]
        extents = [h[1] for h in hulls]
        for t in tiles:
            same = t.source.same_as(buffer) and t.extents == extents
            if same and all(self.analyzer.can_prove_equal(a, b) for a, b in zip(t.mins, mins)):
                break
        else:
            t = _Tile(buffer, mins, extents, forms)
            tiles.append(t)
        t.walked |= {v for f in forms or () for v in f.coeffs}
        local = [self.analyzer.simplify(indices[d] - mins[d]) for d in t.kept]
        return t, local

    def expr(self, e):
        if isinstance(e, TensorLoad) and scope_of(e.source) in ("global", ""):
            indices = [self.expr(i) for i in e.indices]
            tile = self.tile(e.source, indices) or self.between(e.source, indices)
            found = tile or self.table(e.source, indices)
            if found is None:
                return BufferLoad(e.source, indices)
            found[0].read = True
            found[0].reads_between(self.limits.spans(e.source, indices), found[1])
            value = BufferLoad(found[0].buffer, found[1])
            return self.inside(e.source, indices, value) if tile else self.inside_table(e.source, indices, value)
        if is_if_then_else(e):
            cond = self.expr(e.args[0])
            with self.where(e.args[0]):
                yes = self.expr(e.args[1])
            return tirx.if_then_else(cond, yes, self.expr(e.args[2]))
        return map_children(e, self.expr)

    def where(self, cond):
        """The ranges of loop variables are those where `cond` holds, inside."""
        known = believable(cond)
        return nullcontext() if known is None else self.ranges.constraint_scope(known)

    def visit_IfThenElse(self, s: IfThenElse):
        cond = self.expr(s.condition)
        with self.where(s.condition):
            then = self.block(s.then_case)
        return IfThenElse(cond, then, None if s.else_case is None else self.block(s.else_case), span=s.span)

    def inside_table(self, buffer, indices: list, value):
        """`value`, an element of a tensor staged whole, where what is no walk along loop variables leaves the tensor: the tile ends there,
        too."""
        terms = [b.holds(indices) for b in unproven(buffer, indices, self.ranges) if self.nest.forms([indices[b.dim]]) is None]
        return tirx.if_then_else(all_of(terms), value, imm(self.launch.outside.get(buffer, 0), dtype_of(value))) if terms else value

    def inside(self, buffer, indices: list, value):
        """`value`, an element of a tile that iterations also store to. What they stored outside of the tensor is lost, though the tile has
        room for it: nobody reads it again, unless for another element that is outside."""
        if buffer not in self.order.boxes:
            return value
        terms = [b.holds(indices) for b in unproven(buffer, indices, self.ranges)]
        if self.into is not None:
            terms = [c for c in terms if not implied_by_bounds(c, self.into)]
        return tirx.if_then_else(all_of(terms), value, imm(self.launch.outside.get(buffer, 0), dtype_of(value))) if terms else value

    def visit_BufferStore(self, s: BufferStore):
        in_global = scope_of(s.buffer) in ("global", "")
        self.into = s if in_global else None
        value = self.expr(s.value)
        self.into = None
        indices = [self.expr(i) for i in s.indices]
        if not in_global:
            return BufferStore(s.buffer, value, indices, span=s.span)
        found = self.tile(s.buffer, indices)
        if found is None:
            return BufferStore(s.buffer, value, indices, span=s.span)
        tile, local = found
        tile.written = True
        self.written_at[s.buffer] = local
        return BufferStore(tile.buffer, value, local, span=s.span)


@dataclass(frozen=True)
class _Staged:
    """A nest on tiles of any size: its body before, without the guards that tiles imply, and on them; `limits` of what goes back."""

    unguarded: Stmt
    body: Stmt
    stager: _Stager
    limits: dict


def calls_math(e) -> bool:
    """True if an expression calls a function of floats."""
    found = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, Call) and op_name(x) != "tirx.if_then_else" else None)
    return any("float" in dtype_of(x) for x in found)


class _StageNests(StmtMutator):
    def __init__(self, chip, body: Stmt, owned: OwnedTiles, launch: _Launch, uncut: bool, inner: bool):
        ub = chip.capacity_bytes(Space.UB)
        # Two vector cores share the work beside a cube core, each of which has half of a tile.
        cores = VECTOR_CORES_PER_BLOCK if uses_cube(body) else 1
        self.budget, self.room = int(ub * TILE_BUDGET_SHARE) * cores, int(ub * TABLE_SHARE) - fixed_tile_bytes(body)
        self.most = ub - fixed_tile_bytes(body)
        self.written = uses_of(body).writes
        self.allocs: list[Stmt] = []
        self.owned, self.own, self.launch, self.uncut, self.inner = owned, set(), launch, uncut, inner

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        loops, body = nest_of(s)
        self.own = self.owned.of_nest(s) | self.owned.of_boxes(s, NestOrder(loops, inline_index_binds(body)).boxes)
        return self.stage(s)

    def visit_BufferStore(self, s: BufferStore):
        """The scalar unit has no `exp` or `rsqrt`: such a store is vector work on one element."""
        if is_scalar_var(s.buffer) or not calls_math(s.value):
            return s
        return self.stage(rebuild_nest(s, [(tirx.Var("one", "int32"), imm(1))], s))

    def visit_Evaluate(self, s: Evaluate):
        found = moved_regions(s)
        if found is None or dtype_of(found[0].source) == dtype_of(found[1].source):
            return s
        scopes = [scope_of(r.source) for r in found]
        if scopes == ["global", "shared.ub"]:
            return self.converting(s, *found, load=True)
        return self.converting(s, *found, load=False) if scopes == ["shared.ub", "global"] else s

    def converting(self, s: Evaluate, src, dst, load: bool):
        """Split a transfer that changes the dtype; regions of unequal rank or unknown size are left to the lowering."""
        gm, ub = (src, dst) if load else (dst, src)
        sizes = [const_int(r.extent) for r in ub.region]
        kept = [d for d, n in enumerate(sizes) if n != 1] or [len(sizes) - 1]
        if None in sizes or len(kept) != len([r for r in gm.region if const_int(r.extent) != 1] or [0]):
            return s
        raw = decl_buffer([sizes[d] for d in kept], dtype_of(gm.source), f"{ub.source.name}_raw", scope="shared.ub")
        self.allocs.append(AllocBuffer(raw, span=s.span))
        variables = [tirx.Var(f"i{d}", "int32") for d in kept]
        binds, index = self.bound([r.min for r in ub.region], s.span)
        for v, d in zip(variables, kept):
            index[d] = v if const_int(index[d]) == 0 else index[d] + v
        outside, inside = BufferLoad(raw, variables), BufferLoad(ub.source, index)
        if load:
            store = BufferStore(ub.source, tirx.Cast(dtype_of(ub.source), outside), index, span=s.span)
        else:
            store = BufferStore(raw, tirx.Cast(dtype_of(raw), inside), variables, span=s.span)
        nest = rebuild_nest(s, [(v, imm(sizes[d])) for v, d in zip(variables, kept)], store)
        if load:
            return [*binds, with_regions(s, gm, full_region(raw)), nest]
        return [*binds, nest, with_regions(s, full_region(raw), gm)]

    @staticmethod
    def bound(firsts: list, span) -> tuple[list, list]:
        """(statements, expressions): where a region begins, with what that reads of tensors in variables, as nests read only tiles."""
        binds, out = [], []
        for e in firsts:
            if any(scope_of(x.source) in ("global", "") for x in loads_in(e)):
                binds.append(Bind(Var("first", dtype_of(e)), e, span=span))
                e = binds[-1].var
            out.append(e)
        return binds, out

    def shares(self, fixed: int) -> int:
        """Bytes for what grows with the nest, beside `fixed` bytes that do not."""
        return max(self.budget - fixed, min(self.budget // 4, self.most - fixed), 0)

    def stage(self, stmt: For, stepped: frozenset = frozenset()):
        """Stage one nest, cutting it if its tiles are too large. Where one iteration needs more than there is, loops inside the nest are
        `stepped`: what their variables index is reached element by element."""
        nest = _Nest.of(stmt, stepped)
        staged = self.on_tiles(nest)
        tiles, tables = staged.stager.tiles, staged.stager.tables
        if not tiles and not tables:
            return nest.of_body(staged.unguarded)
        # What every iteration uses takes its room however short the nest is: only the rest can be split.
        fixed = sum(t.nbytes for t in tiles if nest.cut(self.inner)[0] not in t.walked)
        total = sum(t.nbytes for t in tiles)
        selections: dict = {}
        if not self.cuts(nest, fixed, total):
            selections = self.selections(nest, staged)
            # Selected elements are spread tile after tile.
            spread = max((s.spread_bytes for s in selections.values()), default=0)
            fixed += spread
            total += sum(s.nbytes for s in selections.values()) + spread
        smaller = self.smaller(nest, staged, fixed, total)
        if smaller is not None:
            return smaller
        self.room = staged.stager.room - total
        self.allocs += [AllocBuffer(t.buffer) for t in (*tables, *tiles)]
        self.allocs += [AllocBuffer(s.mask) for s in selections.values()]
        return self.with_transfers(nest, staged, selections)

    def on_tiles(self, nest: _Nest) -> _Staged:
        """The nest with tiles in place of the regions of GM it reads and writes, of any size."""
        unlimited: set = set()
        while True:
            guards = DropBoundsGuards(nest.loops, nest.body, nest.stepped, nest.order, self.launch.facts(), unlimited)
            unguarded = guards(nest.body)
            limits = ReadLimits(guards.nest, nest.body, self.written - self.own if self.launch.several else set())
            stager = _Stager(nest, unguarded, self.room, self.written, self.launch, limits)
            body = stager(unguarded)
            shared = stager.overlapping()
            if shared:
                stager = _Stager(nest, unguarded, self.room, self.written, self.launch, limits, shared)
                body = stager(unguarded)
            # A tile shared with other accesses begins where they do: limits of loop variables say nothing about its elements.
            lost = {b for b, found in guards.limits.items() if not all(any(v.same_as(i) for i in stager.written_at[b]) for v in found)}
            if not lost:
                return _Staged(unguarded, body, stager, guards.limits)
            unlimited |= lost

    def selections(self, nest: _Nest, staged: _Staged) -> dict:
        """For each tile of which some elements only are stored: which. What nobody else has is read instead, so that the others go back as
        they came."""
        found: dict = {}
        for t in staged.stager.tiles:
            if not t.written or covers(nest.loops, staged.body, t.buffer):
                continue
            rows = needs_whole_rows(nest.loops, staged.body, t.buffer)
            if t.source in self.own and not rows:
                t.read_whole()
            else:
                found[t] = Selection(t.buffer, rows)
        return found

    def cuts(self, nest: _Nest, fixed: int, total: int) -> bool:
        """True if a nest is staged in parts: of its `total` bytes `fixed` do not grow with it."""
        return total - fixed > self.shares(fixed) and nest.cut(self.inner)[1] > 1 and not self.uncut

    def smaller(self, nest: _Nest, staged: _Staged, fixed: int, total: int):
        """The nest staged in parts, or with fewer of its indices, where its tiles take more room than there is; None where they do not. Of
        their `total` bytes `fixed` do not grow with the nest."""
        if self.cuts(nest, fixed, total):
            var, extent = nest.cut(self.inner)
            rows = even_size(extent, max(1, extent * self.shares(fixed) // (total - fixed)))
            return split_nest(rebuild_nest(nest.stmt, nest.loops, nest.body), {var: rows}, self.stage, num_stages=2)
        inner = frozenset(s.loop_var for s in statements(staged.unguarded) if isinstance(s, For))
        if total > self.most and inner - nest.stepped:
            return self.stage(rebuild_nest(nest.stmt, nest.loops, nest.body), inner)
        return None

    @staticmethod
    def decided(nest: _Nest, body: Stmt, selections: dict) -> dict:
        """Tiles whose elements decide whether they are stored, with the nest that stores all it may store, where this leaves some between them."""
        found = {t: all_it_may_store(body, t.buffer) for t in selections if t.read}
        return {t: more for t, more in found.items() if more is not None and not covers(nest.loops, more, t.buffer)}

    def with_transfers(self, nest: _Nest, staged: _Staged, selections: dict) -> list:
        """Transfers to the tiles, the nest, and transfers from the tiles."""
        span, stager, body = nest.stmt.span, staged.stager, staged.body
        in_place = [t for t in selections if t.read and self.launch.several and updates_in_place(body, t.buffer)]
        decided = {} if in_place or not self.launch.several else self.decided(nest, body, selections)
        out: list = []
        for t in stager.loaded():
            if t.read and t not in in_place and t not in decided:
                out += t.load(span)
            elif t in selections:
                out.append(tile_op("fill", full_region(t.buffer), imm(0, dtype_of(t.buffer)), span=span))
        for t, selection in selections.items():
            out += selection.clear(span)
            if t in in_place:
                out += _on_own_variables(rebuild_nest(nest.stmt, nest.loops, selection.mark(body, alone=True)))
                out.append(selection.transfer(t.box, span, load=True))
                continue
            if t in decided:
                out += _on_own_variables(rebuild_nest(nest.stmt, nest.loops, selection.mark(decided[t], alone=True)))
                out += [selection.transfer(t.box, span, load=True), *selection.clear(span)]
            body = selection.mark(body)
        out.append(nest.of_body(body))
        for t in stager.tiles:
            if t in selections:
                out.append(selections[t].transfer(t.box, span))
            elif t.written:
                source, target = t.store_regions(staged.limits.get(t.source, {}), stager.written_at.get(t.source))
                out.append(tile_op("copy", source, target, span=span))
        return out


def _on_own_variables(nest: For) -> list[Stmt]:
    """`nest`, which runs once more than the user wrote: what it does to variables is done to copies of them."""
    own = {s.buffer for s in statements(nest) if isinstance(s, AllocBuffer)}
    shared = (b for b in uses_of(nest).writes if is_scalar_var(b) and b not in own)
    copies = {b: decl_buffer((1,), dtype_of(b), b.name, scope="local.var") for b in shared}
    values = (BufferStore(new, BufferLoad(old, [imm(0)]), [imm(0)], span=nest.span) for old, new in copies.items())
    return [*map(AllocBuffer, copies.values()), *values, renew(substitute(nest, copies))]


def fixed_tile_bytes(body: Stmt) -> int:
    """Bytes of the tiles of fixed size in UB."""
    tiles = [s.buffer for s in statements(body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "shared.ub"]
    return sum(math.prod(const_int(n) or 1 for n in b.ty.shape) * itemsize(dtype_of(b)) for b in tiles)


def stage_globals(func: PrimFunc, chip, uncut: bool = False, inner: bool = False) -> PrimFunc:
    """Apply to a placed Tile IR function. `uncut`: nests stay whole whatever room their tiles take. `inner`: those of one outermost iteration are cut,
    too."""

    owned, launch = OwnedTiles(func), _Launch.of(func)

    def stage(body: Stmt) -> Stmt:
        stager = _StageNests(chip, body, owned, launch, uncut, inner)
        staged = stager(body)
        return seq(stager.allocs, staged)

    return rewrite_grid_bodies(func, stage)


__all__ = ["stage_globals"]
