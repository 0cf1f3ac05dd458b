"""What the user's source does at the line that runs right now."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import types
from pathlib import Path
from typing import Iterator

from ..errors import is_internal

_HERE = str(Path(__file__).resolve().parent)
_PACKAGE = str(Path(_HERE).parent)
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_ANY_ERROR = {"Exception", "BaseException"}


def forget() -> None:
    """Read every file again; it may have changed since the last session."""
    for cached in (_tree, _tries, _declarations):
        cached.cache_clear()


def user_frame() -> types.FrameType | None:
    """The innermost running frame of the user's own files."""
    return next((f for f in _frames() if _is_users(f)), None)


def _frames() -> Iterator[types.FrameType]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_users(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return not is_internal(file) and not file.startswith("<")


def _is_packages(frame: types.FrameType) -> bool:
    """True for this package at work: tracing a kernel, tuning, measuring."""
    file = frame.f_code.co_filename
    return file.startswith(_PACKAGE) and not file.startswith(_HERE)


def guards_import(frame: types.FrameType | None) -> bool:
    """True when the user's code is prepared for a failing import: a ``try`` with ``except ImportError`` around the
    statement that runs in `frame` or in one of its callers, or one that catches everything in `frame` itself."""
    catching = _IMPORT_ERRORS | _ANY_ERROR
    while frame is not None:
        if any(first <= frame.f_lineno <= last and names & catching for first, last, names in _tries(frame.f_code.co_filename)):
            return True
        catching = _IMPORT_ERRORS
        frame = frame.f_back
    return False


def is_declaration(on_tensors: bool) -> bool:
    """True when the user's line declares something rather than computes: a decorator, an annotation, a default value,
    a base class, a call made from a decorator's expression, or, unless tensors are involved, an assignment of a
    module. What a kernel's body says computes, although a decorator traces it."""
    innermost = True
    for frame in _frames():
        if _is_packages(frame):
            return False
        if not _is_users(frame):
            continue
        line = frame.f_lineno
        decorators, others, assignments = _declarations(frame.f_code.co_filename)
        if _within(line, decorators) or (innermost and _within(line, others)):
            return True
        if innermost and not on_tensors and frame.f_code.co_name == "<module>" and _within(line, assignments):
            return True
        innermost = innermost and frame.f_code.co_name in _COMPREHENSIONS
    return False


def _within(line: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= line <= last for first, last in ranges)


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module:
    linecache.checkcache(file)
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


@functools.lru_cache(maxsize=64)
def _tries(file: str) -> list[tuple[int, int, set[str]]]:
    """(first line, last line, names caught) of the body of every ``try``."""
    if is_internal(file) or file.startswith("<"):
        return []
    found = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Try):
            caught = {name for handler in node.handlers for name in _caught(handler.type)}
            found.append((node.body[0].lineno, node.body[-1].end_lineno, caught))
    return found


def _caught(kind: ast.expr | None) -> set[str]:
    if kind is None:
        return _ANY_ERROR
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {ast.unparse(k).rpartition(".")[2] for k in kinds}


_Lines = list[tuple[int, int]]


@functools.lru_cache(maxsize=64)
def _declarations(file: str) -> tuple[_Lines, _Lines, _Lines]:
    """Lines of decorators; of annotations, default values and base classes; of assignments of the module itself."""
    decorators: list[ast.expr] = []
    others: list[ast.expr | None] = []
    tree = _tree(file)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = node.args
            decorators += node.decorator_list
            others += [node.returns, *args.defaults, *args.kw_defaults]
            others += [a.annotation for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        elif isinstance(node, ast.ClassDef):
            decorators += node.decorator_list
            others += [*node.bases, *(k.value for k in node.keywords)]
        elif isinstance(node, ast.AnnAssign):
            others.append(node.annotation)
    assignments = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    return _lines(decorators), _lines(others), _lines(assignments)


def _lines(nodes: list) -> _Lines:
    return [(node.lineno, node.end_lineno) for node in nodes if node is not None]
