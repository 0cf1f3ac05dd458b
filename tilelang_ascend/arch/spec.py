"""`ChipSpec`: what the compiler and the machine model know about one chip. Frozen, self-checking, units in names.

All numbers come from the TOML files of this folder, where every one of them carries its source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Mapping

from ..isa.base import GENERATIONS, ITEMSIZE, Space

_SOURCES = ("doc:", "measured:", "assumed")
ON_CHIP = (Space.L1, Space.L0A, Space.L0B, Space.L0C, Space.UB, Space.BT, Space.FB)


@dataclass(frozen=True)
class Quantity:
    """A number and its origin: ``doc: …`` (a manual), ``measured: …`` (a published measurement) or ``assumed``."""

    value: int | float
    source: str

    def __post_init__(self):
        assert isinstance(self.value, (int, float)) and self.value >= 0, f"not a quantity: {self.value!r}"
        assert self.source.startswith(_SOURCES), f"a source starts with {', '.join(_SOURCES)}: {self.source!r}"

    @property
    def is_assumed(self) -> bool:
        return self.source.startswith("assumed")


@dataclass(frozen=True)
class MemorySpec:
    """One on-chip memory of one core. The reserved bytes are the last ones."""

    space: Space
    capacity_bytes: int
    reserved_bytes: int
    alignment_bytes: int

    def __post_init__(self):
        assert 0 <= self.reserved_bytes < self.capacity_bytes, f"{self.space.name}: reserved {self.reserved_bytes}"
        assert self.alignment_bytes & (self.alignment_bytes - 1) == 0, f"{self.space.name}: {self.alignment_bytes}"

    @property
    def usable_bytes(self) -> int:
        """Bytes a program may allocate, from address 0."""
        return self.capacity_bytes - self.reserved_bytes


@dataclass(frozen=True)
class Price:
    """Cycles of one cost class: an instruction keeps its pipe for max(interval, work / rate) cycles, and its result is
    complete `latency_cycles` later. `rates` is keyed ``bytes``, ``b8`` … ``b64`` (lanes) or by dtype (fractals)."""

    cost_class: str
    interval_cycles: float
    latency_cycles: float
    rates: Mapping[str, float]
    burst_cycles: float = 0.0

    def __post_init__(self):
        assert all(rate > 0 for rate in self.rates.values()), f"{self.cost_class}: a rate must be positive"

    def busy_cycles(self, work: float, rate: str | None = None) -> float:
        """Cycles the pipe is taken by `work` units (bytes, lanes or fractals, see docs/isa.md)."""
        return max(self.interval_cycles, work / self.rates[rate]) if rate else self.interval_cycles


def lane_rate(dtype: str) -> str:
    """Key of a vector rate for operands of a dtype: ``b16`` for float16."""
    return f"b{8 * ITEMSIZE[dtype]}"


@dataclass(frozen=True)
class UbBanks:
    """Banks of UB; two accesses of one cycle to the same group (read-read) or bank (read-write) conflict."""

    groups: int
    banks_per_group: int
    bank_bytes: int
    row_bytes: int


@dataclass(frozen=True)
class ChipSpec:
    """One SKU. `quantities` holds every number under its flat name, with its source."""

    name: str
    family: str
    generation: str
    l0a_layout: str
    paths: frozenset[str]
    quantities: Mapping[str, Quantity]
    memories: Mapping[Space, MemorySpec]
    prices: Mapping[str, Price]
    aliases: tuple[str, ...] = field(default=())

    def __post_init__(self):
        assert self.generation in GENERATIONS, self.generation
        assert self.l0a_layout in ("zZ", "nZ"), self.l0a_layout
        assert set(self.memories) == set(ON_CHIP), "a memory is missing"
        assert self.num_aiv == 2 * self.num_aic, f"{self.name}: {self.num_aic} AIC need {2 * self.num_aic} AIV"
        assert self.usable_event_ids <= self.num_event_ids, f"{self.usable_event_ids} usable event ids of {self.num_event_ids}"
        total = self.ub_banks.groups * self.ub_banks.banks_per_group * self.ub_banks.bank_bytes
        assert total == self.memories[Space.UB].capacity_bytes, f"{self.name}: UB banks hold {total} bytes"

    def __getattr__(self, key: str):
        """Any number by its flat name, e.g. `chip.num_aic` or `chip.clock_hz`."""
        quantities = self.__dict__.get("quantities", {})
        if key in quantities:
            return quantities[key].value
        raise AttributeError(f"chip data have no {key!r}")

    def __hash__(self):
        return hash(self.name)

    def source(self, key: str) -> str:
        """Where the number `key` is from."""
        return self.quantities[key].source

    def has_path(self, source: str, destination: str) -> bool:
        """True when data can move from one memory to another without passing GM, e.g. ``has_path("L0C", "UB")``."""
        return f"{source}->{destination}" in self.paths

    def capacity_bytes(self, space: Space) -> int:
        """Bytes of a memory that a program may use."""
        return self.memories[space].usable_bytes

    def orders(self, pipe: str) -> bool:
        """True when an instruction may rely on earlier ones of its own pipe being complete."""
        return pipe == "S" or bool(self.quantities[f"ordered_completion_{pipe}"].value)

    @property
    def ub_banks(self) -> UbBanks:
        return UbBanks(self.ub_bank_groups, self.ub_banks_per_group, self.ub_bank_bytes, self.ub_bank_row_bytes)

    @property
    def assumed_keys(self) -> tuple[str, ...]:
        """Names of the numbers nobody has measured or documented."""
        return tuple(sorted(key for key, q in self.quantities.items() if q.is_assumed))

    def to_json(self) -> str:
        """Flat JSON object for the machine model: every number by name, ``<memory>_bytes`` = usable bytes."""
        flat: dict[str, object] = {"name": self.name, "generation": self.generation}
        flat.update((key, quantity.value) for key, quantity in sorted(self.quantities.items()))
        flat.update((f"{space.name.lower()}_bytes", memory.usable_bytes) for space, memory in self.memories.items())
        flat["assumed_keys"] = list(self.assumed_keys)
        return json.dumps(flat)
