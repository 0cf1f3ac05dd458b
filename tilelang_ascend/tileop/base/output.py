"""What the lowering of tile ops adds to a kernel beside the instructions it returns."""

from __future__ import annotations

from ...ir import AllocBuffer, decl_buffer
from .l0_slots import L0Slots


class Output:
    """Declarations and warnings, in order; the steps of products through L0 (`l0`); names nobody else has, `names` being taken."""

    def __init__(self, chip, names=()):
        self.allocs: list[AllocBuffer] = []
        self.warnings: list[tuple] = []
        self._names = set(names)
        self.l0 = L0Slots(chip, self.unique)

    def unique(self, name: str) -> str:
        """A name nobody uses yet."""
        candidate, n = name, 1
        while candidate in self._names:
            candidate, n = f"{name}_{n}", n + 1
        self._names.add(candidate)
        return candidate

    def declare(self, shape, dtype: str, name: str, scope: str, span=None, notes: dict | None = None):
        """A new Ascend-level buffer with its declaration."""
        buffer = decl_buffer(shape, dtype, self.unique(name), scope=scope)
        self.allocs.append(AllocBuffer(buffer, annotations=notes or {}, span=span))
        return buffer

    def warn(self, span, message: str) -> None:
        """A warning for the user at `span`."""
        self.warnings.append((span, message))


__all__ = ["Output"]
