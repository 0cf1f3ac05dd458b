"""Rewrite a kernel's AST so that running it once, as ordinary Python, builds Tile IR.

Every construct that can meet a value known only at run time becomes a call to `frontend.ops` (named ``_tl_`` in the
generated code, which keeps the user's file, lines and columns):

    x = e                 x = _tl_.bind(_tl_.hint('x'), e, x)
    A[i, j] = e           _tl_.setitem(e, A, (i, j))
    if c: P else: Q       s = _tl_.if_(c, names, flags);  names = s.enter(names)
                          if s.then(): P
                          if s.otherwise(names): names = s.restore(names);  Q
                          names = s.exit(names)
    for t in it: P        s = _tl_.for_(it, names, flags, targets);  names = s.enter(names)
                          for v in s: t = v;  P
                          names = s.exit(names)
    f(x)                  _tl_.fn(f)(x)
    a + b, a < b, a and b, not a, a if c else b, A[i], A.shape    functions of the same meaning

`names` are the Python names the statement assigns (see `liveness`), so that a statement that turns out to be a
run-time one can replace their values by mutable scalars on entry and by "not available here" on exit.
"""

from __future__ import annotations

import ast
import linecache
from typing import Callable

from ..errors import Location, UnsupportedConstruct
from . import kit
from .kit import OPS
from .liveness import Liveness, assigned_names

LIVE_AFTER, EXPOSED, DEFINITE = 1, 2, 4


class Rewriter(ast.NodeTransformer):
    """Rewrites one function definition (and the functions nested in it)."""

    def __init__(self, filename: str):
        self.filename = filename
        self.flows: list[dict] = []
        self.scopes: list[set] = []  # names whose loads are checked, one set per enclosing function
        self.globals: list[set] = []
        self.nonlocals: list[set] = []
        self.counter = self.lambdas = 0

    # --- functions ---------------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, nested: bool) -> ast.FunctionDef:
        """The rewritten definition, without the outer decorators and annotations."""
        if isinstance(node, ast.AsyncFunctionDef):
            self._refuse(node, "an async function")
        params = [a.arg for a in kit.all_args(node.args)]
        global_names = kit.declared(node.body, ast.Global)
        declared = global_names | kit.declared(node.body, ast.Nonlocal)
        own = [n for n in assigned_names(*node.body) if n not in declared]
        self.flows.append(Liveness(node.body).flow)
        self.scopes.append(set(own) | set(params) | (declared - global_names))
        self.globals.append(global_names), self.nonlocals.append(declared - global_names)
        body = self._entry(node, own, params) + self._block(node.body)
        self.scopes.pop(), self.flows.pop(), self.globals.pop(), self.nonlocals.pop()
        decorators = [self.visit(d) for d in node.decorator_list] + [ast.Attribute(kit.load(OPS), "nested", ast.Load())]
        arguments = self._arguments(node.args, visit_defaults=nested)
        new = ast.FunctionDef(node.name, arguments, body, decorators if nested else [], None)
        new.type_params = []
        return ast.copy_location(new, node)

    def _entry(self, node, own, params) -> list[ast.stmt]:
        """First statements: unassigned names are marked so, parameters become values of this function."""
        out: list[ast.stmt] = []
        fresh = [n for n in own if n not in params]
        if fresh:
            out.append(ast.Assign([kit.store(n) for n in fresh], kit.unbound()))
        by_reference = {a.arg for a in kit.all_args(node.args) if kit.is_ref(a.annotation)}
        for name in params:
            out.append(
                ast.Assign(
                    [kit.store(name)],
                    kit.call("param", kit.load(name), kit.const(name), kit.const(name in by_reference)),
                )
            )
        return [ast.copy_location(s, node) for s in out]

    def _arguments(self, args: ast.arguments, visit_defaults: bool) -> ast.arguments:
        def bare(a):
            return None if a is None else ast.copy_location(ast.arg(a.arg, None), a)

        def default(d):
            return None if d is None else self.visit(d)

        return ast.arguments(
            posonlyargs=[bare(a) for a in args.posonlyargs],
            args=[bare(a) for a in args.args],
            vararg=bare(args.vararg),
            kwonlyargs=[bare(a) for a in args.kwonlyargs],
            kw_defaults=[default(d) for d in args.kw_defaults]
            if visit_defaults
            else [None if d is None else kit.const(None) for d in args.kw_defaults],
            kwarg=bare(args.kwarg),
            defaults=[default(d) for d in args.defaults] if visit_defaults else [kit.const(None) for _ in args.defaults],
        )

    def visit_FunctionDef(self, node):
        return self.function(node, nested=True)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        return node

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            new = self.visit(s)
            for n in new if isinstance(new, list) else [new]:
                out.append(ast.copy_location(n, s) if not hasattr(n, "lineno") else n)
            if isinstance(s, (ast.Break, ast.Continue, ast.Return)):
                break  # what follows in this block can never run
        return out or [ast.Pass()]

    def _temp(self, kind: str) -> str:
        self.counter += 1
        return f"{OPS}{kind}{self.counter}"

    def _flow(self, node) -> tuple[tuple[str, ...], ast.Constant, ast.Constant]:
        flow = self.flows[-1][node]
        names = tuple(n for n in flow.assigned if n not in self.globals[-1])
        flags = tuple(LIVE_AFTER * (n in flow.live_after) | EXPOSED * (n in flow.exposed) | DEFINITE * (n in flow.definite) for n in names)
        return names, kit.const(names), kit.const(flags)

    @staticmethod
    def _update(names, state: str, method: str) -> ast.stmt:
        """``names = state.method(names)``; only the call when there are no names."""
        call = kit.method(state, method, kit.names(names))
        return ast.Assign([kit.names(names, ast.Store)], call) if names else ast.Expr(call)

    def visit_If(self, node: ast.If):
        names, c_names, c_flags = self._flow(node)
        state = self._temp("if")
        test = kit.header(kit.call("if_", self._test(node.test), c_names, c_flags), node, node.test)
        out: list[ast.stmt] = [ast.Assign([kit.store(state)], test), self._update(names, state, "enter")]
        out.append(ast.If(kit.method(state, "then"), self._block(node.body), []))
        if node.orelse:
            body = ([self._update(names, state, "restore")] if names else []) + self._block(node.orelse)
            out.append(ast.If(kit.method(state, "otherwise", kit.names(names)), body, []))
        out.append(self._update(names, state, "exit"))
        return kit.located(out, node)

    def visit_For(self, node: ast.For):
        if node.orelse:
            self._refuse(node.orelse[0], "`else` on a loop", "set a flag before `break` and test it after the loop")
        names, c_names, c_flags = self._flow(node)
        targets = assigned_names(node.target)
        all_names = tuple(dict.fromkeys(names + targets))
        extra = (0,) * (len(all_names) - len(names))
        c_names, c_flags = kit.const(all_names), kit.const(tuple(c_flags.value) + extra)
        state, value = self._temp("for"), self._temp("v")
        loop = kit.header(kit.call("for_", self.visit(node.iter), c_names, c_flags, kit.const(targets)), node, node.iter)
        out: list[ast.stmt] = [ast.Assign([kit.store(state)], loop), self._update(all_names, state, "enter")]
        body = self._bind_target(node.target, kit.load(value)) + self._block(node.body)
        out.append(ast.For(kit.store(value), kit.load(state), kit.located(body, node.target), []))
        out.append(self._update(all_names, state, "exit"))
        return kit.located(out, node)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While):
        if node.orelse:
            self._refuse(node.orelse[0], "`else` on a loop", "set a flag before `break` and test it after the loop")
        names, c_names, c_flags = self._flow(node)
        state = self._temp("while")
        if isinstance(node.test, ast.Constant) and node.test.value:
            if not any(isinstance(n, (ast.Break, ast.Return, ast.Raise)) for s in node.body for n in ast.walk(s)):
                self._refuse(node, "a loop that never ends", "add a `break`")
            first = again = ast.Attribute(kit.load(OPS), "FOREVER", ast.Load())
        else:
            again = self._test(kit.clone(node.test))
            first = self._test(node.test)
        binds = any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test))
        made = kit.header(kit.call("while_", c_names, c_flags, kit.const(binds)), node, node.test)
        head: list[ast.stmt] = [ast.Expr(kit.method(state, "mark", kit.names(names)))]
        decide = kit.method(state, "decide", first, kit.names(names))
        head.append(ast.Assign([kit.names(names, ast.Store)], decide) if names else ast.Expr(decide))
        head.append(ast.If(ast.Attribute(kit.load(state), "done", ast.Load()), [ast.Break()], []))
        again = [ast.Expr(kit.method(state, "begin")), ast.Expr(kit.method(state, "condition", again))]
        head.append(ast.If(ast.Attribute(kit.load(state), "runtime", ast.Load()), again, []))
        body = head + self._block(node.body) + [ast.If(kit.method(state, "finish"), [ast.Break()], [])]
        out = [
            ast.Assign([kit.store(state)], made),
            ast.While(kit.const(True), body, []),
            self._update(names, state, "exit"),
        ]
        return kit.located(out, node)

    def visit_Break(self, node):
        return ast.If(kit.call("break_"), [ast.Break()], [])

    def visit_Continue(self, node):
        leave = self._temp("c")
        return kit.located(
            [
                ast.Assign([kit.store(leave)], kit.call("continue_")),
                ast.If(ast.Compare(kit.load(leave), [ast.Eq()], [kit.const(1)]), [ast.Continue()], []),
                ast.If(ast.Compare(kit.load(leave), [ast.Eq()], [kit.const(2)]), [ast.Break()], []),
            ],
            node,
        )

    def visit_With(self, node: ast.With):
        items, prologue = [], []
        for item in node.items:
            target = item.optional_vars
            names = assigned_names(target) if target is not None else ()
            kind = "list" if isinstance(target, (ast.Tuple, ast.List)) else "one"
            context = kit.header(kit.call("with_", self.visit(item.context_expr), kit.const(names), kit.const(kind)), item.context_expr)
            if target is None:
                items.append(ast.withitem(context, None))
            else:
                temp = self._temp("w")
                items.append(ast.withitem(context, kit.store(temp)))
                prologue += self._bind_target(target, kit.load(temp))
        return ast.With(items, kit.located(prologue, node) + self._block(node.body))

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try):
        depth = self._temp("d")
        handlers = []
        for h in node.handlers:
            body: list[ast.stmt] = [ast.Expr(kit.call("unwind", kit.load(depth)))]
            caught = self._temp("e") if h.name else None
            if h.name:
                body.append(ast.Assign([kit.store(h.name)], kit.load(caught)))
            body = kit.located(body, h) + self._block(h.body)
            if h.name:  # Python unbinds it
                body += kit.located([ast.Assign([kit.store(h.name)], kit.unbound())], h)
            type_ = self.visit(h.type) if h.type is not None else None
            handlers.append(ast.copy_location(ast.ExceptHandler(type_, caught, body), h))
        block = lambda body: self._block(body) if body else []  # noqa: E731
        always = node.finalbody and kit.located([ast.Expr(kit.call("finally_", kit.load(depth)))], node) + self._block(node.finalbody)
        new = type(node)(self._block(node.body), handlers, block(node.orelse), always)
        return kit.located([ast.Assign([kit.store(depth)], kit.call("depth", kit.const(bool(always)))), new], node)

    visit_TryStar = visit_Try

    def visit_Match(self, node):
        """Names that a pattern binds are bound by Python, and once more as the kernel binds names."""
        captured = assigned_names(*(c.pattern for c in node.cases))
        olds = self._temp("m")
        cases = []
        for c in node.cases:
            guard = self.visit(c.guard) if c.guard is not None else None
            old = {n: ast.Subscript(kit.load(olds), kit.const(k), ast.Load()) for k, n in enumerate(captured)}
            bound = [self._bind_name("target", n, kit.load(n), old[n]) for n in assigned_names(c.pattern)]
            cases.append(ast.match_case(c.pattern, guard, kit.located(bound, c.pattern) + self._block(c.body)))
        new = ast.Match(kit.call("match_subject", self.visit(node.subject)), cases)
        before = [kit.unbound() if n in self.globals[-1] else kit.load(n) for n in captured]
        return kit.located([ast.Assign([kit.store(olds)], ast.Tuple(before, ast.Load())), new], node) if captured else new

    def visit_Return(self, node: ast.Return):
        value = self.visit(node.value) if node.value is not None else kit.const(None)
        return ast.Return(ast.copy_location(kit.call("ret", value), node))

    def visit_Assert(self, node: ast.Assert):
        message = self.visit(node.msg) if node.msg is not None else kit.const(None)
        return ast.Expr(kit.header(kit.call("assert_", self._test(node.test), kit.thunk(message)), node))

    def visit_Delete(self, node: ast.Delete):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        others = [t for t in node.targets if not isinstance(t, ast.Name)]
        out: list[ast.stmt] = [ast.Assign([kit.store(n)], kit.unbound()) for n in names]
        for t in others:
            items = isinstance(t, ast.Subscript)
            out.append(ast.Expr(kit.call("delitem", self.visit(t.value), self._index(t.slice))) if items else ast.Delete([t]))
        return kit.located(out, node)

    # --- assignment --------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign):
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return kit.located(self._assign(node.targets[0], value), node)
        temp = self._temp("t")
        out: list[ast.stmt] = [ast.Assign([kit.store(temp)], value)]
        for target in node.targets:
            out += self._assign(target, kit.load(temp))
        return kit.located(out, node)

    def _assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            if target.id in self.globals[-1]:
                return [ast.Assign([kit.store(target.id)], kit.call("global_", value, kit.const(target.id)))]
            hint = kit.call("hint", kit.const(target.id))
            op = "bind_outer" if target.id in self.nonlocals[-1] else "bind"
            return [ast.Assign([kit.store(target.id)], kit.call(op, hint, value, kit.load(target.id)))]
        if isinstance(target, ast.Subscript):
            return [ast.Expr(kit.call("setitem", value, self.visit(target.value), self._index(target.slice)))]
        if isinstance(target, ast.Attribute):
            return [ast.Expr(kit.call("setattr_", value, self.visit(target.value), kit.const(target.attr)))]
        return self._destructure(target, kit.call("unpack", kit.call("hint", kit.const(assigned_names(target))), value), bind_op=None)

    def _destructure(self, target: ast.expr, value: ast.expr, bind_op: str | None) -> list[ast.stmt]:
        """Two phases, so that ``a, b = b, a`` swaps: all values are taken before any name changes."""
        leaves: list[tuple[ast.expr, str]] = []

        def shape(t: ast.expr) -> ast.expr:
            if isinstance(t, (ast.Tuple, ast.List)):
                return ast.Tuple([shape(e) for e in t.elts], ast.Store())
            if isinstance(t, ast.Starred):
                return ast.Starred(shape(t.value), ast.Store())
            leaves.append((t, self._temp("t")))
            return kit.store(leaves[-1][1])

        out: list[ast.stmt] = [ast.Assign([shape(target)], value)]
        temps = [t for _, t in leaves]
        names = kit.const(tuple(leaf.id if isinstance(leaf, ast.Name) else "t" for leaf, _ in leaves))
        if bind_op is None and temps:
            out.append(ast.Assign([kit.names(temps, ast.Store)], kit.call("snapshot", names, *map(kit.load, temps))))
        for leaf, temp in leaves:
            out += self._assign(leaf, kit.load(temp)) if bind_op is None else self._bind_target(leaf, kit.load(temp))
        return out

    def _bind_target(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Loop and `with` targets."""
        if isinstance(target, ast.Name):
            return [self._bind_name("target", target.id, value)]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._destructure(target, value, bind_op="target")
        return self._assign(target, value)

    def _bind_name(self, op: str, name: str, value: ast.expr, old: ast.expr | None = None) -> ast.stmt:
        """``name = _tl_.op('name', value, old)``; `old`: what the name holds, if it is no longer there."""
        if name in self.globals[-1]:
            old = kit.unbound()
        return ast.Assign([kit.store(name)], kit.call(op, kit.const(name), value, old or kit.load(name)))

    def visit_AnnAssign(self, node: ast.AnnAssign):
        annotation = kit.thunk(self.visit(node.annotation))
        if node.value is not None:
            return kit.located(self._assign(node.target, kit.call("annotated", self.visit(node.value), annotation)), node)
        if not isinstance(node.target, ast.Name):
            return ast.Pass()
        name = node.target.id
        declare = kit.header(kit.call("declare", kit.const(name), annotation, kit.load(name)), node)
        return kit.located([ast.Assign([kit.store(name)], declare)], node)

    def visit_AugAssign(self, node: ast.AugAssign):
        op, value, target = kit.const(type(node.op).__name__), self.visit(node.value), node.target
        if isinstance(target, ast.Subscript):
            item = kit.call("augitem", op, kit.call("place", self.visit(target.value), self._index(target.slice)), value)
            return kit.located([ast.Expr(item)], node)
        out: list[ast.stmt] = []
        if isinstance(target, ast.Attribute):  # whose object is evaluated once
            temp = self._temp("t")
            out = [ast.Assign([kit.store(temp)], self.visit(target.value))]
            target = ast.copy_location(ast.Attribute(ast.copy_location(kit.load(temp), target), target.attr, ast.Store()), target)
        old = self.visit(kit.as_load(target))
        return kit.located(out + self._assign(target, kit.header(kit.call("inplace", op, old, value), node)), node)

    # --- expressions -------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name):
        if isinstance(node.ctx, ast.Load) and any(node.id in s for s in self.scopes):
            return kit.header(kit.call("get", node, kit.const(node.id)), node)
        return node

    def visit_Starred(self, node: ast.Starred):
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return ast.copy_location(ast.Starred(kit.header(kit.call("iterable", self.visit(node.value)), node.value), ast.Load()), node)

    def visit_Lambda(self, node: ast.Lambda):
        self.lambdas += 1
        node.body = self.visit(node.body)
        self.lambdas -= 1
        node.args = self.visit(node.args)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr):
        name = node.target.id
        old = kit.unbound() if self.lambdas else kit.load(name)  # a name of the lambda
        bound = kit.call("bind", kit.call("hint", kit.const(name)), self.visit(node.value), old)
        new = ast.NamedExpr(kit.store(name), bound)
        return kit.header(kit.call("get", new, kit.const(name)), node)

    def visit_Subscript(self, node: ast.Subscript):
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return kit.header(kit.call("getitem", self.visit(node.value), self._index(node.slice)), node)

    def _index(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Slice):
            parts = [self.visit(p) if p is not None else kit.const(None) for p in (index.lower, index.upper, index.step)]
            return ast.copy_location(kit.call("slice_", *parts), index)
        if isinstance(index, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._index(e) for e in index.elts], ast.Load()), index)
        return self.visit(index)

    def visit_Attribute(self, node: ast.Attribute):
        if isinstance(node.ctx, ast.Load) and node.attr in ("shape", "dtype", "data"):
            return kit.header(kit.call(node.attr, self.visit(node.value)), node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call):
        func = self.visit(node.func)
        args, keywords = [self.visit(a) for a in node.args], [self.visit(k) for k in node.keywords]
        return kit.header(ast.Call(kit.header(kit.call("fn", func), node.func), args, keywords), node)

    def visit_BinOp(self, node: ast.BinOp):
        return kit.header(kit.call("binop", kit.const(type(node.op).__name__), self.visit(node.left), self.visit(node.right)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp):
        if isinstance(node.operand, ast.Constant):
            return node
        operand = self._test(node.operand) if isinstance(node.op, ast.Not) else self.visit(node.operand)
        return kit.header(kit.call("unop", kit.const(type(node.op).__name__), operand), node)

    def visit_BoolOp(self, node: ast.BoolOp):
        return self._boolop("boolop", node, self.visit)

    def _test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts: there `and` and `or` are conditions, whatever numbers they join."""
        return self._boolop("conditions", node, self._test) if isinstance(node, ast.BoolOp) else self.visit(node)

    def _boolop(self, op: str, node: ast.BoolOp, visit: Callable) -> ast.expr:
        self._no_walrus(*node.values[1:])
        first, *rest = map(visit, node.values)
        return kit.header(kit.call(op, kit.const(type(node.op).__name__), first, *map(kit.thunk, rest)), node)

    def visit_Compare(self, node: ast.Compare):
        ops = kit.const(tuple(type(o).__name__ for o in node.ops))
        return kit.header(kit.call("compare", ops, self.visit(node.left), *[self.visit(c) for c in node.comparators]), node)

    def visit_IfExp(self, node: ast.IfExp):
        self._no_walrus(node.body, node.orelse)
        then, other = kit.thunk(self.visit(node.body)), kit.thunk(self.visit(node.orelse))
        return kit.header(kit.call("ifexp", self._test(node.test), then, other), node)

    def _no_walrus(self, *nodes: ast.expr) -> None:
        """Parts that may not be evaluated become lambdas, in which `:=` would bind a name of the lambda."""
        for inner in (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.NamedExpr)):
            self._refuse(inner, "`:=` in a part that may not be evaluated", "assign before the expression")

    def _comprehension(self, node):
        shadowed = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        first = self.visit(node.generators[0].iter)
        self.scopes.append(shadowed)
        for k, g in enumerate(node.generators):
            g.iter = kit.header(kit.call("iterable", first if k == 0 else self.visit(g.iter)), g.iter)
            g.ifs = [kit.header(kit.call("truth", self._test(i)), i) for i in g.ifs]
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.scopes.pop()
        return node if isinstance(node, ast.GeneratorExp) else kit.header(kit.call("made", node), node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _display(self, node):
        new = self.generic_visit(node)
        return new if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) else kit.header(kit.call("made", new), node)

    visit_List = visit_Dict = visit_Set = _display

    def visit_Yield(self, node):
        self._refuse(node, "`yield`", "return a list instead")

    visit_YieldFrom = visit_Yield

    def visit_Await(self, node):
        self._refuse(node, "`await`")

    def _refuse(self, node: ast.AST, what: str, hint: str | None = None):
        same_line = node.end_lineno == node.lineno
        end = node.end_col_offset if same_line else len(linecache.getline(self.filename, node.lineno).rstrip())
        raise UnsupportedConstruct(what=what, at=Location(self.filename, node.lineno, node.col_offset + 1, end + 1), hint=hint)


def rewrite(node: ast.FunctionDef, filename: str) -> ast.FunctionDef:
    """The rewritten definition of a top-level function of a kernel."""
    return Rewriter(filename).function(node, nested=False)


__all__ = ["OPS", "DEFINITE", "EXPOSED", "LIVE_AFTER", "rewrite"]
