"""Run a sample on the machine model: through the host program (LLVM) and through its emitted text (host twin)."""

from __future__ import annotations

import struct

import numpy as np
from ascend_ir_samples import CHIP, Sample

from tilelang_ascend.arch import get_chip
from tilelang_ascend.codegen import emit
from tilelang_ascend.sim import machine, twin
from tilelang_ascend.sim.lower import host_program

OPTIONS = machine.SimOptions(record_stream=True)


def float_bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", float(value)))[0]


def scalar_words(sample: Sample) -> list[int]:
    """Argument words of the scalars; floats are float32 parameters."""
    return [float_bits(np.float32(v)) if isinstance(v, float) else int(v) for v in sample.scalars]


def kernel_type(sample: Sample) -> str:
    return str(next(iter(sample.module.functions.values())).attrs["ascend.kernel_type"])


def execute(sample: Sample, entries, arrays, options=OPTIONS, block_dim=None):
    """Run `entries` on `arrays` (changed in place) and fresh workspaces; returns the `RunResult`."""
    blocks = block_dim or sample.block_dim
    spaces = [np.zeros(size * blocks, np.uint8) for size in sample.workspace]
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, f"t{i}") for i, a in enumerate(arrays)]
    tensors += [machine.Tensor(w.ctypes.data, w.nbytes, f"ws{i}", scratch=True) for i, w in enumerate(spaces)]
    words = scalar_words(sample) + [a.ctypes.data for a in [*arrays, *spaces]]
    return machine.run(get_chip(CHIP), kernel_type(sample), blocks, entries, words, tensors, options)


def run_ir(sample: Sample, options=OPTIONS):
    """(arrays, result) of the host program."""
    arrays = [a.copy() for a in sample.arrays]
    program = host_program(sample.module)
    return arrays, execute(sample, program.entries, arrays, options)


def compiled(sample: Sample, cann: int = 8) -> twin.TwinProgram:
    source = emit(sample.module, cann)
    return twin.compile_text(source.text, source.signature.kernel, CHIP, kernel_type(sample))


def run_text(sample: Sample, options=OPTIONS, cann: int = 8):
    """(arrays, result) of the emitted text, in the form of a release of CANN."""
    arrays = [a.copy() for a in sample.arrays]
    return arrays, execute(sample, compiled(sample, cann).entries, arrays, options)
