"""Small constructors and questions for Python ASTs, used by the rewriter."""

from __future__ import annotations

import ast
import copy

from .liveness import FUNCTIONS

OPS = "_tl_"  # what the generated code calls the module `ops`


def load(name: str) -> ast.Name:
    """The name, read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """The name, assigned."""
    return ast.Name(name, ast.Store())


def call(op: str, *args: ast.expr) -> ast.Call:
    """``_tl_.<op>(args)``"""
    return ast.Call(ast.Attribute(load(OPS), op, ast.Load()), list(args), [])


def method(obj: str, method: str, *args: ast.expr) -> ast.Call:
    """``<obj>.<method>(args)``"""
    return ast.Call(ast.Attribute(load(obj), method, ast.Load()), list(args), [])


def thunk(body: ast.expr) -> ast.Lambda:
    """``lambda: body``"""
    no_args = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(no_args, body)


def names(names, ctx=ast.Load) -> ast.Tuple:
    """A tuple of names."""
    return ast.Tuple([ast.Name(n, ctx()) for n in names], ctx())


def const(value) -> ast.Constant:
    """A constant."""
    return ast.Constant(value)


def unbound() -> ast.Attribute:
    """What a name without a value holds."""
    return ast.Attribute(load(OPS), "UNBOUND", ast.Load())


def declared(body: list[ast.stmt], kind: type) -> set[str]:
    """Names in the `global` or `nonlocal` statements of this function (not of functions in it)."""
    found: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, kind):
            found.update(node.names)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def all_args(args: ast.arguments) -> list[ast.arg]:
    """Every parameter, in the order of the signature."""
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    return args.posonlyargs + args.args + args.kwonlyargs + extra


def is_ref(annotation: ast.expr | None) -> bool:
    """True for the annotation `T.Ref`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.split(".")[-1] == "Ref"
    return getattr(annotation, "attr", getattr(annotation, "id", None)) == "Ref"


def clone(node: ast.expr) -> ast.expr:
    """A deep copy: visitors change trees in place."""
    return copy.deepcopy(node)


def as_load(target: ast.expr) -> ast.expr:
    """The value of an assignment target."""
    new = clone(target)
    new.ctx = ast.Load()
    return new


def header(new: ast.expr, node: ast.AST, until: ast.AST | None = None) -> ast.expr:
    """Give `new` the place of `node`, ending where `until` ends (the header of a compound statement)."""
    ast.copy_location(new, node)
    if until is not None:
        new.end_lineno, new.end_col_offset = until.end_lineno, until.end_col_offset
    return new


def located(statements: list[ast.stmt], node: ast.AST) -> list[ast.stmt]:
    """Give new statements the place of `node`."""
    for s in statements:
        if not hasattr(s, "lineno"):
            ast.copy_location(s, node)
    return statements
