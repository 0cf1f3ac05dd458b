"""Rows of GM tensors chosen by data: ``x[i, j] = W[idx[i], j]`` and ``Y[idx[i], j] = x[i, j]`` as one transfer for each row.

The last index of the access steps through the innermost axis of the nest one by one; the other indices are evaluated by the scalar
unit, row by row. Under a condition all lanes are read. What lies outside of the tensor is not transferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from ....analysis.index.sums import add, as_sum, constant, is_variable, scale
from ....ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    TensorLoad,
    Var,
    as_dtype,
    call,
    const_int,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    itemsize,
    map_children,
    nodes_in,
    op_name,
    reinterpret,
    seq,
    substitute_expr,
    sym,
    tirx,
    walk_expr,
)
from ....isa.units import BLOCK_BYTES
from ...base.tensor_bounds import all_of, unproven
from ...base.tiles import is_tile
from ...base.unsupported import Unsupported
from ...scalar.loops import bound_indices, element_address, is_function
from ..emit.views import offset_by
from ..graph.convert import convert
from ..graph.graph import Node
from .elements import fill_outside, flag_at, load_elements, store_elements

_MAX_ROW_BYTES = 65535
"""Length of one block of a padded transfer that every generation takes (doc: DataCopyPad)."""
LONGEST_ROW = 4096
"""Nodes of what the scalar unit computes for each row with the names of the nest written out; of names of names there is no end."""


@dataclass(eq=False)
class Rows:
    """Rows of `buffer`: its index expressions (in the axis variables of the nest), and the axes over which rows are chosen.
    `single`: what is chosen are elements, not rows."""

    buffer: object
    indices: list
    outer: tuple[int, ...]
    single: bool = False

    def end(self, head):
        """The head address of a tile as the other end of a transfer, which has the dtype of the tensor."""
        return reinterpret(head, dtype_of(self.buffer))

    def axes(self, extents) -> tuple[int, ...]:
        """The axes of the nest along which the access varies."""
        every = self.outer if self.single else (*self.outer, len(extents) - 1)
        return tuple(a for a in every if extents[a] > 1)


def rows_of(exprs, buffer, indices, load: bool) -> Rows:
    """The access as rows, or as elements where it does not step through GM contiguously. Raises `Unsupported` when what chooses them
    changes inside the nest."""
    indices = _chosen(exprs, buffer, indices)
    inner = len(exprs.axes) - 1
    step, mentioned = exprs.split(indices[-1]), {a for i in indices for a in _axes_in(exprs, i)}
    # Where a condition differs between lanes, some of a row may be inside and others not.
    if not _contiguous(exprs, buffer, indices, step) or load and exprs.guarded and not _stays_inside(exprs, buffer, step):
        return Rows(buffer, indices, tuple(sorted(mentioned)), single=True)
    return Rows(buffer, indices, tuple(sorted(mentioned - {inner})))


def _contiguous(exprs, buffer, indices, step) -> bool:
    """True when the last index walks along the innermost axis of the nest, and one transfer takes what it passes. Rows of one element
    have no blocks of their own in tiles."""
    inner, strides = len(exprs.axes) - 1, buffer.strides
    along = (
        exprs.extents[inner] > 1
        and step is not None
        and step[0] == {inner: 1}
        and not any(inner in _axes_in(exprs, i) for i in indices[:-1])
    )
    short = exprs.extents[inner] * itemsize(dtype_of(buffer)) <= _MAX_ROW_BYTES
    return along and short and (not strides or const_int(strides[-1]) == 1)


def _stays_inside(exprs, buffer, step) -> bool:
    """True when rows do not leave the tensor at either end."""
    last = const_int(buffer.ty.shape[-1])
    if last is None or not step[1].terms:
        return last is not None and 0 <= step[1].const <= last - exprs.extents[-1]
    return exprs.lies_between(step[1].expr(), 0, last - exprs.extents[-1] + 1)


def _chosen(exprs, buffer, indices) -> list:
    """`indices` as the scalar unit evaluates them, lane by lane, whatever holds there. Raises `Unsupported` for those that call a function it does not
    have."""
    indices = [_inlined(exprs, i) for i in indices]
    if exprs.guarded or exprs.guarded_alike:
        indices = [_kept_inside(exprs, i) for i in indices]
    called: list = []
    for i in indices:
        walk_expr(i, lambda x: called.append(op_name(x).split(".")[-1]) if is_function(x) else None)
    if called:
        raise Unsupported(
            f"an index of `{buffer.name}` calls {called[0]}, a function of the vector unit", "compute the index in a nest of its own"
        )
    return indices


def _kept_inside(exprs, index):
    """`index` with other elements of tiles for those that lie outside of theirs where a condition does not hold."""
    if is_variable(index):
        return index
    index = map_children(index, lambda x: _kept_inside(exprs, x))
    if not isinstance(index, TensorLoad) or not is_tile(index.source) or exprs.in_bounds(index.source, index.indices):
        return index
    ends = [(imm(0, dtype_of(i)), as_dtype(n, dtype_of(i)) - imm(1, dtype_of(i))) for i, n in zip(index.indices, index.source.ty.shape)]
    return BufferLoad(index.source, [tirx.max(tirx.min(i, last), first) for i, (first, last) in zip(index.indices, ends)])


def _inlined(exprs, index):
    """`index` with the lets of the nest replaced by their values."""
    for _ in range(len(exprs.lets) + 1):
        if any(v in exprs.variables for v in _variables(index)):
            break
        found = [v for v in _variables(index) if v in exprs.env]
        if not found:
            return index
        if any(v not in exprs.lets for v in found):
            break
        index = substitute_expr(index, {v: exprs.lets[v] for v in found})
        if nodes_in(index) > LONGEST_ROW or any(v in exprs.stored for v in _variables(index)):
            break
    raise Unsupported("the row is chosen by a variable that changes inside the nest")


def _variables(e) -> list:
    out: list = []

    def see(x):
        if is_variable(x):
            out.append(x)
        elif isinstance(x, TensorLoad):
            out.append(x.source)

    walk_expr(e, see)
    return out


def _axes_in(exprs, e) -> set:
    return {exprs.axis_of(v) for v in _variables(e) if is_variable(v)} - {None}


def tiles_in(rows: Rows) -> list:
    """Buffers the choice of the rows reads, and the tensor itself."""
    return [rows.buffer, *(v for i in rows.indices for v in _variables(i) if not is_variable(v))]


def load_rows(values, n: Node, want) -> object:
    """The chosen rows or elements, where they are wanted or in a temporary."""
    (rows, axes) = n.attrs
    if rows.single:
        return load_elements(values, n, want)
    wanted = want is not None and _takes_rows(values, n, rows, want)
    out, emitter = want if wanted else values.temporary(n.dtype, n.axes, rows.buffer.name + "_rows"), values.emitter
    bounds = unproven(rows.buffer, rows.indices, values.ctx.analyzer, dict(zip(axes, values.extents)))
    words = (values.span(n.axes) if wanted else const_int(out.buffer.ty.shape[-1])) * itemsize(n.dtype) // 4

    def load(outside: list) -> None:
        _each_row(values, rows, axes, out, lambda at, indices, _: _load_row(values, rows, out, bounds, at, indices, outside))

    if any(b.dim == len(rows.indices) - 1 for b in bounds):
        fill_outside(values, rows.buffer, out, words)
    if not bounds or any(b.dim == len(rows.indices) - 1 for b in bounds):
        load([])
        return out
    # Hardly any row is missing: transfers do not wait for what fills the temporary, unless one is.
    missing, index = decl_buffer((1,), "int32", "missing", scope="local.var"), [imm(0)]
    emitter.out += [AllocBuffer(missing), BufferStore(missing, imm(0), index, span=emitter.span)]
    load([BufferStore(missing, imm(1), index, span=emitter.span)])
    with emitter.block() as again:
        fill_outside(values, rows.buffer, out, words)
        load([])
    emitter.out.append(if_then(BufferLoad(missing, index) > imm(0), seq(again), span=emitter.span))
    return out


def _takes_rows(values, n: Node, rows: Rows, place) -> bool:
    """True if transfers may bring rows to their place in the user's tile: each begins with a block, and they are all that lies there, which does not tell
    where they come from."""
    laid = place.dense and not place.spread and place.base.multiple_of(place.block) and place.strides == values.canonical(n.axes)
    whole = values.span(n.axes) * itemsize(n.dtype) % 4 == 0
    read = [values.ctx.layout(x).buffer for x in tiles_in(rows) if is_tile(x)]
    return laid and whole and place.dtype == n.dtype and itemsize(n.dtype) in (2, 4) and not any(place.buffer.same_as(x) for x in read)


def _load_row(values, rows: Rows, out, bounds: list, at, indices, outside: list) -> None:
    """One row to its place in `out`; the statements `outside` if it is no row of the tensor."""
    emitter, size, count = values.emitter, itemsize(dtype_of(rows.buffer)), values.extents[-1]
    early, unit = _may_begin_early(rows, bounds), BLOCK_BYTES // size
    indices = bound_indices(values.ctx, indices, emitter.out, emitter.span)
    skipped = _in_front(indices[-1], count) if early else imm(0)
    conditions, lanes = _part_inside(rows, bounds, indices, count, skipped)
    if const_int(lanes) is not None and const_int(lanes) <= 0:
        return
    pad: tuple = (0, 0, 0, 0)
    if early:  # Whole blocks in front of the row stay as they are, the rest of them is padding.
        at = add(at, scale(as_sum(tirx.floordiv(skipped, imm(unit))), unit))
        pad = (1, skipped % unit, (imm(0) - lanes - skipped) % unit, 0)
        indices = [*indices[:-1], indices[-1] + as_dtype(skipped, dtype_of(indices[-1]))]
    elif not isinstance(lanes, int):
        pad = (1, 0, (imm(0) - lanes) % unit, 0)
    with emitter.block() as stmts:
        emitter.issue(
            "copy_gm_to_ub", rows.end(out.head(at)), element_address(values.ctx, rows.buffer, indices), 1, lanes * size, 0, 0, *pad
        )
    inside, other = all_of(conditions), seq(outside) if outside else None
    emitter.out += stmts if inside is None else [if_then(inside, seq(stmts), other, span=emitter.span)]


def _may_begin_early(rows: Rows, bounds: list) -> bool:
    """True if rows may begin in front of the first column."""
    return any(b.dim == len(rows.indices) - 1 and b.size is None for b in bounds)


def _in_front(start, count: int):
    """How many of the `count` elements of a row that begins at column `start` lie in front of the first one."""
    zero = imm(0, dtype_of(start))
    return as_dtype(sym.Analyzer().simplify(tirx.min(tirx.max(zero - start, zero), imm(count, dtype_of(start)))), "int32")


def _part_inside(rows: Rows, bounds: list, indices: list, count: int, skipped):
    """(conditions, lanes) of one row without the `skipped` elements in front of the tensor: rows outside of it are left out, rows that
    leave it are cut; both happen in tails."""
    last = len(indices) - 1
    conditions = [b.holds(indices) for b in bounds if b.dim != last]
    if not any(b.dim == last for b in bounds):
        return conditions, count
    start = indices[last]
    room = tirx.min(imm(count, dtype_of(start)), as_dtype(rows.buffer.ty.shape[last], dtype_of(start)) - start)
    room = sym.Analyzer().simplify(as_dtype(room, "int32") - skipped)
    return [*conditions, room > imm(0)], room


def store_rows(values, rows: Rows, axes, value: Node, mask: Node | None, span) -> None:
    """The rows of `value` to their places where `mask` holds; no two rows choose the same."""
    values.emitter.span = span
    bounds = unproven(rows.buffer, rows.indices, values.ctx.analyzer, dict(zip(axes, values.extents)))
    apart = mask is not None and values.extents[-1] > 1 and len(axes) - 1 in mask.axes
    # Transfers start where blocks of UB do: what is left of a row without its first elements does not.
    if rows.single or apart or _may_begin_early(rows, bounds):
        store_elements(values, rows, axes, value, mask, span)
        return
    flags = None if mask is None else values.view(values.added(convert(values.graph, mask, "int32")))
    every = tuple(range(len(values.extents)))
    source = values.expand(value, every) if value.op == "duplicate" else values.linear_operand(value, every, values.span(every))
    size, count = itemsize(source.dtype), values.extents[-1]
    full = Rows(rows.buffer, rows.indices, tuple(a for a in every[:-1] if values.extents[a] > 1))

    def move(at, indices, known):
        indices = bound_indices(values.ctx, indices, values.emitter.out, values.emitter.span)
        conditions, lanes = _part_inside(rows, bounds, indices, count, imm(0))
        if const_int(lanes) is not None and const_int(lanes) <= 0:
            return
        address = element_address(values.ctx, rows.buffer, indices)
        if flags is not None:
            steps = [scale(as_sum(known[axes[a]]), flags.strides[a]) for a in mask.axes]
            conditions = [*conditions, flag_at(values, flags, reduce(add, steps, constant(0)))]
        with values.emitter.block() as stmts:
            values.emitter.issue("copy_ub_to_gm", address, rows.end(source.head(at)), 1, lanes * size, 0, 0)
        values.emitter.out += [if_then(all_of(conditions), seq(stmts), span=span)] if conditions else stmts

    _each_row(values, full, axes, source, move)


def store_scattered(values, target: Rows, axes, value: Node, span) -> None:
    """Every lane to the element of a tile its data chooses, one after the other, in the order of the nest."""
    values.emitter.span = span
    every = tuple(range(len(values.extents)))
    source = values.expand(value, every) if value.op == "duplicate" else values.linear_operand(value, every, values.span(every))
    full = Rows(target.buffer, target.indices, every)

    def move(at, indices, known):
        address = element_address(values.ctx, target.buffer, bound_indices(values.ctx, indices, values.emitter.out, values.emitter.span))
        lane = Var("lane_v", source.dtype)
        values.emitter.out.append(Bind(lane, call("ascend.get_value", [source.head(at)], dtype=source.dtype), span=span))
        values.emitter.issue("set_value", address, lane)

    _each_row(values, full, axes, source, move)


def scattered(exprs, buffer, indices) -> Rows:
    """The elements a store with data in its indices chooses."""
    return Rows(buffer, _chosen(exprs, buffer, indices), ())


def _each_row(values, rows: Rows, axes, view, move) -> None:
    """`move(offset in view, indices in GM, values of the axes)` for every row."""
    real = [a for a in rows.outer if values.extents[a] > 1]

    def nest(k: int, at, known: dict):
        if k < len(real):
            a = real[k]
            step = lambda i: nest(k + 1, add(at, offset_by(i, view.strides[a])), {**known, axes[a]: imm(i) if isinstance(i, int) else i})
            values.emitter.repeat(values.extents[a], step, tl__unordered=1)
            return
        known = {**{v: imm(0) for v in axes}, **known}
        move(at, [substitute_expr(i, known) for i in rows.indices], known)

    nest(0, constant(0), {})


__all__ = ["Rows", "load_rows", "rows_of", "scattered", "store_rows", "store_scattered", "tiles_in"]
