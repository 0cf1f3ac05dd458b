"""The result of memory planning as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...analysis.dependence.liveness import LiveBuffer, Ranges
from ...isa import SCOPES, Space


@dataclass(frozen=True)
class MapEntry:
    """One buffer: bytes `[address, address + versions * version_bytes)` of memory `space`.

    `live`: instructions between which the contents matter; `span`: declaration in the user's source; `lines`: first and last line that uses
    it, None when unknown.
    """

    name: str
    space: Space
    versions: int
    version_bytes: int
    address: int
    live: Ranges
    lines: tuple[int, int] | None
    span: object
    buffer: object

    @property
    def total_bytes(self) -> int:
        return self.versions * self.version_bytes

    @property
    def end(self) -> int:
        return self.address + self.total_bytes

    @classmethod
    def of(cls, b: LiveBuffer, address: int, declaration) -> MapEntry:
        span = getattr(declaration, "span", None) or getattr(b.users[0].stmt, "span", None)
        return cls(b.buffer.name, SCOPES[b.space], b.versions, b.version_bytes, address, b.tight, b.lines, span, b.buffer)


@dataclass(frozen=True)
class MemoryMap:
    """All on-chip memories of one kernel. `capacity`: bytes a program may use, by memory; `packed`: bytes the buffers take without the room
    that keeps them apart."""

    chip: str
    entries: list[MapEntry]
    capacity: dict[Space, int]
    packed: dict[Space, int] = field(default_factory=dict)

    def entries_of(self, space: Space) -> list[MapEntry]:
        """Entries of one memory by address."""
        return sorted((e for e in self.entries if e.space is space), key=lambda e: (e.address, e.live))

    def total(self, space: Space) -> int:
        """Bytes of all buffers of a memory together."""
        return sum(e.total_bytes for e in self.entries if e.space is space)

    def peak(self, space: Space) -> int:
        """One past the highest address in use."""
        return max((e.end for e in self.entries if e.space is space), default=0)

    def text(self, space: Space | None = None) -> str:
        """Readable table of one memory, or of all that are used."""
        spaces = [space] if space is not None else sorted({e.space for e in self.entries})
        return "\n".join(line for s in spaces for line in self._table(s))

    def _table(self, space: Space) -> list[str]:
        use = f"buffers {self.total(space)} B, peak {self.peak(space)} B of {self.capacity[space]} B usable"
        head = f"{space.name}: {use} on {self.chip}"
        rows = [("buffer", "line", "versions x bytes", "address", "live")]
        for e in self.entries_of(space):
            line = str(e.span.line) if e.span is not None else "-"
            live = f"lines {e.lines[0]}-{e.lines[1]}" if e.lines else f"#{e.live[0][0]}-#{e.live[-1][1]}"
            rows.append((e.name, line, f"{e.versions} x {e.version_bytes}", f"{e.address:#08x}-{e.end:#08x}", live))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return [head, *("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)]


__all__ = ["MapEntry", "MemoryMap"]
