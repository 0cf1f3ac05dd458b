"""split_launches: each launch of a kernel becomes a function of its own.

Before:  main(A, B):  W = alloc(global);  k = 2;  for bx in grid(4): W[bx] = A[bx];  for by in grid(8): B[by] = W[by] * k
After:   main_1(A, B, W):  k = 2;  for bx in grid(4): W[bx] = A[bx]
         main_2(A, B, W):  k = 2;  for by in grid(8): B[by] = W[by] * k

Launches run one after the other; what one leaves to the next is in global memory. A workspace that several of them use outlives them all
and becomes a parameter. Scalars in front of a launch are computed again for every later one that needs them; assertions and prints between
launches are done by the next launch, by the last one those at the end.

Requires: Tile IR, first of all passes. Ensures: one grid in each function; a module of functions with the attributes `ascend.launch` and
`ascend.num_shared` if there are several, else the function as it was.
"""

from __future__ import annotations

from ...errors import UnsupportedConstruct, location_of
from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    IRModule,
    PrimFunc,
    Stmt,
    StmtMutator,
    const_int,
    exprs,
    free_vars,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ...ir.functions import LAUNCH, SHARED
from ...ir.grids import Grid, is_grid_axis
from ...tile import ASSUME, VIEW, is_op
from ...tile.uses import is_scalar_var, own_uses, uses_of


def split_launches(func: PrimFunc) -> PrimFunc | IRModule:
    """Apply. Raises `UnsupportedConstruct` for a scalar whose value one launch would have to keep for another, or for all of its blocks."""
    top = stmts_of(func.body)
    grids = [k for k, s in enumerate(top) if is_grid_axis(s)]
    parts = [_statements_of(top, grids, n) for n in range(len(grids))]
    for part in parts:
        _refuse_moving_values(part, _views(top))
    if len(grids) < 2:
        return func
    _refuse_carried_scalars([top[k] for k in grids], parts)
    views = _views(top)
    workspaces = [s.buffer for s in top if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "global" and s.buffer not in views]
    used = [set().union(*map(_names, part)) for part in parts]
    shared = [b for b in workspaces if sum(b in names for names in used) > 1]
    name = str(func.attrs["global_symbol"])
    functions = {}
    for n, part in enumerate(parts):
        body = seq([s for s in part if not (isinstance(s, AllocBuffer) and (s.buffer in shared or s.buffer not in used[n]))])
        attrs = {**dict(func.attrs), "global_symbol": f"{name}_{n + 1}", LAUNCH: n, SHARED: len(shared)}
        functions[f"{name}_{n + 1}"] = PrimFunc([*func.params, *shared], body, span=func.span).with_attr(attrs)
    return IRModule(functions)


def _statements_of(top: list[Stmt], grids: list[int], n: int) -> list[Stmt]:
    """What launch `n` runs: its grid, what stands between it and the one before, and what that needs of earlier statements."""
    begin = grids[n - 1] + 1 if n else 0
    part = top[begin : len(top) if n + 1 == len(grids) else grids[n] + 1]
    needed, views = set().union(*map(_names, part)), _views(top)
    for k in reversed(range(begin)):
        if is_grid_axis(top[k]):
            continue
        again = _ScalarsOnly().visit(top[k])
        if again is None or not (_defined(again) & needed or is_op(again, ASSUME) and _names(again) <= needed):
            continue
        _refuse_old_values(again, top[k + 1 : begin], views)
        part.insert(0, again)
        needed |= _names(again)
    return part


class _ScalarsOnly(StmtMutator):
    """Declarations and work on scalars; what else a statement does was done when an earlier launch ran it."""

    def visit_Evaluate(self, s: Evaluate):
        return s if is_op(s, VIEW, ASSUME) else None

    def visit_BufferStore(self, s: BufferStore):
        return s if is_scalar_var(s.buffer) else None


def _names(s: Stmt) -> set:
    """Variables and buffers a statement uses, those it stores to included."""
    found = set()
    for x in statements(s):
        found |= {v for e in exprs(x) for v in free_vars(e)} | own_uses(x).all
    return found


def _defined(s: Stmt) -> set:
    """Variables and buffers a statement declares or changes."""
    found = set()
    for x in statements(s):
        if isinstance(x, Bind):
            found.add(x.var)
        elif isinstance(x, (AllocBuffer, BufferStore)):
            found.add(x.buffer)
        elif is_op(x, VIEW):
            found.add(x.value.args[0].source)
    return found


def _views(top: list[Stmt]) -> dict:
    """View -> the tensor it shows."""
    found: dict = {}
    for s in (x for part in top for x in statements(part)):
        if is_op(s, VIEW):
            view, source = (r.source for r in s.value.args)
            found[view] = found.get(source, source)
    return found


def _refuse_old_values(s: Stmt, between: list[Stmt], views: dict) -> None:
    """`s` would be computed again after what stands `between`: it must not read what that writes."""
    writer = _writer(s, between, views)
    if writer is not None:
        raise UnsupportedConstruct(
            "this value is read before the tensor changes, and used in a later T.Kernel: scalars do not outlive a launch",
            at=s.span,
            notes=[("the tensor is changed here", location_of(writer.span))],
            hint="read it where it is used, or keep it in a tensor of its own in global memory",
        )


def _refuse_moving_values(part: list[Stmt], views: dict) -> None:
    """Every core computes the scalars around a launch for itself, when others may be far ahead or behind: what it reads must not change meanwhile.
    A single block is one core."""
    (grid,) = (s for s in part if is_grid_axis(s))
    one = all(const_int(n) == 1 for n in Grid.of(grid).extents)
    for s in () if one else part:
        writer = None if s is grid else _writer(s, [grid], views)
        if writer is not None:
            raise UnsupportedConstruct(
                "this value is read outside of a T.Kernel whose blocks change the tensor: what each of them finds depends on which one is first",
                at=s.span,
                notes=[("the tensor is changed here", location_of(writer.span))],
                hint="read it under a `with T.Kernel(1) as _:` of its own, and keep it in a tensor of its own in global memory",
            )


def _writer(s: Stmt, others: list[Stmt], views: dict) -> Stmt | None:
    """The first statement below `others` that changes a tensor of which `s` reads elements."""
    reads = {views.get(b, b) for b in uses_of(s).reads if not is_scalar_var(b)} if not is_op(s, VIEW) else set()
    return next((x for o in others for x in statements(o) if reads & {views.get(b, b) for b in own_uses(x).writes}), None)


def _refuse_carried_scalars(grids: list[Stmt], parts: list[list[Stmt]]) -> None:
    for grid, own in zip(grids, parts):
        outside = {s.buffer for s in own if isinstance(s, AllocBuffer) and is_scalar_var(s.buffer)}
        elsewhere = [x for part in parts for s in part if not s.same_as(grid) for x in statements(s)]
        for s in statements(grid):
            if not isinstance(s, BufferStore) or s.buffer not in outside:
                continue
            reader = next((x for x in elsewhere if s.buffer in own_uses(x).reads), None)
            if reader is not None:
                raise UnsupportedConstruct(
                    f"'{s.buffer.name}' is changed inside of a T.Kernel and used outside of it: every core has scalars of its own, "
                    "which end with the launch",
                    at=s.span,
                    notes=[("it is used here", location_of(reader.span))],
                    hint="store the value in a tensor in global memory, or use a name of its own inside of T.Kernel",
                )


__all__ = ["split_launches"]
