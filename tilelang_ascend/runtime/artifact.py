"""Everything one compilation produces, and its form on disk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Mapping

from .params import Signature


@dataclass(frozen=True)
class AbiSlot:
    """One parameter of the Ascend IR function.

    Attributes:
        kind: ``scalar``, ``buffer``, ``workspace`` of one launch, or ``shared``: a workspace all launches of a call use.
        name: name of the scalar, shape variable or buffer.
        dtype: element type or scalar type.
        nbytes: bytes per block of a workspace, all bytes of a shared one, 0 otherwise.
        past_l2: traffic with a buffer goes past L2.
    """

    kind: str
    name: str
    dtype: str
    nbytes: int = 0
    past_l2: bool = False


@dataclass(frozen=True)
class Step:
    """One of the launches a call makes, one after the other.

    Attributes:
        kernel: name of its function in the emitted text.
        kernel_type: ``aic_only``, ``aiv_only`` or ``mix_1_2``.
        block_dim: number of blocks the host launches.
        abi: parameters of the lowered program, in order.
        shows: whether it prints.
    """

    kernel: str
    kernel_type: str
    block_dim: int
    abi: tuple[AbiSlot, ...]
    shows: bool = False


@dataclass
class Artifact:
    """A compiled kernel, before it is bound to an executor.

    Attributes:
        name: the user's function name.
        chip: SKU the program was lowered for.
        signature: what a caller passes.
        steps: what a call launches, in order.
        kernel_source, host_source: emitted Ascend C.
        memory_map: readable table of on-chip addresses.
        options: the honoured compiler options.
        notes: hints that were accepted and ignored; warnings: what the compiler had to give up, one text each.
        tile_ir_json, ascend_ir_json: both levels of IR as TVM JSON.
    """

    name: str
    chip: str
    signature: Signature
    steps: tuple[Step, ...]
    kernel_source: str
    host_source: str
    memory_map: str
    options: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tile_ir_json: str = ""
    ascend_ir_json: str = ""
    programs: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)
    """The host programs of the simulator, one for each step, once they are built; never stored."""
    told: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    """Warnings about calls that were given already; never stored."""

    @cached_property
    def tile_ir(self):
        """The kernel as the user wrote it: a `PrimFunc` with tile operators."""
        return load_ir(self.tile_ir_json)

    @cached_property
    def ascend_ir(self):
        """The lowered program: an `IRModule` with one function for each kind of core of each launch."""
        return load_ir(self.ascend_ir_json)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or another process starts from: what was made of the texts here is made again there."""
        return {f.name: () if f.name == "programs" else getattr(self, f.name) for f in fields(self)}

    def to_files(self) -> dict[str, str]:
        """Name and text of every file of an artifact in a cache entry."""
        meta = {
            "name": self.name,
            "chip": self.chip,
            "signature": self.signature.to_json(),
            "steps": [{**vars(step), "abi": [vars(slot) for slot in step.abi]} for step in self.steps],
            "options": self.options,
            "notes": self.notes,
            "warnings": self.warnings,
        }
        return {
            "kernel.cpp": self.kernel_source,
            "host.cpp": self.host_source,
            "tile_ir.json": self.tile_ir_json,
            "ascend_ir.json": self.ascend_ir_json,
            "memory_map.txt": self.memory_map,
            "artifact.json": json.dumps(meta),
        }

    @staticmethod
    def from_files(files: Mapping[str, str]) -> "Artifact":
        """Inverse of `to_files`.

        Raises:
            KeyError, ValueError, TypeError: the texts are not those of an artifact.
        """
        meta = json.loads(files["artifact.json"])
        meta["signature"] = Signature.from_json(meta["signature"])
        meta["steps"] = tuple(Step(**{**step, "abi": tuple(AbiSlot(**slot) for slot in step["abi"])}) for step in meta["steps"])
        return Artifact(
            **meta,
            kernel_source=files["kernel.cpp"],
            host_source=files["host.cpp"],
            memory_map=files["memory_map.txt"],
            tile_ir_json=files["tile_ir.json"],
            ascend_ir_json=files["ascend_ir.json"],
        )


_OPERATOR = re.compile(r'"type":"ir\.Op","data":"((?:tl|ascend)\.\w+)"')


def load_ir(text: str):
    """IR from TVM JSON, also in a process that has compiled nothing yet."""
    from .. import ir

    # There our operators do not exist yet.
    for name in set(_OPERATOR.findall(text)):
        ir.op(name)
    return ir.load_json(text)
