"""Where an interpreter of kernels stands in for the tracer: `interpret` puts itself here, the front end asks."""

from __future__ import annotations

from types import ModuleType

_interpreter: ModuleType | None = None


def stand_in(interpreter: ModuleType) -> None:
    """`interpreter` (see `interpret` for what it offers) takes kernels over while it is `enabled()`."""
    global _interpreter
    _interpreter = interpreter


def interpreter() -> ModuleType | None:
    """The interpreter if kernels are to be interpreted now, else None."""
    return _interpreter if _interpreter is not None and _interpreter.enabled() else None


def is_source(value) -> bool:
    """True for a kernel that was left as its author wrote it, to be interpreted."""
    return _interpreter is not None and _interpreter.is_source(value)


__all__ = ["interpreter", "is_source", "stand_in"]
