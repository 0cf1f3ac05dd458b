"""What of the text depends on the release of CANN: how a kernel says which cores run it, and how buffers get their addresses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..isa.units import BLOCK_BYTES, round_up
from .names import Names
from .writer import Writer


@dataclass(frozen=True)
class Memory:
    """One memory of a core: the name its `TBuf` would like to have, the position that stands for it, and the bytes that are used."""

    hint: str
    position: str
    nbytes: int


@dataclass(frozen=True)
class Local:
    """A buffer on the chip. `memory` is that of `Memory.hint`, `address` counts bytes, `count` is an expression for all its elements."""

    name: str
    ctype: str
    memory: str
    address: int
    count: str


class Form(ABC):
    """One way of writing. `guard_single`: a kernel for one kind of cores asks on which it runs, as one for both does."""

    guard_single: bool

    @abstractmethod
    def qualifier(self, kind: str) -> str:
        """What stands behind `__global__`; kind: ``aic_only``, ``aiv_only`` or ``mix_1_2``."""

    @abstractmethod
    def start(self, out: Writer, kind: str) -> None:
        """First statements of a kernel."""

    @abstractmethod
    def memories(self, out: Writer, names: Names, memories: Sequence[Memory]) -> dict[str, str]:
        """Declare the memories of a core, whose buffers follow; gives what `local` calls them, by hint."""

    @abstractmethod
    def local(self, buffer: Local, memory: str) -> str:
        """The declaration of a buffer."""


class Cann8(Form):
    """The spelling that 8.1 and 9.x share, as 8.1 has no `LocalTensor` with an address: one `TBuf` per memory from a `TPipe` that is destroyed at
    once (its own synchronisation must not mix with the flags in the text), and `GetWithOffset` for every buffer."""

    guard_single = True
    _TYPES = {"aic_only": "KERNEL_TYPE_AIC_ONLY", "aiv_only": "KERNEL_TYPE_AIV_ONLY", "mix_1_2": "KERNEL_TYPE_MIX_AIC_1_2"}

    def qualifier(self, kind: str) -> str:
        return "__aicore__"

    def start(self, out: Writer, kind: str) -> None:
        out.line(f"KERNEL_TASK_TYPE_DEFAULT({self._TYPES[kind]});")

    def memories(self, out: Writer, names: Names, memories: Sequence[Memory]) -> dict[str, str]:
        if not memories:
            out.line("AscendC::InitSocState();")
            return {}
        out.line("AscendC::TPipe pipe;")
        found = {}
        for m in memories:
            found[m.hint] = names.fresh(m.hint)
            out.line(f"AscendC::TBuf<AscendC::TPosition::{m.position}> {found[m.hint]};")
            out.line(f"pipe.InitBuffer({found[m.hint]}, {round_up(m.nbytes, BLOCK_BYTES)});")
        out.line("pipe.Destroy();")
        return found

    def local(self, buffer: Local, memory: str) -> str:
        b = buffer
        return f"AscendC::LocalTensor<{b.ctype}> {b.name} = {memory}.GetWithOffset<{b.ctype}>({b.count}, {b.address});"


class Cann9(Form):
    """The static style of 9.x: no `TPipe`; the core is initialised by hand, and every buffer is made where it lies."""

    guard_single = False
    _QUALIFIERS: Mapping[str, str] = {"aic_only": "__cube__", "aiv_only": "__vector__", "mix_1_2": "__mix__(1, 2)"}

    def qualifier(self, kind: str) -> str:
        return self._QUALIFIERS[kind]

    def start(self, out: Writer, kind: str) -> None:
        out.line("AscendC::InitSocState();")

    def memories(self, out: Writer, names: Names, memories: Sequence[Memory]) -> dict[str, str]:
        return {m.hint: f"AscendC::TPosition::{m.position}" for m in memories}

    def local(self, buffer: Local, memory: str) -> str:
        b = buffer
        return f"AscendC::LocalTensor<{b.ctype}> {b.name}({memory}, {b.address}, {b.count});"


FORMS: Mapping[int, Form] = {8: Cann8(), 9: Cann9()}
"""Release -> its form. Later releases compile that of 8, too."""
