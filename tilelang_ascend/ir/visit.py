"""Statement visitors and mutators. They keep spans and rebuild only what changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Callable

from .base import (
    AllocBuffer,
    AssertStmt,
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    Range,
    SeqStmt,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    decl_buffer,
    elements,
    tirx,
)
from .build import dtype_of, scope_of, seq


def children(stmt: Stmt) -> list[Stmt]:
    """Direct sub-statements."""
    kind = type(stmt)
    if kind is SeqStmt:
        return elements(stmt.seq)
    if kind is For or kind is While:
        return [stmt.body]
    if kind is IfThenElse:
        return [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
    return []


def walk(stmt: Stmt, fn: Callable[[Stmt], None]) -> None:
    """Call `fn` on every statement, parents first."""
    fn(stmt)
    if type(stmt) in _OUTER:
        for child in children(stmt):
            walk(child, fn)


_OUTER = frozenset((SeqStmt, For, While, IfThenElse))
"""Statements with others inside."""


def statements(stmt: Stmt) -> list[Stmt]:
    """All statements below (and including) `stmt`, parents first."""
    out: list[Stmt] = []
    walk(stmt, out.append)
    return out


def exprs(stmt: Stmt) -> list:
    """The expressions a statement holds itself (not those of its children)."""
    kind = type(stmt)
    if kind is For:
        return [stmt.min, stmt.extent]
    if kind is Evaluate or kind is Bind:
        return [stmt.value]
    if kind is BufferStore:
        return [stmt.value, *elements(stmt.indices)]
    if kind is While or kind is IfThenElse or kind is AssertStmt:
        return [stmt.condition]
    return []


LONGEST_INDEX = 256
"""Nodes of an index with its names written out. Names that each stand for several of the one before, as those of a hash do, double at every step."""

_FIELDS = ("a", "b", "value", "condition", "true_value", "false_value", "var", "body")
_fields: dict[type, tuple[str, ...]] = {}
"""Which of `_FIELDS` hold sub-expressions in nodes of a type: every expression of a kernel is walked many times."""


def expr_children(e) -> list:
    """Direct sub-expressions."""
    kind = type(e)
    if kind is Call:
        return elements(e.args)
    if kind is TensorLoad:
        return elements(e.indices)
    if kind is TensorRegion:
        return [x for r in elements(e.region) for x in (r.min, r.extent)]
    return [getattr(e, field) for field in _fields_of(e)]


def _fields_of(e) -> tuple[str, ...]:
    """The fields with direct sub-expressions of a node that is no call, load or region."""
    kind = type(e)
    fields = _fields.get(kind)
    if fields is None:
        leaf = isinstance(e, (Var, tirx.IntImm, tirx.FloatImm))
        fields = _fields[kind] = () if leaf else tuple(field for field in _FIELDS if hasattr(getattr(e, field, None), "ty"))
    return fields


def is_leaf(e) -> bool:
    """True for a node surely without sub-expressions."""
    return _fields.get(type(e)) == ()


def walk_expr(e, fn: Callable) -> None:
    """Call `fn` on every node of an expression, parents first."""
    fn(e)
    if _fields.get(type(e)) == ():
        return
    for child in expr_children(e):
        walk_expr(child, fn)


def nodes_in(e, names: Mapping = MappingProxyType({})) -> int:
    """How many nodes an expression has as a tree. names: variable -> the nodes it counts for, if that is not one."""
    found = 0

    def see(x):
        nonlocal found
        found += names.get(x, 1) if names and isinstance(x, Var) else 1

    walk_expr(e, see)
    return found


def written_out(name: Bind, lets: dict):
    """What a name stands for, with the names in `lets` written out; the name itself if that is too long to be an index."""
    value = substitute_expr(name.value, lets)
    return name.var if nodes_in(value) > LONGEST_INDEX else value


def free_vars(e) -> set:
    """The `Var`s an expression uses (buffers included)."""
    found: set = set()

    def see(x):
        if type(x) is TensorLoad or type(x) is TensorRegion:
            found.add(x.source)
        elif isinstance(x, Var):
            found.add(x)

    walk_expr(e, see)
    return found


def dependent_names(stmt: Stmt, var) -> set:
    """`var`, and the names in `stmt` whose values depend on it."""
    found = {var}
    for s in statements(stmt):
        if isinstance(s, Bind) and free_vars(s.value) & found:
            found.add(s.var)
    return found


class StmtMutator:
    """Rebuild a statement tree. Override `visit_<node>` methods or `expr`; returning None removes a statement,
    a list splices several."""

    def __call__(self, stmt: Stmt) -> Stmt:
        return seq(self.visit(stmt))

    def expr(self, e):
        """Hook for every expression; identity by default."""
        return e

    def visit(self, stmt: Stmt):
        method = getattr(self, "visit_" + type(stmt).__name__, None)
        return method(stmt) if method else self.generic(stmt)

    def block(self, stmt: Stmt) -> Stmt:
        """Visit a body and pack the result into one statement."""
        return seq(self.visit(stmt))

    def generic(self, s: Stmt):
        """Rebuild `s` with visited children and expressions."""
        kind = type(s)
        if kind is SeqStmt:
            return [self.visit(x) for x in elements(s.seq)]
        if kind is For:
            body, extent = self.block(s.body), self.expr(s.extent)
            if body.same_as(s.body) and extent.same_as(s.extent):
                return s
            return For(s.loop_var, s.min, extent, s.kind, body, annotations=dict(s.annotations), span=s.span)
        if kind is While:
            body, cond = self.block(s.body), self.expr(s.condition)
            if body.same_as(s.body) and cond.same_as(s.condition):
                return s
            return While(cond, body, span=s.span)
        if kind is IfThenElse:
            cond, then = self.expr(s.condition), self.block(s.then_case)
            other = self.block(s.else_case) if s.else_case is not None else None
            same_else = other is s.else_case or (other is not None and s.else_case is not None and other.same_as(s.else_case))
            if cond.same_as(s.condition) and then.same_as(s.then_case) and same_else:
                return s
            return IfThenElse(cond, then, other, span=s.span)
        if kind is Evaluate:
            value = self.expr(s.value)
            return s if value.same_as(s.value) else Evaluate(value, span=s.span)
        if kind is Bind:
            value = self.expr(s.value)
            return s if value.same_as(s.value) else Bind(s.var, value, span=s.span)
        if kind is BufferStore:
            value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
            if value.same_as(s.value) and all(a.same_as(b) for a, b in zip(indices, s.indices)):
                return s
            return BufferStore(s.buffer, value, indices, span=s.span)
        assert isinstance(s, (AllocBuffer, Break, Continue, AssertStmt)), f"no mutator for {type(s).__name__}"
        return s


def substitute_expr(e, mapping: dict):
    """Replace `Var`s (or buffers) of an expression; `mapping` maps old to new."""
    if not mapping:
        return e

    def go(x):
        if isinstance(x, Var):
            return mapping.get(x, x)
        if isinstance(x, TensorLoad):
            return tirx.BufferLoad(mapping.get(x.source, x.source), [go(i) for i in x.indices])
        if isinstance(x, TensorRegion):
            return tirx.BufferRegion(mapping.get(x.source, x.source), [Range.from_min_extent(go(r.min), go(r.extent)) for r in x.region])
        return map_children(x, go)

    return go(e)


def map_children(x, go: Callable):
    """Rebuild `x` with `go` applied to its direct sub-expressions."""
    kind = type(x)
    if kind is Call:
        before = elements(x.args)
        args = [go(a) for a in before]
        if all(a.same_as(b) for a, b in zip(args, before)):
            return x
        return Call(x.op, args, attrs=x.attrs, ty_args=list(x.ty_args), span=x.span, ret_ty=x.ty)
    if kind is TensorLoad:
        before = elements(x.indices)
        idx = [go(i) for i in before]
        return x if all(a.same_as(b) for a, b in zip(idx, before)) else tirx.BufferLoad(x.source, idx)
    if kind is TensorRegion:
        return tirx.BufferRegion(x.source, [Range.from_min_extent(go(r.min), go(r.extent)) for r in x.region])
    if not _fields_of(x):
        return x
    if kind is tirx.Cast:
        v = go(x.value)
        return x if v.same_as(x.value) else tirx.Cast(x.ty.dtype, v)
    if kind is tirx.Not or kind is tirx.BitwiseNot:
        v = go(x.a)
        return x if v.same_as(x.a) else kind(v)
    if kind is tirx.Select:
        c, t, f = go(x.condition), go(x.true_value), go(x.false_value)
        return tirx.Select(c, t, f)
    assert _fields_of(x) == ("a", "b"), f"cannot rebuild {kind.__name__}"
    old_a, old_b = x.a, x.b
    a, b = go(old_a), go(old_b)
    return x if a.same_as(old_a) and b.same_as(old_b) else kind(a, b)


class Substitute(StmtMutator):
    """Replace variables (and buffers) everywhere in a statement."""

    def __init__(self, mapping: dict):
        self.mapping = mapping

    def expr(self, e):
        return substitute_expr(e, self.mapping)

    def visit_BufferStore(self, s: BufferStore):
        out = self.generic(s)
        if out.buffer in self.mapping:
            out = BufferStore(self.mapping[out.buffer], out.value, list(out.indices), span=s.span)
        return out


def substitute(stmt: Stmt, mapping: dict) -> Stmt:
    """`stmt` with variables and buffers replaced."""
    return Substitute(mapping)(stmt) if mapping else stmt


class _Renew(Substitute):
    def visit_For(self, s: For):
        extent, start = self.expr(s.extent), self.expr(s.min)
        self.mapping[s.loop_var] = var = tirx.Var(s.loop_var.name, dtype_of(s.loop_var))
        return For(var, start, extent, s.kind, self.block(s.body), annotations=dict(s.annotations), span=s.span)

    def visit_Bind(self, s: Bind):
        value = self.expr(s.value)
        self.mapping[s.var] = var = tirx.Var(s.var.name, dtype_of(s.var))
        return Bind(var, value, span=s.span)

    def visit_AllocBuffer(self, s: AllocBuffer):
        old = s.buffer
        self.mapping[old] = new = decl_buffer(list(old.ty.shape), dtype_of(old), old.name, scope=scope_of(old))
        return AllocBuffer(new, annotations=dict(s.annotations), span=s.span)


def renew(stmt: Stmt) -> Stmt:
    """`stmt` with variables and buffers of its own for its loops, lets and allocations: what stands twice must not be defined twice."""
    return seq(_Renew({}).visit(stmt))


class _Drop(StmtMutator):
    def __init__(self, dead: set):
        self.dead = dead

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.dead else s


def drop_allocs(stmt: Stmt, dead: set) -> Stmt:
    """`stmt` without the declarations of `dead` buffers."""
    return _Drop(dead)(stmt)


def until_none_is_removed(body: Stmt, mutator: Callable[[Stmt], StmtMutator]) -> Stmt:
    """`body` rewritten by one `mutator(body)` after the other, each of which tells in `removed` what its result uses no more; declarations go, too."""
    while True:
        rewrite = mutator(body)
        body = rewrite(body)
        if not rewrite.removed:
            return body
        body = drop_allocs(body, rewrite.removed)


class _Redeclare(StmtMutator):
    def __init__(self, new: dict):
        self.new = new

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.new.get(s.buffer)
        if new is None:
            return s
        return [AllocBuffer(b, annotations=dict(s.annotations or {}), span=s.span) for b in (new if isinstance(new, list) else [new])]


def redeclared(stmt: Stmt, new: dict) -> Stmt:
    """`stmt` with other buffers declared in place of some: `new[buffer]`, one or a list of them; what uses them stays as it is."""
    return _Redeclare(new)(stmt)


__all__ = [
    "LONGEST_INDEX", "StmtMutator", "Substitute", "children", "dependent_names", "drop_allocs", "expr_children", "exprs", "free_vars", "is_leaf", "map_children", "nodes_in",
    "redeclared", "renew", "statements", "substitute", "substitute_expr", "until_none_is_removed", "walk", "walk_expr", "written_out",
]  # fmt: skip
