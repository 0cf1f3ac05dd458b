"""Evaluation of graph nodes: where each value lies, which instruction makes it, when a temporary can be reused in place.

Values vary along some axes of the nest and live in the *canonical layout* of these axes: row-major with padded rows, the layout
of whole tiles, so that operations on whole tiles are single count-form instructions. Loads are views, no instruction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ....analysis.index.sums import add, constant
from ....ir import Bind, call, itemsize
from ....isa.units import MAX_REPEAT, REPEAT_BYTES, round_up
from ...base.context import VectorContext, pitched_strides
from ...base.unsupported import Unsupported
from ..emit.emitter import Emitter, Unreadable
from ..emit.masks import broadcast_mask
from ..emit.pair import copy_pair
from ..emit.views import View, linear_span
from ..graph.fp8 import FORMATS
from ..graph.graph import Graph, Node, in_memory
from .nodes import ALIASES, HANDLERS, elementwise


class Values:
    """Values of the nodes of one straight-line block, computed on demand into `emitter`. `roots`: what will be asked for, and how often."""

    def __init__(self, ctx: VectorContext, graph: Graph, emitter: Emitter, pitch_unit: int, roots=()):
        self.ctx, self.graph, self.emitter = ctx, graph, emitter
        self.extents = emitter.extents
        self.uses = uses_of(roots)
        """Uses of nodes that are still to come."""
        self.pitch_unit = pitch_unit
        self.views: dict[Node, View] = {}
        self.spreads: dict[Node, View] = {}
        self.tables: dict = {}
        """Tables of offsets that belong to no node: lanes -> offsets that interleave the words of as many pairs; (lanes, factor, plus) ->
        multiples of the lane numbers."""
        self.residents: dict = {}
        """Temporary buffer -> nodes whose value lies in it."""
        self.bound: set = set()
        self._own: set = set()

    # -- layouts and temporaries --------------------------------------------------------------------------------------

    def canonical(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Strides (for every axis of the nest) of a value that varies along `axes`."""
        real = [a for a in axes if self.extents[a] > 1]
        packed = pitched_strides(tuple(self.extents[a] for a in real), self.pitch_unit)
        strides = dict(zip(real, packed))
        return tuple(strides.get(a, 0) for a in range(len(self.extents)))

    def span(self, axes: tuple[int, ...]) -> int:
        """Lanes from the first to the last of a canonical value."""
        return linear_span(self.extents, self.canonical(axes), axes)

    def temporary(self, dtype: str, axes: tuple[int, ...], name: str) -> View:
        """A new tile for a value along `axes`."""
        elements = round_up(self.span(axes), REPEAT_BYTES // itemsize(dtype))
        return self._view(self.ctx.new_temp(dtype, elements, name), self.canonical(axes), dtype)

    def _view(self, buffer, strides, dtype: str, spread: bool = False) -> View:
        self._own.add(buffer)
        return View(buffer, 0, constant(0), strides, dtype, dense=True, spread=spread)

    def temporary_lanes(self, dtype: str, lanes: int, name: str) -> View:
        """A new buffer of some lanes that belong to no axis."""
        buffer = self.ctx.new_temp(dtype, round_up(lanes, REPEAT_BYTES // itemsize(dtype)), name)
        return View(buffer, 0, constant(0), (0,) * len(self.extents), dtype)

    def mask_temporary(self, axes: tuple[int, ...]) -> View:
        """A new bit mask for lanes along `axes` (one bit for each lane of the canonical layout)."""
        lanes = round_up(self.span(axes), REPEAT_BYTES)
        return self._view(self.ctx.new_temp("uint8", lanes // 8, "mask"), self.canonical(axes), "uint8")

    # -- scalars ------------------------------------------------------------------------------------------------------

    def scalar(self, n: Node):
        """The expression of a scalar node; elements read from tiles are bound to their variables first."""
        for e in (n, *n.args):
            if e.op == "element" and e not in self.bound:
                self.bound.add(e)
                var, place = e.attrs
                value = call("ascend.get_value", [place.head()], dtype=e.dtype)
                self.emitter.out.append(Bind(var, value, span=self.emitter.span))
        return self.graph.scalar_expr(n)

    # -- operands -----------------------------------------------------------------------------------------------------

    def view(self, n: Node) -> View:
        """Where the value of `n` lies (computed on first use)."""
        if n not in self.views:
            self.evaluate(n)
        return self.views[n]

    def operand(self, n: Node, axes: tuple[int, ...]) -> View:
        """`n` as an operand of an operation along `axes`, spread when it lacks the innermost of them."""
        inner = [a for a in axes if self.extents[a] > 1][-1:]
        if inner and inner[0] not in n.axes:
            return self.spread(n)
        return self.view(n)

    def spread(self, n: Node, place: View | None = None) -> View:
        """`n` with each lane filling a 32-byte block, to be read with block stride 0; in a tile of such blocks, `place`, if there is one."""
        if place is not None:
            return self._brcb(n, place)
        if n not in self.spreads:
            self.spreads[n] = self._scalar_block(n) if n.op == "duplicate" else self._brcb(n)
        return self.spreads[n]

    def _scalar_block(self, n: Node) -> View:
        return replace(self.view(n), spread=True, strides=(0,) * len(self.extents))

    def _brcb(self, n: Node, place: View | None = None) -> View:
        source, low = self._from_lowest(n, self.view(n))
        lanes = linear_span(self.extents, source.strides, n.axes)
        unit = [source.strides[a] for a in n.axes if self.extents[a] > 1][-1:] in ([], [1])
        unit = unit and (place is None or lanes == self.span(n.axes))
        if not (unit and source.base.multiple_of(source.block) and lanes <= 2 * self.span(n.axes)):
            source, low = self.realign(n), 0
            lanes = self.span(n.axes)
        repeats = round_up(lanes, 8) // 8
        strides = tuple(s * source.block for s in source.strides)
        if place is None:
            buffer = self.ctx.new_temp(n.dtype, repeats * 8 * source.block, "spread")
            out = View(buffer, 0, constant(0), strides, n.dtype, spread=True)
        else:
            out = replace(place, spread=True)
        # Eight elements of 16 bits are half a block: an even number of repeats keeps the next head aligned.
        group = MAX_REPEAT - 1
        for start in range(0, repeats, group):
            heads = [out.head(constant(start * 8 * source.block)), source.head(constant(start * 8))]
            self.emitter.issue("brcb", *heads, min(group, repeats - start), 1, 8)
        return replace(out, base=constant(-low * source.block))

    def _from_lowest(self, n: Node, view: View) -> tuple[View, int]:
        """`view` with its lane of the lowest address as the base, and where that lies against the old base: backward axes end there."""
        low = sum(min(view.strides[a], 0) * (self.extents[a] - 1) for a in n.axes)
        return replace(view, base=add(view.base, constant(low))), low

    def realign(self, n: Node) -> View:
        """`n` copied to a canonical temporary by a gather (its present place cannot be addressed by vector instructions)."""
        from ..emit.gather import gather_view

        if n.dtype == "int64":
            view = self.temporary(n.dtype, n.axes, "aligned")
            copy_pair(self, view, n, n.axes)
        else:
            view = gather_view(self, self.view(n), n.axes)
        self.settle(n, view)
        return view

    def linear_operand(self, n: Node, axes: tuple[int, ...], lanes: int) -> View:
        """`n` over `axes` in the canonical layout, with at least `lanes` readable lanes."""
        if n.op == "duplicate":
            return self._full_constant(n, axes)
        v = self.view(n)
        same = all(v.strides[a] == s for a, s in enumerate(self.canonical(axes)) if self.extents[a] > 1 and a in axes)
        if same and v.base.multiple_of(v.block) and not v.spread and self._readable(v) >= lanes:
            return v
        return self.expand(n, axes)

    def _full_constant(self, n: Node, axes) -> View:
        """A constant in every lane over `axes`, made once."""
        key = (n, tuple(axes))
        if key not in self.spreads:
            self.spreads[key] = self.expand(n, axes)
        return self.spreads[key]

    def _readable(self, v: View) -> int:
        """Lanes from the head of `v` to the end of its buffer version (at least the view itself)."""
        exact = linear_span(self.extents, v.strides, range(len(self.extents)))
        if v.base.terms:
            return exact
        return max(exact, int(v.buffer.ty.shape[1]) - v.base.const)

    def expand(self, n: Node, axes: tuple[int, ...]) -> View:
        """`n` copied (and broadcast) to a canonical temporary over `axes`."""
        out = self.temporary(n.dtype, axes, "full")
        self.copy(out, n, axes)
        return out

    def copy(self, out: View, n: Node, axes: tuple[int, ...]) -> None:
        """`out` = `n` over `axes`, lane by lane. Raises `Unwritable` when `out` cannot be addressed."""
        if itemsize(n.dtype) not in (2, 4):
            self._copy_other(out, n, axes)
        elif n.op == "duplicate":
            self._run("duplicate", out, (), axes, (n.args[0],))
        else:
            self._run("copy", out, (n,), axes)

    def _copy_other(self, out: View, n: Node, axes) -> None:
        """8-bit values travel as float16 (8-bit floats as bytes, too), 64-bit values as words."""
        if n.dtype == "int64":
            copy_pair(self, out, n, axes)
            return
        if itemsize(n.dtype) != 1:
            raise Unsupported(f"{n.dtype} values cannot be moved lane by lane")
        if n.dtype in FORMATS:
            out, n = out.retyped("uint8"), in_memory(self.view(n).retyped("uint8"), n.axes)
        scalar = n.op == "duplicate"
        wide = self.added(
            self.graph.tile(self.graph.scalar_cast(n.args[0], "float16")) if scalar else self.graph.cast(n, "float16", "none")
        )
        self._run("cast", out, (wide,), axes, round="trunc")

    def mask_operand(self, m: Node, axes) -> View:
        """A mask over `axes`, broadcast when it varies along fewer of them."""
        real = [a for a in axes if self.extents[a] > 1]
        if all(a in m.axes for a in real):
            return self.view(m)
        key = (m, tuple(real))
        if key not in self.spreads:
            self.spreads[key] = broadcast_mask(self, m, axes)
        return self.spreads[key]

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, n: Node, want: View | None = None) -> View:
        """Compute `n`, into `want` when given and possible."""
        assert not n.is_scalar, n
        handler = HANDLERS.get(n.op, elementwise)
        view = handler(self, n, want)
        if n.op not in ALIASES:
            self._forget(view.buffer)
        self.settle(n, view)
        return view

    def _forget(self, buffer) -> None:
        """A buffer was overwritten: values that lay in it (and were not needed any more) are gone."""
        for n in [n for n in self.residents.get(buffer, ()) if self.uses[n] <= 0]:
            self.residents[buffer].discard(n)
            self.views.pop(n, None)

    def added(self, n: Node) -> Node:
        """Account for one more use of a node, found during emission."""
        if n not in self.views and self.uses[n] == 0 and not n.is_scalar:
            for a in n.args:
                self.added(a)
        self.uses[n] += 1
        return n

    def settle(self, n: Node, view: View) -> None:
        """`n` lies in `view` from now on, and what names its bits does."""
        self.views[n] = view
        self.residents.setdefault(view.buffer, set()).add(n)
        for other in [x for x in self.views if x.op == "reinterpret" and x.args[0] is n]:
            self.settle(other, view.retyped(other.dtype))

    def consume(self, args) -> None:
        """Note that one use of each node of `args` is over."""
        for a in args:
            self.uses[a] -= 1

    def reusable(self, n: Node, args, dtype: str) -> View | None:
        """A temporary of `args` that nobody needs any more and that fits the result of `n`."""
        for a in args:
            v = self.views.get(a)
            # Numbers of lanes can be made in front of loops, if nothing else lies in their place.
            if v is None or a.op in ("load", "iota") or v.dtype != dtype and itemsize(v.dtype) != itemsize(dtype):
                continue
            if v.strides == self.canonical(n.axes) and v.buffer in self._own and self._dead(v.buffer):
                return v.retyped(dtype)
        return None

    def _dead(self, buffer) -> bool:
        return all(self.uses[n] <= 0 for n in self.residents.get(buffer, ()))

    def destination(self, n: Node, args, want: View | None, name: str) -> View:
        """Where to put the result of `n`: the wanted place, a dead operand, or a new temporary."""
        if want is not None and want.dtype == n.dtype:
            return want
        return self.reusable(n, args, n.dtype) or self.temporary(n.dtype, n.axes, name)

    def chain(self, n: Node, args, want: View | None, lanes: bool = False) -> None:
        """Evaluate the operands of `n`; one of them may use the final destination as scratch space. With `lanes` the operation
        reads canonical tiles: constants are made in that form only."""
        for k, a in enumerate(args):
            if a in self.views or lanes and a.op == "duplicate":
                continue
            others = [x for i, x in enumerate(args) if i != k] + [x for x in n.args if x.is_scalar]
            fits = (
                want is not None and self.uses[a] == 1 and a.dtype == want.dtype and a.axes == n.axes
                and not any(self._reads(x, want.buffer) for x in others)
            )  # fmt: skip
            self.evaluate(a, want if fits else None)
            want = None if fits else want

    def _reads(self, n: Node, buffer) -> bool:
        """True when evaluating `n`, as far as it has not been, reads `buffer`."""
        left, seen = [n], {n}
        while left:
            n = left.pop()
            if n in self.views:
                if self.views[n].buffer.same_as(buffer):
                    return True
                continue
            place = None if n in self.bound else source(n)
            if place is not None and place.buffer.same_as(buffer):
                return True
            more = [a for a in n.args if a not in seen]
            seen.update(more)
            left += more
        return False

    def _run(self, name: str, out: View, args, axes, scalars=(), **attrs) -> None:
        """Emit an instruction; operands it cannot address are realigned once."""
        scalars = [self.scalar(s) for s in scalars]
        for _ in range(len(args) + 1):
            views = [out, *(self.operand(a, axes) for a in args)]
            try:
                self.emitter.run(name, views, axes, scalars, **attrs)
                return
            except Unreadable as e:
                self.realign(args[e.index])
        raise AssertionError(f"{name}: operands stay unreadable")


_SOURCE = {"load": 0, "indirect": 0, "element": 1}
"""Which attribute of a node is the view of a tile it reads."""


def source(n: Node) -> View | None:
    """The lanes of a tile that evaluating `n` reads."""
    return n.attrs[_SOURCE[n.op]] if n.op in _SOURCE else None


def uses_of(roots) -> Counter:
    """How often every node reachable from `roots` is used; a root is used once."""
    uses: Counter = Counter()
    found: set = set()

    def visit(n: Node):
        if n in found:
            return
        found.add(n)
        for a in n.args:
            uses[a] += 1
            visit(a)

    for r in roots:
        uses[r] += 1
        visit(r)
    return uses
