"""The last checks of the front end: no variable is used outside the region that defines it, every one has a value, and only launches store."""

from __future__ import annotations

from ..errors import InvalidKernel, Location
from ..ir import AllocBuffer, Bind, BufferStore, For, IfThenElse, SeqStmt, Var, While, exprs, free_vars, is_buffer_var, statements, stmts_of
from ..ir.grids import is_grid_axis
from ..tile.uses import is_scalar_var, own_uses


def check_scopes(body, where: Location | None, params=()) -> None:
    """Every variable must be used inside the region that defines it (a Python list can carry one out of it); the others are
    `params` or dimensions of those."""
    arguments = {d for p in params if is_buffer_var(p) for d in (*p.ty.shape, *p.ty.strides) if isinstance(d, Var)}
    undefined = _escaped(body, arguments.union(params))
    if undefined is None:
        return
    var, stmt, somewhere = undefined
    at = stmt if getattr(stmt, "span", None) is not None else where
    if not somewhere:
        raise InvalidKernel(
            f"'{var.name}' has no value when the kernel is launched: it is no parameter and no dimension of a tensor parameter",
            at=at,
            hint=f"give a tensor the dimension '{var.name}', or take it as a parameter: def kernel(..., {var.name}: T.int32)",
        )
    raise InvalidKernel(
        f"'{var.name}' is used outside the loop, branch or kernel that defines it",
        at=at,
        hint="values that exist only while the kernel runs cannot leave their block; use T.alloc_var before the block",
    )


def check_outside(body) -> None:
    """Statements out of the launches compute scalars only, each core for itself: all would store to a tensor, and at any time."""
    for top in stmts_of(body):
        for s in statements(top) if not is_grid_axis(top) else ():
            written = next((b for b in own_uses(s).writes if not is_scalar_var(b)), None)
            if written is not None:
                raise InvalidKernel(
                    f"'{written.name}' is changed outside of `with T.Kernel(...)`, where there is no block to do it",
                    at=s,
                    hint="put it under a `with T.Kernel(1) as _:` of its own; launches run one after the other",
                )


def _escaped(body, arguments: set):
    """(variable, statement, whether it is defined at all) of the first use of a variable out of its scope, else None."""
    defined_somewhere: set = set()
    visible: set = set()

    def collect(s) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                collect(x)
        elif isinstance(s, For):
            defined_somewhere.add(s.loop_var)
            collect(s.body)
        elif isinstance(s, While):
            collect(s.body)
        elif isinstance(s, IfThenElse):
            collect(s.then_case)
            if s.else_case is not None:
                collect(s.else_case)
        elif isinstance(s, Bind):
            defined_somewhere.add(s.var)
        elif isinstance(s, AllocBuffer):
            defined_somewhere.add(s.buffer)

    def check(s, added: list):
        for e in exprs(s):
            for v in free_vars(e):
                if v not in visible and v not in arguments:
                    return v, s, v in defined_somewhere
        if isinstance(s, BufferStore) and s.buffer in defined_somewhere and s.buffer not in visible:
            return s.buffer, s, True
        if isinstance(s, SeqStmt):
            for x in s.seq:
                if bad := check(x, added):
                    return bad
        elif isinstance(s, Bind):
            visible.add(s.var), added.append(s.var)
        elif isinstance(s, AllocBuffer):
            visible.add(s.buffer), added.append(s.buffer)
        elif isinstance(s, For):
            visible.add(s.loop_var)
            bad = scoped(s.body)
            visible.discard(s.loop_var)
            return bad
        elif isinstance(s, While):
            return scoped(s.body)
        elif isinstance(s, IfThenElse):
            return scoped(s.then_case) or (scoped(s.else_case) if s.else_case is not None else None)
        return None

    def scoped(s):
        added: list = []
        bad = check(s, added)
        visible.difference_update(added)
        return bad

    collect(body)
    return scoped(body)
