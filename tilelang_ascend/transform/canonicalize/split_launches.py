"""split_launches: each launch of a kernel becomes a function of its own.

Before:  main(A, B):  W = alloc(global);  k = 2;  for bx in grid(4): W[bx] = A[bx];  for by in grid(8): B[by] = W[by] * k
After:   main_1(A, B, W):  k = 2;  for bx in grid(4): W[bx] = A[bx]
         main_2(A, B, W):  k = 2;  for by in grid(8): B[by] = W[by] * k

Launches run one after the other; what one leaves to the next is in global memory. A workspace that several of them use outlives them all
and becomes a parameter. Scalars in front of a launch are computed again for every one after it; other statements between launches belong
to the next launch, those at the end to the last.

Requires: Tile IR, first of all passes. Ensures: one grid in each function; a module of functions with the attributes `ascend.launch` and
`ascend.num_shared` if there are several, else the function as it was.
"""

from __future__ import annotations

from ...errors import UnsupportedConstruct, location_of
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferStore,
    Continue,
    For,
    IfThenElse,
    IRModule,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ...ir.functions import LAUNCH, SHARED
from ...ir.grids import is_grid_axis
from ...tile import ASSUME, VIEW, is_op
from ...tile.uses import is_scalar_var, own_uses, uses_of

_HARMLESS = (AllocBuffer, Bind, Break, Continue, For, IfThenElse, SeqStmt, While)


def split_launches(func: PrimFunc) -> PrimFunc | IRModule:
    """Apply. Raises `UnsupportedConstruct` for a scalar that one launch changes and another one uses."""
    top = stmts_of(func.body)
    grids = [k for k, s in enumerate(top) if is_grid_axis(s)]
    if len(grids) < 2:
        return func
    parts = [_statements_of(top, grids, n) for n in range(len(grids))]
    _refuse_carried_scalars([top[k] for k in grids], parts)
    views = {s.value.args[0].source for s in top if is_op(s, VIEW)}
    workspaces = [s.buffer for s in top if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "global" and s.buffer not in views]
    used = [set().union(*map(_uses, part)) for part in parts]
    shared = [b for b in workspaces if sum(b in uses for uses in used) > 1]
    name = str(func.attrs["global_symbol"])
    functions = {}
    for n, (part, uses) in enumerate(zip(parts, used)):
        elsewhere = {b for b in workspaces if b in shared or b not in uses}
        body = seq([s for s in part if not (isinstance(s, AllocBuffer) and s.buffer in elsewhere)])
        attrs = {**dict(func.attrs), "global_symbol": f"{name}_{n + 1}", LAUNCH: n, SHARED: len(shared)}
        functions[f"{name}_{n + 1}"] = PrimFunc([*func.params, *shared], body, span=func.span).with_attr(attrs)
    return IRModule(functions)


def _statements_of(top: list[Stmt], grids: list[int], n: int) -> list[Stmt]:
    """What launch `n` runs."""
    begin = grids[n - 1] + 1 if n else 0
    end = len(top) if n + 1 == len(grids) else grids[n] + 1
    earlier = [s for s in top[:begin] if not is_grid_axis(s) and _may_be_repeated(s)]
    return [*earlier, *top[begin:end]]


def _may_be_repeated(s: Stmt) -> bool:
    """A declaration, or work on scalars only."""
    return all(
        isinstance(x, _HARMLESS) or isinstance(x, BufferStore) and is_scalar_var(x.buffer) or is_op(x, VIEW, ASSUME) for x in statements(s)
    )


def _uses(s: Stmt) -> set:
    views = {r.source for x in statements(s) if is_op(x, VIEW) for r in x.value.args}
    return uses_of(s).all | views


def _refuse_carried_scalars(grids: list[Stmt], parts: list[list[Stmt]]) -> None:
    for grid, own in zip(grids, parts):
        outside = {s.buffer for s in own if isinstance(s, AllocBuffer)}
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
