"""A hashable value that changes whenever tracing the same function could give a different kernel.

It covers everything that the function reaches: functions it calls, macros, classes, objects, modules, and of these whatever has a
name that occurs in the code of a reached function. Which names occur is known only afterwards, so the walk is repeated
until it finds no new ones; the next call starts with them. A chain `a.b.c` needs no following, then, and neither do
aliases on its way.
"""

from __future__ import annotations

import argparse
import collections
import dis
import enum
import functools
import hashlib
import inspect
import os
import re
import sys
import types
from typing import Any, Callable, Hashable, Iterable, NamedTuple

import numpy as np

from ..errors import is_internal
from ..runtime.tensors import HostTensor, is_tensor

_PLAIN: Any = (int, float, complex, str, bytes, bool, type(None))
_MAX_RECORDS = 10_000
_MAX_WALKS = 20
_MAX_TENSOR_BYTES = 1 << 20
"""Larger ones cost as much to read in every call as tracing does."""
_PACKAGE = __name__.partition(".")[0]
_DYNAMIC = frozenset(("getattr", "vars", "eval", "exec", "globals", "__dict__", "attrgetter", "import_module"))
_ANY_GLOBAL = frozenset(("eval", "exec", "globals"))
"""Code with these names may read attributes, or globals, whose names it does not contain."""


class Unknown(Exception):
    """A value whose content cannot be read; the caller has to trace again instead of reusing a kernel."""


def call_fingerprint(fn: types.FunctionType, args: tuple, kwargs: dict, skip_tensors: bool = False) -> Hashable | None:
    """Fingerprint of calling `fn(*args, **kwargs)`: the arguments, all the code and values it can reach, and the environment variables.

    Tensors count by their elements, too, which tracing may read; those that are arguments not at all with `skip_tensors`. None when
    something is not understood.
    """
    if skip_tensors:
        args = tuple("tensor" if is_tensor(v) else v for v in args)
        kwargs = {k: "tensor" if is_tensor(v) else v for k, v in kwargs.items()}
    roots = (fn, tuple(args), tuple(sorted(kwargs.items())))
    known = _scopes.get(id(fn.__code__)) or _Known(fn.__code__, frozenset(), frozenset((_package(fn.__globals__),)) - {_PACKAGE})
    try:
        for _ in range(_MAX_WALKS):
            walk = _Walk(known, fn)
            image = walk.image(roots)
            found = _Known(fn.__code__, known.names | walk.names, known.packages | walk.packages)
            if found == known:
                # As it is kept, where it can be had: decoding takes as long as a small walk.
                return (image, tuple(getattr(os.environ, "_data", os.environ).items()))
            known = _scopes[id(fn.__code__)] = found
    except Unknown:
        pass
    return None


def form_of(value: Any) -> Any:
    """What a tensor that only the running kernel reads counts by; anything else as it is."""
    if not is_tensor(value):
        return value
    tensor = HostTensor(value)
    return ("tensor", tensor.is_torch, tensor.dtype, tensor.shape, tensor.strides)


class _Known(NamedTuple):
    """What earlier walks from a function have met.

    names: names in the code of all reached functions. packages: those whose code counts like the user's although it is installed,
    because the function itself or macros come from them.
    """

    code: types.CodeType
    names: frozenset[str]
    packages: frozenset[str]


_scopes: dict[int, _Known] = {}
"""By identity of the code object, which the value keeps alive."""


class _Code(NamedTuple):
    """code: keeps the key of the table alive. names: globals, attributes, and texts that could be either. modules: what it imports."""

    code: types.CodeType
    names: tuple[str, ...]
    modules: tuple[str, ...]


_codes: dict[int, _Code] = {}


def _read(code: types.CodeType) -> _Code:
    """Names used by `code` and by the functions defined inside it."""
    known = _codes.get(id(code))
    if known is None:
        names: dict[str, None] = dict.fromkeys(code.co_names)
        modules = dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                inner = _read(const)
                names.update(dict.fromkeys(inner.names))
                modules.update(dict.fromkeys(inner.modules))
            elif isinstance(const, str) and const.isidentifier():
                names[const] = None
        known = _codes[id(code)] = _Code(code, tuple(names), tuple(modules))
    return known


class _Walk:
    """One walk. Every container gets a number when it is met first; its record refers to others by number."""

    def __init__(self, known: _Known, root: types.FunctionType):
        self.known = known
        self.root = root
        self.computed = not _DYNAMIC.isdisjoint(known.names)
        self.names: set[str] = set()
        self.packages: set[str] = set()
        self.numbers: dict[int, int] = {}
        self.met: list[Any] = []  # keeps temporary objects alive, so that none gets the identity of another one

    def image(self, roots: tuple) -> Hashable:
        records = [self.see(roots)]
        # `met` grows meanwhile.
        for value in self.met:
            records.append(self.record(value))
            if len(records) > _MAX_RECORDS:
                raise Unknown
        return tuple(records)

    def see(self, value: Any) -> Hashable:
        """What stands for `value` in a record; the type is part of it because 1, 1.0 and True are equal but trace differently."""
        kind = type(value)
        if kind in _PLAIN_SET or isinstance(value, _PLAIN) and not self.is_users(kind):
            return (kind, repr(value))
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.met)
            self.met.append(value)
        return _Number(number)

    def see_all(self, values: Iterable) -> tuple:
        return tuple([self.see(v) for v in values])

    def record(self, value: Any) -> Hashable:
        """The contents of a container."""
        for kinds, record in _CASES:
            if isinstance(value, kinds):
                return record(self, value)
        if is_tensor(value):
            return self.tensor(value)
        if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            return ("torch dtype", repr(value))
        if _is_ir(value):
            return _Same(value)
        return self.object(value)

    def contents(self, value: Any) -> Hashable:
        """What a value holds as a list, tuple, set, dict, number or text; None when it is none."""
        if isinstance(value, _SEQUENCES):
            return self.see_all((list if isinstance(value, list) else tuple).__iter__(value))
        if isinstance(value, _SETS):
            return frozenset(self.see_all((set if isinstance(value, set) else frozenset).__iter__(value)))
        if isinstance(value, (dict, types.MappingProxyType)):
            return self.items(dict.items(value) if isinstance(value, dict) else value.items())
        return next((kind.__repr__(value) for kind in _PLAIN if isinstance(value, kind)), None)

    def items(self, pairs: Iterable[tuple[Any, Any]]) -> Hashable:
        return tuple([(self.see(k), self.see(v)) for k, v in pairs])

    def tensor(self, value: Any) -> Hashable:
        host = HostTensor(value)
        if value.nbytes > _MAX_TENSOR_BYTES or host.device != "cpu":
            raise Unknown
        try:
            elements = hashlib.sha256(host.tobytes()).digest()
        except Exception:  # of objects, of records, without memory: every library has kinds of its own
            raise Unknown from None
        return (type(value), *form_of(value)[1:], elements, self.items(getattr(value, "__dict__", {}).items()))

    def identity(self, value) -> Hashable:
        return ("object", value)

    def builtin(self, value) -> Hashable:
        """A builtin function, or a method of an object."""
        owner = value.__self__
        return ("object", value) if owner is None or isinstance(owner, (types.ModuleType, type)) else (value.__name__, self.see(owner))

    def range(self, value) -> Hashable:
        return ("range", value.start, value.stop, value.step)

    def numpy_scalar(self, value) -> Hashable:
        return (type(value), value.tobytes())

    def method(self, value) -> Hashable:
        return ("method", self.see(value.__func__), self.see(value.__self__))

    def partial(self, value) -> Hashable:
        return ("partial", self.see(value.func), self.see_all(value.args), self.items(value.keywords.items()))

    def wrapper(self, value) -> Hashable:
        return (type(value), self.see(value.__func__))

    def property(self, value) -> Hashable:
        return (type(value), self.see_all((value.fget, value.fset)))

    def cached_property(self, value) -> Hashable:
        return (type(value), self.see(value.func))

    def function(self, fn: types.FunctionType) -> Hashable:
        source = getattr(fn, "_tl_source", None)
        if isinstance(source, types.FunctionType):  # a macro
            package = _package(source.__globals__)
            if package != _PACKAGE and _is_installed_file(source.__code__.co_filename):
                self.packages.add(package)
            return ("macro", self.see(source))
        code = fn.__code__
        if fn is not self.root and self.is_installed(code.co_filename, fn.__globals__):
            if fn.__closure__ is None or _package(fn.__globals__) == _PACKAGE:
                return ("installed", fn)
            # What a decorator made, for instance: the code is the installed one, what it holds is not.
            return ("closure", code, self.see_all(_cells(fn)))
        read, space = _read(code), fn.__globals__
        self.names.update(read.names)
        used = [(n, self.see(space[n])) for n in (*read.names, *_annotated(fn)) if n in space]
        if not _ANY_GLOBAL.isdisjoint(read.names):
            used += [(n, self.see(space[n])) for n in self.likely(space)]
        for name in read.modules:
            for full in (name, f"{space.get('__package__')}.{name}"):
                if full in sys.modules:
                    used.append((full, self.see(sys.modules[full])))
        own = [(n, self.see(v)) for n, v in vars(fn).items() if n in self.known.names]
        return (
            "function",
            code,
            self.see(fn.__defaults__),
            self.see(fn.__kwdefaults__),
            self.see_all(_cells(fn)),
            tuple(used),
            tuple(own),
        )

    def module(self, value: types.ModuleType) -> Hashable:
        """A module counts by what the code could read from it as attributes; an installed one by plain values, containers, macros and modules
        among it."""
        contents = vars(value)
        file = contents.get("__file__")
        installed = value.__name__ in sys.builtin_module_names if file is None else self.is_installed(file, contents)
        used = self.used(contents, self.likely(contents) if self.computed and not installed else (), ("__getattr__",))
        if installed:
            further = (types.ModuleType, *_CONTAINERS) if _package(contents) != _PACKAGE else ()
            used = [(n, v) for n, v in used if type(v) in _PLAIN_SET or isinstance(v, further) or further and hasattr(v, "_tl_source")]
        kind = type(value)
        own = self.see(kind) if kind is not types.ModuleType and self.is_users(kind) else None
        return ("module", value.__name__, own, tuple([(n, self.see(v)) for n, v in used]))

    def class_(self, cls: type) -> Hashable:
        """A class of the user counts by what the code could read from it, and by its special methods."""
        records = []
        for base in (*cls.__mro__, *inspect.getmro(type(cls))):
            if self.is_users(base):
                contents = vars(base)
                used = self.used(contents, self.likely(contents) if self.computed else (), _special(base))
                records.append((base, tuple([(n, self.see(v)) for n, v in used])))
        return ("type", cls, tuple(records))

    def used(self, contents, likely: Iterable[str] = (), more: Iterable[str] = ()) -> list[tuple[str, Any]]:
        """Attributes whose names occur in code, `likely` ones, and `more`."""
        names = self.known.names
        found = [n for n in contents if n in names] if len(contents) < len(names) else [n for n in names if n in contents]
        every = dict.fromkeys(sorted(found))
        every.update(dict.fromkeys(likely))
        every.update(dict.fromkeys(n for n in more if n in contents))
        return [(n, contents[n]) for n in every]

    def likely(self, contents) -> list[str]:
        """What code may read by a name that it computes: values, functions and classes of the user; objects it has names for."""
        kinds = (*_CONTAINERS, types.FunctionType, type, staticmethod, classmethod, property)
        return [n for n, v in contents.items() if n[:2] != "__" and (type(v) in _PLAIN_SET or isinstance(v, kinds))]

    def object(self, value: Any) -> Hashable:
        """Objects of installed classes that wrap a function count as it; other objects by their fields, by what they hold and by their class."""
        kind, fields = type(value), getattr(value, "__dict__", None)
        users = self.is_users(kind)
        if not users:
            wrapped = inspect.getattr_static(value, "__wrapped__", None) or (fields or {}).get("__wrapped__")
            if isinstance(wrapped, types.FunctionType):
                return (kind, self.see(wrapped))
            frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
            if not (frozen or isinstance(value, (*_CONTAINERS, *_PLAIN, *_OPEN))):
                raise Unknown
        slots = []
        for base in kind.__mro__:
            if base in _READABLE:
                continue
            members = vars(base)
            if users and not self.is_users(base) and any(isinstance(m, _OF_C) and m.__objclass__ is base for m in members.values()):
                raise Unknown
            slots += [(n, m) for n, m in members.items() if isinstance(m, types.MemberDescriptorType) and hasattr(value, n)]
        return (
            kind,
            self.see(kind) if users else None,
            self.contents(value),
            tuple([(n, self.see(m.__get__(value))) for n, m in slots]),
            self.items((fields or {}).items()),
        )

    def is_installed(self, file: str, space: dict) -> bool:
        return _is_installed_file(file) and _package(space) not in self.known.packages

    def is_users(self, cls: type) -> bool:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        if file is None:
            return cls.__module__ == "__main__" or module is None
        return not self.is_installed(file, vars(module))


class _Number(int):
    """The number of a container; equal to no plain value's image, which is a tuple."""


class _Same:
    """A value that never changes and is equal to itself alone, whatever its `==` means."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _is_ir(value: Any) -> bool:
    """True for nodes of IR, such as the variables of `T.dynamic`; without tvm there are none."""
    ir = sys.modules.get("tvm.ir")
    return ir is not None and isinstance(value, ir.Node)


_PLAIN_SET = frozenset(_PLAIN)
_SEQUENCES: Any = (list, tuple)
_SETS: Any = (set, frozenset)
_CONTAINERS = (*_SEQUENCES, *_SETS, dict, types.MappingProxyType)
_OPEN = (types.SimpleNamespace, argparse.Namespace, enum.Enum)
"""Installed classes whose objects are what is in their fields."""
_OF_C = (types.WrapperDescriptorType, types.MethodDescriptorType)
"""Methods of classes written in C, whose objects may have more than fields."""
_READABLE = {object, type, collections.OrderedDict, *_CONTAINERS, *_PLAIN}
"""Classes without fields of which `contents` has everything."""
_FIELD = type(collections.namedtuple("_", "a").a)  # type: ignore[attr-defined]  # a descriptor
_CASES: tuple[tuple[Any, Callable[[_Walk, Any], Hashable]], ...] = (
    (types.FunctionType, _Walk.function),
    (types.MethodType, _Walk.method),
    (types.ModuleType, _Walk.module),
    (type, _Walk.class_),
    (types.BuiltinFunctionType, _Walk.builtin),
    ((np.ufunc, np.dtype, types.MemberDescriptorType, types.GetSetDescriptorType, _FIELD), _Walk.identity),
    ((staticmethod, classmethod), _Walk.wrapper),
    (property, _Walk.property),
    (functools.cached_property, _Walk.cached_property),
    (functools.partial, _Walk.partial),
    (range, _Walk.range),
    (np.generic, _Walk.numpy_scalar),
)


@functools.lru_cache(maxsize=None)
def _is_installed_file(file: str) -> bool:
    """Code of installed packages does not change while a program runs: its functions count by identity."""
    return file.startswith("<built-in>") or is_internal(file)


def _package(space: dict) -> str:
    """The outermost package of a module with these globals."""
    return str(space.get("__name__")).partition(".")[0]


def _cells(fn: types.FunctionType) -> list:
    contents = []
    for cell in fn.__closure__ or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            contents.append("empty cell")
    return contents


def _special(cls: type) -> list[str]:
    """Methods that operators and calls find, without those that `dataclass` made from the fields."""
    made = "<string>" if "__dataclass_fields__" in vars(cls) else None
    functions = [(n, v) for n, v in vars(cls).items() if n[:2] == "__" and isinstance(v, types.FunctionType)]
    return [n for n, v in functions if v.__code__.co_filename != made and not _is_installed_file(v.__code__.co_filename)]


def _annotated(fn: types.FunctionType) -> list[str]:
    """Names in annotations that are evaluated later."""
    return [n for a in fn.__annotations__.values() if isinstance(a, str) for n in _WORD.findall(a)]


_WORD = re.compile(r"[^\W\d]\w*")
