"""Evaluation order: a value that was read from memory is the value of that moment, wherever the expression ends up.

Expressions of the IR are values of Python while a kernel is traced. They sit in tuples, lists, slices, ranges and arguments, and reach a
statement later than the user's program evaluated them; in between the memory they read may have changed. Nearly always it has not, so
reads stay expressions. Every read is recorded with the time it was made, every write with the time it happened; a statement that uses a
read older than a write of the same memory makes the builder trace the kernel once more, with that read bound to a name where it stands.

An element of a slice is no such read: a slice is a view, only its bounds are values.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import InvalidKernel, location_in_code
from ..ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Call,
    Evaluate,
    For,
    TensorLoad,
    TensorRegion,
    Var,
    structural_equal,
)
from ..tile import VIEW, is_op
from ..tile.uses import work_of
from .values import Restart

_FACT = "evaluated where they stand"
_LOOPS = ("loop", "while", "parallel", "grid")

_PARTS = ("a", "b", "value", "condition", "true_value", "false_value", "var", "body")
_parts_of: dict[type, tuple] = {}


def _children(e) -> list:
    """Direct sub-expressions (`ir.expr_children`, without asking each node for each field)."""
    if isinstance(e, Call):
        return list(e.args)
    if isinstance(e, TensorLoad):
        return list(e.indices)
    if isinstance(e, TensorRegion):
        return [x for r in e.region for x in (r.min, r.extent)]
    kind = type(e)
    parts = _parts_of.get(kind)
    if parts is None:
        leaf = kind.__name__ in ("Var", "IntImm", "FloatImm", "StringImm")
        parts = _parts_of[kind] = () if leaf else tuple(f for f in _PARTS if hasattr(kind, f))
    return [x for f in parts if hasattr(x := getattr(e, f), "ty")]


@dataclasses.dataclass
class Read:
    """One evaluation: an element, or a choice whose sides are evaluated only where they are chosen."""

    value: Any
    time: int
    region: Any
    key: tuple
    place: tuple  # (code, instruction, line) of the user's program
    sources: tuple | None = None  # memory it reads; found when it is asked for
    name: Any = None  # the variable that holds it, if it is bound


class Evaluations:
    """Reads and writes of one trace. `builder.facts` carries the reads to be bound to names to the next one."""

    def __init__(self, builder, user_frame):
        self.builder, self.user_frame = builder, user_frame
        self.clock = 0
        self.reads: dict[int, Read] = {}  # by the address of the expression, which `Read.value` keeps alive
        self.counts: dict[tuple, int] = {}
        self.written: dict[int, int] = {}  # storage -> time of the last write
        self.storages: dict[int, Any] = {}  # buffer -> buffer whose storage it names
        self.stale: dict[tuple, Read] = {}
        self.loads: dict[int, Any] = {}  # variable -> the element it was bound to
        self.latest: dict[int, Read] = {}  # buffer -> last read of an element of it
        self.bound: set = builder.facts.setdefault(_FACT, set())

    def tick(self) -> int:
        """A new time."""
        self.clock += 1
        return self.clock

    # --- reads ---------------------------------------------------------------------------------------------------------

    def read(self, value):
        """`value` was evaluated here; returns what stands for it from now on."""
        source = value.source.__chandle__() if isinstance(value, TensorLoad) else None
        latest = self.latest.get(source)
        if latest is not None and self._holds(latest) and structural_equal(latest.value, value):
            return latest.value if latest.name is None else latest.name
        frame = self.user_frame()
        place = (frame.f_code, frame.f_lasti, frame.f_lineno) if frame is not None else (None, 0, 0)
        key = (id(place[0]), place[1], self.builder.trail())
        self.counts[key] = count = self.counts.get(key, 0) + 1
        key += (count,)
        region = self.builder.region
        read = Read(value, self.tick(), region, key, place)
        if source is not None:
            self.latest[source] = read
        if key in self.bound and region is not self.builder.root:
            read.name = self.builder.let("chosen" if source is None else value.source.name, value)
            return read.name
        self.reads[value.__chandle__()] = read
        return value

    def reads_since(self, buffer, time: int) -> bool:
        """True if an element of `buffer` was read at `time` or later."""
        latest = self.latest.get(buffer.__chandle__())
        return latest is not None and latest.time >= time

    def _holds(self, read: Read) -> bool:
        """True if evaluating `read` here gives its value, without a doubt."""
        return read.region is self.builder.region and not self._overwritten(read, read.time)

    def _overwritten(self, read: Read, since: int) -> bool:
        if read.sources is None:
            read.sources = self._sources(read.value)
        return any(self.written.get(s, 0) > since for s in read.sources)

    def choice(self, value):
        """The same for an expression of which not every part is evaluated: it is bound as a whole, or not at all."""
        return self.read(value) if self._sources(value) else value

    def _sources(self, e) -> tuple:
        found = {}

        def see(e):
            if isinstance(e, TensorLoad):
                storage = self._storage(e.source)
                found[storage.__chandle__()] = storage
            for child in _children(e):
                see(child)

        see(e)
        return tuple(found)

    def address(self, value):
        """The element whose value `value` is, as an address, if it is an element or a name of one."""
        return self.loads.get(value.__chandle__(), value) if isinstance(value, Var) else value

    # --- writes --------------------------------------------------------------------------------------------------------

    def alias(self, buffer, of) -> None:
        """`buffer` names the storage of the buffer `of`."""
        self.storages[buffer.__chandle__()] = self._storage(of)

    def _storage(self, buffer):
        return self.storages.get(buffer.__chandle__(), buffer)

    def _write(self, buffer) -> None:
        self.written[self._storage(buffer).__chandle__()] = self.tick()

    # --- uses ----------------------------------------------------------------------------------------------------------

    def statement(self, s) -> None:
        """A statement is appended: it uses its expressions, then writes."""
        if isinstance(s, BufferStore):
            self.use(s.value, *s.indices)
            self._write(s.buffer)
        elif isinstance(s, Bind):
            self.use(s.value)
            if isinstance(s.value, TensorLoad):
                self.loads[s.var.__chandle__()] = s.value
        elif isinstance(s, Evaluate) and isinstance(s.value, Call):
            args = list(s.value.args)
            self.use(*args)
            if is_op(s, VIEW):
                self.alias(args[0].source, args[1].source)
            record = work_of(s)
            for k in range(len(args)) if record is None else record.writes:
                if isinstance(args[k], TensorRegion):
                    self._write(args[k].source)
        elif isinstance(s, For):
            self.use(s.extent)  # as if evaluated after every iteration
        elif isinstance(s, AllocBuffer):
            self.use(*s.buffer.ty.shape)

    def use(self, *values, since: int | None = None) -> None:
        """`values` are part of a statement here. Reads made at `since` or later are meant to be evaluated anew each time."""
        if not self.reads:
            return
        todo = list(values)
        while todo:
            e = todo.pop()
            if not hasattr(e, "__chandle__"):
                continue
            read = self.reads.get(e.__chandle__())
            if read is not None and self._used(read, since):
                continue  # it will be bound as a whole
            todo.extend(_children(e))

    def _used(self, read: Read, since: int | None) -> bool:
        """True if `read` is too old for this use."""
        if since is not None and read.time >= since:
            return False
        if self._overwritten(read, read.time):
            self.stale[read.key] = read
            return True
        # The body of a loop that began after the read runs again, after all writes in it.
        region, outermost = self.builder.region, None
        while region is not None and region.opened > read.time:
            if region.kind in _LOOPS:
                outermost = region
            region = region.parent
        if outermost is not None:
            outermost.older_reads.append(read)
        return False

    def close(self, region) -> None:
        """A region ends."""
        for read in region.older_reads:
            if self._overwritten(read, region.opened):
                self.stale[read.key] = read

    # --- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Trace again if a read was used after a write.

        Raises: InvalidKernel for reads in front of the launch, where nothing can be bound.
        """
        for read in self.stale.values():
            if read.region is self.builder.root:
                code, instruction, line = read.place
                raise InvalidKernel(
                    f"'{read.value}' is read before the launch, but used after the kernel wrote that tensor",
                    at=location_in_code(code, instruction, line, None) if code is not None else None,
                    hint="read it inside `with T.Kernel(...)`",
                )
        if new := set(self.stale) - self.bound:
            self.bound |= new
            raise Restart
