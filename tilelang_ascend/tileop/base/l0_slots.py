"""L0A and L0B as two slots each, through which the operands of all products of a kernel go in turn.

A step is what one load of A and one of B bring: step s is in slot s mod 2, so that MTE1 loads step s + 1 while M works on step s, also
from one product to the next. One product never takes more than a slot, hence L0A and L0B never overflow, however many there are.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

from ...ir import AllocBuffer, Stmt, Substitute, const_int, decl_buffer, dtype_of, imm, itemsize, reinterpret, tirx
from ...isa import Space
from ...isa.units import FRACTAL_BYTES
from .layout import head

SLOTS = 2
SPACES = {"a": Space.L0A, "b": Space.L0B}


@dataclass
class _Body:
    """Body of a loop: its variable, the body around it (None outside of all loops), the steps there before it, and its own so far."""

    var: object = None
    outer: _Body | None = None
    start: int = 0
    steps: int = 0

    def number(self):
        """The number of the first step of an iteration, modulo 2: with an odd number of steps, iterations begin with either slot in turn."""
        if self.outer is None:
            return imm(0)
        count = self.outer.number() + self.start % SLOTS
        return count + self.var if self.steps % SLOTS else count


@dataclass(frozen=True)
class _Step:
    """The variable that stands for the slot of a step until all steps are known; the step is number `first` of `body`, plus `index`."""

    slot: object
    body: _Body
    first: int
    index: object


class L0Slots:
    """The slots of one kernel; `name(wanted)` gives names of buffers that nobody uses."""

    def __init__(self, chip, name):
        self._room = {side: chip.capacity_bytes(space) // SLOTS // FRACTAL_BYTES for side, space in SPACES.items()}
        self._name = name
        self._buffers: dict = {}
        self._fractals: dict = dict.fromkeys(SPACES, 0)
        self._bodies = [_Body()]
        self._steps: list[_Step] = []

    def room(self, side: str) -> int:
        """Fractals of one slot."""
        return self._room[side]

    def reserve(self, side: str, fractals: int, dtype: str) -> None:
        """Say that a step has that many fractals."""
        assert fractals <= self._room[side], "a step is larger than a slot"
        self._fractals[side] = max(self._fractals[side], fractals)
        if side not in self._buffers:
            self._buffers[side] = decl_buffer([SLOTS, 1], dtype, f"l0{side}_slots", scope=f"local.l0{side}")

    def operand(self, side: str, slot, fractal, dtype: str):
        """The address of a fractal in a slot."""
        buffer = self._buffers[side]
        offset = fractal * (FRACTAL_BYTES // itemsize(dtype_of(buffer)))
        return reinterpret(head(buffer, slot, offset), dtype)

    def take(self, count: int = 1, index=None):
        """The slot of the next step; of step `index` of the next `count` ones, if they are a loop. A `count` of 0: the one behind it has the same."""
        body, slot = self._bodies[-1], tirx.Var("slot", "int32")
        self._steps.append(_Step(slot, body, body.steps, imm(0) if index is None else index))
        body.steps += count
        return slot

    @contextmanager
    def loop(self, var, extent):
        """Steps taken in here belong to the body of a loop."""
        outer = self._bodies[-1]
        body = _Body(var, outer, outer.steps)
        self._bodies.append(body)
        yield
        self._bodies.pop()
        trips = const_int(extent)
        outer.steps += body.steps * (1 if trips is None else trips)

    @contextmanager
    def arms(self):
        """Yields a function to call between the two arms of a branch: one of them runs."""
        body = self._bodies[-1]
        before, ends = body.steps, []

        def between():
            ends.append(body.steps)
            body.steps = before

        yield between
        body.steps = max(*ends, body.steps) if ends else body.steps

    def place(self, body: Stmt) -> tuple[list[AllocBuffer], Stmt]:
        """The declarations of the slots, and `body` with their numbers."""
        known: dict = {s.slot: self._number(s) for s in self._steps}
        declared = []
        for side, old in self._buffers.items():
            elements = self._fractals[side] * (FRACTAL_BYTES // itemsize(dtype_of(old)))
            known[old] = decl_buffer([SLOTS, elements], dtype_of(old), self._name(old.name), scope=f"local.l0{side}")
            declared.append(AllocBuffer(known[old]))
        return declared, Substitute(known)(body) if known else body

    @staticmethod
    def _number(s: _Step):
        count = s.index + s.body.number() + s.first % SLOTS
        known = const_int(count)
        return tirx.floormod(count, imm(SLOTS)) if known is None else imm(known % SLOTS)


__all__ = ["L0Slots"]
