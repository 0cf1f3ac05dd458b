"""Values that live only while a kernel is traced."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from ..errors import Location
from ..ir import BufferLoad, Expr, TensorLoad, is_buffer_var, walk_expr

active = threading.local()
"""`builder`: the builder of this thread."""


def element(buffer, indices):
    """``buffer[indices]``, evaluated here: the value of this moment, whenever a statement uses it."""
    load = BufferLoad(buffer, indices)
    builder = getattr(active, "builder", None)
    return load if builder is None else builder.evaluations.read(load)


def choice(value):
    """The same for an expression of which only a part is evaluated, decided when the kernel runs."""
    builder = getattr(active, "builder", None)
    return value if builder is None else builder.evaluations.choice(value)


class Unavailable:
    """What a Python name holds when reading it would be wrong; `reason` says why, `where` points at the cause."""

    def __init__(self, reason: str, where: Location | None = None, hint: str | None = None):
        self.reason, self.where, self.hint = reason, where, hint


UNBOUND = Unavailable("it has no value yet")


class ScalarVar:
    """A mutable scalar: a `local.var` buffer of shape (1,).

    `implicit` ones were names the front end had to make loop-carried; `owner` is the region that holds the buffer.
    `known` is the Python number it currently holds, when that is certain at this point of the program.
    """

    def __init__(self, name: str, owner: Any, buffer=None, implicit: bool = False, key: tuple | None = None):
        self.name, self.owner, self.buffer, self.implicit, self.key = name, owner, buffer, implicit, key
        self.known = None

    @property
    def dtype(self) -> str:
        return str(self.buffer.ty.dtype)

    def load(self):
        """The value as an expression (or the number itself where it is known)."""
        return element(self.buffer, [0]) if self.known is None else self.known

    def __getitem__(self, index):
        return self.load()

    def __repr__(self) -> str:
        return f"<mutable scalar {self.name}>"


class ElementRef(ScalarVar):
    """A macro parameter marked `T.Ref` that was given an element `buffer[indices]`."""

    def __init__(self, name: str, load):
        super().__init__(name, None, load.source)
        self.indices = list(load.indices)

    def load(self):
        return element(self.buffer, self.indices)


@dataclasses.dataclass(frozen=True)
class Storage:
    """Where a buffer lies (``x.data``), without its shape and dtype."""

    buffer: Any


@dataclasses.dataclass
class LoopSpec:
    """What `T.serial`, `T.Parallel`, `T.Pipelined` … return; only a `for` statement of a kernel can use it.

    `make_values` maps the loop variables (which count from 0 by 1) to what the user's targets are bound to.
    """

    kind: str  # "serial", "parallel", or "nested": a parallel one inside of a parallel one
    extents: tuple
    make_values: Any = None
    annotations: dict = dataclasses.field(default_factory=dict)
    unrollable: Any = None  # the Python range this loop can be unrolled to

    def __iter__(self):
        from ..errors import UnsupportedConstruct

        raise UnsupportedConstruct(
            "a kernel loop can only be used by a `for` statement",
            hint="use a Python list, tuple or range in comprehensions and in enumerate, zip or list",
        )


def reads_memory(expr) -> bool:
    """True if an expression has an element of a buffer in it."""
    found: list = []
    walk_expr(expr, lambda e: found.append(e) if isinstance(e, TensorLoad) else None)
    return bool(found)


def is_expr(value: Any) -> bool:
    """True for scalar IR expressions (not buffers, not regions)."""
    return isinstance(value, Expr) and not is_buffer_var(value) and type(value).__name__ != "TensorRegion"


def is_region(value: Any) -> bool:
    """True for `A[0:16, k]`-like values."""
    return type(value).__name__ == "TensorRegion"


def is_buffer(value: Any) -> bool:
    """True for a whole buffer."""
    return isinstance(value, Expr) and is_buffer_var(value)


def is_ir(value: Any) -> bool:
    """True for anything whose value is known only when the kernel runs."""
    return isinstance(value, (Expr, ScalarVar))


class StopProbe(BaseException):
    """Raised at the first `T.Kernel` when only the signature of an eager kernel is wanted."""


class Restart(BaseException):
    """Raised when tracing learned something it should have known earlier (a wider dtype, a loop to unroll)."""
