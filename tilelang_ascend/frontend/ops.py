"""What rewritten code calls: ``_tl_`` in the generated Python is this module (see `rewriter`)."""

from __future__ import annotations

import builtins
import functools
import math
import os
import sys
import sysconfig
import types
from typing import Any, Callable

from ..errors import (
    InvalidArgument,
    InvalidKernel,
    KernelSyntaxError,
    SourceUnavailable,
    TilelangAscendError,
    UnsupportedConstruct,
)
from ..ir import Break, Continue, TensorLoad, const_int, dtype_of, free_vars, region, sym, tile_op, walk_expr
from . import operators
from .builder import Builder, constant, is_user_code, unreadable
from .control import FOREVER, for_, if_, serial_range, while_  # noqa: F401  (called by generated code)
from .operators import as_scalar, binop, cast, compare, plain, unop  # noqa: F401
from .source import rewritten_function
from .types import DType, TensorSpec, join_dtypes
from .values import UNBOUND, ElementRef, LoopSpec, Restart, ScalarVar, Unavailable, is_buffer, is_expr, is_region  # noqa: F401

slice_ = slice

# --- names -----------------------------------------------------------------------------------------------------------


def hint(names):
    """Announce what the next buffers are assigned to; returns `names`."""
    builder = Builder.active()
    if builder is not None:
        builder.pending[-1] = (names,) if isinstance(names, str) else tuple(names)
    return names


def get(value, name: str):
    """Read a Python name."""
    if isinstance(value, ScalarVar):
        if value.buffer is None:
            raise unreadable(name, UNBOUND)
        return value.load()
    if isinstance(value, Unavailable):
        raise unreadable(name, value)
    return value


def bind(name: str, value, old):
    """``name = value``: a store if the name holds a mutable scalar, a new immutable value otherwise."""
    builder = Builder.current("assignment")
    builder.pending[-1] = ()
    if isinstance(old, ScalarVar) and (not isinstance(value, ScalarVar) or value is old or old.implicit):
        if _rebinds(builder, old, value):
            return _fresh(builder, name, value)
        return _store_scalar(builder, name, old, value)
    _check_carried(builder, name, value, old)
    return _fresh(builder, name, value)


def _rebinds(builder: Builder, old: ScalarVar, value) -> bool:
    """An implicit variable may become something else where it lives; nothing else may."""
    if not old.implicit:
        return not _is_scalar(value)
    return builder.region is old.owner or (old.buffer is None and not _is_scalar(value))


def _is_scalar(value) -> bool:
    return isinstance(value, (bool, int, float, ScalarVar)) or is_expr(value) or is_expr(plain(value))


def _fresh(builder: Builder, name: str, value):
    """A new binding: expressions are evaluated here, once; Python values are kept."""
    if isinstance(value, ScalarVar):
        return value if not value.implicit else _fresh(builder, name, value.load())
    value = plain(value)
    if is_expr(value) and constant(value) is None and type(value).__name__ not in ("Var", "StringImm"):
        # Outside a launch only shapes are computed; they stay expressions so that buffers can use them.
        return builder.let(name, value) if builder.region is not builder.root else value
    return value


def _store_scalar(builder: Builder, name: str, var: ScalarVar, value):
    if not _is_scalar(value):
        raise InvalidKernel(
            f"'{name}' is a number that changes while the kernel runs; it cannot become {value!r}",
            hint="use another name",
        )
    value = value.load() if isinstance(value, ScalarVar) else plain(value)
    known = value if isinstance(value, (bool, int, float)) else None
    expr = as_scalar(value)
    if not var.implicit:
        builder.store(var.buffer, cast(expr, var.dtype), getattr(var, "indices", [0]))
        return var
    _check_parallel(builder, name, var)
    dtype = dtype_of(expr)
    if var.buffer is None:
        builder.materialise(var, dtype)
    common = var.dtype if isinstance(value, (bool, int)) and var.dtype != "bool" and dtype == "int32" else join_dtypes(var.dtype, dtype)
    if common != var.dtype:
        builder.widen(var, common)
    builder.store(var.buffer, cast(expr, var.dtype), [0])
    var.known = known
    return var


def _check_parallel(builder: Builder, name: str, var: ScalarVar) -> None:
    region = builder.region
    while region is not None and region is not var.owner:
        if region.kind == "parallel":
            raise InvalidKernel(
                f"'{name}' is carried from one iteration of T.Parallel to the next, but those have no order",
                notes=[("the parallel loop is here", region.where)],
                hint="use T.serial for the loop, or T.reduce_sum / T.reduce_max on a tile",
            )
        region = region.parent


def _check_carried(builder: Builder, name: str, value, old) -> None:
    """A buffer (or any Python object) cannot change from one run-time iteration to the next."""
    region = builder.region
    while region is not None:
        if name in region.carried and region.carried[name] is not value and region.carried[name] is old:
            raise InvalidKernel(
                f"'{name}' would hold a different object in the next iteration of a run-time loop",
                notes=[("the loop is here", region.where)],
                hint="only numbers can be loop-carried; loop over a Python list to unroll, or index one buffer with an extra dimension",
            )
        region = region.parent


def target(name: str, value):
    """A loop or `with` target: always a new binding."""
    return plain(value) if not isinstance(value, ScalarVar) else value


def param(value, name: str, by_reference: bool):
    """A parameter of a function called in a kernel: numbers by value, buffers and `T.Ref` by reference."""
    builder = Builder.active()
    if builder is None:
        return value
    if by_reference:
        return ElementRef(name, value) if type(value).__name__ == "TensorLoad" else value
    if isinstance(value, ScalarVar):
        value = value.load()
    if is_expr(value) and type(value).__name__ != "Var" and constant(value) is None:
        return _fresh(builder, name, value)
    return value


def snapshot(names, *values):
    """Values of a tuple assignment, evaluated before any of the names changes."""
    builder = Builder.current("assignment")
    builder.pending[-1] = ()
    if len(values) == 1:
        return values
    return tuple(builder.let(n, v) if is_expr(v) and _reads_memory(v) else v for n, v in zip(names, values))


def _reads_memory(expr) -> bool:
    found = []
    walk_expr(expr, lambda e: found.append(e) if isinstance(e, TensorLoad) else None)
    return bool(found)


def unpack(_hint, value):
    """The right side of ``a, b = value``."""
    if isinstance(value, ScalarVar) or is_expr(value) or is_buffer(value) or is_region(value):
        raise UnsupportedConstruct(f"'{value}' cannot be unpacked: it is one value")
    if isinstance(value, (tuple, list)):
        return value
    return list(iterable(value))


def annotated(value, annotation: Callable):
    """``x: T.int32 = value`` converts; other annotations say nothing about the value."""
    try:
        kind = annotation()
    except Exception:  # noqa: BLE001  Python does not evaluate annotations of local names at all
        return value
    return cast(value, kind) if isinstance(kind, DType) and _is_scalar(value) else value


def declare(name: str, annotation: Callable, old):
    """``A: T.Tensor[[M, N], dtype]``: the shape of a tensor argument of an eager kernel."""
    try:
        kind = annotation()
    except TilelangAscendError:
        raise
    except Exception:  # noqa: BLE001
        return old
    builder = Builder.current("a tensor declaration")
    if isinstance(kind, TensorSpec):
        if builder.eager is None:
            raise KernelSyntaxError(f"'{name}' is declared in the body of a @T.prim_func", hint="annotate it in the signature")
        return builder.eager.declare(name, kind)
    return old


# --- items -----------------------------------------------------------------------------------------------------------


def shape(value):
    """``x.shape``; static dimensions of a buffer are Python integers."""
    if is_buffer(value):
        return tuple(s if (n := const_int(s)) is None else n for s in value.ty.shape)
    return value.shape


def _indices(buffer, index) -> list:
    """Normalised indices: one slice or expression per dimension."""
    rank = len(buffer.ty.shape)
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        items[at : at + 1] = [slice(None)] * (rank - len(items) + 1)
    if len(items) > rank:
        raise InvalidArgument(
            f"{buffer.name} has {rank} dimension{'s' if rank != 1 else ''}, but {len(items)} indices are given",
            hint=f"its shape is {shape(buffer)}",
        )
    return items


def _one_index(i, dim):
    """A run-time or constant index; constants count from the end when negative."""
    i = plain(i)
    if isinstance(i, int) and not isinstance(i, bool):
        return i + dim if i < 0 and const_int(dim) is not None else i
    expr = as_scalar(i, "an index")
    if dtype_of(expr) == "bool":
        return cast(expr, "int32")
    if not dtype_of(expr).startswith(("int", "uint")):
        raise InvalidArgument(f"an index is {dtype_of(expr)}, integers are needed", hint="convert it: T.cast(i, 'int32')")
    return expr


def getitem(obj, index):
    """``obj[index]``: an element, a region of a buffer (missing dimensions are whole), or plain Python."""
    if isinstance(obj, ScalarVar):
        return obj
    if not is_buffer(obj):
        return _python_item(obj, index)
    items = _indices(obj, index)
    dims = list(obj.ty.shape)
    if len(items) == len(dims) and not any(isinstance(i, slice) for i in items):
        return operators.tirx.BufferLoad(obj, [_as_index(_one_index(i, d)) for i, d in zip(items, dims)])
    items += [slice(None)] * (len(dims) - len(items))
    mins, extents = zip(*[_dimension(obj, i, d) for i, d in zip(items, dims)])
    return region(obj, [_as_index(m) for m in mins], [_as_index(e) for e in extents])


def _as_index(i):
    return as_scalar(i)


def _dimension(buffer, i, dim):
    """(min, extent) of one dimension."""
    size = const_int(dim)
    dim = dim if size is None else size
    if not isinstance(i, slice):
        return _one_index(i, dim), 1
    if i.step is not None and constant(plain(i.step)) != 1:
        raise UnsupportedConstruct(
            f"a slice of {buffer.name} with step {i.step}", hint="index with i * step inside `for i in T.Parallel(n)`"
        )
    start = 0 if i.start is None else _one_index(i.start, dim)
    stop = dim if i.stop is None else _one_index(i.stop, dim)
    extent = binop("Sub", stop, start)
    if not isinstance(extent, int):
        extent = sym.Analyzer().simplify(extent)
        extent = extent if const_int(extent) is None else const_int(extent)
    if isinstance(extent, int) and extent <= 0:
        raise InvalidArgument(f"the slice {_text(start)}:{_text(stop)} of {buffer.name} is empty")
    return start, extent


def _text(x) -> str:
    return str(x)


def _python_item(obj, index):
    index = plain(index)
    if is_expr(index) and isinstance(obj, (list, tuple, str, range)):
        _unroll_or_fail(obj, index)
    if is_expr(obj) or is_region(obj):
        raise UnsupportedConstruct(f"'{obj}' is already one value and cannot be indexed again", hint="write all indices at once: A[i, j]")
    item = obj[index]
    return item.load() if isinstance(item, ScalarVar) else item


def _unroll_or_fail(obj, index) -> None:
    """A Python list indexed by the variable of a constant `range` loop: trace again with that loop unrolled."""
    builder = Builder.current("this index")
    used = free_vars(index)
    for loop in reversed(builder.loops):
        if loop.unroll_key is not None and any(v in used for v in loop.vars):
            builder.facts[loop.unroll_key] = True
            raise Restart
    raise UnsupportedConstruct(
        f"a Python {type(obj).__name__} is indexed by '{index}', which is known only when the kernel runs",
        hint="loop over Python values (`for k in [0, 1, 2]`) to unroll, or use one buffer with an extra dimension",
    )


def setitem(value, obj, index) -> None:
    """``obj[index] = value``."""
    if isinstance(obj, ScalarVar):
        _store_scalar(Builder.current("assignment"), obj.name, obj, value)
    elif is_buffer(obj):
        _store_item(obj, index, value)
    elif is_expr(obj) or is_region(obj):
        raise UnsupportedConstruct(f"'{obj}' is a value, it cannot be assigned to", hint="write all indices at once: A[i, j] = x")
    else:
        index = plain(index)
        if is_expr(index):
            _unroll_or_fail(obj, index)
        old = obj[index] if isinstance(obj, (list, dict)) and _has(obj, index) else None
        obj[index] = bind("item", value, old) if isinstance(old, ScalarVar) else plain(value) if not isinstance(value, ScalarVar) else value


def _has(obj, index) -> bool:
    return index in obj if isinstance(obj, dict) else isinstance(index, int) and -len(obj) <= index < len(obj)


def _store_item(buffer, index, value) -> None:
    builder = Builder.current("an element store")
    place = getitem(buffer, index)
    if is_region(place) and any(constant(r.extent) != 1 for r in place.region):
        assign_region(place, value)
        return
    where = list(place.indices) if hasattr(place, "indices") else [r.min for r in place.region]
    builder.store(buffer, cast(as_scalar(value, "the stored value"), dtype_of(buffer)), where)


#: ``A[0:16, :] = value``; set by the language (it is a copy or a fill).
assign_region: Callable[[Any, Any], None]


def augitem(op: str, obj, index, value) -> None:
    """``obj[index] <op>= value`` with the index evaluated once."""
    if isinstance(index, tuple):
        index = tuple(_once(i) for i in index)
    else:
        index = _once(index)
    old = getitem(obj, index)
    setitem(inplace(op, old, value), obj, index)


def _once(i):
    return plain(i) if isinstance(i, ScalarVar) else i


def inplace(op: str, old, value):
    """``old <op>= value`` without the assignment."""
    old, value = plain(old), plain(value)
    if is_expr(old) or is_expr(value) or is_buffer(old) or is_region(old) or is_buffer(value) or is_region(value):
        return binop(op, old, value)
    return operators.INPLACE[op](old, value)


def setattr_(value, obj, name: str) -> None:
    """``obj.name = value`` is Python at trace time; inside run-time control flow it would not mean what it says."""
    region = Builder.current("assignment").region
    if region.kind in ("loop", "parallel", "branch", "while"):
        raise UnsupportedConstruct(
            f"an assignment to attribute '{name}' inside run-time control flow",
            notes=[("the enclosing block starts here", region.where)],
            hint="use a local name or T.alloc_var",
        )
    setattr(obj, name, value)


# --- control flow ----------------------------------------------------------------------------------------------------


def break_() -> bool:
    """``break``: True when the Python loop of the generated code has to be left."""
    return _leave("break", Break)


def continue_() -> int:
    """``continue``: 1 = Python ``continue``, 2 = leave the generated loop (the rest of the body is dead), 0 = neither."""
    left = _leave("continue", Continue)
    if not left:
        return 0
    return 2 if Builder.current().loops[-1].runtime else 1


def _leave(word: str, node) -> bool:
    builder = Builder.current(word)
    loop = builder.loops[-1]
    here = builder.region is loop.region
    if not loop.runtime:
        if not here:
            raise UnsupportedConstruct(
                f"`{word}` under a run-time condition inside a loop that is unrolled at compile time",
                notes=[("the loop is here", loop.where)],
                hint="loop with T.serial(n), or guard the rest of the body with `if`",
            )
        return True
    if loop.kind == "parallel":
        raise UnsupportedConstruct(f"`{word}` inside T.Parallel", hint="guard the body with `if`, or use T.serial")
    builder.emit(node(span=builder.span()))
    return here


def with_(context, names: tuple, kind: str):
    """``with context as target``: a launch learns the names of its block indices."""
    enter = getattr(context, "named", None)
    if enter is not None:
        return enter(names, kind)
    if not hasattr(context, "__enter__"):
        raise UnsupportedConstruct(f"`with` on {context!r}", hint="T.Kernel(...) is the only block of a kernel")
    return context


def depth():
    """Where the builder is, for `unwind`."""
    builder = Builder.active()
    return None if builder is None else (builder.region, len(builder.loops), len(builder.pending), len(builder.function_regions))


def unwind(mark) -> None:
    """Drop the regions an exception caught by the user's `try` left open."""
    if mark is not None:
        builder = Builder.current()
        builder.region = mark[0]
        del builder.loops[mark[1] :], builder.pending[mark[2] :], builder.function_regions[mark[3] :]


def assert_(condition, message: Callable) -> None:
    """``assert``: immediate for Python values, checked on the device otherwise."""
    condition = operators.as_bool(condition)
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is None:
        builder = Builder.current("assert")
        builder.emit(tile_op("device_assert", condition, msg=str(message() or ""), span=builder.span()))
    elif not known:
        raise AssertionError(message())


def match_subject(value):
    """``match value:`` works on values known at compile time."""
    value = plain(value)
    if is_expr(value):
        known = constant(value)
        if known is None:
            raise UnsupportedConstruct("`match` on a value known only when the kernel runs", hint="write if / elif / else")
        return known
    return value


def ret(value):
    """``return value``."""
    builder = Builder.active()
    if builder is not None and builder.function_regions and builder.region is not builder.function_regions[-1]:
        raise UnsupportedConstruct(
            "`return` inside run-time control flow",
            notes=[("the enclosing block starts here", builder.region.where)],
            hint="assign the result to a name and return it at the end of the function",
        )
    return plain(value)


def boolop(op: str, first, *rest: Callable):
    """``a and b`` / ``a or b``; the right sides are evaluated only if Python would."""
    result = plain(first)
    for thunk in rest:
        if not is_expr(result) or constant(result) is not None:
            value = constant(result) if is_expr(result) else result
            if bool(value) == (op == "Or"):
                return value
            result = plain(thunk())
        else:
            result = (operators.logical_and if op == "And" else operators.logical_or)(result, plain(thunk()))
    return result


def ifexp(condition, then: Callable, other: Callable):
    """``then if condition else other``."""
    condition = operators.as_bool(condition)
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is not None:
        return then() if known else other()
    return operators.select(condition, then(), other())


def truth(condition):
    """The filter of a comprehension."""
    condition = operators.as_bool(condition)
    if is_expr(condition):
        known = constant(condition)
        if known is None:
            raise UnsupportedConstruct("a comprehension filtered by a value known only when the kernel runs")
        return known
    return condition


def iterable(value):
    """What a comprehension or an unpacking iterates over: Python objects only."""
    value = plain(value)
    if isinstance(value, LoopSpec) or is_expr(value) or is_buffer(value) or is_region(value):
        raise UnsupportedConstruct(
            "a comprehension over values known only when the kernel runs" if isinstance(value, LoopSpec) else f"'{value}' cannot be iterated over",
            hint="use a `for` statement with T.serial(n) or T.Parallel(n)",
        )
    return value


# --- calls -----------------------------------------------------------------------------------------------------------

#: Python functions that mean something else on values of a kernel: {function: replacement}. Filled by the language.
REPLACEMENTS: dict[Any, Callable] = {}


def nested(function):
    """Marks a function defined inside a kernel: it is rewritten already."""
    return _traced(function)


def _traced(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        builder = Builder.active()
        if builder is None:
            return function(*args, **kwargs)
        builder.pending.append(())
        builder.function_regions.append(builder.region)
        loops = len(builder.loops)
        try:
            return function(*args, **kwargs)
        finally:
            builder.pending.pop() if builder.pending else None
            builder.function_regions.pop() if builder.function_regions else None
            del builder.loops[loops:]

    call._tl_traced = True
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
    # Generators and lambdas run as they are; operators on IR values work in them.
    if _is_foreign(code) or code.co_name == "<lambda>" or code.co_flags & 0x2A0:
        return function
    if code.co_filename in _without_source:
        return function
    try:
        return _traced(rewritten_function(function, sys.modules[__name__]))
    except SourceUnavailable:
        _without_source.add(code.co_filename)
        return function


def _on_ir(python: Callable, ir: Callable) -> Callable:
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
            if isinstance(a, LoopSpec) or is_expr(a):
                iterable(a)
        return python(*args, **kwargs)

    return call


def _divmod(a, b):
    return binop("FloorDiv", a, b), binop("Mod", a, b)


def _range(*args):
    """`range`: a Python range of integers, a run-time loop as soon as one bound is a run-time value."""
    args = [plain(a) for a in args]
    known = [constant(a) if is_expr(a) else a for a in args]
    if None not in known:
        return range(*known)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return serial_range(start, stop, step)


def _print(*values, **kwargs):
    builtins.print(*map(plain, values), **kwargs)


REPLACEMENTS.update(
    {
        builtins.abs: _on_ir(abs, operators.tirx.abs),
        builtins.pow: _on_ir(pow, operators.power),
        builtins.divmod: _on_ir(divmod, _divmod),
        builtins.len: _buffer_len,
        builtins.range: _range,
        builtins.print: _print,
        builtins.bool: _on_ir(bool, operators.as_bool),
        builtins.int: _on_ir(int, lambda x: cast(x, "int32")),
        builtins.float: _on_ir(float, lambda x: cast(x, "float32")),
        builtins.sum: lambda values, start=0: functools.reduce(lambda a, b: binop("Add", a, b), iterable(values), start),
        builtins.all: lambda values: boolop("And", True, *[(lambda v=v: v) for v in iterable(values)]),
        builtins.any: lambda values: boolop("Or", False, *[(lambda v=v: v) for v in iterable(values)]),
    }
)
for _name in ("enumerate", "zip", "map", "list", "tuple", "sorted", "set", "iter", "reversed", "filter"):
    REPLACEMENTS[getattr(builtins, _name)] = _guard(getattr(builtins, _name))

MATH_FUNCTIONS = {name: getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil", "trunc", "fabs", "pow", "exp2") if hasattr(math, name)}
