"""From a Python function to the code object of its rewritten form, cached per function."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import inspect
import linecache
import re
import threading
import types
import weakref

from ..errors import KernelSyntaxError, Location, SourceChanged, SourceUnavailable
from .rewriter import OPS, rewrite

LAMBDA = "<lambda>"
_LAMBDA_NAME = "_tl_lambda"
_FACTORY, _BODY = "_tl_factory", "_tl_body"
GENERATED_NAME = re.compile(rf"{_FACTORY}\.<locals>\.{_BODY}(\.<locals>\.)?")
"""What Python puts in front of the names of functions of a kernel."""

# Keyed by identity: code objects compare equal although they come from different files. The value keeps its key alive.
_code_cache: dict[int, tuple[types.CodeType, types.CodeType]] = {}
_ast_cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_PARSER = threading.RLock()
"""Held while trees are made and read: Python 3.11 counts their depth for all threads together, and fails when two of them are at it; and a tree
is rewritten in place, by the one who finds it first."""


def function_ast(fn: types.FunctionType) -> ast.FunctionDef:
    """AST of `fn` with the line and column numbers of its file. Raises `SourceUnavailable`, or `SourceChanged` where the file has another
    function by now."""
    with _PARSER:
        return _function_ast(fn)


def _function_ast(fn: types.FunctionType) -> ast.FunctionDef:
    code = fn.__code__
    if code.co_name == LAMBDA:
        return _lambda_ast(fn)
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
        if not block.lstrip().startswith(("@", "def ", "async ")):
            raise SourceChanged(name=fn.__name__) from None
        where = Location(code.co_filename, code.co_firstlineno)
        raise KernelSyntaxError(f"cannot parse the source of '{fn.__name__}': {error.msg}", at=where) from error
    ast.increment_lineno(tree, code.co_firstlineno - (2 if indented else 1))
    node = tree.body[0].body[0] if indented else tree.body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not _is_source_of(node, code):
        raise SourceChanged(name=fn.__name__)
    _ast_cache[fn] = node
    return node


def _is_source_of(node: ast.FunctionDef | ast.AsyncFunctionDef, code: types.CodeType) -> bool:
    """True when a function with this code may have been compiled from `node`, as far as its names and constants tell. Tools that rewrite
    functions, such as the assertions of pytest, may have added to them."""
    bare = copy.copy(node)
    bare.decorator_list = bare.type_params = []
    flags = code.co_flags & functools.reduce(
        lambda a, b: a | b, (getattr(__future__, f).compiler_flag for f in __future__.all_feature_names)
    )
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([_factory(bare, code.co_freevars)], []), node))
    there = _inner(_inner(compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True), _FACTORY), node.name)
    if node.name not in (code.co_name, _LAMBDA_NAME) or there.co_varnames[: there.co_argcount] != code.co_varnames[: code.co_argcount]:
        return False
    here = _words(code)
    # Inside of a class names that begin with two underscores have its name in front.
    longer = lambda w: w.startswith("'__") and any(x.endswith(w[1:]) for x in here)
    return all(w in here or longer(w) for w in _words(there))


def _words(code: types.CodeType) -> set[str]:
    """The names and constants of a function and of those defined in it."""
    found = {repr(n) for n in (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)}
    consts = list(code.co_consts)
    for const in consts:  # grows meanwhile
        if isinstance(const, types.CodeType):
            found |= _words(const)
        elif isinstance(const, (tuple, frozenset)):
            consts += const
        elif const is not None:  # what a class inside is called begins with what is around the function
            const = const.rpartition("<locals>.")[2] if isinstance(const, str) else const
            found.add(f"{type(const).__name__} {const!r}")
    return found


def _lambda_ast(fn: types.FunctionType) -> ast.FunctionDef:
    """A lambda as a function that returns its expression. Raises `SourceUnavailable` when it cannot be told from its neighbours."""
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = tuple(linecache.getlines(code.co_filename, fn.__globals__))
    found = [n for n in _lambdas(lines) if n.lineno == code.co_firstlineno and _may_be(n, code)]
    if len({ast.dump(n) for n in found}) != 1:
        raise SourceUnavailable(name=fn.__name__)
    node = copy.deepcopy(found[0])
    body = ast.copy_location(ast.Return(node.body), node.body)
    out = ast.FunctionDef(_LAMBDA_NAME, node.args, [body], [], None)
    out.type_params = []
    ast.copy_location(out, node)
    if not _is_source_of(out, code):
        raise SourceChanged(name=fn.__name__)
    return out


@functools.lru_cache(maxsize=16)
def _lambdas(lines: tuple[str, ...]) -> list[ast.Lambda]:
    """All lambdas of a file."""
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # a notebook cell with magic commands, for instance
        return []
    return [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]


def _may_be(node: ast.Lambda, code: types.CodeType) -> bool:
    """True when `code` has the arguments of `node` and, where Python records columns, lies inside it."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if names != list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        return False
    body = node.body
    spans = [p for p in getattr(code, "co_positions", tuple)() if p[2] is not None and (p[2], p[3]) != (0, 0)]
    if not spans:
        return True
    first, last = min((p[0], p[2]) for p in spans), max((p[1], p[3]) for p in spans)
    return first == (body.lineno, body.col_offset) and last == (body.end_lineno, body.end_col_offset)


def rewritten_code(fn: types.FunctionType) -> types.CodeType:
    """Code object of the rewritten `fn`."""
    cached = _code_cache.get(id(fn.__code__))
    if cached is None:
        with _PARSER:
            cached = _code_cache.get(id(fn.__code__)) or (fn.__code__, _rewritten_code(fn))
            _code_cache[id(fn.__code__)] = cached
    return cached[1]


def _rewritten_code(fn: types.FunctionType) -> types.CodeType:
    node = _function_ast(fn)
    _ast_cache.pop(fn, None)  # the rewriter edits the tree in place
    new = rewrite(node, fn.__code__.co_filename)
    # Under a name of its own: in the factory the name of the function would hide a global of that name, which the body may call.
    name, new.name = new.name, _BODY
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([_factory(new, [OPS, *fn.__code__.co_freevars])], []), new))
    outer = compile(module, fn.__code__.co_filename, "exec", dont_inherit=True)
    return _inner(_inner(outer, _FACTORY), _BODY).replace(co_name=name)


def _factory(node: ast.FunctionDef | ast.AsyncFunctionDef, names) -> ast.FunctionDef:
    """A function that makes the function `node`, whose free variables are `names`."""
    factory = ast.FunctionDef(
        _FACTORY,
        ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]),
        [node, ast.Return(ast.Name(node.name, ast.Load()))],
        [],
        None,
    )
    factory.type_params = []
    return ast.copy_location(factory, node)


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def rewritten_function(fn: types.FunctionType, ops) -> types.FunctionType:
    """`fn` rewritten, with its own globals, closure cells and defaults; `ops` is what ``_tl_`` names."""
    code = rewritten_code(fn)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    cells[OPS] = types.CellType(ops)
    new = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in code.co_freevars))
    new.__kwdefaults__ = fn.__kwdefaults__
    return new
