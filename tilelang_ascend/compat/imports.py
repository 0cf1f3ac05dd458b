"""What `import` does in a session: the usual thing, plus stand-ins for missing libraries, a prepared torch and a prepared TVM.

`builtins.__import__` is the one place that knows who imports, so that stand-ins are handed to the user's own files
only: they never enter `sys.modules`, where an installed library that probes for an optional dependency would find
them.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from typing import Any, Iterator

from ..errors import is_internal
from . import aliases, missing, sites


class _Import:
    """Replacement for `builtins.__import__`."""

    def __init__(self, original: Any, undo: contextlib.ExitStack):
        self._original = original
        self._undo = undo
        self._torch_ready = self._tvm_ready = False

    def __call__(self, name: str, globals=None, locals=None, fromlist=(), level: int = 0) -> Any:
        try:
            module = self._original(name, globals, locals, fromlist, level)
        except ModuleNotFoundError as error:
            module = None if level else missing.stand_in(error, name, globals, fromlist, sys._getframe(1))
            if module is None:
                raise
        if not self._torch_ready and "torch" in sys.modules:
            self.prepare_torch()
        if not self._tvm_ready and not level and name.partition(".")[0] in ("tvm", aliases.ROOT):
            self.prepare_tvm(globals or {})
        if fromlist and not level and name.partition(".")[0] == aliases.ROOT:
            return missing.complete(module, name, globals, sys._getframe(1))
        return module

    def prepare_torch(self) -> None:
        """Give torch its host devices once it is completely imported."""
        spec = getattr(sys.modules["torch"], "__spec__", None)
        if getattr(spec, "_initializing", False):
            return
        self._torch_ready = True
        from .host_devices import active as host_devices

        self._undo.enter_context(host_devices())

    def prepare_tvm(self, importer: dict) -> None:
        """Give TVM the names scripts expect, once a script has imported it or what needs it."""
        file = importer.get("__file__")
        inside = file is None or is_internal(file) or importer.get("__name__", "").partition(".")[0].startswith("tvm")
        if inside or "tvm" not in sys.modules:
            return
        self._tvm_ready = True
        from .tvm_names import active as tvm_names

        self._undo.enter_context(tvm_names())


@contextlib.contextmanager
def active() -> Iterator[None]:
    """Replace `import` for the time of a `with` block."""
    sites.forget()
    with contextlib.ExitStack() as undo:
        hook = _Import(builtins.__import__, undo)
        if "torch" in sys.modules:
            hook.prepare_torch()
        undo.callback(setattr, builtins, "__import__", hook._original)
        builtins.__import__ = hook
        yield
