"""Brackets, dots and in-place operators: elements and regions of buffers, items of Python containers."""

from __future__ import annotations

from typing import Any, Callable

from ..errors import InvalidArgument, UnsupportedConstruct
from ..ir import const_int, dtype_of, free_vars, itemsize, region, sym
from . import operators
from .annotations import DType
from .builder import Builder, constant
from .containers import change, outside
from .names import bind, store_scalar
from .operators import as_scalar, binop, cast, loop_extent, plain
from .values import Restart, ScalarVar, Storage, element, is_buffer, is_expr, is_region


def shape(value):
    """``x.shape``; static dimensions of a buffer are Python integers."""
    if is_buffer(value):
        return tuple(s if (n := const_int(s)) is None else n for s in value.ty.shape)
    return value.shape


def data(value):
    """``x.data`` of a buffer: its storage, for `T.Tensor(shape, dtype, x.data)`."""
    return Storage(value) if is_buffer(value) else value.data


def dtype(value):
    """``x.dtype`` of a buffer or an expression, as a dtype of the language."""
    value = plain(value)
    return DType(dtype_of(value)) if is_buffer(value) or is_expr(value) else value.dtype


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
    """A run-time or constant index; constants count from the end, which run time may tell, when negative. Numbers of less than 32 bits are widened: there sizes of
    tensors and distances of indices are no numbers of theirs."""
    i = plain(i)
    if isinstance(i, int) and not isinstance(i, bool):
        return i if i >= 0 else i + dim if const_int(dim) is not None else binop("Add", dim, i)
    expr = as_scalar(i, "an index")
    if dtype_of(expr) != "bool" and not dtype_of(expr).startswith(("int", "uint")):
        raise InvalidArgument(f"an index is {dtype_of(expr)}, integers are needed", hint="convert it: T.cast(i, 'int32')")
    return cast(expr, "int32") if itemsize(dtype_of(expr)) < 4 else expr


def getitem(obj, index):
    """``obj[index]``: an element, a region of a buffer (missing dimensions are whole), or plain Python."""
    if isinstance(obj, ScalarVar):
        return obj
    if not is_buffer(obj):
        return _python_item(obj, index)
    where = _place(obj, index)
    return element(obj, where) if isinstance(where, list) else where


def _place(buffer, index):
    """Where ``buffer[index]`` is: the indices of an element, or a region."""
    items = _indices(buffer, index)
    dims = list(buffer.ty.shape)
    if len(items) == len(dims) and not any(isinstance(i, slice) for i in items):
        return [_as_index(_one_index(i, d)) for i, d in zip(items, dims)]
    items += [slice(None)] * (len(dims) - len(items))
    mins, extents = zip(*[_dimension(buffer, i, d) for i, d in zip(items, dims)])
    return region(buffer, [_as_index(m) for m in mins], [_as_index(e) for e in extents])


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
        if (builder := Builder.active()) is not None:
            builder.evaluations.use(extent)  # before equal reads of different times cancel
        extent = sym.Analyzer().simplify(extent)
        extent = const_int(extent) if const_int(extent) is not None else extent if extent.same_as(dim) else _counted(extent)
    if isinstance(extent, int) and extent <= 0:
        raise InvalidArgument(f"the slice {_text(start)}:{_text(stop)} of {buffer.name} is empty")
    return start, extent


def _counted(extent):
    """How many elements a slice has, as an int32 that is not positive where it ends before it begins: below 0 there are no unsigned numbers, and of an int64
    not the low bits count."""
    if dtype_of(extent).startswith("uint"):
        extent = cast(extent, dtype_of(extent).removeprefix("u"))
    return loop_extent(extent) if dtype_of(extent) == "int64" else extent


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
        store_scalar(Builder.current("assignment"), obj.name, obj, value)
    elif is_buffer(obj):
        _store_item(obj, index, value)
    elif is_expr(obj) or is_region(obj):
        raise UnsupportedConstruct(f"'{obj}' is a value, it cannot be assigned to", hint="write all indices at once: A[i, j] = x")
    else:
        index = plain(index)
        if is_expr(index):
            _unroll_or_fail(obj, index)
        old = obj[index] if isinstance(obj, (list, dict)) and _has(obj, index) else None
        if not isinstance(old, ScalarVar):
            change(obj, f"an assignment to an item of a Python {type(obj).__name__}")
        obj[index] = bind("item", value, old) if isinstance(old, ScalarVar) else plain(value) if not isinstance(value, ScalarVar) else value


def _has(obj, index) -> bool:
    return index in obj if isinstance(obj, dict) else isinstance(index, int) and -len(obj) <= index < len(obj)


def _store_item(buffer, index, value) -> None:
    builder = Builder.current("an element store")
    where = _place(buffer, index)
    if is_region(where):
        if any(constant(r.extent) != 1 for r in where.region):
            REGION_ASSIGNMENT[0](where, value)
            return
        where = [r.min for r in where.region]
    builder.store(buffer, cast(as_scalar(value, "the stored value"), dtype_of(buffer)), where)


REGION_ASSIGNMENT: list[Callable[[Any, Any], None]] = []
"""What ``A[0:16, :] = value`` does (a copy or a fill); one function, put here by the language."""


def place(obj, index) -> tuple:
    """The left side of ``obj[index] <op>= value``: evaluated once, and before the right side."""
    index = tuple(map(_once, index)) if isinstance(index, tuple) else _once(index)
    return obj, index, getitem(obj, index)


def augitem(op: str, target: tuple, value) -> None:
    """``obj[index] <op>= value`` for the `place` of ``obj[index]``."""
    obj, index, old = target
    setitem(inplace(op, old, value), obj, index)


def _once(i):
    return plain(i) if isinstance(i, ScalarVar) else i


def inplace(op: str, old, value):
    """``old <op>= value`` without the assignment."""
    old, value = plain(old), plain(value)
    if is_expr(old) or is_expr(value) or is_buffer(old) or is_region(old) or is_buffer(value) or is_region(value):
        return binop(op, old, value)
    if hasattr(old, operators.INPLACE[op].__name__.join(("__", "__"))):
        change(old, f"an in-place change of a Python {type(old).__name__}")
    return operators.INPLACE[op](old, value)


def setattr_(value, obj, name: str) -> None:
    """``obj.name = value`` is Python at trace time; inside run-time control flow it would not mean what it says."""
    builder = Builder.current("assignment")
    outside(builder, builder.root, f"an assignment to attribute '{name}'", "use a local name or T.alloc_var")
    setattr(obj, name, value)
