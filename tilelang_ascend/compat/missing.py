"""Libraries that are not installed: a stand-in that goes through imports and declarations and says what is missing at
its first use.

A script compares with flash_attn, triton or vllm in a corner that a run may never reach. `import` gives a `Missing`
object for them; taking attributes of it is free, and so are decorators, annotations, default values and base classes,
which Python evaluates although nothing is computed. Calling it, computing with it or handing it to torch raises
`MissingLibrary` with the user's line.

A script that guards its import with ``try … except ImportError`` gets its exception.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from ..errors import TilelangAscendError, is_internal, location_in_code
from .packages import advice
from .sites import guards_import, is_declaration, user_frame


class MissingLibrary(TilelangAscendError, ImportError):
    """A library that is not installed is needed here."""

    template = "this line uses {name}, but {package} is not installed; {advice}"


class Missing:
    """Stands for a module that is not installed, or for anything taken from it."""

    def __init__(self, name: str, package: str):
        self._name = name
        self._package = package
        self._parts: dict[str, Missing] = {}

    def __getattr__(self, name: str) -> "Missing":
        if name == "__version__":
            Missing(f"{self._name}.__version__", self._package)._refuse()
        if name == "__name__":  # scripts label what they measure with it
            return self._name.rpartition(".")[2]
        if name.startswith("__"):  # what Python and inspect look for on any object
            raise AttributeError(name)
        return self._parts.setdefault(name, Missing(f"{self._name}.{name}", self._package))

    def __call__(self, *args: Any, **kwargs: Any) -> "Missing":
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type, Missing)):
            return self._used(getattr(args[0], "__name__", None) or args[0]._name, args)  # a decorator at work
        return self._used(f"{self._name}(…)", (*args, *kwargs.values()))

    def __getitem__(self, key: Any) -> "Missing":
        return self._used(f"{self._name}[…]")

    def __mro_entries__(self, bases: tuple) -> tuple[type, ...]:
        def refuse(cls, *args: Any, **kwargs: Any):
            self._refuse()

        return (types.new_class("MissingBase", (), {}, lambda body: body.update(__new__=refuse)),)

    def __repr__(self) -> str:
        return f"<{self._name}, not installed>"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = _first_missing([*args, *(kwargs or {}).values()])
        found._refuse()

    def _used(self, result: str, args: tuple = ()) -> "Missing":
        """Stand-in for what a declaration computes; anywhere else the end."""
        if not is_declaration(_has_tensor(args)):
            self._refuse()
        return Missing(result, self._package)

    def _refuse(self, *_operands: Any) -> Any:
        package = self._package
        frame = user_frame()
        at = location_in_code(frame.f_code, frame.f_lasti, frame.f_lineno) if frame else None
        if package == "tilelang":
            why = _reason(self._name)
            text = f"this line uses {self._name}, which has no counterpart on Ascend"
            raise MissingLibrary(text if why is None else why.message, at=at, hint=_instead(self._name) if why is None else why.hint)
        raise MissingLibrary(name=self._name, package=package, advice=advice(package), at=at)


def _no_instance(self: Missing, instance: Any) -> bool:
    """Nothing is an instance of a class that does not exist."""
    return False


Missing.__instancecheck__ = Missing.__subclasscheck__ = _no_instance
for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul lshift rshift and "
    "rand xor rxor neg pos abs invert lt le gt ge iter next len bool int float complex index contains enter exit "
    "setitem delitem await"
).split():
    setattr(Missing, f"__{_name}__", Missing._refuse)


def _union(self: Missing, other: Any) -> Missing:
    return self._used(f"{self._name} | …")


Missing.__or__ = Missing.__ror__ = _union


def stand_in(error: ModuleNotFoundError, name: str, importer: dict | None, fromlist: Any, frame: types.FrameType) -> Any:
    """What ``import name`` gives after it failed with `error`; None when the error has to reach the script."""
    absent = error.name or ""
    if name != absent and not name.startswith(absent + "."):
        return None  # the module is there, something it needs is not
    parent, _, last = absent.rpartition(".")
    if parent and not parent.startswith("tilelang"):
        return None  # an installed library without this submodule: another version of it
    file = (importer or {}).get("__file__")
    if file is None or is_internal(file) or guards_import(frame):
        return None
    module = _modules.setdefault(absent, Missing(absent, absent.split(".")[0]))
    if parent and not hasattr(sys.modules[parent], last):  # not in the way of a function of that name
        setattr(sys.modules[parent], last, module)
    if not fromlist:
        return sys.modules[name.split(".")[0]] if parent else module
    for part in name[len(absent) :].split(".")[1:]:
        module = getattr(module, part)
    return module


class _Completed:
    """A module of tilelang for one ``from … import …``: names it does not have are stand-ins."""

    def __init__(self, module: types.ModuleType, name: str):
        self._module = module
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._module, name)
        except (AttributeError, TilelangAscendError):
            if name.startswith("__"):
                raise
            return Missing(f"{self._name}.{name}", "tilelang")


def complete(module: types.ModuleType, name: str, importer: dict | None, frame: types.FrameType) -> Any:
    """What ``from name import …`` takes its names from, given the module: a script may import more than it uses."""
    file = (importer or {}).get("__file__")
    return module if file is None or is_internal(file) or guards_import(frame) else _Completed(module, name)


def _reason(name: str) -> TilelangAscendError | None:
    """Why the language does not have ``tilelang.language.<name>``, where it knows."""
    parent, _, last = name.rpartition(".")
    if parent == "tilelang.language":
        try:
            getattr(sys.modules[parent], last)
        except TilelangAscendError as error:
            return error
    return None


_INSTEAD = {
    "intrinsics": "T.gemm multiplies tiles on the cube unit, and the compiler chooses their layouts: kernels for threads and fragments have to be "
    "written for whole tiles",
    "layout": "leave it out: the compiler chooses the layouts of tiles",
    "quantize": "unpack with shifts and casts in T.Parallel, see examples/dequantize_gemm",
    "tools": "`tilelang-ascend inspect` shows stages, memory and time of a kernel, `tilelang-ascend profile` its time line",
}
"""Part of the name of something that belongs to GPUs -> what to write instead."""


def _instead(name: str) -> str:
    parts = name.split(".")
    known = next((hint for part, hint in _INSTEAD.items() if part in parts), None)
    return known or "write the kernel with `tilelang.language` for whole tiles: the compiler makes everything else for the chip"


_modules: dict[str, Missing] = {}
"""Absent modules by name: every import of one gives the same object."""


def _first_missing(values: Any) -> Missing | None:
    for value in values:
        if isinstance(value, Missing):
            return value
        if isinstance(value, (list, tuple)) and (found := _first_missing(value)):
            return found
    return None


def _has_tensor(values: tuple) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(v, torch.Tensor) for v in values)
