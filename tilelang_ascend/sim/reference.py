"""Reference interpreter of Tile IR: what a kernel means, in plain NumPy.

`run(func, *tensors_and_scalars)` executes a `PrimFunc` of Tile IR on NumPy arrays, in place, blocks in grid order. Any stage between
the front end and the lowering of tile ops runs: placed, mapped to cores, divided between the vector cores, versioned. It shares no code
with the passes, so it can judge each of them (`sim/validate.py`).

Rules (docs/ir.md, section 1): on-chip memory starts without a value (NaN, integers: a pattern), elements of GM outside a tensor
read as zero in tile operations and are not written, and are an error in element accesses; arithmetic happens in the
dtype of the expression, functions such as exp in float64 rounded once; gemm and sums accumulate in float32 (integers:
int32) and are rounded once.

Iterations of a `Parallel` nest run side by side as arrays. Where two of them touch an element that one of them writes, what was done is
taken back and they run one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable

import numpy as np

from ..analysis.index.safe_values import safe_values
from ..analysis.tiles.core_kinds import CUBE_SCOPES
from ..ir import (
    AllocBuffer,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    exprs,
    is_buffer_var,
    op_name,
    scope_of,
    seq,
    statements,
    structural_equal,
    walk_expr,
)
from ..tile import ASSUME, COPY, TABLE, is_op
from ..tile.uses import COUNT, is_atomic, is_element_atomic, is_scalar_var, uses_of
from .reference_expr import Slots
from .reference_memory import Conflict, Env, InterpreterError, Memory, NotHere, Scalar, Trace, declare
from .reference_numbers import BINARY, convert, numpy_dtype, poison
from .reference_ops import SEMANTICS

Run = Callable[[list], None]
"""A statement: runs on each of several cores, which go through the program side by side."""


class Budget:
    """Limit of the work of a run, in elements touched; None: no limit."""

    def __init__(self, elements: int | None = None):
        self.left = elements

    def spend(self, elements: int) -> None:
        """Raise `TooMuchWork` when the limit is passed."""
        if self.left is not None:
            self.left -= elements
            if self.left < 0:
                raise TooMuchWork


class TooMuchWork(Exception):
    """A run was given up because it takes too long."""


class Result:
    """What a run did besides changing the arrays.

    tensors: parameter name -> its `Memory`. undefined: spans of statements that branched or chose an element by a value that does not
    exist. output: what the program printed. stores: (span, buffer name, digest) of every statement, if asked for. exponent_error: see `Slots`.
    """

    def __init__(self):
        self.tensors: dict[str, Memory] = {}
        self.undefined: list = []
        self.output: list[str] = []
        self.stores: list[tuple] | None = None
        self.exponent_error = 0.0


def run(func, *args) -> Result:
    """Execute `func`; `args` are its parameters in order: arrays (changed in place) and numbers. What it prints appears."""
    result = execute(func, args)
    print("".join(result.output), end="")
    return result


def execute(
    func,
    args,
    versions: bool = False,
    budget: int | None = None,
    log: bool = False,
    clipped: bool = False,
    sizes: dict | None = None,
    known: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Result:
    """Like `run`, for any stage.

    Args:
        versions: tiles have a leading dimension of copies.
        budget: elements the run may touch.
        log: fill `Result.stores`.
        clipped: elements outside of tensors read as zero and are not written, as compiled kernels do; otherwise they are errors.
        sizes: values of shape variables that no argument has as a whole dimension.
        known: name of a tensor -> which of its elements have a value, where not all have.

    Raises:
        InterpreterError: the program breaks a rule of Tile IR; the message has the user's line.
        TooMuchWork: more than `budget` elements were touched.
    """
    params = list(func.params)
    if len(args) != len(params):
        raise InterpreterError(f"{len(params)} parameters, {len(args)} arguments")
    result = Result()
    result.stores = [] if log else None
    program = _Program(result, versions, Budget(budget))
    outside = safe_values(func)
    start = [program.slots(p) for p in params]
    dims: dict = {**packed_sizes(func, args), **(sizes or {})}
    for p, a in zip(params, args):
        if is_buffer_var(p):
            _bind_shape(p, a, dims)
            defined = known[p.name].copy() if p.name in known else None
            result.tensors[p.name] = Memory(
                p.name, a, defined, np.zeros(a.shape, np.int32), on_chip=False, outside=outside.get(p, 0), clipped=clipped
            )
    shape_slots = [(program.slots(d), n) for d, n in dims.items()]
    kinds = program.kinds = _core_kinds(func.body)
    program.crossed = {b for s in statements(func.body) if _crosses(s) for b in _mentioned(s) if scope_of(b) in CUBE_SCOPES}
    body = program.stmt(func.body)
    blocks = int(func.attrs["ascend.block_dim"]) if func.attrs and "ascend.block_dim" in func.attrs else 1
    for block in range(blocks):
        envs: list[Env] = []
        for cube, sub in kinds:
            env = Env([None] * (len(program.slots.of) + 1), block, sub, cube, not cube or len(kinds) == 1)
            for slot, p, a in zip(start, params, args):
                env.values[slot] = result.tensors[p.name] if is_buffer_var(p) else _number(p, a)
            for slot, n in shape_slots:
                env.values[slot] = n
            envs.append(env)
        with np.errstate(all="ignore"):
            body(envs)
    result.exponent_error = program.slots.exponent_error
    return result


def packed_sizes(func, args) -> dict:
    """Shape variable -> its value, of those that count numbers of which two are a byte of the tensor."""
    found = {}
    for k, _, padding in func.attrs.get("tl.nibbles", []) if func.attrs else ():
        last = getattr(func.params[int(k)].ty.shape[-1], "a", None) if is_buffer_var(func.params[int(k)]) else None
        if isinstance(last, Var) and int(padding) != 1:
            found[last] = 2 * args[int(k)].shape[-1]
    return found


def _number(p, value):
    dtype = numpy_dtype(dtype_of(p))
    return convert(value, dtype)


def _core_kinds(body) -> list[tuple[bool, int]]:
    """(cube core?, number of the vector core) of the cores that run the body: one that does everything, until it knows of vector cores."""
    found = []
    for s in statements(body):
        for e in exprs(s):
            walk_expr(e, lambda x: found.append(1) if op_name(x) == "ascend.get_sub_block_idx" else None)
    return [(True, 0), (False, 0), (False, 1)] if found else [(True, 0)]


def _bind_shape(buffer, array, dims: dict) -> None:
    if array.dtype != numpy_dtype(buffer.ty.dtype) or array.ndim != len(buffer.ty.shape):
        raise InterpreterError(f"{buffer.name}: {array.dtype} of rank {array.ndim} for {buffer.ty.dtype} of rank {len(buffer.ty.shape)}")
    for dim, size in zip(buffer.ty.shape, array.shape):
        if const_int(dim) is None and type(dim).__name__ == "Var":
            if dims.setdefault(dim, int(size)) != size:
                raise InterpreterError(f"{dim.name} is {dims[dim]} and {size}")
        elif const_int(dim) is not None and const_int(dim) != size:
            raise InterpreterError(f"{buffer.name} has shape {array.shape}")


def located(error: InterpreterError, span) -> InterpreterError:
    """The error with the user's line in front, once."""
    if not getattr(error, "located", False) and span is not None:
        error = type(error)(f"{span.source_name.name}:{span.line}: {error}")
        error.located = True
    return error


class _Scalars(StmtMutator):
    """What a nest does to variables: all there is to it on a core that has none of its tiles."""

    def visit_For(self, s: For):
        return For(s.loop_var, s.min, s.annotations.get(COUNT, s.extent), ForKind.SERIAL, self.block(s.body), span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return s if scope_of(s.buffer) == "local.var" else None

    def visit_Evaluate(self, s: Evaluate):
        return None


@dataclass(frozen=True)
class _Nest:
    """Independent iterations. Slots of the loop variables; `one` runs one iteration, `lanes` many at once (None where output or tile ops have
    an order); slots of what they write."""

    slots: list
    one: Run
    lanes: Callable | None
    written: list

    def one_by_one(self, env: Env, sizes: list) -> None:
        """Run `sizes` iterations along the axes, one after the other."""
        for index in np.ndindex(*sizes):
            inner = env.fork(0)
            for slot, i in zip(self.slots, index):
                inner.values[slot] = i
            self.one([inner])

    def side_by_side(self, env: Env, sizes: list, serial: int | None) -> bool:
        """All iterations at once, or for each index of the axis `serial` those of the other axes; False, and nothing has happened, if some of
        them depend on each other."""
        undo: list = []
        parallel = [d for d in range(len(sizes)) if d != serial]
        free = tuple(sizes[d] for d in parallel)
        grids = dict(zip(parallel, _grids(free)))
        try:
            for k in range(1 if serial is None else sizes[serial]):
                inner = env.fork(int(np.prod(free)))
                inner.undo = undo
                inner.trace = {m: Trace(m) for m in (inner.values[w] for w in self.written) if isinstance(m, Memory)}
                for d, slot in enumerate(self.slots):
                    inner.values[slot] = k if d == serial else grids[d]
                self.lanes(inner)
        except Conflict:
            for memory, *before in reversed(undo):
                memory.restore(*before)
            return False
        return True


class _Program:
    """Builds functions that run statements.

    Outside of nests a statement runs on a list of cores (`stmt`); in a nest it runs for all lanes of one core (`lanes`).
    """

    def __init__(self, result: Result, versions: bool, budget: Budget):
        self.slots, self.result, self.versions, self.budget = Slots(), result, versions, budget
        self.kinds: list = []
        """As `_core_kinds` gives them."""
        self.combined: set = set()
        """Buffers that the present nest only combines values into."""
        self.sequential: set = set()
        """Slots of loop variables of nests whose iterations depend on each other."""
        self.crossed: set = set()
        """Tiles of the cube core that copies from or to tiles of vector cores use: these see them, too."""

    # --- statements on cores -----------------------------------------------------------------------------------------

    def stmt(self, s) -> Run:
        """The statement as a function of the cores that run it."""
        return getattr(self, "_" + type(s).__name__)(s)

    def _SeqStmt(self, s) -> Run:
        parts = [self.stmt(x) for x in s.seq]

        def run(envs):
            for part in parts:
                part(envs)
                if any(env.exit for env in envs):
                    envs = [env for env in envs if not env.exit]
                    if not envs:
                        return

        return run

    def _For(self, s) -> Run:
        if s.kind == ForKind.PARALLEL:
            return self._nest(s)
        slot, first, extent = self.slots(s.loop_var), self.slots.expr(s.min), self.slots.expr(s.extent)
        body, span, skip = self.stmt(s.body), s.span, self._sides(s)

        able = self._able(s)

        def run(envs):
            envs = able(skip(envs), extent)
            bounds = {env: (int(self.value(env, first, span)), int(self.value(env, extent, span))) for env in envs}
            for i in range(max((n for _, n in bounds.values()), default=0)):
                now = [env for env in envs if i < bounds[env][1]]
                for env in now:
                    env.values[slot] = bounds[env][0] + i
                body(now)
                self.budget.spend(1)
                envs = _after_iteration(envs)
                if not envs:
                    return

        return run

    def _While(self, s) -> Run:
        condition, body, span, skip = self.slots.expr(s.condition), self.stmt(s.body), s.span, self._sides(s)

        able = self._able(s)

        def run(envs):
            envs = able(skip(envs), condition)
            while True:
                envs = [env for env in envs if self.value(env, condition, span)]
                if not envs:
                    return
                body(envs)
                self.budget.spend(1)
                envs = _after_iteration(envs)

        return run

    def _IfThenElse(self, s) -> Run:
        condition, then, span, skip = self.slots.expr(s.condition), self.stmt(s.then_case), s.span, self._sides(s)
        other = self.stmt(s.else_case) if s.else_case is not None else None

        able = self._able(s)

        def run(envs):
            envs = able(skip(envs), condition)
            taken = [bool(self.value(env, condition, span)) for env in envs]
            yes, no = ([env for env, t in zip(envs, taken) if t is side] for side in (True, False))
            if yes:
                then(yes)
            if no and other is not None:
                other(no)

        return run

    def _Break(self, s) -> Run:
        return lambda envs: _leave(envs, "break")

    def _Continue(self, s) -> Run:
        return lambda envs: _leave(envs, "continue")

    def _Bind(self, s) -> Run:
        slot, value, span, skip = self.slots(s.var), self.slots.expr(s.value), s.span, self._sides(s)

        def run(envs):
            here = skip(envs)
            for env in envs:
                env.undefined = False
                try:
                    env.values[slot] = self.checked(value, env, span) if env in here else None
                except NotHere:
                    env.values[slot] = None

        return run

    def _AllocBuffer(self, s) -> Run:
        slot, dtype, name = self.slots(s.buffer), dtype_of(s.buffer), s.buffer.name
        if scope_of(s.buffer) == "local.var":

            def variable(envs):
                for env in envs:
                    env.values[slot] = Scalar(numpy_dtype(dtype), env)

            return variable
        dims, skip = [self.slots.expr(d) for d in s.buffer.ty.shape], self._sides(s)
        shared = scope_of(s.buffer) == "global"
        versions = self.versions and (not shared or "workspace" in s.annotations)

        def memory(env):
            shape = tuple(int(d(env)) for d in dims)
            return declare(name, shape, dtype, on_chip=not shared, versions=versions)

        everywhere = shared or s.buffer in self.crossed

        def run(envs):
            common = memory(envs[0]) if everywhere else None
            for env in envs if everywhere else skip(envs):
                env.values[slot] = common or memory(env)

        return run

    def _BufferStore(self, s) -> Run:
        slot, value, span, skip = self.slots(s.buffer), self.slots.expr(s.value), s.span, self._sides(s)
        if scope_of(s.buffer) == "local.var":

            def assign(envs):
                here = skip(envs)
                for env in envs:
                    env.undefined = False
                    memory = self.memory(env, slot, span)
                    if env not in here:
                        memory.lose()
                        continue
                    try:
                        memory.store(env, convert(self.checked(value, env, span), memory.dtype))
                    except NotHere:
                        memory.lose()

            return assign
        indices = [self.slots.expr(i) for i in s.indices]

        def run(envs):
            for env in skip(envs):
                at = [self.value(env, i, span) for i in indices]
                env.undefined = False
                found = self.checked(value, env, span)
                memory = self.memory(env, slot, span)
                self.guarded(span, memory.store, env, at, found)
                self.note(span, memory, lambda: np.asarray(memory.data[tuple(at)]))

        return run

    def _Evaluate(self, s) -> Run:
        if op_name(s) is None:
            return lambda envs: None
        build = self.semantics(s)
        skip, span = self._sides(s), s.span
        operation = build(self, s)

        def run(envs):
            for env in skip(envs):
                env.undefined = False
                self.guarded(span, operation, env)

        return run

    # --- a nest ------------------------------------------------------------------------------------------------------

    def _nest(self, s) -> Run:
        loops, body = [], s
        while isinstance(body, For) and body.kind == ForKind.PARALLEL:
            loops.append(body)
            body = body.body
        extents = [self.slots.expr(x.annotations.get(COUNT, x.extent)) for x in loops]
        slots, one = [self.slots(x.loop_var) for x in loops], self.stmt(body)
        self.combined = _combined(body)
        apart, lanes = self._in_lanes(body)
        written = [self.slots(b) for b in _written(body) if b not in self.combined]
        nest = _Nest(slots, one, None if apart else lanes, written)
        span, skip = s.span, self._sides(s)
        changed = uses_of(s).writes - {x.buffer for x in statements(body) if isinstance(x, AllocBuffer)}
        scalars = self.stmt(seq(_Scalars()(s))) if len(self.kinds) > 1 and any(map(is_scalar_var, changed)) else None

        def run(envs):
            here = skip(envs)
            if scalars is not None:
                scalars([env for env in envs if env not in here])
            for env in here:
                sizes = [int(self.value(env, e, span)) for e in extents]
                if all(n > 0 for n in sizes):
                    self.budget.spend(int(np.prod(sizes)))
                    if not self._at_once(nest, env, sizes):
                        nest.one_by_one(env, sizes)
                    elif self.result.stores is not None:
                        self._note_written(nest, env, span)

        return run

    def _at_once(self, nest: _Nest, env, sizes: list) -> bool:
        """Run all iterations together, or where they depend on each other those along the other axes for each index of one; False, and
        nothing has happened, if that is not possible. What was not once is not tried again."""
        if nest.lanes is None:
            return False
        first = nest.slots[0]
        if first not in self.sequential:
            if nest.side_by_side(env, sizes, None):
                return True
            self.sequential.add(first)
        # What depends along one axis may be independent along the others.
        axes = [d for d, n in enumerate(sizes) if len(sizes) > 1 and n < np.prod(sizes)]
        for serial in sorted(axes, key=lambda d: sizes[d]):
            if (first, serial) in self.sequential:
                continue
            if nest.side_by_side(env, sizes, serial):
                return True
            self.sequential.add((first, serial))
        return False

    def _note_written(self, nest: _Nest, env, span) -> None:
        for w in nest.written:
            if isinstance(env.values[w], Memory):
                self.note(span, env.values[w], lambda m=env.values[w]: m.data)

    def _in_lanes(self, body) -> tuple[bool, Callable]:
        """(must iterations run one after the other?, the body for all lanes). Output and tile ops have an order."""
        updated = {s.value.args[0].source for s in statements(body) if is_atomic(s)}
        for s in statements(body):
            if op_name(s) is not None and not is_element_atomic(s):
                return True, None
            if isinstance(s, AllocBuffer) and scope_of(s.buffer) != "local.var":
                return True, None
            if isinstance(s, For) and s.kind == ForKind.PARALLEL:
                return True, None
            touched = {s.buffer} if isinstance(s, BufferStore) else set()
            for e in exprs(s):
                if op_name(s) is None:
                    walk_expr(e, lambda x: touched.add(x.source) if isinstance(x, TensorLoad) else None)
                else:
                    for a in e.args[1:]:
                        walk_expr(a, lambda x: touched.add(x.source) if isinstance(x, TensorLoad) else None)
            if touched & updated:
                return True, None
        return False, self.lanes(body)

    def lanes(self, s) -> Callable:
        """The statement as a function of an `Env` with lanes. It returns the lanes that are left at a break or continue."""
        return getattr(self, "_lanes_" + type(s).__name__)(s)

    def _lanes_SeqStmt(self, s) -> Callable:
        parts = [self.lanes(x) for x in s.seq]

        def run(env):
            outer = env.mask
            for part in parts:
                part(env)
                if env.exit is not None:
                    gone = env.exit[0] | env.exit[1]
                    env.mask = ~gone if outer is None else outer & ~gone
                    if not env.mask.any():
                        break
            env.mask = outer

        return run

    def _lanes_For(self, s) -> Callable:
        slot, first, extent, body = self.slots(s.loop_var), self.slots.expr(s.min), self.slots.expr(s.extent), self.lanes(s.body)
        span = s.span

        def run(env):
            low, count = self.value(env, first, span), self.value(env, extent, span)
            outer, left = env.mask, env.exit
            gone = np.zeros(env.lanes, bool)
            active = count if env.mask is None or not np.ndim(count) else np.where(env.mask, count, 0)
            for i in range(int(np.max(active))):
                self.budget.spend(env.lanes)
                alive = ~gone & (i < np.asarray(count))
                alive = alive if outer is None else alive & outer
                if not alive.any():
                    break
                env.mask = None if alive.all() else alive
                env.values[slot] = low + i
                env.exit = None
                body(env)
                if env.exit is not None:
                    gone |= env.exit[0]
            env.mask, env.exit = outer, left

        return run

    def _lanes_While(self, s) -> Callable:
        condition, body, span = self.slots.expr(s.condition), self.lanes(s.body), s.span

        def run(env):
            outer, left = env.mask, env.exit
            alive = np.ones(env.lanes, bool) if outer is None else outer
            while True:
                self.budget.spend(env.lanes)
                env.mask = alive
                alive = alive & np.asarray(self.value(env, condition, span))
                if not alive.any():
                    break
                env.mask, env.exit = alive, None
                body(env)
                if env.exit is not None:
                    alive = alive & ~env.exit[0]
                    if not alive.any():
                        break
            env.mask, env.exit = outer, left

        return run

    def _lanes_IfThenElse(self, s) -> Callable:
        condition, then, span = self.slots.expr(s.condition), self.lanes(s.then_case), s.span
        other = self.lanes(s.else_case) if s.else_case is not None else None

        def run(env):
            c = self.value(env, condition, span)
            if not np.ndim(c):
                if c:
                    then(env)
                elif other is not None:
                    other(env)
                return
            outer = env.mask
            for where, side in ((c, then), (~c, other)):
                active = where if outer is None else where & outer
                if side is not None and active.any():
                    env.mask = active
                    side(env)
            env.mask = outer

        return run

    def _lanes_Break(self, s) -> Callable:
        return lambda env: _leave_lanes(env, 0)

    def _lanes_Continue(self, s) -> Callable:
        return lambda env: _leave_lanes(env, 1)

    def _lanes_Bind(self, s) -> Callable:
        slot, value, span = self.slots(s.var), self.slots.expr(s.value), s.span

        def run(env):
            env.undefined = False
            found = self.checked(value, env, span)
            if env.mask is None or env.values[slot] is None:
                env.values[slot] = found
            else:
                env.values[slot] = np.where(env.mask, found, env.values[slot])

        return run

    def _lanes_AllocBuffer(self, s) -> Callable:
        slot, dtype = self.slots(s.buffer), numpy_dtype(dtype_of(s.buffer))

        def run(env):
            env.values[slot] = Scalar(dtype, env)

        return run

    def _lanes_BufferStore(self, s) -> Callable:
        slot, value, span = self.slots(s.buffer), self.slots.expr(s.value), s.span
        scalar, indices = scope_of(s.buffer) == "local.var", [self.slots.expr(i) for i in s.indices]
        if s.buffer in self.combined:
            return self._lanes_combine(s, slot, indices)

        def run(env):
            at = [] if scalar else [self.value(env, i, span) for i in indices]
            env.undefined = False
            found = self.checked(value, env, span)
            memory = self.memory(env, slot, span)
            if scalar:
                found = convert(found, memory.dtype)
                found = found.astype(np.int64) if np.ndim(found) and found.dtype.kind in "iu" and found.itemsize < 8 else found
                memory.store(env, found)
            else:
                self.guarded(span, memory.store, env, at, found)

        return run

    def _lanes_combine(self, s, slot: int, indices: list) -> Callable:
        """`b[…] = b[…] op value`, which several lanes may do to one element."""
        function, value, span = BINARY[type(s.value).__name__], self.slots.expr(s.value.b), s.span

        def run(env):
            at = [self.value(env, i, span) for i in indices]
            env.undefined = False
            found = self.checked(value, env, span)
            self.guarded(span, self.memory(env, slot, span).update, env, at, found, function)

        return run

    def _lanes_Evaluate(self, s) -> Callable:
        if op_name(s) is None:
            return lambda env: None
        operation, span = self.semantics(s)(self, s), s.span

        def run(env):
            env.undefined = False
            self.guarded(span, operation, env)

        return run

    # --- help --------------------------------------------------------------------------------------------------------

    @staticmethod
    def semantics(s) -> Callable:
        """What a tile op means."""
        record = TABLE.get(op_name(s))
        if record is None:
            raise InterpreterError(f"unknown operation {op_name(s)}")
        return SEMANTICS[record]

    def _sides(self, s) -> Callable:
        """The cores among some that run a statement, by the memories it mentions itself: all, until cores are told apart."""
        if _crosses(s):
            # Its region depends on the number of the vector core, whoever does it.
            return lambda envs: [env for env in envs if env.vector]
        scopes = {scope_of(b) for b in _mentioned(s)}
        cube = any(x in CUBE_SCOPES for x in scopes)
        common = not cube and not any(x.startswith(("shared", "local.fragment")) for x in scopes)
        # Plain scalar work and control flow happen on every core; whatever touches a tensor has one place.
        control = not isinstance(s, (BufferStore, Evaluate)) and not (isinstance(s, For) and s.kind == ForKind.PARALLEL)
        if common and (control or (isinstance(s, BufferStore) and scope_of(s.buffer) == "local.var")):
            return lambda envs: envs
        if common and is_op(s, ASSUME):
            return lambda envs: envs
        return lambda envs: [env for env in envs if (env.cube if cube else env.vector)]

    def _able(self, s) -> Callable:
        """The cores among some that can tell what a condition or bound is. One that cannot has no work below `s`, and does not know the
        scalars it would have set."""
        below = [x for x in statements(s) if isinstance(x, (BufferStore, Evaluate)) and not _is_noop(x)]
        variables = [self.slots(x.buffer) for x in below if isinstance(x, BufferStore) and scope_of(x.buffer) == "local.var"]
        work = [x for x in below if not (isinstance(x, BufferStore) and scope_of(x.buffer) == "local.var")]
        cube = any(scope_of(b) in CUBE_SCOPES for x in work for b in _mentioned(x))
        vector = any(_crosses(x) or not any(scope_of(b) in CUBE_SCOPES for b in _mentioned(x)) for x in work)

        def able(envs, function):
            out = []
            for env in envs:
                try:
                    self.value(env, function, s.span)
                except NotHere:
                    if env.cube and cube or env.vector and vector:
                        raise
                    for slot in variables:
                        if isinstance(env.values[slot], Scalar):
                            env.values[slot].lose()
                else:
                    out.append(env)
            return out

        return able if len(self.kinds) > 1 else lambda envs, function: envs

    def value(self, env: Env, function, span):
        """A value that decides something: an index, an extent, a condition. It must exist."""
        env.undefined = False
        value = self.checked(function, env, span)
        if env.undefined is not False:
            self.result.undefined.append(span)
            env.undefined = False
        return value

    @staticmethod
    def checked(function, env: Env, span):
        """`function(env)`, errors with the user's line."""
        try:
            return function(env)
        except InterpreterError as error:
            raise located(error, span) from None

    @staticmethod
    def guarded(span, function, *args) -> None:
        """`function(*args)`, errors with the user's line."""
        try:
            function(*args)
        except InterpreterError as error:
            raise located(error, span) from None

    def memory(self, env: Env, slot: int, span):
        """What is in a slot that has to hold a buffer."""
        found = env.values[slot]
        if found is None:
            raise located(InterpreterError("a buffer that is not declared on this core"), span)
        return found

    def note(self, span, memory: Memory, contents: Callable) -> None:
        """Remember what a statement left in a buffer."""
        if self.result.stores is not None and isinstance(memory, Memory):
            values = contents()
            values = values[0] if memory.versions and values.ndim == memory.data.ndim else values
            self.result.stores.append((span, memory.name, np.shape(values), np.ascontiguousarray(values).tobytes()))


def _crosses(s) -> bool:
    """True for a copy between tiles of the two kinds of core."""
    scopes = {scope_of(b) for b in _mentioned(s)} if is_op(s, COPY) else set()
    return not scopes.isdisjoint(CUBE_SCOPES) and "shared.ub" in scopes


def _is_noop(s) -> bool:
    return isinstance(s, Evaluate) and op_name(s) is None


def _grids(sizes: tuple) -> list:
    """Values of the variables of a nest, one array each."""
    return [g.reshape(-1) for g in np.indices(sizes)] if sizes else []


def _written(body) -> list:
    """Buffers that a nest stores to."""
    return list(dict.fromkeys(s.buffer for s in statements(body) if isinstance(s, BufferStore) and scope_of(s.buffer) != "local.var"))


_COMMUTING = ("Add", "Max", "Min")


def _combined(body) -> set:
    """Buffers of which a nest only replaces elements by the element `op` something, with one `op`: the order does not matter."""
    ops: dict = {}
    loads: dict = {}
    for s in statements(body):
        for e in exprs(s):
            walk_expr(e, lambda x: loads.update({x.source: loads.get(x.source, 0) + 1}) if isinstance(x, TensorLoad) else None)
        if not isinstance(s, BufferStore) or scope_of(s.buffer) == "local.var":
            continue
        kind, old = type(s.value).__name__, getattr(s.value, "a", None)
        same = kind in _COMMUTING and isinstance(old, TensorLoad) and old.source.same_as(s.buffer)
        same = same and all(map(structural_equal, old.indices, s.indices))
        ops.setdefault(s.buffer, []).append(kind if same else None)
    return {b for b, kinds in ops.items() if None not in kinds and len(set(kinds)) == 1 and loads.get(b) == len(kinds)}


def _mentioned(s) -> set:
    """Buffers a statement touches itself; a nest with everything in it."""
    whole = isinstance(s, For) and s.kind == ForKind.PARALLEL
    found: set = set()

    def see(x):
        if isinstance(x, (TensorLoad, TensorRegion)):
            found.add(x.source)

    for x in statements(s) if whole else [s]:
        for e in exprs(x):
            walk_expr(e, see)
        if isinstance(x, BufferStore):
            found.add(x.buffer)
        if isinstance(x, AllocBuffer):
            found.add(x.buffer)
    return found


def _leave(envs: list, how: str) -> None:
    for env in envs:
        env.exit = how


def _leave_lanes(env: Env, how: int) -> None:
    """Active lanes are left by break (0) or continue (1)."""
    if env.exit is None:
        env.exit = [np.zeros(env.lanes, bool), np.zeros(env.lanes, bool)]
    env.exit[how] = env.exit[how] | (np.ones(env.lanes, bool) if env.mask is None else env.mask)


def _after_iteration(envs: list) -> list:
    """The cores that go on with the next iteration."""
    stay = [env for env in envs if env.exit != "break"]
    for env in envs:
        env.exit = None
    return stay


__all__ = ["InterpreterError", "Result", "TooMuchWork", "convert", "execute", "numpy_dtype", "poison", "run"]
