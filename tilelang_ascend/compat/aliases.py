"""`import tilelang` and its submodules as modules of this package, whether the real one is installed or not."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Iterator

ROOT = "tilelang"
_FACADE = "tilelang_ascend.compat.tilelang"

TARGETS: dict[str, str] = {
    "tilelang": _FACADE,
    "tilelang.autotuner": "tilelang_ascend.autotune",
    "tilelang.autotuner.capture": "tilelang_ascend.autotune",
    "tilelang.autotuner.param": "tilelang_ascend.autotune.settings",
    "tilelang.autotuner.tuner": "tilelang_ascend.autotune",
    "tilelang.cache": "tilelang_ascend.cache",
    "tilelang.carver.arch.driver": f"{_FACADE}.carver.driver",
    "tilelang.engine.callback": f"{_FACADE}.engine",
    "tilelang.engine.param": "tilelang_ascend.runtime.params",
    "tilelang.jit": "tilelang_ascend.jit",
    "tilelang.jit.kernel": "tilelang_ascend.jit.kernel",
    "tilelang.language": "tilelang_ascend.language",
    "tilelang.language.fp8": f"{_FACADE}.fp8",
    "tilelang.math": "tilelang_ascend.arith",
    "tilelang.layout.swizzle": f"{_FACADE}.layout",
    "tilelang.profiler": "tilelang_ascend.profiler",
    "tilelang.testing.perf_regression": f"{_FACADE}.testing",
    "tilelang.transform.pass_config": "tilelang_ascend.jit.pass_config",
    "tilelang.transform.simplify": f"{_FACADE}.transform",
    "tilelang.utils.device": f"{_FACADE}.utils",
    "tilelang.utils.target": f"{_FACADE}.utils",
    "tilelang.utils.tensor": f"{_FACADE}.utils",
}
"""Module of a GPU script -> module that stands for it. Submodules that are not listed follow their parent."""


_NAMESAKES = {"tilelang.engine": "tilelang.engine.lower"}
"""Module -> submodule with the name of a function of the module. Importing a submodule sets it as attribute of its
parent; one that counts as imported leaves the function alone, and can be asked for it."""


def target_of(name: str) -> str | None:
    """Name of the module that stands for `name`, None when `name` is not below `tilelang`."""
    if name in TARGETS:
        return TARGETS[name]
    parent, _, last = name.rpartition(".")
    if not parent or parent.split(".")[0] != ROOT:
        return None
    return f"{target_of(parent)}.{last}"


class _AliasLoader(importlib.abc.Loader):
    """Hands out a module that another name already loads, and leaves that module's own metadata alone."""

    def __init__(self, name: str, target: str):
        self._name = name
        self._target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        # The import system overwrites __spec__ with the alias's before exec_module.
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec
        if self._name in _NAMESAKES:
            sys.modules[_NAMESAKES[self._name]] = module


class AliasFinder(importlib.abc.MetaPathFinder):
    """Finds `tilelang` and everything below it, and nothing else."""

    def find_spec(self, name: str, path=None, target=None) -> importlib.machinery.ModuleSpec | None:
        """Spec of an alias; None hands the name on (a real tilelang below `tilelang` is never asked)."""
        if name != ROOT and not name.startswith(ROOT + "."):
            return None
        stand_in = target_of(name)
        if not _exists(stand_in):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        # A plain module gets a (then empty) __path__ only where names below it are aliased too.
        has_children = any(child.startswith(name + ".") for child in TARGETS)
        return importlib.machinery.ModuleSpec(name, _AliasLoader(name, stand_in), is_package=has_children)


def _exists(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is a plain module
        return False


_finder: AliasFinder | None = None
_displaced: dict[str, ModuleType] = {}


def install() -> bool:
    """Turn the aliases on; False when they were on already."""
    global _finder
    if _finder is not None:
        return False
    _displaced.update(_take_modules())
    _finder = AliasFinder()
    sys.meta_path.insert(0, _finder)
    # Importing a submodule sets it as attribute of its parent; `tilelang.jit` has to stay the decorator.
    sys.modules["tilelang.jit"] = importlib.import_module("tilelang_ascend.jit")
    return True


def uninstall() -> None:
    """Turn the aliases off and bring back a real tilelang that was imported before."""
    global _finder
    if _finder is None:
        return
    sys.meta_path.remove(_finder)
    _finder = None
    _take_modules()
    sys.modules.update(_displaced)
    _displaced.clear()


@contextlib.contextmanager
def active() -> Iterator[None]:
    """The aliases for the time of a `with` block; a block inside another changes nothing."""
    mine = install()
    try:
        yield
    finally:
        if mine:
            uninstall()


def _take_modules() -> dict[str, ModuleType]:
    """Remove every loaded module called `tilelang…` and return them."""
    names = [name for name in sys.modules if name == ROOT or name.startswith(ROOT + ".")]
    return {name: sys.modules.pop(name) for name in names}
