"""lower_tile_ops: from tile ops on placed, versioned tiles to instructions.

Before:  copy(A[by * 128 : +128, k * 32 : +32], A_s[k % 2, 0:128, 0:32])
After:   ascend.copy_gm_to_l1_nd2nz(A_s[k % 2, 0], A[by * 128 * K + k * 32], 1, 128, 32, 0, K, 128, 1, 1)

Tiles become two-dimensional `[versions, elements]` buffers in the layout of their memory, GM tensors become flat, workspaces and
shape variables become parameters. How each tile op becomes instructions is in `tileop/`, one file per op.

Requires: versioned Tile IR after fold_clears. Ensures: Ascend IR in combined form (both cores in one function) without addresses
and without synchronisation.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack, nullcontext

from ...analysis.index.data_names import DataNames
from ...analysis.index.safe_values import safe_values
from ...analysis.index.value_facts import ValueFacts, assume_rest, facts_about, shape_vars
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    as_dtype,
    attrs_of,
    call,
    children,
    choice_of,
    const_int,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    intrin,
    is_buffer_var,
    itemsize,
    map_children,
    op_name,
    region,
    reinterpret,
    scope_of,
    seq,
    statements,
    stmts_of,
    sym,
    tirx,
)
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS, round_up
from ...tile import ASSUME, FILL, GEMM, IM2COL, ZERO_ACCUMULATOR, is_op, tile_op_of, with_args
from ...tile.uses import (
    MET,
    end_of,
    is_parallel,
    is_scalar_var,
    loads_in,
    moved_regions,
    read_with_k_along_rows,
    uses_of,
    with_regions,
    workspaces,
)
from ...tileop.base.context import UbLayout, VectorContext
from ...tileop.base.elements import guarded_read, store_element
from ...tileop.base.layout import GmTensor, element_read, element_written, head, moved_element, product, row_major, shape_and_strides
from ...tileop.base.output import Output
from ...tileop.base.placement import Placement, place_tile
from ...tileop.base.row_fractals import laid_by_rows
from ...tileop.base.tensor_bounds import all_of, unproven
from ...tileop.copy.axes import Copy
from ...tileop.copy.lower import lower_copy
from ...tileop.cube.fill_l1 import lower_fill_l1
from ...tileop.cube.gemm import lower_gemm
from ...tileop.cube.im2col import lower_im2col
from ...tileop.cube.zero_accumulator import lower_zero_accumulator
from ...tileop.ops import registry
from ...tileop.vector.nest.expressions import is_function
from ...tileop.vector.nest.parallel import on_one_lane


class _Lower(StmtMutator):
    """Instructions for statements, in the order of the program: `facts` follow it, `out` gathers what is not instructions."""

    def __init__(self, placement: Placement, facts: ValueFacts, out: Output, data: DataNames, written: set):
        self.placement, self.facts, self.out, self.data, self.written = placement, facts, out, data, written

    @property
    def around(self) -> tuple[Placement, ValueFacts, Output]:
        """What the lowering of a statement is given."""
        return self.placement, self.facts, self.out

    # -- control flow -------------------------------------------------------------------------------------------
    def visit_For(self, s: For):
        if is_parallel(s):
            return self.vector_statement(s)
        extent, out = self.scalar(s.extent, s.span)
        with self.facts.loop(s.loop_var, extent, s.body), self.out.l0.loop(s.loop_var, extent):
            body = self.block(s.body)
        notes = dict(s.annotations)
        if "tl.slow" in notes:
            self.out.warn(s.span, str(notes.pop("tl.slow")))
        return [*out, For(s.loop_var, s.min, extent, s.kind, body, annotations=notes, span=s.span)]

    def visit_SeqStmt(self, s: SeqStmt):
        out = []
        with ExitStack() as stack:
            for x in s.seq:
                out.append(self.visit(x))
                assume_rest(x, self.facts, stack)
        return out

    def visit_IfThenElse(self, s: IfThenElse):
        facts = self.facts
        cond, out = self.scalar(s.condition, s.span)
        wraps, never = self.data.may_wrap(s.condition), facts.analyzer.can_prove(tirx.Not(cond))
        if never and not wraps:
            # From a contradiction everything follows: lowered under it, transfers could have any size.
            return out if s.else_case is None else [*out, self.block(s.else_case)]
        always = wraps and facts.analyzer.can_prove(cond)
        with self.out.l0.arms() as between:
            with nullcontext() if never else facts.assume(cond):
                then = self.block(s.then_case)
            other = None
            if s.else_case is not None:
                between()
                facts.wrote_in(s.then_case)
                with nullcontext() if always else facts.assume(tirx.Not(cond)):
                    other = self.block(s.else_case)
        facts.wrote_in(s)
        return [*out, IfThenElse(cond, then, other, span=s.span)]

    def visit_While(self, s: While):
        cond, out = self.scalar(s.condition, s.span)
        if not out:
            with self.facts.repeat(cond, s.body):
                return While(cond, self.block(s.body), span=s.span)
        # The condition reads memory: evaluate it before the loop and again at the end of each iteration.
        flag = decl_buffer((1,), "bool", self.out.unique("again"), scope="local.var")
        self.out.allocs.append(AllocBuffer(flag))
        test = [*out, BufferStore(flag, cond, [imm(0)], span=s.span)]
        again, out_again = self.scalar(s.condition, s.span)
        retest = [*out_again, BufferStore(flag, again, [imm(0)], span=s.span)]
        with self.facts.repeat(s.condition, s.body):
            body = self.block(s.body)
        return [*test, While(BufferLoad(flag, [imm(0)]), seq(body, retest), span=s.span)]

    def visit_Bind(self, s: Bind):
        value, out = self.scalar(s.value, s.span)
        self.facts.bind(s.var, value)
        if op_name(value) in registry.INDEX_RANGES:
            self.facts.bind_range(s.var, imm(registry.INDEX_RANGES[op_name(value)](self.placement.blocks)))
        elif isinstance(value, tirx.FloorMod) and const_int(value.b) is None and self.facts.nonnegative(value.b):
            # The bound is a shape variable: keep it, it proves more than a number. (Remainders by a negative number are none or negative.)
            self.facts.analyzer.bind(s.var, Range.from_min_extent(imm(0), value.b))
        elif not self.facts.wraps(s.value):
            self.facts.bind_like(s.var, value)
        return [*out, Bind(s.var, value, span=s.span)]

    def visit_AllocBuffer(self, s: AllocBuffer):
        return s if is_scalar_var(s.buffer) else None

    # -- scalars ------------------------------------------------------------------------------------------------
    def scalar(self, e, span):
        """`e` with variables for what the scalar unit has no expression for, and the statements that bind them: reads of GM and tiles, and
        functions, which the vector unit computes on one lane."""
        out: list[Stmt] = []
        return (e, []) if isinstance(e, int) else (self.bound(e, out, span), out)

    def bound(self, e, out: list, span):
        """`scalar` with the statements appended to `out`."""

        def go(x):
            if (read := element_read(x)) is not None:
                load, dtype = read
                indices = [go(i) for i in load.indices]
                address = reinterpret(self.address(load.source, indices), dtype)
                var = self.data_name(f"{load.source.name}_v", dtype)
                value = Bind(var, call("ascend.get_value", [address], dtype=dtype, span=span), span=span)
                inside = self.inside(load.source, indices)
                if inside is not None:
                    found = guarded_read(inside, value, self.placement.gms[load.source].outside, out)
                    self.facts.analyzer.name_data(found.source)
                    return found
                out.append(value)
                return var
            if is_function(x):
                place, computed = on_one_lane(map_children(x, go), self.vector_context({}), span)
                var = self.data_name("f_v", dtype_of(x))
                out.extend([computed, Bind(var, call("ascend.get_value", [place], dtype=dtype_of(x), span=span), span=span)])
                return var
            if (sides := choice_of(x)) is not None and any(map(self.may_miss, sides[1:])):
                return self.chosen(*sides, go, out, span)
            return map_children(x, go)

        return go(e)

    def data_name(self, name: str, dtype: str) -> Var:
        """A name for what is read from memory."""
        var = Var(self.out.unique(name), dtype)
        self.data.names.add(var)
        self.facts.analyzer.name_data(var)
        return var

    def chosen(self, condition, yes, no, go, out: list, span):
        """A choice among elements of tiles that may not be there where they do not count: branches that store to a variable."""
        place = decl_buffer((1,), dtype_of(yes), self.out.unique("chosen"), scope="local.var")
        self.facts.analyzer.name_data(place)
        cond, sides = go(condition), []
        for value in (yes, no):
            inner: list[Stmt] = []
            found = self.bound(value, inner, span)
            sides.append(seq(inner, BufferStore(place, found, [imm(0)], span=span)))
        out += [AllocBuffer(place), if_then(cond, *sides, span=span)]
        return BufferLoad(place, [imm(0)])

    def may_miss(self, e) -> bool:
        """True if an element of a tile that `e` reads may lie outside of it."""
        tiles = (x for x in loads_in(e) if x.source in self.placement.tiles)
        return any(all_of(b.holds(x.indices) for b in unproven(x.source, x.indices, self.facts.analyzer)) is not None for x in tiles)

    def address(self, buffer, indices):
        """Head address of one element of a GM tensor or a placed tile (indices include the version)."""
        if buffer in self.placement.gms:
            return self.gm_address(buffer, indices)
        tile = self.placement.tiles[buffer]
        version, rest = indices[0], indices[1:]
        if tile.nz is not None:
            return head(tile.buffer, version, tile.nz.offset(rest[-2], rest[-1]))
        return head(tile.buffer, version, sum((i * n for i, n in zip(rest, tile.strides)), imm(0)))

    def inside(self, buffer, indices):
        """The condition that an element lies inside of its tensor in GM, as far as that is not known; None if it is."""
        if buffer not in self.placement.gms:
            return None
        open_bounds = (b.holds(indices) for b in unproven(buffer, indices, self.facts.analyzer))
        return all_of(c for c in open_bounds if not self.facts.proves(c))

    def gm_address(self, buffer, indices):
        """Head address of one element of a GM tensor."""
        gm = self.placement.gms[buffer]
        return head(gm.flat, None, gm.offset(indices, self.facts.analyzer))

    def visit_BufferStore(self, s: BufferStore):
        value, out = self.scalar(s.value if is_scalar_var(s.buffer) else moved_element(s.value), s.span)
        if is_scalar_var(s.buffer):
            self.facts.wrote(s.buffer)
            return [*out, BufferStore(s.buffer, value, list(s.indices), span=s.span)]
        indices = []
        for i in s.indices:
            index, more = self.scalar(i, s.span)
            out += more
            indices.append(index)
        address = self.address(s.buffer, indices)
        if s.buffer in self.placement.gms:
            stored = store_element(self.vector_context({}), s.buffer.name, address, value, s.span)
            inside = self.inside(s.buffer, indices)
            return [*out, *(stored if inside is None else [if_then(inside, seq(stored), span=s.span)])]
        return [*out, intrin("set_value", *element_written(address, value), span=s.span)]

    # -- tile ops -----------------------------------------------------------------------------------------------
    def visit_Evaluate(self, s: Evaluate):
        record = tile_op_of(s)
        if moved_regions(s) is not None:
            regions = [self.resolve(a, s.span) for a in moved_regions(s)]
            binds = [b for _, bs in regions for b in bs]
            stmt = with_regions(s, *(r for r, _ in regions))
            if (end := end_of(s)) is not None:
                last, more = self.scalar(end[1], s.span)
                binds += more
                stmt = with_args(stmt, [*stmt.value.args[:3], last])
            # What lies between elements of a tensor that is written may be another block's business.
            lasting = moved_regions(stmt)[0].source not in self.written
            close_loads = self.placement.vector_options.get("close_loads") if lasting else None
            return [*binds, lower_copy(Copy(stmt, *self.around, self.vector, close_loads))]
        if record is GEMM:
            clear, out = self.scalar(s.value.args[3], s.span)
            args = [*s.value.args[:3], clear]
            return [*out, lower_gemm(with_args(s, args), *self.around)]
        if record is ASSUME:
            return None
        if record is IM2COL:
            steps = [self.scalar(a, s.span) for a in s.value.args[2:]]
            stmt = with_args(s, [*s.value.args[:2], *(e for e, _ in steps)])
            return [*(b for _, binds in steps for b in binds), lower_im2col(stmt, *self.around)]
        if record is ZERO_ACCUMULATOR:
            return lower_zero_accumulator(s, *self.around)
        if record is FILL and scope_of(s.value.args[0].source) == "shared.l1":
            return lower_fill_l1(s, self.placement)
        if record is not None:
            values = [(a, []) if isinstance(a, TensorRegion) else self.scalar(a, s.span) for a in s.value.args]
            stmt = with_args(s, [a for a, _ in values])
            return [*(b for _, binds in values for b in binds), self.vector_statement(stmt)]
        return self.generic(s)

    def resolve(self, r: TensorRegion, span):
        """A region with scalar reads in its bounds bound to variables."""
        out, mins, extents = [], [], []
        for x in r.region:
            for e, target in ((x.min, mins), (x.extent, extents)):
                value, binds = self.scalar(e, span)
                out += binds
                target.append(value)
        return region(r.source, mins, extents), out

    def vector_statement(self, s: Stmt):
        """Replace versioned tiles by their views, GM stays; then hand over to the vectoriser."""
        versions: dict = {}
        view = _ToViews(self.placement, self.facts, versions)
        return self.vector(view(s), versions)

    def vector(self, stmt: Stmt, versions: dict) -> Stmt:
        """Lower one vector statement over the views of tiles; `versions`: tile -> version in use."""
        context = self.vector_context(versions)
        if is_parallel(stmt):
            return registry.lower_parallel(stmt, context)
        return registry.LOWERINGS[tile_op_of(stmt)](stmt, context)

    def vector_context(self, versions: dict) -> VectorContext:
        """What the vectoriser may ask for while it lowers one statement."""
        places = {t.view: UbLayout(t.buffer, version, t.shape, t.strides, t.capacity) for t, version in versions.items()}
        return VectorContext(
            chip=self.placement.chip,
            layout=places.__getitem__,
            new_temp=lambda dtype, elements, name: self.out.declare([1, round_up(elements, 32)], dtype, name, "shared.ub"),
            warn=self.out.warn,
            pitch_unit=self.placement.unit_of(versions),
            options=self.placement.vector_options,
            gm_address=self.gm_address,
            outside=lambda b: self.placement.gms[b].outside,
            analyzer=self.facts.analyzer,
        )


class _ToViews(StmtMutator):
    """Drop the version index of tile accesses; remember it for each tile."""

    def __init__(self, placement: Placement, facts: ValueFacts, versions: dict):
        self.tiles, self.facts, self.versions = placement.tiles, facts, versions

    def view(self, buffer, version):
        tile = self.tiles[buffer]
        known = self.versions.setdefault(tile, version)
        assert known.same_as(version) or self.facts.proves(tirx.EQ(known, version)), "one version per statement"
        return tile.view

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            indices = [self.expr(i) for i in e.indices]
            return BufferLoad(self.view(e.source, indices[0]), indices[1:])
        if isinstance(e, TensorRegion) and e.source in self.tiles:
            mins, extents = [self.expr(x.min) for x in e.region], [self.expr(x.extent) for x in e.region]
            return region(self.view(e.source, mins[0]), mins[1:], extents[1:])
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer in self.tiles:
            return BufferStore(self.view(s.buffer, indices[0]), value, indices[1:], span=s.span)
        return BufferStore(s.buffer, value, indices, span=s.span)


def lower_tile_ops(func: PrimFunc, chip, vector_options: dict | None = None) -> tuple[PrimFunc, list]:
    """Apply; returns the combined Ascend IR function and the list of (span, warning) of the vectoriser.

    `vector_options`: `VectorContext.options` of every element-wise statement.
    """
    func = _with_block_number(func)
    declared = [s for s in statements(func.body) if isinstance(s, AllocBuffer)]
    gms = [p for p in func.params if is_buffer_var(p)]
    scalars = [p for p in func.params if not is_buffer_var(p)]
    scalars += [v for v in shape_vars(gms) if not any(v.same_as(p) for p in scalars)]
    out = Output(chip, {p.name for p in func.params} | {s.buffer.name for s in declared if is_scalar_var(s.buffer)})
    facts = facts_about(func)
    flat = _tensors(func, gms, facts)
    tiles, pitch_unit = _tiles(func.body, declared, chip, out)
    workspaces, nbytes = _workspaces(func, declared, out)
    placement = Placement(
        chip=chip,
        blocks=_blocks(func),
        tiles=tiles,
        gms={**flat, **workspaces},
        pitch_unit=pitch_unit,
        vector_options=vector_options or {},
        zero_rows=_zero_rows(func.body, tiles),
        mixed=_mixed(func.body, tiles),
    )
    slots, body = out.l0.place(_Lower(placement, facts, out, DataNames(func.body, variables=True), uses_of(func.body).writes)(func.body))
    params = [*scalars, *(x.flat for x in (*flat.values(), *workspaces.values()))]
    lowered = PrimFunc(params, seq(out.allocs, slots, body), attrs=func.attrs, span=func.span)
    lowered = lowered.with_attr("ascend.num_workspaces", len(workspaces)).with_attr("ascend.workspace_bytes", nbytes)
    met_buffers = {s.buffer for s in declared if MET in s.annotations}
    if met := [n for n, b in enumerate(workspaces) if b in met_buffers]:
        lowered = lowered.with_attr("ascend.met_places", met).with_attr("ascend.meeting_flag", chip.usable_cross_core_flags - 1)
    return lowered, out.warnings


def _blocks(func: PrimFunc) -> int:
    """Blocks that run at a time."""
    return int(func.attrs["ascend.block_dim"])


def _tensors(func: PrimFunc, gms: list, facts: ValueFacts) -> dict:
    """The tensors of a kernel, each a flat buffer."""
    found, outside = {}, safe_values(func)
    for b in gms:
        shape, strides = shape_and_strides(b)
        size = functools.reduce(product, shape, 1)
        flat = decl_buffer([_extent(size) if isinstance(size, int) else facts.analyzer.simplify(size)], dtype_of(b), b.name)
        found[b] = GmTensor(flat, shape, strides, outside=outside.get(b, 0))
    return found


def _extent(elements: int):
    return imm(elements, "int32" if elements < 2**31 else "int64")


def _tiles(body: Stmt, declared: list, chip, out: Output) -> tuple[dict, int]:
    """The tiles of a kernel with a layout each, and elements to which rows in UB are padded elsewhere: one block of the smallest type in use."""
    buffers = {s.buffer: s.span for s in declared if scope_of(s.buffer) not in ("local.var", "global", "")}
    pitch_unit = _pitch_unit(b for b in buffers if scope_of(b) == "shared.ub")
    units = {b: _pitch_unit(together) for together in _met(body, buffers) for b in together}
    read = {"transposed": read_with_k_along_rows(body), "entered_anywhere": _entered_anywhere(body), "by_rows": laid_by_rows(body, chip)}
    tiles = {
        b: place_tile(b, units.get(b, 1), out, span, **{how: b in found for how, found in read.items()}) for b, span in buffers.items()
    }
    return tiles, pitch_unit


def _pitch_unit(buffers) -> int:
    """One block of the smallest type of some tiles, in elements."""
    return BLOCK_BYTES // min((itemsize(dtype_of(b)) for b in buffers), default=4)


def _met(body: Stmt, buffers) -> list[set]:
    """Tiles in UB, those of one statement or nest together: its instructions run over lanes of all of them alike."""
    groups: list[set] = [{b} for b in buffers if scope_of(b) == "shared.ub"]
    of = {b: group for group in groups for b in group}

    def see(s: Stmt) -> None:
        if not (is_parallel(s) or isinstance(s, (Evaluate, BufferStore))):
            for child in children(s):
                see(child)
            return
        first, *others = [of[b] for b in uses_of(s).all if b in of] or [set()]
        for group in others:
            if group is not first:
                first |= group
                of.update((b, first) for b in group)

    see(body)
    return list({id(group): group for group in of.values()}.values())


def _entered_anywhere(body: Stmt) -> set:
    """Tiles of which a gemm reads rows along M or N that may begin inside of a fractal: the last one may reach beyond the tile."""
    found, analyzer = set(), sym.Analyzer()
    for s in statements(body):
        if is_op(s, GEMM):
            flags = (not int(s.value.attrs["transpose_A"]), int(s.value.attrs["transpose_B"]))
            for x, k_is_column in zip(s.value.args, flags):
                first = x.region[-2].min
                if k_is_column and not analyzer.can_prove(tirx.EQ(tirx.floormod(first, imm(FRACTAL_ROWS)), imm(0))):
                    found.add(x.source)
    return found


def _zero_rows(body: Stmt, tiles: dict) -> frozenset:
    """Tiles in L1 whose padding rows have to be zero, see `Placement`."""
    found = set()
    for s in statements(body):
        if is_op(s, GEMM):
            a, b = (x.source for x in s.value.args[:2])
            left, right = tiles[a], tiles[b]
            if int(s.value.attrs["transpose_A"]) or left.nz.rows % FRACTAL_ROWS == 1:
                found.add(left)
            if not int(s.value.attrs["transpose_B"]):
                found.add(right)
    return frozenset(found)


def _mixed(body: Stmt, tiles: dict) -> frozenset:
    """The accumulators that gemms of several forms add to."""
    forms: dict = {}
    for s in statements(body):
        if is_op(s, GEMM, ZERO_ACCUMULATOR):
            c = s.value.args[2 if is_op(s, GEMM) else 0]
            sizes, shape = (tuple(const_int(n) for n in x) for x in ([r.extent for r in c.region][1:], list(c.source.ty.shape)[1:]))
            if is_op(s, GEMM) or sizes != shape:  # Zeros of the whole fill the padding, too.
                forms.setdefault(c.source, set()).add((op_name(s), sizes, int(attrs_of(s).get("transpose_B", 0))))
    return frozenset(tiles[b] for b, found in forms.items() if len(found) > 1)


def _block_number(body: Stmt) -> Bind | None:
    """The name of the number of the block that is known in all of a body."""
    return next((s for s in stmts_of(body) if isinstance(s, Bind) and op_name(s.value) == "ascend.get_block_idx"), None)


def _with_block_number(func: PrimFunc) -> PrimFunc:
    """`func` with a name for the number of the block, by which workspaces are told apart, in front of everything: tiles that are worked on in parts, one
    after the other, have one in each."""
    if _block_number(func.body) is not None or not workspaces(func.body):
        return func
    return func.with_body(seq(Bind(Var("block", "int32"), call("ascend.get_block_idx", [], dtype="int32")), func.body))


def _apart(shape: list[int]) -> tuple:
    """Strides of a workspace, whose first dimension numbers versions. Of an odd number of rows the two vector cores have equal shares for all that
    reasons about accesses: the row more than there are must not be one of the next version, which would have to wait."""
    strides = row_major(shape)
    more = max((stride for n, stride in zip(shape[1:-1], strides[1:-1]) if n % 2 and n > 1), default=0)
    return strides[0] + more, *strides[1:]


def _workspaces(func: PrimFunc, declared: list, out: Output) -> tuple[dict, list[int]]:
    """Workspaces (one copy per block) and `alloc_global` buffers (one copy per launch) as GM tensors, and bytes of each for a block."""
    found, nbytes, blocks = {}, [], _blocks(func)
    number = _block_number(func.body)
    for s in declared:
        if scope_of(s.buffer) not in ("global", ""):
            continue
        shape = [const_int(n) for n in s.buffer.ty.shape]
        per_block = "workspace" in s.annotations
        strides = _apart(shape) if per_block else row_major(shape)
        elements = strides[0] * shape[0]
        total = elements * (blocks if per_block else 1)
        flat = decl_buffer([_extent(total)], dtype_of(s.buffer), out.unique(s.buffer.name))
        dtype = dtype_of(_extent(total))
        base = as_dtype(number.var, dtype) * imm(elements, dtype) if per_block else 0
        found[s.buffer] = GmTensor(flat, tuple(shape), strides, base, versioned=per_block)
        size = elements * itemsize(dtype_of(s.buffer))
        nbytes.append(size if per_block else -(-size // blocks))
    return found, nbytes


__all__ = ["lower_tile_ops"]
