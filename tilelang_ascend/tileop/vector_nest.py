"""A parallel nest as the vectoriser sees it: axes in instruction order, extents, body."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import BufferStore, For, ForKind, Stmt, TensorLoad, Var, const_int, exprs, is_buffer_var, statements, walk_expr
from .affine import affine, is_scalar_var
from .vector_convert import Unsupported


@dataclass
class Nest:
    """axes: loop variables, the one that most accesses step through contiguously last; extents: their sizes."""

    axes: list[Var]
    extents: tuple[int, ...]
    body: Stmt
    span: object


def nest_of(stmt: For) -> Nest:
    """Collect the loops of a parallel nest. Raises `Unsupported` for extents that are not constants."""
    loops, body = [], stmt
    while isinstance(body, For) and body.kind == ForKind.PARALLEL:
        loops.append((body.loop_var, const_int(body.extent)))
        body = body.body
    if any(n is None for _, n in loops):
        raise Unsupported("an extent of T.Parallel is not a constant")
    order = _order([v for v, _ in loops], body)
    return Nest([loops[k][0] for k in order], tuple(loops[k][1] for k in order), body, stmt.span)


def _order(variables: list[Var], body: Stmt) -> list[int]:
    """Positions of the loops, the innermost axis of the instructions last."""
    votes = [0] * len(variables)
    for last in _last_indices(body):
        for k, v in enumerate(variables):
            if abs(affine(last).coefficient(v)) == 1:
                votes[k] += 1
    innermost = max(range(len(variables)), key=lambda k: (votes[k], k))
    return [k for k in range(len(variables)) if k != innermost] + [innermost]


def _last_indices(body: Stmt) -> list:
    """The last index of every access of a multi-dimensional buffer, and of every access when there is no such buffer."""
    found: list = []

    def see(e):
        if isinstance(e, TensorLoad):
            found.append(list(e.indices))

    for s in statements(body):
        if isinstance(s, BufferStore):
            found.append(list(s.indices))
        for e in exprs(s):
            walk_expr(e, see)
    deep = [i for i in found if len(i) > 1]
    return [i[-1] for i in deep or found]


def scalar_vars(e) -> list[Var]:
    """The scalar variables an expression reads."""
    out: list[Var] = []

    def see(x):
        if is_scalar_var(x):
            out.append(x)
        elif isinstance(x, TensorLoad) and is_buffer_var(x.source):
            out.append(x.source)

    walk_expr(e, see)
    return out
