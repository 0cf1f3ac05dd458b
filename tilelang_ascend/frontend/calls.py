"""Calls: user functions are traced like the kernel itself, Python's own functions learn about run-time values."""

from __future__ import annotations

import builtins
import functools
import math
import os
import sys
import sysconfig
import types
from typing import Any, Callable

from ..errors import SourceUnavailable, UnsupportedConstruct
from ..ir import dtype_of, itemsize
from . import operators
from .annotations import is_float
from .builder import Builder, constant
from .containers import called, consume
from .control import serial_range
from .flow import conditions, iterable
from .items import shape
from .keywords import other_meaning
from .kit import OPS
from .locations import is_user_code, user_location
from .operators import binop, cast, plain
from .source import rewritten_function
from .values import LoopSpec, ScalarVar, is_buffer, is_expr, is_region

REPLACEMENTS: dict[Any, Callable] = {}
"""Python functions that mean something else on values of a kernel: {function: replacement}. Filled by the language."""


def nested(function):
    """Marks a function defined inside a kernel: it is rewritten already."""
    return _traced(function)


def _traced(function, source=None):
    """`source`: the function as its author wrote it, for interpreters of Python."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if source is not None and (interpreter := other_meaning("call_macro")) is not None:
            return interpreter(source, args, kwargs)
        builder = Builder.active()
        if builder is None:
            return function(*args, **kwargs)
        loops, calls = len(builder.loops), len(builder.calls)
        builder.pending.append(())
        builder.function_regions.append(builder.region)
        builder.calls.append(user_location())
        try:
            return function(*args, **kwargs)
        finally:
            builder.pending.pop() if builder.pending else None
            builder.function_regions.pop() if builder.function_regions else None
            del builder.loops[loops:], builder.calls[calls:]

    call._tl_traced = True
    if source is not None:
        call._tl_source, call._tl_takes_variables = source, True
    return call


_foreign_roots = tuple(
    {os.path.abspath(p) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib") if (p := sysconfig.get_paths().get(k))}
)
_without_source: set[str] = set()


def _is_foreign(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_foreign_roots) or not is_user_code(code) or code.co_filename.startswith("<frozen")


def fn(function):
    """The function to call instead of `function`: user functions are traced like the kernel itself."""
    if isinstance(function, types.FunctionType):
        return inline(function)
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        new = inline(function.__func__)
        return function if new is function.__func__ else types.MethodType(new, function.__self__)
    if isinstance(function, functools.partial):
        return functools.partial(fn(function.func), *function.args, **function.keywords)
    if isinstance(function, ScalarVar) or is_expr(function) or is_buffer(function):
        raise UnsupportedConstruct(f"'{function}' is a value and cannot be called", hint="index with brackets: A[i, j]")
    called(function)
    if isinstance(function, types.BuiltinMethodType) and isinstance(function.__self__, dict) and function.__name__ in _LOOKUPS:
        return _lookup(function)
    try:
        return REPLACEMENTS.get(function, function)
    except TypeError:  # not hashable
        return function


def inline(function: types.FunctionType):
    """The traced form of a user function; `function` itself when it is foreign or has no source."""
    if getattr(function, "_tl_traced", False):
        return function
    replacement = REPLACEMENTS.get(function)
    if replacement is not None:
        return replacement
    code = function.__code__
    if OPS in code.co_freevars:  # written inside a kernel, rewritten with it
        return function
    # Generators run as they are; operators on IR values work in them.
    if _is_foreign(code) or code.co_flags & 0x2A0:
        return function
    if code.co_filename in _without_source:
        return function
    try:
        return _traced(rewritten_function(function, sys.modules[__package__ + ".ops"]), function)
    except SourceUnavailable:
        _without_source.add(code.co_filename)
        return function


def on_ir(python: Callable, ir: Callable) -> Callable:
    """`python` for Python values, `ir` as soon as one argument is a run-time value."""

    @functools.wraps(python)
    def choose(*args, **kwargs):
        args = tuple(map(plain, args))
        return ir(*args, **kwargs) if any(is_expr(a) for a in args) else python(*args, **kwargs)

    return choose


def _buffer_len(value):
    return shape(value)[0] if is_buffer(value) else builtins.len(value)


def _guard(python: Callable) -> Callable:
    """Builtins that iterate: their arguments must be Python objects."""

    @functools.wraps(python)
    def call(*args, **kwargs):
        for a in args:
            if isinstance(a, LoopSpec) or is_expr(a) or is_buffer(a) or is_region(a):
                iterable(a)
        return python(*args, **kwargs)

    return call


_LOOKUPS = ("get", "pop", "setdefault")
"""Methods of dictionaries that take a key and give another value where there is none."""


def _lookup(method: Callable) -> Callable:
    """One of these of a dictionary, in which a value of the kernel finds itself only: whether it equals another key is known when the kernel runs."""

    def call(key, *default):
        key, known = plain(key), method.__self__
        key = constant(key) if is_expr(key) and constant(key) is not None else key
        if key not in known and any(is_expr(k) and constant(k) is None for k in (key, *known)):
            raise UnsupportedConstruct(
                f"`.{method.__name__}` of a dictionary compares keys with a value known only when the kernel runs",
                hint="choose with T.if_then_else, or read the numbers from a tensor",
            )
        return method(key, *default)

    return call


def _next(iterator, *default):
    consume(iterator)
    return builtins.next(iterator, *default)


def _divmod(a, b):
    return binop("FloorDiv", a, b), binop("Mod", a, b)


def _range(*args):
    """`range`: a Python range of integers, a run-time loop as soon as one bound is a run-time value."""
    args = [plain(a) for a in args]
    args = [operators.as_integer(a, "an argument of range") for a in args]
    known = [constant(a) if is_expr(a) else a for a in args]
    if None not in known:
        return range(*known)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return serial_range(start, stop, step)


def _int(value):
    """An integer keeps its value: int32 holds no number of more bits."""
    dtype = dtype_of(operators.as_scalar(value))
    if is_float(dtype) or itemsize(dtype) < 4:
        return cast(value, "int32")
    return cast(value, "int64") if dtype == "uint32" else value


def _float(value):
    """A float32, or the float64 that `value` is."""
    return value if dtype_of(operators.as_scalar(value)) == "float64" else cast(value, "float32")


def _quantified(op: str, values):
    """`all` ("And") or `any` ("Or")."""
    result = conditions(op, op == "And", *[(lambda v=v: v) for v in iterable(values)])
    return operators.as_bool(result) if is_expr(result) else bool(result)


def _print(*values, **kwargs):
    builtins.print(*map(plain, values), **kwargs)


REPLACEMENTS.update(
    {
        builtins.abs: on_ir(abs, operators.magnitude),
        builtins.pow: on_ir(pow, operators.power),
        builtins.divmod: on_ir(divmod, _divmod),
        builtins.len: _buffer_len,
        builtins.next: _next,
        builtins.range: _range,
        builtins.print: _print,
        builtins.bool: on_ir(bool, operators.as_bool),
        builtins.int: on_ir(int, _int),
        builtins.float: on_ir(float, _float),
        builtins.sum: lambda values, start=0: functools.reduce(lambda a, b: binop("Add", a, b), iterable(values), start),
        builtins.all: lambda values: _quantified("And", values),
        builtins.any: lambda values: _quantified("Or", values),
    }
)
for _name in ("enumerate", "zip", "map", "list", "tuple", "sorted", "set", "iter", "reversed", "filter"):
    REPLACEMENTS[getattr(builtins, _name)] = _guard(getattr(builtins, _name))

_MATH = "sqrt exp exp2 log log2 log10 log1p sin cos tan tanh erf floor ceil trunc fabs pow"

MATH_FUNCTIONS = {name: getattr(math, name) for name in _MATH.split() if hasattr(math, name)}
"""Functions of Python's `math` that the language has under the same name."""
