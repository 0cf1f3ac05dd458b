"""What `import` does in a session: the usual thing, plus stand-ins for missing libraries and a prepared torch.

`builtins.__import__` is the one place that knows who imports, so that stand-ins are handed to the user's own files
only: they never enter `sys.modules`, where an installed library that probes for an optional dependency would find
them.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from typing import Any, Iterator

from . import aliases, missing, sites


class _Import:
    """Replacement for `builtins.__import__`."""

    def __init__(self, original: Any, undo: contextlib.ExitStack):
        self._original = original
        self._undo = undo
        self._torch_ready = False

    def __call__(self, name: str, globals=None, locals=None, fromlist=(), level: int = 0) -> Any:
        try:
            module = self._original(name, globals, locals, fromlist, level)
        except ModuleNotFoundError as error:
            module = None if level else missing.stand_in(error, name, globals, fromlist, sys._getframe(1))
            if module is None:
                raise
        if not self._torch_ready and "torch" in sys.modules:
            self.prepare_torch()
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
