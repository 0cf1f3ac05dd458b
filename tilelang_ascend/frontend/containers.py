"""Changes of Python's containers and iterators: they happen while the kernel is traced, once, whatever run-time control flow stands around them.

A change is what it says only if the container was made inside the same run-time loop or branch. Elsewhere a loop over a constant range is
unrolled, and anything else is refused.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..errors import UnsupportedConstruct
from .builder import Builder, Region
from .values import Restart, is_ir

CONTAINERS = (list, dict, set, bytearray, deque)
_RUNTIME = ("loop", "parallel", "branch", "while")
_MUTATING = frozenset(
    "append appendleft extend extendleft insert remove pop popleft popitem clear sort reverse rotate update setdefault add discard "
    "difference_update intersection_update symmetric_difference_update __setitem__ __delitem__ __next__ send fill put".split()
)


def is_changeable(value: Any) -> bool:
    """True for Python objects with a state: containers, arrays, iterators."""
    return isinstance(value, (*CONTAINERS, Iterator)) or hasattr(type(value), "__setitem__") and not is_ir(value)


def made(value):
    """The value of a display or a comprehension, or one that is given a name: a container belongs to the region that made it."""
    builder = Builder.active()
    if builder is not None and is_changeable(value):
        builder.containers.setdefault(id(value), (value, builder.region))
    return value


def change(container: Any, what: str) -> None:
    """`container` is about to change. Raises `UnsupportedConstruct` where that would happen another number of times than the program says."""
    builder = Builder.active()
    if builder is None:
        return
    _, home = builder.containers.get(id(container), (None, builder.root))
    outside(builder, home, what, "make the container inside the block, or keep the numbers in T.alloc_var or T.alloc_local((n,), dtype)")


def consume(iterator: Any) -> None:
    """Items of `iterator` are about to be taken. One without a name was made for this; another keeps its place from iteration to iteration."""
    builder = Builder.active()
    if isinstance(iterator, Iterator) and builder is not None and id(iterator) in builder.containers:
        change(iterator, f"taking an item of a Python {type(iterator).__name__}")


def outside(builder: Builder, home: Region | None, what: str, hint: str) -> None:
    """Refuse an effect of Python on something of region `home` inside run-time control flow; constant ranges are unrolled instead."""
    region, crossed = builder.region, []
    while region is not None and region is not home:
        if region.kind in _RUNTIME:
            crossed.append(region)
        region = region.parent
    if not crossed:
        return
    for loop in builder.loops:
        if loop.unroll_key is not None and loop.region in crossed and loop.unroll_key not in builder.facts:
            builder.facts[loop.unroll_key] = True
            raise Restart
    raise UnsupportedConstruct(
        f"{what} inside run-time control flow", notes=[("the enclosing block starts here", crossed[-1].where)], hint=hint
    )


def called(function) -> None:
    """A method of a container is called."""
    methods = (types.BuiltinMethodType, types.MethodWrapperType)
    if isinstance(function, methods) and function.__name__ in _MUTATING and is_changeable(function.__self__):
        change(function.__self__, f"`.{function.__name__}` of a Python {type(function.__self__).__name__}")


def delitem(obj, index) -> None:
    """``del obj[index]``."""
    change(obj, f"`del` of an item of a Python {type(obj).__name__}")
    del obj[index]


def global_(value, name: str):
    """``name = value`` for a name declared `global`."""
    builder = Builder.active()
    if builder is not None:
        outside(builder, builder.root, f"an assignment to the global name '{name}'", "use a local name or T.alloc_var")
    return value
