"""Which names must survive a statement: liveness over the Python AST of one function.

The rewriter asks, for each `if`, `for` and `while`, which of the names it assigns carry a value out of the statement
or from one iteration to the next. Only those become mutable scalars when the statement turns out to be a run-time
one; the others stay plain values, private to the branch or the iteration.
"""

from __future__ import annotations

import ast
import dataclasses

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass(frozen=True)
class Flow:
    """Names a statement assigns (in order of first assignment), and what becomes of them.

    `live_after`: read later. `exposed` (loops): read in an iteration before they are assigned in it.
    `definite` (`if`): assigned on both paths.
    """

    assigned: tuple[str, ...]
    live_after: frozenset
    exposed: frozenset
    definite: frozenset


def assigned_names(*nodes: ast.AST) -> tuple[str, ...]:
    """Names bound by the statements, not counting what nested functions bind for themselves."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.setdefault(node.name)
            for name in _nonlocals(node):
                names.setdefault(name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, COMPREHENSIONS):
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    names.setdefault(inner.target.id)
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.setdefault(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.setdefault(node.name)
        elif isinstance(node, ast.alias):
            names.setdefault((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            names.setdefault(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.setdefault(node.rest)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for node in nodes:
        visit(node)
    names.pop("*", None)
    return tuple(names)


def _nonlocals(function: ast.AST) -> list[str]:
    return [name for node in ast.walk(function) if isinstance(node, ast.Nonlocal) for name in node.names]


def used_names(*nodes: ast.AST | None) -> frozenset:
    """Names read anywhere in the expressions, nested functions included."""
    return frozenset(
        n.id for node in nodes if node is not None for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


class Liveness:
    """Backward analysis of one function body; `flow[statement]` for each `if`, `for`, `while`."""

    def __init__(self, body: list[ast.stmt]):
        self.flow: dict[ast.stmt, Flow] = {}
        self._uses: dict[tuple, frozenset] = {}
        self._killed: dict[ast.stmt, frozenset] = {}
        # A nested function may run at any time: what it reads is live everywhere, what it rebinds may be assigned
        # anywhere.
        inner = [n for s in body for n in ast.walk(s) if isinstance(n, FUNCTIONS)]
        self.always_live = frozenset().union(*(used_names(f) for f in inner)) if inner else frozenset()
        self.rebound = tuple(dict.fromkeys(name for f in inner for name in _nonlocals(f)))
        self._block(body, frozenset(), frozenset(), frozenset())

    def _block(self, body, out, brk, cont):
        for statement in reversed(body):
            out = self._statement(statement, out, brk, cont)
        return out

    def _statement(self, s, out, brk, cont):
        method = getattr(self, "_" + type(s).__name__, None)
        return method(s, out, brk, cont) if method else (out - self._kills(s)) | self._used(s)

    def _kills(self, s) -> frozenset:
        if s not in self._killed:
            self._killed[s] = frozenset(assigned_names(s)) - frozenset(_nonlocals(s))
        return self._killed[s]

    def _used(self, *nodes) -> frozenset:
        """`used_names`, remembered: loops visit their statements several times."""
        if nodes not in self._uses:
            self._uses[nodes] = used_names(*nodes)
        return self._uses[nodes]

    def _record(self, s, out, exposed=frozenset(), definite=frozenset()):
        header = [s.test] if isinstance(s, ast.While) else []  # evaluated once per iteration
        names = tuple(dict.fromkeys(assigned_names(*header, *s.body, *s.orelse) + self.rebound))
        live = out | self.always_live | frozenset(self.rebound)
        self.flow[s] = Flow(names, live & frozenset(names), exposed & frozenset(names), definite)

    def _AugAssign(self, s, out, brk, cont):
        target = frozenset([s.target.id]) if isinstance(s.target, ast.Name) else self._used(s.target)
        return out | target | self._used(s.value)

    def _Delete(self, s, out, brk, cont):
        return out | self._used(*s.targets)

    def _If(self, s, out, brk, cont):
        self._record(s, out, definite=definitely_assigned(s.body) & definitely_assigned(s.orelse))
        return self._used(s.test) | self._block(s.body, out, brk, cont) | self._block(s.orelse, out, brk, cont)

    def _For(self, s, out, brk, cont):
        after = self._block(s.orelse, out, brk, cont)
        targets = frozenset(assigned_names(s.target))
        head = self._fixpoint(lambda head: after | (self._block(s.body, head, after, head) - targets))
        self._record(s, after, exposed=self._block(s.body, head, after, head) - targets)
        return self._used(s.iter) | head

    _AsyncFor = _For

    def _While(self, s, out, brk, cont):
        after, test = self._block(s.orelse, out, brk, cont), self._used(s.test)
        head = self._fixpoint(lambda head: after | test | self._block(s.body, head, after, head))
        self._record(s, after, exposed=self._block(s.body, head, after, head) | test)
        return head

    @staticmethod
    def _fixpoint(step):
        head = step(frozenset())
        while (wider := step(head)) != head:
            head = wider
        return head

    def _With(self, s, out, brk, cont):
        targets = frozenset(assigned_names(*(i.optional_vars for i in s.items if i.optional_vars is not None)))
        return (self._block(s.body, out, brk, cont) - targets) | self._used(*(i.context_expr for i in s.items))

    _AsyncWith = _With

    def _Try(self, s, out, brk, cont):
        out = self._block(s.finalbody, out, brk, cont)
        handlers = frozenset().union(*(self._block(h.body, out, brk, cont) for h in s.handlers)) if s.handlers else frozenset()
        # Any statement of the body may jump to a handler, so nothing the handlers read is ever dead inside it.
        body = self._block(s.body, self._block(s.orelse, out, brk, cont) | handlers, brk, cont)
        return body | handlers

    _TryStar = _Try

    def _Match(self, s, out, brk, cont):
        live = out
        for case in s.cases:
            live = live | self._block(case.body, out, brk, cont) | self._used(case.guard, case.pattern)
        return live | self._used(s.subject)

    def _Return(self, s, out, brk, cont):
        return self._used(s.value)

    def _Raise(self, s, out, brk, cont):
        return self._used(s.exc, s.cause)

    def _Break(self, s, out, brk, cont):
        return brk

    def _Continue(self, s, out, brk, cont):
        return cont

    def _FunctionDef(self, s, out, brk, cont):
        # Parameters and locals of the nested function hide nothing here: an over-approximation is safe.
        return (out - {s.name}) | self._used(s)

    _AsyncFunctionDef = _FunctionDef
    _ClassDef = _FunctionDef


class _Everything(frozenset):
    """The names assigned on a path that never falls through: all of them."""

    def __and__(self, other):
        return other

    __rand__ = __and__

    def __or__(self, other):
        return self

    __ror__ = __or__


_UNREACHED = _Everything()


def definitely_assigned(body: list[ast.stmt]) -> frozenset:
    """Names assigned on every path that reaches the end of `body`."""
    names: frozenset = frozenset()
    for s in body:
        if isinstance(s, (ast.Break, ast.Continue, ast.Return, ast.Raise)):
            return _UNREACHED
        if isinstance(s, ast.If):
            both = definitely_assigned(s.body) & definitely_assigned(s.orelse)
            if both is _UNREACHED:
                return both
            names |= both
        elif isinstance(s, (ast.With, ast.AsyncWith)):
            names |= definitely_assigned(s.body)
        elif isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            names |= frozenset(assigned_names(s))
    return names
