"""A hashable value that changes whenever tracing the same function could give a different kernel."""

from __future__ import annotations

import argparse
import enum
import inspect
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any, Hashable

import numpy as np

from ..runtime.tensors import HostTensor, is_tensor

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_MAX_DEPTH = 12
_INSTALLED = (
    str(Path(__file__).resolve().parent.parent),
    *{sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")},
)
"""Code below these folders does not change while a program runs: its functions count by identity."""


class Unknown(Exception):
    """A value whose content cannot be read; the caller has to trace again instead of reusing a kernel."""


def call_fingerprint(fn: types.FunctionType, args: tuple, kwargs: dict, skip_tensors: bool = False) -> Hashable | None:
    """Fingerprint of calling `fn(*args, **kwargs)`: its code, the globals and closures it can see, and the arguments.

    Tensors count by dtype, shape and strides, or not at all with `skip_tensors`. None when something is not understood.
    """
    if skip_tensors:
        args = tuple("tensor" if is_tensor(v) else v for v in args)
        kwargs = {k: "tensor" if is_tensor(v) else v for k, v in kwargs.items()}
    try:
        frozen = (
            tuple(_freeze(v, 0, ()) for v in args),
            tuple((k, _freeze(v, 0, ())) for k, v in sorted(kwargs.items())),
        )
        return (_freeze_function(fn, 0, ()), frozen)
    except Unknown:
        return None


def _freeze(value: Any, depth: int, seen: tuple) -> Hashable:
    """A hashable image of `value`; the type is part of it because 1, 1.0 and True are equal but trace differently."""
    if isinstance(value, enum.Enum):
        return (type(value), value.name)
    if isinstance(value, _PLAIN):
        return (type(value), repr(value))
    if depth > _MAX_DEPTH:
        raise Unknown
    if id(value) in seen:
        return ("cycle", seen.index(id(value)))
    seen = (*seen, id(value))
    for kinds, freeze in _CASES:
        if isinstance(value, kinds):
            return freeze(value, depth + 1, seen)
    if is_tensor(value):
        tensor = HostTensor(value)
        return ("tensor", tensor.is_torch, tensor.dtype, tensor.shape, tensor.strides)
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return ("torch dtype", repr(value))
    return _freeze_object(value, depth + 1, seen)


def _freeze_sequence(value, depth, seen) -> Hashable:
    return (type(value), tuple(_freeze(v, depth, seen) for v in value))


def _freeze_set(value, depth, seen) -> Hashable:
    return (type(value), frozenset(_freeze(v, depth, seen) for v in value))


def _freeze_dict(value, depth, seen) -> Hashable:
    return (type(value), tuple((_freeze(k, depth, seen), _freeze(v, depth, seen)) for k, v in value.items()))


def _freeze_function(fn: types.FunctionType, depth: int, seen: tuple) -> Hashable:
    code = fn.__code__
    if depth and code.co_filename.startswith(_INSTALLED):
        return ("installed", fn)
    names = _names(code)
    cells = tuple(_freeze_cell(c, names, depth, seen) for c in fn.__closure__ or ())
    used = tuple((n, _freeze_global(fn.__globals__[n], names, depth, seen)) for n in names if n in fn.__globals__)
    return (
        "function",
        code,
        _freeze(fn.__defaults__, depth, seen),
        _freeze(fn.__kwdefaults__, depth, seen),
        cells,
        used,
    )


def _freeze_cell(cell, names, depth, seen) -> Hashable:
    try:
        contents = cell.cell_contents
    except ValueError:
        return "empty cell"
    return _freeze_global(contents, names, depth, seen)


def _freeze_global(value: Any, names: tuple[str, ...], depth: int, seen: tuple) -> Hashable:
    """A module counts by the plain values that the code could read from it as attributes."""
    if isinstance(value, types.ModuleType):
        contents = vars(value)
        plain = tuple(
            (n, contents[n]) for n in names if type(contents.get(n)) in _PLAIN and contents.get(n) is not None
        )
        return ("module", value.__name__, tuple((n, type(v), repr(v)) for n, v in plain))
    return _freeze(value, depth + 1, seen)


def _freeze_identity(value, depth, seen) -> Hashable:
    return ("object", value)


def _freeze_module(value, depth, seen) -> Hashable:
    return ("module", value.__name__)


def _freeze_method(value, depth, seen) -> Hashable:
    return ("method", _freeze(value.__func__, depth, seen), _freeze(value.__self__, depth, seen))


def _freeze_numpy_scalar(value, depth, seen) -> Hashable:
    return (type(value), value.tobytes())


def _freeze_object(value: Any, depth: int, seen: tuple) -> Hashable:
    """Objects that wrap a function count as it; plain objects count by their fields."""
    wrapped = inspect.getattr_static(value, "__wrapped__", None) or getattr(value, "__dict__", {}).get("__wrapped__")
    if isinstance(wrapped, types.FunctionType):
        return (type(value), _freeze_function(wrapped, depth, seen))
    fields = getattr(value, "__dict__", None)
    if fields is None or (_is_installed(type(value)) and not isinstance(value, _NAMESPACES)):
        raise Unknown
    return (type(value), tuple((k, _freeze(v, depth, seen)) for k, v in fields.items()))


_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)


def _is_installed(cls: type) -> bool:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file is None and cls.__module__ != "__main__" or (file or "").startswith(_INSTALLED)


_CASES = (
    ((list, tuple), _freeze_sequence),
    ((set, frozenset), _freeze_set),
    (dict, _freeze_dict),
    (types.FunctionType, _freeze_function),
    (types.MethodType, _freeze_method),
    (types.ModuleType, _freeze_module),
    ((type, types.BuiltinFunctionType, np.ufunc, np.dtype), _freeze_identity),
    (np.generic, _freeze_numpy_scalar),
)


def _names(code: types.CodeType) -> tuple[str, ...]:
    """Global and attribute names used by `code` and by the functions defined inside it."""
    names = dict.fromkeys(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names.update(dict.fromkeys(_names(const)))
    return tuple(names)
