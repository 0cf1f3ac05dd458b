"""What plain Python cannot do: an assignment to a name that holds a mutable scalar is a store, and choices and negations of elements have a dtype.

``v = T.alloc_var("int32")`` makes a variable, ``v = v + 1`` stores to it (converted to its dtype), and a macro that gets it as `T.Ref`
changes it for its caller. Of ``a if c else b`` Python sees one side only, and ``not c`` makes a constant of an element. Functions with any of
these, and those with ``x: T.int32 = value`` or `T.loop_break()`, are compiled once more
with exactly these parts replaced: reads of the names become ``_tl_read(v)``, assignments ``v = _tl_assign(old, value)``. All other
functions run as they are. File names, lines and local names stay, so tracebacks and pdb show the user's text.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import types

from ..frontend.annotations import DTYPE_NAMES, DType
from .memory import Tile, Variable
from .values import Scalar, cast, is_scalar, scalar, select

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

# By identity, since code objects of different files compare equal; the value keeps its key alive.
_done: dict[int, tuple[types.CodeType, types.CodeType]] = {}


def last_name(node: ast.AST) -> str | None:
    """`alloc_var` of ``T.alloc_var(...)``."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "attr", getattr(node, "id", None))


def parse(function: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a function with the lines and columns of its file; None when its text cannot be found."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if len(lines) < code.co_firstlineno or code.co_name == "<lambda>":
        return None
    block = "".join(inspect.getblock(lines[code.co_firstlineno - 1 :]))
    indented = block[:1] in " \t"
    try:
        tree = ast.parse("if 1:\n" + block if indented else block)
    except SyntaxError:
        return None
    ast.increment_lineno(tree, code.co_firstlineno - (2 if indented else 1))
    node = tree.body[0].body[0] if indented else tree.body[0]
    return node if isinstance(node, ast.FunctionDef) else None


def is_ref(annotation) -> bool:
    """True for the annotation `T.Ref`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.split(".")[-1] == "Ref"
    return getattr(annotation, "attr", getattr(annotation, "id", None)) == "Ref"


def _makes_variable(call: ast.Call) -> bool:
    """``T.alloc_var(...)`` and ``T.int32()``."""
    return last_name(call) == "alloc_var" or not call.args and not call.keywords and last_name(call) in DTYPE_NAMES


def _variables(node: ast.FunctionDef) -> set[str]:
    """Names that hold mutable scalars: assigned from `alloc_var`, or parameters by reference."""
    found = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Assign) and any(isinstance(c, ast.Call) and _makes_variable(c) for c in ast.walk(n.value)):
            found |= {t.id for target in n.targets for t in _flat(target) if isinstance(t, ast.Name)}
        if isinstance(n, ast.FunctionDef):
            found |= {a.arg for a in (*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs) if is_ref(a.annotation)}
    return found


def _flat(target: ast.expr):
    if isinstance(target, (ast.Tuple, ast.List)):
        for t in target.elts:
            yield from _flat(t)
    else:
        yield target


def prepared(function: types.FunctionType) -> types.FunctionType:
    """The function to run instead of `function`: itself, unless it contains one of the statements above."""
    if any(n in function.__code__.co_freevars for n in _HELPERS):  # written inside of such a function
        return function
    if id(function.__code__) not in _done:
        _done[id(function.__code__)] = (function.__code__, _prepare(function))
    code = _done[id(function.__code__)][1]
    if code is function.__code__:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    helpers = {"_tl_read": read, "_tl_assign": assign, "_tl_typed": typed, "_tl_call": call, "_tl_not": negation, "_tl_choice": choice}
    new = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[n] if n in cells else types.CellType(helpers[n]) for n in code.co_freevars),
    )
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _prepare(function: types.FunctionType) -> types.CodeType:
    node = parse(function)
    if node is None:
        return function.__code__
    variables = _variables(node)
    transformer = _Rewrite(variables, node, _known(function))
    body = [transformer.visit(s) for s in node.body]
    if not transformer.changed:
        return function.__code__
    node.body = [x for s in body for x in (s if isinstance(s, list) else [s])]
    node.decorator_list, node.returns = [], None
    for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        a.annotation = None
    node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults]
    names = [*_HELPERS, *function.__code__.co_freevars]
    outer = ast.FunctionDef(
        "_tl_factory",
        ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]),
        [node, ast.Return(ast.Name(node.name, ast.Load()))],
        [],
        None,
    )
    outer.type_params = []
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([ast.copy_location(outer, node)], []), node))
    compiled = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    factory = next(c for c in compiled.co_consts if isinstance(c, types.CodeType) and c.co_name == "_tl_factory")
    return next(c for c in factory.co_consts if isinstance(c, types.CodeType) and c.co_name == node.name)


def _known(function: types.FunctionType) -> dict:
    """What names outside of a function stand for."""
    known = {f.__name__: f for f in _PURE} | function.__globals__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        known[name] = _content(cell)
    return {name: x for name, x in known.items() if name not in function.__code__.co_varnames}


def _content(cell: types.CellType):
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


_LANGUAGE = __package__.rpartition(".")[0] + ".language"
_PURE = (abs, bool, float, int, len, max, min, round, sum)
_HELPERS = ("_tl_read", "_tl_assign", "_tl_typed", "_tl_call", "_tl_not", "_tl_choice")


class _Rewrite(ast.NodeTransformer):
    def __init__(self, variables: set[str], root: ast.FunctionDef, known: dict):
        self.variables, self.root, self.changed, self.temporaries = variables, root, False, 0
        self.known = known

    def _call(self, name: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        self.changed = True
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(args), []), at)

    def _thunk(self, body: ast.expr, at: ast.AST) -> ast.Lambda:
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Lambda(empty, body), at)

    def _stored(self, name: str, value: ast.expr) -> ast.expr:
        old = self._thunk(ast.copy_location(ast.Name(name, ast.Load()), value), value)
        return self._call("_tl_assign", value, old, value)

    def visit_Name(self, node: ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id in self.variables:
            return self._call("_tl_read", node, node)
        return node

    def visit_Call(self, node: ast.Call):
        """Names that are arguments arrive as variables where the function wants them by reference."""
        direct = [a for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Name) and a.id in self.variables]
        element = [a for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Subscript)]
        if not direct or element is None:
            return self.generic_visit(node)
        keep = {id(a) for a in direct}
        node.func = self.visit(node.func)
        node.args = [a if id(a) in keep else self.visit(a) for a in node.args]
        for k in node.keywords:
            k.value = k.value if id(k.value) in keep else self.visit(k.value)
        self.changed = True
        node.args.insert(0, node.func)
        node.func = ast.copy_location(ast.Name("_tl_call", ast.Load()), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp):
        node.operand = self.visit(node.operand)
        return self._call("_tl_not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp):
        if any(self._does_something(n) for side in (node.body, node.orelse) for n in ast.walk(side)):
            return self.generic_visit(node)
        test, body, orelse = map(self.visit, (node.test, node.body, node.orelse))
        return self._call("_tl_choice", node, test, self._thunk(body, body), self._thunk(orelse, orelse))

    def _does_something(self, node: ast.AST) -> bool:
        """True if a part of the side of a choice may be more than a number, so that the side must not be looked at in vain. (In a lambda, `:=` would
        bind a name of the lambda.)"""
        if not isinstance(node, ast.Call):
            return isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))
        called = self._meant(node.func)
        language = isinstance(called, types.FunctionType) and called.__module__.startswith(_LANGUAGE)
        return not (language or isinstance(called, DType) or any(called is f for f in _PURE))

    def _meant(self, node: ast.expr):
        """What a name, or one in a module, stands for; None if that is not known before the function runs."""
        if isinstance(node, ast.Attribute):
            module = self._meant(node.value)
            return getattr(module, node.attr, None) if isinstance(module, types.ModuleType) else None
        return self.known.get(node.id) if isinstance(node, ast.Name) else None

    def visit_Assign(self, node: ast.Assign):
        node.value = self.visit(node.value)
        after: list[ast.stmt] = []
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id in self.variables:
                node.value = self._stored(node.targets[0].id, node.value)
            return node
        node.targets = [self._target(t, after) for t in node.targets]
        return [node, *after] if after else node

    def _target(self, target: ast.expr, after: list):
        if isinstance(target, (ast.Tuple, ast.List)):
            target.elts = [self._target(t, after) for t in target.elts]
            return target
        if isinstance(target, ast.Name) and target.id in self.variables:
            self.temporaries += 1
            temporary = f"_tl_tmp{self.temporaries}"
            value = self._stored(target.id, ast.copy_location(ast.Name(temporary, ast.Load()), target))
            after.append(ast.copy_location(ast.Assign([target], value), target))
            return ast.copy_location(ast.Name(temporary, ast.Store()), target)
        return self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign):
        node.value = self.visit(node.value)
        if isinstance(node.target, ast.Name) and node.target.id in self.variables:
            name = node.target.id
            old = self._call("_tl_read", node, ast.copy_location(ast.Name(name, ast.Load()), node))
            value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
            return ast.copy_location(ast.Assign([node.target], self._stored(name, value)), node)
        node.target = self.visit(node.target)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr):
        node.value = self.visit(node.value)
        if node.target.id in self.variables:
            node.value = self._stored(node.target.id, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return node
        value = self._call("_tl_typed", node, self.visit(node.value), self._thunk(node.annotation, node))
        if isinstance(node.target, ast.Name) and node.target.id in self.variables:
            value = self._stored(node.target.id, value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Expr(self, node: ast.Expr):
        word = last_name(node.value) if isinstance(node.value, ast.Call) else None
        if word in ("loop_break", "break_loop", "continue_loop"):
            self.changed = True
            return ast.copy_location(ast.Continue() if word == "continue_loop" else ast.Break(), node)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef):
        """A function inside: names it assigns itself are its own."""
        own = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if not is_ref(a.annotation)}
        shared = {n for s in ast.walk(node) if isinstance(s, ast.Nonlocal) for n in s.names}
        made = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        outer, self.variables = self.variables, (self.variables - own - (made - shared)) | _variables(node)
        node.body = [x for s in node.body for x in _as_list(self.visit(s))]
        self.variables = outer
        return node

    def visit_Lambda(self, node: ast.Lambda):
        own = {a.arg for a in node.args.args}
        outer, self.variables = self.variables, self.variables - own
        node = self.generic_visit(node)
        self.variables = outer
        return node


def _as_list(x):
    return x if isinstance(x, list) else [x]


# -- what the replaced statements call


def read(value):
    """A name that may hold a variable, read."""
    return value.load() if type(value) is Variable else value


def assign(old, value):
    """The new value of a name: the variable it holds, after a store to it, or `value`."""
    try:
        held = old()
    except NameError:
        return value
    if type(held) is Variable and type(value) is not Variable and is_scalar(value):
        held.store(value)
        return held
    return value


def typed(value, annotation):
    """``x: T.int32 = value`` converts."""

    try:
        kind = annotation()
    except Exception:
        return value
    return cast(value, str(kind)) if isinstance(kind, DType) and is_scalar(value) else value


def negation(value):
    """``not value``"""
    return Scalar(not value, "bool") if _is_known_late(value) else not value


def choice(condition, then, other):
    """``then if condition else other``: an element in the dtype both sides meet in."""
    if not _is_known_late(condition):
        return then() if condition else other()
    a, b = then(), other()
    return select(condition, a, b) if is_scalar(a) and is_scalar(b) else a if condition else b


def _is_known_late(condition) -> bool:
    """True for conditions that only a run of the kernel knows."""
    return is_scalar(condition) and not isinstance(condition, (bool, int, float)) and not scalar(condition).literal


def call(function, *args, **kwargs):
    """A call some of whose arguments are variables: only functions that ask for them get them."""
    if getattr(function, "_tl_takes_variables", False):
        return function(*args, **kwargs)
    return function(*map(read, args), **{k: read(v) for k, v in kwargs.items()})


def by_reference(value):
    """The argument of a `T.Ref` parameter: a variable, or an element that was read."""
    from ..errors import InvalidArgument
    from .state import here

    if isinstance(value, (Variable, Tile)):
        return value
    if isinstance(value, Scalar) and value.origin is not None:
        return Variable(*value.origin)
    raise InvalidArgument(
        f"a T.Ref parameter got {value!r}, which cannot be assigned to",
        at=here(),
        hint="pass a scalar made by T.alloc_var, or one element of a buffer: A[i]",
    )
