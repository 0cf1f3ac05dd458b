"""Elements of GM tensors chosen by data, wherever they lie: ``x[i] = W[idx[i]]`` and ``Y[idx[i]] = x[i]``, one transfer for each.

Transfers start at 32-byte boundaries of UB, so every element has a block of its own there. Up to `PART_LANES` elements are spread over
blocks at a time; one gather brings them together, one `brcb` takes them apart.
"""

from __future__ import annotations

import numpy as np

from ....analysis.index.sums import add, constant, scale
from ....ir import Bind, BufferLoad, IntImm, Var, call, dtype_of, if_then, imm, itemsize, reinterpret, seq, substitute_expr
from ....isa.semantics.number import np_dtype
from ....isa.units import BLOCK_BYTES, round_up
from ...base.tensor_bounds import all_of, unproven
from ...base.tiles import memory_dtype
from ...base.unsupported import Unsupported
from ...scalar.loops import bound_indices, element_address
from ..emit.views import View, offset_by
from ..graph.convert import convert
from ..graph.graph import Node
from ..graph.words import words

PART_LANES = 512
"""Elements with a block of their own: 16 KB."""

_BLOCK_WORDS = BLOCK_BYTES // 4
_ODD_WORDS = 0x0202020202020202
"""The second word of every block."""


def load_elements(values, n: Node, want) -> View:
    """A canonical temporary with the chosen elements."""
    rows, axes = n.attrs
    size = itemsize(n.dtype)
    out = values.temporary(n.dtype, n.axes, rows.buffer.name + "_elements")
    lane_parts = _LaneParts(values, n.axes, axes)
    spread = values.temporary_lanes("int32", lane_parts.most * _BLOCK_WORDS, "spread")
    table = _pair_offsets(values, lane_parts.most) if size == 8 else _offsets(values, lane_parts.most)
    wide = values.temporary_lanes("int16", lane_parts.most, "wide") if size == 1 else None
    halves = values.temporary_lanes("float16", lane_parts.most, "halves") if size == 1 else None
    bounds = unproven(rows.buffer, rows.indices, values.ctx.analyzer, lane_parts.extents)

    # What lies behind a byte is read with it.
    padding = (1, 0, BLOCK_BYTES - 1, 0) if size == 1 else (0, 0, 0, 0)

    def move(at, count: int, each) -> None:
        if bounds:
            fill_outside(values, rows.buffer, spread, count * _BLOCK_WORDS)

        def one(k, known):
            indices = [substitute_expr(i, known) for i in rows.indices]
            indices = bound_indices(values.ctx, indices, values.emitter.out, values.emitter.span)
            with values.emitter.block() as stmts:
                place = rows.end(spread.head(offset_by(k, _BLOCK_WORDS)))
                values.emitter.issue("copy_gm_to_ub", place, element_address(values.ctx, rows.buffer, indices), 1, size, 0, 0, *padding)
            inside = all_of(b.holds(indices) for b in bounds)
            values.emitter.out += stmts if inside is None else [if_then(inside, seq(stmts), span=values.emitter.span)]

        each(one)
        _together(values, out, at, spread, table, (wide, halves), count)

    lane_parts.run(out.strides, move)
    return out


def outside_word(ctx, buffer) -> int:
    """The 32-bit word, repeated, that elements outside of a GM tensor are. Raises `Unsupported` if these take two different words."""
    bits = np.repeat(np.array(ctx.outside(buffer)).astype(np_dtype(memory_dtype(buffer))), 4).view(np.int32)
    if len(set(bits[: itemsize(dtype_of(buffer)) // 4 or 1].tolist())) > 1:
        raise Unsupported(f"elements outside of `{buffer.name}` read as a number of two different words")
    return int(bits[0])


def fill_outside(values, buffer, out: View, words: int) -> None:
    """All `words` words of a temporary, which elements of a tensor are about to reach, are what lies outside of it."""
    values.emitter.issue("duplicate", reinterpret(out.head(), "int32"), outside_word(values.ctx, buffer), words)


def _together(values, out: View, at, spread: View, table: View, scratch, count: int) -> None:
    """The first lanes of `count` blocks side by side."""
    issue, size = values.emitter.issue, itemsize(out.dtype)
    if size == 8:
        issue("gather", out.word(0).head(scale(at, 2)), spread.head(), table.head(), 0, 2 * count)
    elif size in (2, 4):
        source = reinterpret(spread.head(), out.dtype) if size == 4 else _as_halfwords(spread, out.dtype)
        issue("gather", out.head(at), source, table.head(), 0, count)
    else:  # a byte and what lies behind it, which shifts remove
        wide, halves = scratch
        issue("gather", wide.head(), _as_halfwords(spread, "int16"), table.head(), 0, count)
        issue("shift_left", wide.head(), wide.head(), 8, count)
        shifted = wide if out.dtype == "int8" else wide.retyped("uint16")
        issue("shift_right", shifted.head(), shifted.head(), 8, count)
        issue("cast", halves.head(), wide.head(), count, round="rint")
        narrow = out if out.dtype == "int8" else out.retyped("uint8")
        issue("cast", narrow.head(at), halves.head(), count, round="trunc")


def _as_halfwords(spread: View, dtype: str):
    return reinterpret(BufferLoad(spread.buffer, [imm(0), imm(0)]), dtype)


def _offsets(values, lanes: int) -> View:
    """Byte offsets of `lanes` blocks."""
    table = values.temporary_lanes("int32", lanes, "table")
    values.emitter.issue("create_vec_index", table.head(), 0, lanes)
    values.emitter.issue("muls", table.head(), table.head(), BLOCK_BYTES, lanes)
    return table.retyped("uint32")


def _pair_offsets(values, lanes: int) -> View:
    """Byte offsets of the first two words of `lanes` blocks: 32 * (i / 2) + 4 * (i % 2) = 14 * (2 * (i / 2)) + 4 * i."""
    table, even = (values.temporary_lanes("int32", 2 * lanes, name) for name in ("table", "even"))
    issue = values.emitter.issue
    issue("create_vec_index", table.head(), 0, 2 * lanes)
    issue("shift_right", even.head(), table.head(), 1, 2 * lanes)
    issue("muls", even.head(), even.head(), BLOCK_BYTES - 8, 2 * lanes)
    issue("muls", table.head(), table.head(), 4, 2 * lanes)
    issue("add", table.head(), table.head(), even.head(), 2 * lanes)
    return table.retyped("uint32")


def store_elements(values, rows, axes, value: Node, mask: Node | None, span) -> None:
    """The lanes of `value` (in the dtype of memory) to their places where `mask` holds; no two choose the same."""
    values.emitter.span = span
    every, size = tuple(range(len(values.extents))), itemsize(value.dtype)
    parts = _parts(values, value, size)
    sources = [values.linear_operand(p, every, values.span(every)) for p in parts]
    flags = None if mask is None else values.linear_operand(values.added(convert(values.graph, mask, "int32")), every, values.span(every))
    lane_parts = _LaneParts(values, every, axes)
    spread = [
        values.temporary_lanes(s.dtype, round_up(lane_parts.most, 16) * (BLOCK_BYTES // itemsize(s.dtype)), "spread") for s in sources
    ]
    bounds = unproven(rows.buffer, rows.indices, values.ctx.analyzer, lane_parts.extents)

    def move(at, count: int, each) -> None:
        repeats = round_up(count, 8) // 8
        for out, source in zip(spread, sources):
            values.emitter.issue("brcb", out.head(), source.head(at), repeats, 1, 8)
        if len(spread) == 2:
            low, high = (v.head() for v in spread)
            values.emitter.issue("copy_mask", low, high, IntImm("int64", 0), IntImm("int64", _ODD_WORDS), repeats, 1, 1, 8, 8)

        def one(k, known):
            flag = None if flags is None else flag_at(values, flags, add(at, offset_by(k, 1)))
            with values.emitter.block() as stmts:
                indices = [substitute_expr(i, known) for i in rows.indices]
                indices = bound_indices(values.ctx, indices, values.emitter.out, span)
                with values.emitter.block() as moved:
                    head = rows.end(spread[0].head(offset_by(k, spread[0].block)))
                    values.emitter.issue("copy_ub_to_gm", element_address(values.ctx, rows.buffer, indices), head, 1, size, 0, 0)
                inside = all_of(b.holds(indices) for b in bounds)
                values.emitter.out += moved if inside is None else [if_then(inside, seq(moved), span=span)]
            values.emitter.out += stmts if flag is None else [if_then(flag, seq(stmts), span=span)]

        each(one)

    lane_parts.run(sources[0].strides, move)


def flag_at(values, flags: View, at):
    """True where a lane of `flags` (int32) is set, read by the scalar unit."""
    flag = Var("flag", "int32")
    values.emitter.out.append(Bind(flag, call("ascend.get_value", [flags.head(at)], dtype="int32"), span=values.emitter.span))
    return flag != imm(0)


def _parts(values, value: Node, size: int) -> list[Node]:
    """What `brcb` can take apart: bytes as 16-bit lanes, whose first byte they are, and pairs as words."""
    if size == 8:
        return [values.added(values.graph.tile(w)) for w in words(values.graph, value)]
    if size == 1:
        byte = value if value.dtype in ("int8", "uint8") else values.graph.reinterpret(value, "uint8")
        value = convert(values.graph, byte, "int16")
        return [values.added(value)]
    return [value]


class _LaneParts:
    """The lanes over some axes of the nest, up to `PART_LANES` neighbours along the innermost of them at a time."""

    def __init__(self, values, lanes, axes):
        self.values = values
        self.variables = axes
        self.real = [a for a in lanes if values.extents[a] > 1]
        self.width = values.extents[self.real[-1]] if self.real else 1
        self.most = min(self.width, PART_LANES)
        self.extents = dict(zip(axes, values.extents))

    def run(self, strides, move) -> None:
        """`move(offset of the first lane, count, each)` for every part; ``each(f)`` calls ``f(k, values of the axes)`` for its lanes."""
        emitter, variables = self.values.emitter, self.variables

        def lanes(at, first, count: int, known: dict):
            def each(one):
                def lane(k):
                    inner = {variables[self.real[-1]]: _index(first, k)} if self.real else {}
                    one(k, {**{v: imm(0) for v in variables}, **known, **inner})

                emitter.repeat(count, lane, cost=2, tl__unordered=1)

            move(at, count, each)

        def nest(k: int, at, known: dict):
            if k < len(self.real) - 1:
                a = self.real[k]
                step = lambda i: nest(k + 1, add(at, offset_by(i, strides[a])), {**known, variables[a]: _index(0, i)})  # noqa: E731
                emitter.repeat(self.values.extents[a], step, cost=8, tl__unordered=1)
                return
            whole, rest = divmod(self.width, PART_LANES)
            if whole:
                emitter.repeat(
                    whole, lambda c: lanes(add(at, offset_by(c, PART_LANES)), _times(c), PART_LANES, known), cost=8, tl__unordered=1
                )
            if rest:
                lanes(add(at, constant(whole * PART_LANES)), imm(whole * PART_LANES), rest, known)

        nest(0, constant(0), {})


def _times(part):
    return imm(part * PART_LANES) if isinstance(part, int) else part * imm(PART_LANES)


def _index(first, k):
    """`first + k` as an expression."""
    k = imm(k) if isinstance(k, int) else k
    return k if isinstance(first, int) else first + k


__all__ = ["fill_outside", "flag_at", "load_elements", "outside_word", "store_elements"]
