"""Values of a kernel in code of the user that is not rewritten: generators, properties, methods Python calls itself, functions without source.

Brackets, arithmetic and comparisons of the IR library mean something else than those of a kernel: its elements are read where a statement uses
them, its int8 wraps, and what it says of two values, if asked whether they are equal, is whether they are the same object. While a kernel is traced
they are those of the kernel, arithmetic and comparisons for callers outside of this package.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..ir import EqualOp, Expr, NotEqualOp, Var, const_int
from . import operators
from .builder import constant
from .items import getitem
from .locations import is_user_code
from .values import ScalarVar, active, is_buffer, is_expr

_BINARY = {
    "add": "Add", "sub": "Sub", "mul": "Mult", "truediv": "Div", "floordiv": "FloorDiv", "mod": "Mod", "pow": "Pow", "lshift": "LShift",
    "rshift": "RShift", "and": "BitAnd", "or": "BitOr", "xor": "BitXor",
}  # fmt: skip
_COMPARISONS = {"lt": "Lt", "le": "LtE", "gt": "Gt", "ge": "GtE"}
_UNARY = {"neg": "USub", "invert": "Invert"}


def _subscript(original: Callable) -> Callable:
    def subscript(self, index):
        """The end of a buffer is where iteration over it ends."""
        if getattr(active, "builder", None) is None or not is_buffer(self):
            return original(self, index)
        size = const_int(self.ty.shape[0])
        if isinstance(index, int) and size is not None and index >= size:
            raise IndexError(f"{self.name} has {size} elements along its first dimension")
        return getitem(self, index)

    return subscript


def _binary(op: str, original: Callable, reflected: bool) -> Callable:
    def binary(self, other: Any):
        if getattr(active, "builder", None) is None or not is_user_code(sys._getframe(1).f_code) or not _is_number(other):
            return original(self, other)
        return operators.binop(op, other, self) if reflected else operators.binop(op, self, other)

    return binary


def _comparison(op: str, original: Callable) -> Callable:
    def comparison(self, other: Any):
        if getattr(active, "builder", None) is None or not is_user_code(sys._getframe(1).f_code) or not _is_number(other):
            return original(self, other)
        return operators.compare((op,), self, other)

    return comparison


def _truth(original: Callable) -> Callable:
    def truth(self) -> bool:
        """Of an equality that Python itself asks for: an error unless it is known."""
        if getattr(active, "builder", None) is None or not is_user_code(sys._getframe(1).f_code):
            return original(self)
        result = operators.plain(self)
        known = constant(result) if is_expr(result) else result
        return bool(result if known is None else known)

    return truth


def _unary(op: str, original: Callable) -> Callable:
    def unary(self):
        if getattr(active, "builder", None) is None or not is_user_code(sys._getframe(1).f_code):
            return original(self)
        return operators.unop(op, self)

    return unary


def _is_number(value) -> bool:
    return isinstance(value, (bool, int, float, ScalarVar)) or is_expr(value)


def install() -> None:
    """Once, when the front end is imported."""
    owner = next(c for c in Var.__mro__ if "__add__" in vars(c))
    Expr.__getitem__ = _subscript(Expr.__getitem__)
    for name, op in _BINARY.items():
        for word, reflected in ((f"__{name}__", False), (f"__r{name}__", True)):
            setattr(owner, word, _binary(op, getattr(owner, word), reflected))
    for name, op in _COMPARISONS.items():
        setattr(owner, f"__{name}__", _comparison(op, getattr(owner, f"__{name}__")))
    for equality in (EqualOp, NotEqualOp):
        equality.__bool__ = _truth(equality.__bool__)
    for name, op in _UNARY.items():
        setattr(owner, f"__{name}__", _unary(op, getattr(owner, f"__{name}__")))


__all__ = ["install"]
