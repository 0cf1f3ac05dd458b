"""Tracing: from a user's function to a `PrimFunc` of Tile IR.

Two ways in, both documented here because `tilelang.jit` is built on them:

* **lazy** — the user's function defines and returns an inner ``@T.prim_func``. `trace(fn, args, kwargs)` runs it as
  ordinary Python and returns the `PrimFunc`; `prim_func` traces the inner function at its definition.
* **eager** — the body itself is the kernel (``T.const``, ``A: T.Tensor[[M, N], dt]``, ``T.empty``, ``return C``).
  `EagerTemplate(fn).bind(args, kwargs)` returns a `Bound`: the PrimFunc specialised to the constants of this call,
  the tensor arguments in parameter order (outputs excluded), the run-time scalars, and a hashable key; equal keys
  mean the same PrimFunc.

`is_eager(fn)` tells them apart from the source alone, without calling the function.

The PrimFunc carries the attributes listed in docs/ir.md; a returned ``T.empty`` buffer sets ``tl.out_idx``.
"""

from __future__ import annotations

import inspect
import linecache
import sys
import types
import typing
from typing import Any, Callable

from ..errors import (
    InvalidArgument,
    InvalidKernel,
    Location,
    TilelangAscendError,
    UnsupportedConstruct,
    location_from_traceback,
    location_in_code,
)
from ..ir import PrimFunc, Var, decl_buffer, dtype_of, imm, is_buffer_var
from ..stand_in import interpreter, is_source
from . import calls, ops
from .annotations import DType, Pointer, PointerSpec, TensorSpec
from .builder import Builder
from .keywords import other_meaning
from .locations import is_user_code, span_of
from .nibbles import unpack_nibbles
from .source import GENERATED_NAME, rewritten_function
from .values import Restart, StopProbe, is_ir

_MAX_RESTARTS = 64


def run_traced(build: Callable[[Builder], Any], make_builder: Callable[[dict], Builder]):
    """Call `build` with a builder, again and again while it learns facts; errors get the user's location."""
    facts: dict = {}
    for _ in range(_MAX_RESTARTS):
        builder = make_builder(facts)
        try:
            with builder:
                return build(builder)
        except Restart:
            continue
        except Exception as error:
            _locate(error)
            raise
    raise InvalidKernel("the types of the loop-carried values of this kernel do not settle")


def _locate(error: Exception) -> None:
    """Attach the user's line; turn internal errors of the IR library into errors that have one."""
    where = location_from_traceback(error.__traceback__, is_user_code)
    if isinstance(error, TilelangAscendError):
        error.attach(where)
        return
    if isinstance(error, RecursionError):
        raise InvalidKernel(
            "this call is part of a recursion without end",
            at=_recursive_call(error) or where,
            hint="functions of a kernel are inlined: the condition that ends a recursion must be known at compile time; "
            "use `while` or T.serial for a depth known only when the kernel runs",
        ) from None
    if type(error).__name__ in ("InternalError", "TVMError") or type(error).__module__.startswith(("tvm", "tvm_ffi")):
        text = str(error).strip().splitlines()[-1]
        raise UnsupportedConstruct(f"this expression cannot be built: {text}", at=where) from error
    if isinstance(error, (TypeError, ValueError)) and "Expr" in str(error) and "and / or / not" in str(error):
        raise UnsupportedConstruct(
            "a value known only when the kernel runs is used as a Python condition",
            at=where,
            hint="lambdas defined outside the kernel run as plain Python: use T.if_then_else, T.And, T.Or in them, or a def",
        ) from error
    if isinstance(error, _PYTHON_ERRORS) and _is_ours(error):
        text = GENERATED_NAME.sub("", str(error)).strip().splitlines() or [type(error).__name__]
        raise InvalidArgument(
            f"{text[-1] if text[0].startswith('Check failed') else text[0]} ({type(error).__name__})", at=where
        ) from error


_IR_TYPES = ("Var", "Expr", "PrimType", "TensorLoad", "TensorRegion")
_PYTHON_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _is_ours(error: Exception) -> bool:
    """True for an operation of Python that the tracer did for the user, or that the user's code did on a value of the IR; any other error
    of the user's code shows its place itself.
    """
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    if not is_user_code(code) or not linecache.getline(code.co_filename, traceback.tb_lineno):
        return True
    return is_ir(getattr(error, "obj", None)) or isinstance(error, TypeError) and any(n in str(error) for n in _IR_TYPES)


def _recursive_call(error: RecursionError) -> Location | None:
    """The first call of the user's program that is made again further in."""
    places, traceback = [], error.__traceback__
    while traceback is not None:
        if is_user_code(traceback.tb_frame.f_code):
            places.append((traceback.tb_frame.f_code, traceback.tb_lasti, traceback.tb_lineno))
        traceback = traceback.tb_next
    again = next((p for k, p in enumerate(places) if p in places[k + 1 :]), None)
    return None if again is None else location_in_code(*again)


# --- lazy ------------------------------------------------------------------------------------------------------------


def prim_func(func=None, *, eager_jit: bool = False):
    """Decorator: trace `func` now and return its `PrimFunc`.

    Every parameter is annotated: ``T.Tensor(shape, dtype)`` for a tensor in GM, a dtype (``T.int32``) for a run-time
    scalar.
    """
    if func is None:
        return lambda f: prim_func(f, eager_jit=eager_jit)
    if isinstance(func, PrimFunc) or is_source(func):
        return func
    caller_names = _caller_names(sys._getframe(1))
    annotations = signature_types(func, caller_names)
    if (instead := interpreter()) is not None:
        return instead.source(func, annotations)
    try:
        traced = run_traced(lambda b: _trace_lazy(func, annotations, b), Builder)
        traced._tl_source = (func, annotations)  # for `interpret.run`
        return traced
    except TilelangAscendError as error:
        # The message carries the user's line; the frames of the tracer in between would only bury it.
        raise error.with_traceback(None) from error.__cause__


def _caller_names(frame) -> dict:
    """Local names of the function that contains the definition (annotations may use names the body does not)."""
    names: dict = {}
    for _ in range(3):
        if frame is None:
            break
        if is_user_code(frame.f_code):
            names = dict(frame.f_locals) | names
            break
        frame = frame.f_back
    return names


def signature_types(func: types.FunctionType, extra_names: dict) -> dict[str, Any]:
    """{parameter: evaluated annotation}; parameters without annotation are missing."""
    cells = dict(zip(func.__code__.co_freevars, func.__closure__ or ()))
    out = {}
    for name, value in func.__annotations__.items():
        if name == "return":
            continue
        if isinstance(value, str) and not isinstance(value, DType):
            scope = dict(extra_names)
            scope.update({k: c.cell_contents for k, c in cells.items() if _filled(c)})
            try:
                value = eval(value, func.__globals__, scope)
            except TilelangAscendError as error:
                raise error.attach(_definition(func)) from None
            except NameError as error:
                text = f"the annotation of '{name}' cannot be evaluated: {error}"
                raise InvalidKernel(text, at=_definition(func)) from error
            value = value() if getattr(value, "_tl_annotation", False) else value
        elif callable(value) and not isinstance(value, (DType, type, TensorSpec)) and not _is_hint(value):
            value = value()
        out[name] = value
    return out


def _is_hint(value) -> bool:
    """True for what only tells a reader, or a checker of types, what to pass: ``Optional[float]``, ``Any``, ``list[int]``."""
    return typing.get_origin(value) is not None or type(value).__module__ == "typing"


def _filled(cell) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # the enclosing function has not assigned the name yet
        return False


def _definition(func) -> Location:
    """The ``def`` line of a function (decorators come before it)."""
    file, line = func.__code__.co_filename, func.__code__.co_firstlineno
    for n in range(line, line + 20):
        text = linecache.getline(file, n)
        if text.lstrip().startswith(("def ", "async def ")):
            start = len(text) - len(text.lstrip())
            return Location(file, n, start + 1, len(text.rstrip()) + 1)
    return Location(file, line)


def make_param(name: str, kind: Any, func):
    """The IR parameter for one annotation, or None if it is not a run-time parameter."""
    if isinstance(kind, TensorSpec):
        strides = list(kind.strides) if kind.strides is not None else None
        return decl_buffer(list(kind.shape), kind.dtype, name, strides=strides, scope="global")
    if isinstance(kind, DType):
        return Var(name, str(kind))
    if kind in (int, float, bool):
        return Var(name, str(DType(kind)))
    return None


def _trace_lazy(func, annotations: dict, builder: Builder) -> PrimFunc:
    args, params = {}, []
    for p in inspect.signature(func).parameters.values():
        kind = annotations.get(p.name)
        value = Pointer(p.name) if isinstance(kind, PointerSpec) else make_param(p.name, kind, func)
        if value is not None:
            builder.unique(p.name)
            params.append(value)
            args[p.name] = value
        elif p.default is not p.empty:
            args[p.name] = p.default
        elif p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            raise InvalidKernel(
                f"parameter '{p.name}' of '{func.__name__}' has no type",
                at=_definition(func),
                hint="annotate it: T.Tensor((M, N), 'float16') for a tensor, T.int32 for a run-time number; "
                "take constants from the closure",
            )
    builder.scalars = [p for p in params if isinstance(p, Var) and not is_buffer_var(p)]
    _reserve_shape_names(builder, [p for p in params if not isinstance(p, Pointer)])
    result = call_rewritten(func, builder, **args)
    for p in params:
        if isinstance(p, Pointer) and p.tensor is None:
            raise nothing_made(p.name, func)
    return finish(builder, func, [p.tensor if isinstance(p, Pointer) else p for p in params], result)


def nothing_made(pointer: str, func) -> InvalidKernel:
    """The error of a kernel that does not say what lies behind a pointer."""
    return InvalidKernel(
        f"nothing is made of the pointer '{pointer}'", at=_definition(func), hint=f"write T.make_tensor({pointer}, shape, dtype)"
    )


def _reserve_shape_names(builder: Builder, params) -> None:
    for p in params:
        if is_buffer_var(p):
            for dim in (*p.ty.shape, *p.ty.strides):
                if isinstance(dim, Var):
                    builder.names.setdefault(dim.name, 0)


def call_rewritten(func, builder: Builder, **args):
    """Run the rewritten form of `func`."""
    rewritten = rewritten_function(func, ops)
    builder.function_regions.append(builder.region)
    result = rewritten(**args)
    builder.function_regions.pop()
    return result


def finish(builder: Builder, func, params: list, result) -> PrimFunc:
    """Assemble the PrimFunc: outputs appended, attributes set, scopes checked."""
    where = _definition(func)
    returned = [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result]
    for r in returned:
        if not any(r is o for o in builder.outputs):
            raise InvalidKernel(f"'{func.__name__}' returns {r!r}", at=where, hint="only tensors made by T.empty can be returned")
    missing = [o.name for o in builder.outputs if not any(o is r for r in returned)]
    if missing:
        raise InvalidKernel(
            f"'{missing[0]}' is made by T.empty but not returned",
            at=where,
            hint=f"add `return {', '.join(o.name for o in builder.outputs)}`",
        )
    if builder.grids == 0:
        raise InvalidKernel(
            f"'{func.__name__}' launches no kernel",
            at=where,
            hint="put the body under `with T.Kernel(...) as (bx, by):`",
        )
    params = params + builder.outputs
    attrs: dict[str, Any] = {"global_symbol": func.__name__}
    if returned:
        position = {id(p): k for k, p in enumerate(params)}
        attrs["tl.out_idx"] = [position[id(r)] for r in returned]
    if builder.threads is not None:
        attrs["tl.threads"] = builder.threads
    if builder.hints:
        attrs["tl.hints"] = list(dict.fromkeys(builder.hints))
    if builder.safe_values:
        places = [next((k for k, p in enumerate(params) if p.same_as(b)), None) for b, _ in builder.safe_values]
        if None in places:
            name = builder.safe_values[places.index(None)][0].name
            raise InvalidKernel(f"T.annotate_safe_value of '{name}', which is no tensor argument", at=where)
        values = [int(v) if "int" in dtype_of(b) else imm(v, dtype_of(b)) for b, v in builder.safe_values]
        attrs["tl.safe_values"] = [[k, v] for k, v in zip(places, values)]
    body = builder.finish(where, params)
    return unpack_nibbles(PrimFunc(params, body, span=span_of(where)).with_attr(attrs))


def trace(fn, args=(), kwargs=None) -> PrimFunc:
    """Run a lazy-style function and return the `PrimFunc` it builds. Raises `InvalidKernel` if it returns anything
    else.
    """
    if isinstance(fn, PrimFunc) or is_source(fn):
        return fn
    try:
        result = fn(*args, **(kwargs or {}))
    except TilelangAscendError as error:
        error.attach(location_from_traceback(error.__traceback__, is_user_code))
        raise
    if not isinstance(result, PrimFunc) and not is_source(result):
        raise InvalidKernel(
            f"'{fn.__name__}' returned {type(result).__name__}, not a kernel",
            at=_definition(fn),
            hint="define `@T.prim_func def main(...)` inside it and return main",
        )
    return result


# --- macros ----------------------------------------------------------------------------------------------------------


def macro(func=None):
    """Decorator: a function whose body is inlined where it is called in a kernel.

    Buffers and parameters annotated `T.Ref` are passed by reference, numbers by value. (Plain functions and nested
    `def`s behave the same way; the decorator only says so.)
    """
    if func is None:
        return macro
    if getattr(func, "_tl_traced", False) or not isinstance(func, types.FunctionType):
        return func
    if (meaning := other_meaning("macro")) is not None:
        return meaning(func)
    if (instead := interpreter()) is not None:
        return instead.macro(func)
    return calls.inline(func)


def inline(func):
    """Decorator, same as `macro`."""
    return macro(func)


__all__ = [
    "StopProbe",
    "call_rewritten",
    "finish",
    "inline",
    "macro",
    "make_param",
    "prim_func",
    "run_traced",
    "signature_types",
    "trace",
]
