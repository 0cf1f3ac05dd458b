"""The builder: collects Tile IR statements, region by region, while a kernel is traced.

A *region* is a list of statements that will become one body: of the function, of a loop, of one side of an `if`.
Run-time control flow opens a region; compile-time control flow is just Python running. `Builder.current()` is the
builder of this thread.
"""

from __future__ import annotations

from typing import Any

from ..errors import KernelSyntaxError, Location, ScopeError
from ..ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    IntImm,
    Span,
    Var,
    as_expr,
    decl_buffer,
    seq,
    tirx,
)
from .block_scalars import own_scalars
from .evaluation import Evaluations
from .grid_barriers import split_at_barriers
from .locations import span_of, user_frame, user_location
from .long_indices import long_indices
from .scopes import check_outside, check_scopes
from .values import Restart, ScalarVar
from .values import active as _active


class Region:
    """One body under construction. `kind`: func, grid, loop, parallel, branch, while."""

    def __init__(self, kind: str, parent: Region | None, where: Location | None):
        self.kind, self.parent, self.where = kind, parent, where
        self.stmts: list = []
        self.opened = 0  # time of its first statement, and reads from before that it uses (see `evaluation`)
        self.older_reads: list = []
        self.is_part = False  # of an expression
        self.carried: dict[str, Any] = {}  # names read at the head of the next iteration, with their non-scalar values

    def inside(self, kind: str) -> bool:
        """True if this region or one around it is of `kind`."""
        region: Region | None = self
        while region is not None:
            if region.kind == kind:
                return True
            region = region.parent
        return False


class Builder:
    """State of one trace. `facts` survives restarts: what an earlier attempt learned (see `Restart`)."""

    def __init__(self, facts: dict | None = None):
        self.facts = {} if facts is None else facts
        self.evaluations = Evaluations(self, user_frame)
        self.region = self.root = Region("func", None, None)
        self.names: dict[str, int] = {}
        self.pending: list[tuple] = [()]
        self.hints: list[str] = []
        self.threads: Any = None
        self.safe_values: list[tuple] = []  # (tensor, number its outside reads as)
        self.containers: dict[int, tuple] = {}  # Python containers by identity, with the region that made them
        self.grids = 0
        self.grid: tuple[list, list] = ([], [])  # block indices and extents of the launch being traced
        self.lets: dict = {}  # immutable variable -> its value
        self.outputs: list = []  # buffers made by T.empty, in order
        self.loops: list = []
        self.cleanups: list[int] = []  # for each `try` with a `finally` around this place: how many loops are around that
        self.scalars: list = []  # scalar parameters
        self.nested: list = []  # (loop, depth): parallel loops that stand inside of others
        self.calls: list[Location | None] = []  # where the traced functions being executed were called
        self.function_regions: list[Region] = []
        self.eager: Any = None  # the EagerTrace this builder serves, if any

    # --- activation --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Builder:
        self._outer = getattr(_active, "builder", None)
        _active.builder = self
        return self

    def __exit__(self, *_exc) -> None:
        _active.builder = self._outer

    @staticmethod
    def active() -> Builder | None:
        """The builder of this thread, None outside a kernel."""
        return getattr(_active, "builder", None)

    @staticmethod
    def current(what: str = "this") -> Builder:
        """The builder of this thread; an error naming `what` outside a kernel."""
        builder = getattr(_active, "builder", None)
        if builder is None:
            raise KernelSyntaxError(
                f"{what} can only be used inside a kernel",
                hint="call it in a function decorated with @T.prim_func or @tilelang.jit",
            )
        return builder

    # --- statements --------------------------------------------------------------------------------------------------

    def emit(self, stmt) -> None:
        """Append a statement to the current region."""
        self.evaluations.statement(stmt)
        self.region.stmts.append(stmt)

    def span(self) -> Span | None:
        """Span of the user's current position."""
        return span_of(user_location())

    def push(self, kind: str, where: Location | None = None) -> Region:
        """Open a region."""
        self.region = Region(kind, self.region, where or user_location())
        self.region.opened = self.evaluations.tick()
        return self.region

    def pop(self, region: Region):
        """Close `region` and return its statements as one."""
        assert self.region is region, f"region {self.region.kind} closed as {region.kind}"
        self.region = region.parent
        self.evaluations.close(region)
        return seq(region.stmts)

    def unique(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, … if it is taken."""
        count = self.names.get(name)
        if count is None:
            self.names[name] = 0
            return name
        while True:
            count += 1
            candidate = f"{name}_{count}"
            if candidate not in self.names:
                self.names[name] = count
                self.names[candidate] = 0
                return candidate

    def trail(self) -> tuple:
        """How the trace got here: call sites and iterations of unrolled loops (one line may be traced many times)."""
        return (*self.calls, *(loop.rounds for loop in self.loops if not loop.runtime))

    def hinted_name(self, default: str) -> str:
        """Name for a new buffer: the Python name it is being assigned to, else `default`."""
        names = self.pending[-1]
        if len(names) > 1:
            self.pending[-1] = names[1:]
        return self.unique(names[0] if names else default)

    # --- values ------------------------------------------------------------------------------------------------------

    def let(self, name: str, value):
        """`name = value` as an immutable variable."""
        if name == "_":
            name = "v"
        var = Var(self.unique(name), value.ty)
        self.emit(Bind(var, value, span=self.span()))
        self.lets[var] = value
        return var

    def alloc(self, shape, dtype: str, scope: str, name: str, annotations: dict | None = None, region: Region | None = None):
        """Allocate a buffer in the current region (or an enclosing one)."""
        from .annotations import known_to_kernels

        buffer = decl_buffer(list(shape), known_to_kernels(str(dtype)), name, scope=scope)
        stmt = AllocBuffer(buffer, annotations=annotations, span=self.span())
        self.evaluations.statement(stmt)
        (region or self.region).stmts.append(stmt)
        return buffer

    def store(self, buffer, value, indices) -> None:
        """Element store; `value` must already have the dtype of the buffer."""
        self.emit(BufferStore(buffer, value, [as_expr(i) for i in indices], span=self.span()))

    # --- mutable scalars ---------------------------------------------------------------------------------------------

    def implicit_var(self, name: str, key: tuple) -> ScalarVar:
        """A name that becomes loop-carried; its buffer is made by the first `set_scalar`."""
        return ScalarVar(name, self.region, implicit=True, key=key)

    def materialise(self, var: ScalarVar, dtype: str) -> None:
        """Allocate the buffer of an implicit variable where the variable lives."""
        dtype = self.facts.get(var.key, dtype)
        var.buffer = self.alloc((1,), dtype, "local.var", self.unique(var.name), region=var.owner)

    def widen(self, var: ScalarVar, dtype: str) -> None:
        """Start again with a wider implicit variable."""
        self.facts[var.key] = dtype
        raise Restart

    def finish(self, where: Location | None, params=()):
        """The body of the function with these parameters."""
        assert self.region is self.root, "a region was left open"
        self.evaluations.finish()
        body = long_indices(own_scalars(split_at_barriers(seq(self.root.stmts))))
        check_scopes(body, where, params)
        check_outside(body)
        return body


def index_var(name: str) -> Var:
    """A loop variable."""
    return Var(name, "int32")


def unreadable(name: str, value) -> ScopeError:
    """The error for reading a name that holds an `Unavailable`."""
    notes = [("it is assigned here", value.where)] if value.where else []
    return ScopeError(f"'{name}' cannot be read here: {value.reason}", notes=notes, hint=value.hint)


def constant(expr) -> int | float | bool | None:
    """Python value of a constant expression, else None."""
    if isinstance(expr, (bool, int, float)):
        return expr
    if isinstance(expr, IntImm):
        return bool(expr.value) if str(expr.ty.dtype) == "bool" else int(expr.value)
    if isinstance(expr, tirx.FloatImm):
        return float(expr.value)
    return None
