"""What `inspect --validate` does: interpret every stage of the kernels a script calls, on the arguments of their first calls."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field

import numpy as np

from ..runtime import dtypes
from ..runtime.arguments import GmBuffer, Launch
from ..runtime.artifact import Artifact
from ..runtime.params import evaluate

ELEMENTS = 500_000_000
"""Elements a stage may touch: about a minute."""


@dataclass
class Inputs:
    """Arguments of one call, in parameter order; `fresh` are outputs without contents."""

    args: list
    fresh: frozenset[str]


@dataclass
class Recorder:
    """Listens to launches and keeps the arguments of the first one of each kernel."""

    calls: dict[int, Inputs] = field(default_factory=dict)

    def __call__(self, artifact: Artifact, launch: Launch) -> None:
        if id(artifact) not in self.calls:
            self.calls[id(artifact)] = inputs_of(artifact, launch)

    def report(self, artifact: Artifact) -> tuple[bool, str]:
        """(is all well?, a sentence for people) about a kernel."""
        from ..jit.build import lower_stages
        from ..sim.validate import validate

        inputs = self.calls.get(id(artifact))
        if inputs is None:
            return True, "not validated: the script does not call it"
        if any(a is None for a in inputs.args):
            return True, "not validated: a tensor is declared with strides"
        found = validate([("tile_ir", artifact.tile_ir), *lower_stages(artifact)], inputs.args, ELEMENTS, inputs.fresh)
        if found.finding is not None:
            return False, found.finding.text()
        if found.skipped:
            return True, f"not validated: {found.skipped}"
        return True, f"validated: {len(found.stages)} stages agree ({', '.join(found.stages)})"


def inputs_of(artifact: Artifact, launch: Launch) -> Inputs:
    """Copies of what a launch passes."""
    args: list = []
    for p in artifact.signature.parameters:
        args.append(_contents(launch.buffers[p.name], launch) if p.is_buffer else launch.scalars[p.name])
    return Inputs(args, frozenset(b.name for b in launch.buffers.values() if not b.initialized))


def _contents(buffer: GmBuffer, launch: Launch) -> np.ndarray | None:
    """The elements of a dense row-major buffer, None for others."""
    p = buffer.parameter
    shape = dtypes.stored(p.dtype, tuple(evaluate(d, launch.scalars) for d in p.extents))
    dtype = dtypes.numpy_dtype(p.dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if p.strides is not None or nbytes != buffer.nbytes:
        return None
    raw = ctypes.string_at(buffer.address, nbytes) if nbytes else b""
    return np.frombuffer(bytearray(raw), dtype).reshape(shape)
