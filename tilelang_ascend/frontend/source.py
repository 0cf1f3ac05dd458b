"""From a Python function to the code object of its rewritten form, cached per function."""

from __future__ import annotations

import ast
import inspect
import linecache
import types
import weakref

from ..errors import KernelSyntaxError, Location, SourceUnavailable
from .rewriter import OPS, rewrite

# Keyed by identity: code objects compare equal although they come from different files. The value keeps its key alive.
_code_cache: dict[int, tuple[types.CodeType, types.CodeType]] = {}
_ast_cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def function_ast(fn: types.FunctionType) -> ast.FunctionDef:
    """AST of `fn` with the line and column numbers of its file. Raises `SourceUnavailable`."""
    code = fn.__code__
    cached = _ast_cache.get(fn)
    if cached is not None:
        return cached
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if not lines or len(lines) < code.co_firstlineno:
        raise SourceUnavailable(name=fn.__name__)
    block = "".join(inspect.getblock(lines[code.co_firstlineno - 1 :]))
    # An enclosing `if` keeps the indentation, and with it the column numbers, of a nested function.
    indented = block[:1] in " \t"
    try:
        tree = ast.parse("if 1:\n" + block if indented else block)
    except SyntaxError as error:
        where = Location(code.co_filename, code.co_firstlineno)
        raise KernelSyntaxError(f"cannot parse the source of '{fn.__name__}': {error.msg}", at=where) from error
    ast.increment_lineno(tree, code.co_firstlineno - (2 if indented else 1))
    node = tree.body[0].body[0] if indented else tree.body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise SourceUnavailable(name=fn.__name__)
    _ast_cache[fn] = node
    return node


def rewritten_code(fn: types.FunctionType) -> types.CodeType:
    """Code object of the rewritten `fn`."""
    cached = _code_cache.get(id(fn.__code__))
    if cached is not None:
        return cached[1]
    node = function_ast(fn)
    _ast_cache.pop(fn, None)  # the rewriter edits the tree in place
    new = rewrite(node, fn.__code__.co_filename)
    names = [OPS, *fn.__code__.co_freevars]
    factory = ast.FunctionDef(
        "_tl_factory",
        ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]),
        [new, ast.Return(ast.Name(new.name, ast.Load()))],
        [],
        None,
    )
    factory.type_params = []
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([ast.copy_location(factory, new)], []), new))
    outer = compile(module, fn.__code__.co_filename, "exec", dont_inherit=True)
    code = _inner(_inner(outer, "_tl_factory"), new.name)
    _code_cache[id(fn.__code__)] = (fn.__code__, code)
    return code


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def rewritten_function(fn: types.FunctionType, ops) -> types.FunctionType:
    """`fn` rewritten, with its own globals, closure cells and defaults; `ops` is what ``_tl_`` names."""
    code = rewritten_code(fn)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    cells[OPS] = types.CellType(ops)
    new = types.FunctionType(
        code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in code.co_freevars)
    )
    new.__kwdefaults__ = fn.__kwdefaults__
    return new
