"""Names: what an assignment, a parameter or a plain read of a Python name means in a kernel."""

from __future__ import annotations

from typing import Callable

from ..errors import InvalidArgument, InvalidKernel, KernelSyntaxError, TilelangAscendError, UnsupportedConstruct
from ..ir import TensorLoad, dtype_of, free_vars
from .annotations import DType, TensorSpec, join_dtypes
from .builder import Builder, constant, unreadable
from .containers import made
from .flow import iterable
from .operators import as_scalar, cast, plain
from .values import UNBOUND, ElementRef, ScalarVar, Unavailable, is_buffer, is_expr, is_region, reads_memory


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


def bind_outer(name: str, value, old):
    """``name = value`` for a name declared `nonlocal`: the statement around the call knows that the call may assign it, expressions do not."""
    region = Builder.current("assignment").region
    while region is not None and not isinstance(old, ScalarVar):
        if region.is_part:
            raise UnsupportedConstruct(
                f"an assignment to '{name}' of the enclosing function in a part of an expression that may not be evaluated",
                hint="write an `if` statement",
            )
        region = region.parent
    return bind(name, value, old)


def bind(name: str, value, old):
    """``name = value``: a store if the name holds a mutable scalar, a new immutable value otherwise."""
    builder = Builder.current("assignment")
    builder.pending[-1] = ()
    if isinstance(old, ScalarVar) and (not isinstance(value, ScalarVar) or value is old or old.implicit):
        if _rebinds(builder, old, value):
            return _fresh(builder, name, value)
        return store_scalar(builder, name, old, value)
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
    value = made(plain(value))
    if is_expr(value) and constant(value) is None and type(value).__name__ not in ("Var", "StringImm"):
        # Outside a launch only shapes are computed; they stay expressions so that buffers can use them.
        return builder.let(name, value) if builder.region is not builder.root else value
    return value


def store_scalar(builder: Builder, name: str, var: ScalarVar, value):
    """Store to a mutable scalar; an implicit one takes the wider of its type and the value's."""
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
    region = _inside_parallel(builder, var)
    if region is not None:
        raise InvalidKernel(
            f"'{name}' is carried from one iteration of T.Parallel to the next, but those have no order",
            notes=[("the parallel loop is here", region.where)],
            hint="use T.serial for the loop, or T.reduce_sum / T.reduce_max on a tile",
        )


def _inside_parallel(builder: Builder, var: ScalarVar):
    """The region of a T.Parallel that `var` was made outside of."""
    region = builder.region
    while region is not None and region is not var.owner:
        if region.kind == "parallel":
            return region
        region = region.parent
    return None


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


def target(name: str, value, old=UNBOUND):
    """A loop or `with` target, or a name in a pattern: a new binding, but for a value that Python takes from its own objects while the name
    is carried through run-time control flow. Later iterations and paths that meet again read that from memory."""
    if isinstance(value, ScalarVar):
        return value
    value = plain(value)
    builder = Builder.active()
    if builder is None or not isinstance(old, ScalarVar) or not old.implicit or not _is_scalar(value):
        return value
    of_the_loop = is_expr(value) and builder.loops and not free_vars(value).isdisjoint(builder.loops[-1].vars)
    return value if of_the_loop or _inside_parallel(builder, old) else bind(name, value, old)


def param(value, name: str, by_reference: bool):
    """A parameter of a function called in a kernel: numbers by value, buffers and `T.Ref` by reference."""
    builder = Builder.active()
    if builder is None:
        return value
    if by_reference:
        return _reference(name, value)
    if isinstance(value, ScalarVar):
        value = value.load()
    if is_expr(value) and type(value).__name__ != "Var" and constant(value) is None:
        return _fresh(builder, name, value)
    return made(value)


def _reference(name: str, value):
    if is_expr(value):
        value = Builder.current().evaluations.address(value)
    if isinstance(value, TensorLoad):
        return ElementRef(name, value)
    if isinstance(value, ScalarVar) or is_buffer(value):
        return value
    raise InvalidArgument(
        f"the T.Ref parameter '{name}' got {value!r}, which cannot be assigned to",
        hint="pass a scalar made by T.alloc_var, or one element of a buffer: A[i]",
    )


def snapshot(names, *values):
    """Values of a tuple assignment, evaluated before any of the names changes."""
    builder = Builder.current("assignment")
    builder.pending[-1] = ()
    if len(values) == 1:
        return values
    return tuple(builder.let(n, v) if is_expr(v) and reads_memory(v) else v for n, v in zip(names, values))


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
    except Exception:
        return value
    return cast(value, kind) if isinstance(kind, DType) and _is_scalar(value) else value


def declare(name: str, annotation: Callable, old):
    """``A: T.Tensor[[M, N], dtype]``: the shape of a tensor argument of an eager kernel."""
    try:
        kind = annotation()
    except TilelangAscendError:
        raise
    except Exception:
        return old
    builder = Builder.current("a tensor declaration")
    if isinstance(kind, TensorSpec):
        if builder.eager is None:
            raise KernelSyntaxError(f"'{name}' is declared in the body of a @T.prim_func", hint="annotate it in the signature")
        return builder.eager.declare(name, kind)
    return old
