"""`T.Parallel` nests -> vector instructions over whole tiles.

The iterations of a nest are independent, so its body is executed statement by statement for all lanes at once. Each block of
statements is lowered in two steps: first every statement becomes an effect on graph nodes (this finds common sub-expressions and
last uses), then the effects are emitted in order. Loops and lane-invariant conditions inside the nest are blocks of their own;
lane-dependent conditions become masks.

What has no vector form becomes scalar loops with one warning (see parallel_scalar).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import UnsupportedConstruct
from ....ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Range,
    Stmt,
    Var,
    const_int,
    dtype_of,
    exprs,
    if_then,
    is_buffer_var,
    is_noop,
    itemsize,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ....isa.units import BLOCK_BYTES
from ....tile.uses import IN_ORDER, is_output
from ...base.context import VectorContext
from ...base.tensor_bounds import all_of
from ...base.tiles import held_as, is_tile
from ...base.unsupported import Unsupported
from ...scalar.loops import scalar_loops
from ..emit.emitter import Emitter, Unreadable, Unwritable
from ..emit.views import lanes_meet
from ..fold.accumulate import Update, accumulate, fold_dtype, neutral, update_of
from ..graph.convert import convert
from ..graph.fp8 import FORMATS, code
from ..graph.graph import MASK, Graph, Node, in_memory
from ..graph.operations import BITS_OF
from ..schedule.rows import rows_of, scattered, store_rows, store_scattered
from ..schedule.store import store
from ..schedule.values import Values, source
from .columns import lower_last_columns
from .expressions import ExprLowering
from .nest import Nest, read_nest, scalar_vars
from .reach import reach_conditions

_OF_ITS_OWN = "let each iteration have an element of its own"


def lower_parallel(stmt: For, ctx: VectorContext) -> Stmt:
    """Lower one `For PARALLEL` nest whose tile accesses are all in UB to Ascend IR (without addresses and synchronisation)."""
    in_order = stmt.annotations.get(IN_ORDER)
    if in_order is not None:
        ctx.warn(stmt.span, f"this loop over elements runs as scalar loops: {in_order}")
        return scalar_loops(stmt, ctx, str(in_order), lambda value, span: on_one_lane(value, ctx, span))
    try:
        nest = read_nest(stmt)
        if any(n == 0 for n in nest.extents) or not stmts_of(nest.body):
            return seq()  # Conditions that never hold leave nests without statements.
        block = StraightLine(ctx, nest, {}, None)
        lowered = lower_last_columns(nest, ctx, block.exprs)
        return _kept_inside(stmt, nest, ctx, block.lower(stmts_of(nest.body)) if lowered is None else lowered)
    except Unsupported as e:
        reason, hint = e.reason, f"; {e.hint}" if e.hint else ""
    except (Unreadable, Unwritable):
        reason, hint = "a tile access does not start at a 32-byte boundary", "; align the tile slices"
    ctx.warn(stmt.span, f"this loop over elements runs as scalar loops: {reason}{hint}")
    return _one_by_one(stmt, ctx, reason)


def _one_by_one(stmt: For, ctx: VectorContext, reason: str) -> Stmt:
    return scalar_loops(stmt, ctx, reason, lambda value, span: on_one_lane(value, ctx, span))


def _kept_inside(stmt: For, nest: Nest, ctx: VectorContext, lowered: Stmt) -> Stmt:
    """`lowered` where masked stores surely lie inside of their tiles. All lanes are written there, those a condition leaves out with what
    they hold; where some of them may belong to another tile, which only run-time numbers tell, iterations run one by one instead."""
    conditions = reach_conditions(nest, ctx.analyzer)
    if not conditions:
        return lowered
    apart = _one_by_one(renew(stmt), ctx, "a tile may end inside of the nest")
    if any(const_int(c) == 0 for c in conditions):
        return apart
    return if_then(all_of(conditions), lowered, apart, span=stmt.span)


def on_one_lane(value, ctx: VectorContext, span):
    """(operand, statements): a function of scalar expressions computed on the vector unit."""
    block = StraightLine(ctx, Nest([Var("lane", "int32")], (1,), seq(), span), {}, None)
    dtype = dtype_of(value)
    try:
        natural = block.exprs.natural(value)
    except Unsupported as e:
        raise UnsupportedConstruct(e.reason, at=span, hint=e.hint or None) from None
    place = Values(ctx, block.graph, Emitter((1,)), BLOCK_BYTES).temporary(dtype, (0,), "lane")
    result = block.as_stored(natural, dtype)
    block.effects.append(Effect([result], [place.buffer], lambda values: store(values, place, result, span), 0))
    return place.head(), block.emit()


@dataclass
class Effect:
    """One thing a block does, in order. `roots` are the nodes it needs; `writes` the Ascend-level buffers it changes;
    `known` is the number of graph nodes that existed before it, the ones that may still need what it overwrites. `lasts`: it may need its
    roots when it has written already."""

    roots: list
    writes: list
    emit: object
    known: int
    lasts: bool = False


class StraightLine:
    """Lowering of one straight-line list of statements inside a nest.

    env:  Var / mutable-scalar buffer -> Node whose value is available
    mask: lanes in which the statements are executed (None = all)
    variables: per-lane variables that live in a tile, buffer -> View
    """

    def __init__(self, ctx: VectorContext, nest: Nest, env: dict, mask: Node | None, variables=None):
        self.ctx, self.nest, self.env, self.mask = ctx, nest, dict(env), mask
        self.graph = Graph.of(ctx.chip.generation)
        self.exprs = ExprLowering(ctx, self.graph, nest.axes, nest.extents, self.env)
        self.exprs.variables.update(variables or {})
        self.effects: list[Effect] = []
        self.early: set = set()
        """Tiles that an iteration reads before it stores to them."""

    # -- first step: statements to effects ----------------------------------------------------------------------------

    def lower(self, stmts: list[Stmt]) -> Stmt:
        """The instructions of `stmts`."""
        for k, s in enumerate(stmts):
            self.statement(s, stmts[k + 1 :])
        return self.emit()

    def statement(self, s: Stmt, following: list[Stmt]) -> None:
        """Dispatch one statement."""
        s = self.with_elements(s)
        read = {v for x in statements(s) for e in exprs(x) for v in scalar_vars(e) if is_buffer_var(v)}
        self.early |= {b for b in read if b not in self.exprs.stored}
        if isinstance(s, Bind):
            self.bind(s)
        elif isinstance(s, BufferStore):
            self.store(s)
        elif isinstance(s, IfThenElse):
            self.branch(s)
        elif isinstance(s, AllocBuffer) and scope_of(s.buffer) == "local.var":
            self.declare(s.buffer, following)
        elif isinstance(s, For):
            self.nested(s, None)
        elif is_output(s):
            raise Unsupported("it prints or checks its elements one by one")
        elif not (isinstance(s, Evaluate) and is_noop(s)):
            raise Unsupported(f"`{type(s).__name__}` statements have no vector form")

    def with_elements(self, s: Stmt) -> Stmt:
        """`s` with elements of GM that are the same for all lanes, but for those of statements inside of it, in variables."""
        out: list[Stmt] = []

        def bound(e):
            return self.exprs.bound(e, out, s.span, self.exprs.guarded > 0)

        if isinstance(s, Bind):
            new = Bind(s.var, bound(s.value), span=s.span)
        elif isinstance(s, BufferStore):
            new = BufferStore(s.buffer, bound(s.value), [bound(i) for i in s.indices], span=s.span)
        elif isinstance(s, IfThenElse):
            new = IfThenElse(bound(s.condition), s.then_case, s.else_case, span=s.span)
        elif isinstance(s, For):
            new = For(s.loop_var, bound(s.min), bound(s.extent), s.kind, s.body, annotations=dict(s.annotations), span=s.span)
        if not out:
            return s
        self.effects.append(Effect([], [], lambda values: values.emitter.out.extend(out), 0))
        return new

    def bind(self, s: Bind) -> None:
        """A let: lane values wait for their use, scalars are bound here."""
        value = self.exprs.natural(s.value)
        if not value.is_scalar:
            self.env[s.var] = value
            self.exprs.remember(s.var, s.value)
            return
        if value.dtype != dtype_of(s.var):
            value = self.exprs.ops.scalar_cast(value, dtype_of(s.var))

        def emit(values: Values):
            values.emitter.out.append(Bind(s.var, values.scalar(value), span=s.span))

        self.effects.append(Effect([value], [], emit, 0))

    def declare(self, buffer, following: list[Stmt]) -> None:
        """A variable of each lane, which starts at 0: renamed at every store, or kept in a tile when loops or branches inside change it."""
        dtype = dtype_of(buffer)
        if not any(isinstance(s, (For, IfThenElse)) and _mentions(s, buffer) for s in following):
            self.env[buffer] = self.graph.const(0, dtype)
            return
        memory = held_as(dtype)
        axes = tuple(range(len(self.nest.axes)))
        unit = max(self.ctx.pitch_unit, BLOCK_BYTES // itemsize(memory))
        packed = Values(self.ctx, self.graph, Emitter(self.nest.extents), unit)
        place = self.exprs.variables[buffer] = packed.temporary(memory, axes, buffer.name)
        first = next((s for s in following if _mentions(s, buffer)), None)
        if not isinstance(first, BufferStore) or not first.buffer.same_as(buffer) or buffer in scalar_vars(first.value):
            zero, span = self.graph.const(0, memory), self.nest.span
            self.effects.append(Effect([zero], [place.buffer], lambda values: store(values, place, zero, span), len(self.graph)))

    def store(self, s: BufferStore) -> None:
        """A tile store, or an assignment to a variable of the lane."""
        buffer = s.buffer
        if buffer in self.env:
            value = self.exprs.value(s.value)
            self.env[buffer] = self._merged(value, self.exprs.ops.value(self.env[buffer], dtype_of(buffer)))
            return
        if any(b.same_as(buffer) for b in self.exprs.pinned):
            raise Unsupported(f"`{buffer.name}` is stored after rows that depend on it were read", "split the nest")
        if scope_of(buffer) == "local.var" and buffer not in self.exprs.variables:
            raise Unsupported(f"it assigns `{buffer.name}`, a variable that all iterations share", "declare it inside the loop")
        if not is_tile(buffer) and buffer not in self.exprs.variables:
            self.store_rows(s)
            return
        place = self.exprs.variables.get(buffer) or self.exprs.place(buffer, list(s.indices))
        if place is None:
            self.scatter(s)
            return
        missing = tuple(a for a, n in enumerate(self.nest.extents) if n > 1 and not place.strides[a])
        if lanes_meet(self.nest.extents, place.strides):
            raise Unsupported(f"iterations store to overlapping parts of `{buffer.name}`", _OF_ITS_OWN)
        update = update_of(s) if missing else None
        if update is not None:
            self.accumulate(s, place, update, missing)
            return
        if missing and buffer in self.early:
            # One after the other, each would see what the one before it made of the element.
            raise Unsupported(f"several iterations store to the same element of `{buffer.name}` and read it", _OF_ITS_OWN)
        value = self._stored_value(s)
        if self.mask is not None:
            value = self._masked(s, value)
        span, known = s.span, len(self.graph)
        self.effects.append(Effect([value], [place.buffer], lambda values: store(values, place, value, span), known))
        self.exprs.stored[buffer] = self.exprs.stored.get(buffer, 0) + 1

    def store_rows(self, s: BufferStore) -> None:
        """Rows or elements of a GM tensor chosen by data."""
        rows, mask = rows_of(self.exprs, s.buffer, list(s.indices), load=False), self.mask
        value, axes, span = self._stored_lanes(s), self.nest.axes, s.span
        roots = [value] if mask is None else [value, mask]
        emit = lambda values: store_rows(values, rows, axes, value, mask, span)  # noqa: E731
        self.effects.append(Effect(roots, [], emit, len(self.graph)))
        self.exprs.stored[s.buffer] = self.exprs.stored.get(s.buffer, 0) + 1

    def scatter(self, s: BufferStore) -> None:
        """Elements of a tile chosen by data: the values are computed on vectors, the stores are scalar."""
        reason = f"the index of the store to `{s.buffer.name}` is data"
        if self.mask is not None or update_of(s) is not None or dtype_of(s.buffer) == "bool":
            raise Unsupported(reason, "store to an affine index")
        if _reads(self.nest.body, s.buffer):
            # Iterations may share elements: one that reads has to see what those before it, and it itself, have stored.
            raise Unsupported(f"{reason}, and iterations read elements of it", _OF_ITS_OWN)
        target = scattered(self.exprs, s.buffer, list(s.indices))
        value, axes, span = self._stored_lanes(s), self.nest.axes, s.span

        def emit(values: Values):
            store_scattered(values, target, axes, value, span)
            self.ctx.warn(span, f"this statement stores one element at a time: {reason}")

        self.effects.append(Effect([value], [self.ctx.layout(s.buffer).buffer], emit, len(self.graph)))
        self.exprs.stored[s.buffer] = self.exprs.stored.get(s.buffer, 0) + 1

    def accumulate(self, s: BufferStore, place, update: Update, missing: tuple[int, ...]) -> None:
        """Iterations along the axes `missing` update one element together."""
        if _used_besides(self.nest.body, s.buffer, update.operation):
            raise Unsupported(
                f"iterations that share elements of `{s.buffer.name}` update them and use them in other ways",
                _OF_ITS_OWN,
            )
        dtype, ops = dtype_of(s.buffer), self.exprs.ops
        fold_type = fold_dtype(update.operation, dtype)
        old = self.exprs.view_node(place, self.exprs.stored.get(s.buffer, 0))
        # An unsigned maximum is a signed one of values whose top bit is inverted.
        flip = ops.flipped if dtype in BITS_OF and update.operation in ("max", "min") else lambda n: n

        def as_folded(n: Node) -> Node:
            return flip(ops.scalar_cast(n, fold_type) if n.is_scalar else convert(self.graph, n, fold_type))

        old, value = as_folded(old), self.graph.tile(as_folded(self.exprs.value(update.value)))
        if self.mask is not None:
            value = ops.select(self.mask, value, self.graph.const(neutral(update.operation, fold_type, update.negate), fold_type))
        self.fold(s, place, value, old, update, missing, lambda n: self.as_stored(flip(n), dtype))

    def fold(self, s, place, value: Node, old: Node | None, update: Update, missing: tuple[int, ...], finish) -> None:
        """`value` folded along the axes `missing`, joined with `old`, into the place of the store `s`."""

        def emit(values: Values):
            accumulate(values, place, old, value, update, missing, finish, s.span)

        self.effects.append(Effect([value], [place.buffer], emit, len(self.graph)))
        self.exprs.stored[s.buffer] = self.exprs.stored.get(s.buffer, 0) + 1

    def _stored_value(self, s: BufferStore) -> Node:
        """The value in the dtype of the buffer."""
        dtype = dtype_of(s.buffer)
        value = self.exprs.natural(s.value)
        return self.as_stored(value, dtype)

    def _stored_lanes(self, s: BufferStore) -> Node:
        """The value as lanes that can be moved; those of a scalar are made of the bits that are stored."""
        value, dtype = self._stored_value(s), dtype_of(s.buffer)
        bits = code(self.graph, value, dtype) if value.is_scalar and dtype in FORMATS else None
        return self.graph.tile(value) if bits is None else self.graph.reinterpret(bits, dtype)

    def as_stored(self, value: Node, dtype: str) -> Node:
        """`value` in the dtype of the bytes of a tile of `dtype`."""
        memory = held_as(dtype)
        if value.is_scalar:
            return value if value.dtype == memory else self.exprs.ops.scalar_cast(value, memory)
        return convert(self.graph, value, memory)

    def _masked(self, s: BufferStore, value: Node) -> Node:
        """The new value where the mask holds, the old one elsewhere."""
        from ....ir import BufferLoad

        ops, dtype = self.exprs.ops, dtype_of(s.buffer)
        memory = held_as(dtype)
        old = self.as_stored(self.exprs.natural(BufferLoad(s.buffer, list(s.indices))), dtype)
        if memory in ("int8", "uint8"):
            parts = [convert(self.graph, x, "float16") for x in (value, old)]
            return convert(self.graph, ops.select(self.mask, *parts), memory)
        if memory == "bfloat16":
            parts = [self.graph.reinterpret(self.graph.tile(x), "float16") for x in (value, old)]
            return self.graph.reinterpret(ops.select(self.mask, *parts), memory)
        return ops.select(self.mask, value, old)

    def _merged(self, new: Node, old: Node) -> Node:
        return new if self.mask is None else self.exprs.ops.select(self.mask, new, old)

    def branch(self, s: IfThenElse) -> None:
        """A condition: scalar branches stay branches, lane-dependent ones mask the statements below them."""
        cond = self.exprs.condition(s.condition)
        if cond.is_scalar:
            self.nested(s, cond)
            return
        sides = [(s.then_case, cond)]
        if s.else_case is not None:
            sides.append((s.else_case, self.graph.mask_not(cond)))
        outer = self.mask
        for body, m in sides:
            self.mask = m if outer is None else self.graph.mask_binary("and", outer, m)
            stmts = stmts_of(body)
            self.exprs.guarded += 1
            for k, x in enumerate(stmts):
                self.statement(x, stmts[k + 1 :])
            self.exprs.guarded -= 1
        self.mask = outer

    def nested(self, s: Stmt, cond: Node | None) -> None:
        """A loop or a scalar branch: a block of its own that sees the values computed so far."""
        used = {v for x in statements(s) for e in exprs(x) for v in scalar_vars(e)}
        live = {v: n for v, n in self.env.items() if v in used}
        assigned = [x.buffer for x in statements(s) if isinstance(x, BufferStore)]
        self._check_nested(s, assigned)
        variables = self.exprs.variables
        written = list({b: None for b in assigned if is_tile(b) or b in variables})
        roots = [n for n in (*live.values(), self.mask, cond) if n is not None]
        places = [variables[b].buffer if b in variables else self.ctx.layout(b).buffer for b in written]
        mask, early = self.mask, set(self.early)

        def emit(values: Values):
            inner = {v: _outer_value(values, n) for v, n in live.items()}
            inner_mask = None if mask is None else _outer_value(values, mask)

            def block(body: Stmt) -> Stmt:
                nested = StraightLine(self.ctx, self.nest, inner, inner_mask, variables)
                nested.early = set(early)
                # All lanes are read there, too, whatever the mask says.
                nested.exprs.guarded = int(inner_mask is not None)
                return nested.lower(stmts_of(body))

            if isinstance(s, For):
                if self.ctx.analyzer is not None and const_int(s.extent) is not None:
                    self.ctx.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent))
                out = For(s.loop_var, s.min, s.extent, s.kind, block(s.body), annotations=dict(s.annotations), span=s.span)
            else:
                other = block(s.else_case) if s.else_case is not None else None
                out = if_then(values.scalar(cond), block(s.then_case), other, span=s.span)
            values.emitter.out.append(out)

        for b in written:
            self.exprs.stored[b] = self.exprs.stored.get(b, 0) + 1
        self.effects.append(Effect(roots, places, emit, len(self.graph), lasts=True))

    def _check_nested(self, s: Stmt, assigned: list) -> None:
        """Raise unless the loop or branch `s`, which stores to `assigned`, can be a block of its own."""
        if any(scope_of(b) == "local.var" and b not in self.exprs.variables for b in assigned if b in self.env):
            raise Unsupported("a variable that changes inside a loop or branch of the nest")
        if any(p.same_as(b) for p in self.exprs.pinned for b in assigned):
            raise Unsupported("a loop or branch of the nest stores to what chooses rows", "split the nest")
        if isinstance(s, For) and not self.exprs.is_scalar(s.extent):
            raise Unsupported("a loop inside the nest whose trip count differs from lane to lane")

    # -- second step: effects to instructions -------------------------------------------------------------------------

    def emit(self) -> Stmt:
        """Emit the effects in order."""
        emitter = Emitter(self.nest.extents, self.nest.span)
        values = Values(self.ctx, self.graph, emitter, self._pitch_unit(), [r for e in self.effects for r in e.roots])
        for effect in self.effects:
            self._preserve(values, effect)
            effect.emit(values)
            values.consume(effect.roots)
        return seq(emitter.out)

    def _pitch_unit(self) -> int:
        """Rows of temporaries start 32-byte aligned in every dtype of the block, and match the user's tiles where possible."""
        sizes = [itemsize(n.dtype) for n in self.graph.nodes if n.dtype != MASK and not n.is_scalar]
        return max(self.ctx.pitch_unit, BLOCK_BYTES // min([4, *sizes]))

    def _preserve(self, values: Values, effect: Effect) -> None:
        """Before a buffer is overwritten, copy the old values that later effects still need."""
        if not effect.writes or len(self.effects) == 1 and not effect.lasts:
            return
        pending = _pending_uses(effect.roots, values, effect.lasts)
        # Bits a later effect needs may have been named by an earlier one.
        named = [n for n in self.graph.nodes[effect.known :] if n.op == "reinterpret" and n in values.views]
        for n in [*self.graph.nodes[: effect.known], *named]:
            if values.uses[n] <= pending.get(n, 0) or not _touches(values, n, effect.writes):
                continue
            if n.op == "element":
                values.scalar(n)
            elif n.op == "indirect" and n not in values.views:
                values.view(n)
            else:
                values.settle(n, values.expand(n, n.axes))


def _touches(values: Values, n: Node, buffers) -> bool:
    """True when the lanes of `n` lie in one of `buffers`, or are read from there once it is computed."""
    if n.op == "reinterpret" and n not in values.views:
        return _touches(values, n.args[0], buffers)
    view = values.views.get(n) or source(n)
    return view is not None and any(view.buffer.same_as(b) for b in buffers)


def _pending_uses(roots, values: Values, lasting: bool) -> dict:
    """Uses of nodes by what is still to be computed for `roots`; with `lasting` the use of these themselves goes on."""
    uses: dict = {}
    seen: set = set()

    def visit(n: Node):
        if n in seen or n in values.views:
            return
        seen.add(n)
        for a in n.args:
            uses[a] = uses.get(a, 0) + 1
            visit(a)

    for r in roots:
        uses[r] = uses.get(r, 0) + (not lasting)
        visit(r)
    return uses


def _outer_value(values: Values, n: Node) -> Node:
    """A value of the enclosing block as a leaf of an inner block; it stays where it is until the inner block ends."""
    if n.is_scalar:
        return Node("scalar", n.dtype, (), (values.scalar(n),))
    return in_memory(values.view(n), n.axes, n.dtype)


def _used_besides(body: Stmt, buffer, operation: str) -> bool:
    """True if `body` does more with `buffer` than update elements by `operation`. Such iterations mean an element of their
    own, set first and read at the end: together they would see each other's."""
    for s in statements(body):
        if isinstance(s, BufferStore) and s.buffer.same_as(buffer):
            update = update_of(s)
            if update is None or update.operation != operation:
                return True
        elif any(buffer in scalar_vars(e) for e in exprs(s)):
            return True
    return False


def _reads(s: Stmt, buffer) -> bool:
    return any(buffer in scalar_vars(e) for x in statements(s) for e in exprs(x))


def _mentions(s: Stmt, buffer) -> bool:
    return _reads(s, buffer) or any(isinstance(x, BufferStore) and x.buffer.same_as(buffer) for x in statements(s))


__all__ = ["StraightLine", "lower_parallel", "on_one_lane"]
