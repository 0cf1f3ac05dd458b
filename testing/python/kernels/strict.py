"""Run a kernel the strict way: every pass validated, the verifier, all checks, late transfers, sentinels, and the emitted text beside the IR.

`run(kernel, *arrays)` takes NumPy arrays for all buffer parameters (outputs included, changed in place) and scalars by name.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from tilelang_ascend import arch
from tilelang_ascend.codegen import emit
from tilelang_ascend.ir import verify_ascend
from tilelang_ascend.isa.stream import float_bits, is_float
from tilelang_ascend.jit.build import describe_program, lower_stages, written_buffers
from tilelang_ascend.jit.signature import read_signature
from tilelang_ascend.runtime.simulation import build_program, program_of
from tilelang_ascend.sim import machine, twin
from tilelang_ascend.sim.streams import first_difference
from tilelang_ascend.sim.validate import validate, value_difference, write_difference
from tilelang_ascend.tile.verify import verify_tile
from tilelang_ascend.transform import pipeline

STRICT = machine.SimOptions(record_stream=True, count_writes=True, max_instructions=20_000_000)
GUARD_BYTES = 4096
GUARD = 0xA5


class Guarded:
    """A copy of an array between two runs of sentinel bytes, at an address that is no multiple of 512."""

    def __init__(self, array: np.ndarray):
        self.raw = np.full(array.nbytes + 2 * GUARD_BYTES + 512, GUARD, np.uint8)
        self.start = GUARD_BYTES + (-self.raw.ctypes.data % 512) + max(array.itemsize, 2)
        self.view = self.raw[self.start : self.start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.view[...] = array

    def assert_untouched(self, name: str) -> None:
        outside = np.concatenate([self.raw[: self.start], self.raw[self.start + self.view.nbytes :]])
        assert (outside == GUARD).all(), f"bytes outside of {name} were written"


def launch(artifact, entries, arrays: dict, scalars: dict, options=STRICT):
    """Run `entries` on guarded copies of `arrays`; returns ({name: result}, RunResult)."""
    guarded = {name: Guarded(a) for name, a in arrays.items()}
    words, tensors, keep = [], [], []
    for slot in artifact.abi:
        if slot.kind == "scalar":
            value = scalars[slot.name]
            words.append(float_bits(value) if is_float(slot.dtype) else int(value))
            continue
        if slot.kind == "workspace":
            memory = np.zeros(max(1, slot.nbytes * artifact.block_dim) + 512, np.uint8)
            keep.append(memory)
            base = -memory.ctypes.data % 512
            tensor = machine.Tensor(memory.ctypes.data + base, slot.nbytes * artifact.block_dim, slot.name, scratch=True)
        else:
            view = guarded[slot.name].view
            written = next(p.writes for p in artifact.signature.parameters if p.name == slot.name)
            tensor = machine.Tensor(view.ctypes.data, view.nbytes, slot.name, written)
        words.append(tensor.address)
        if tensor.nbytes:
            tensors.append(tensor)
    chip = arch.get_chip(artifact.chip)
    result = machine.run(chip, artifact.kernel_type, artifact.block_dim, entries, words, tensors, options)
    for name, g in guarded.items():
        g.assert_untouched(name)
    return {name: g.view for name, g in guarded.items()}, result


def twin_entries(artifact, flags=()):
    """Entries of the emitted text, compiled with warnings as errors and further `flags`."""
    source = emit(artifact.ascend_ir)
    assert source.kernel == artifact.kernel_source
    flags = (*twin.FLAGS, *flags)
    return twin.compile_text(source.text, source.signature.kernel, artifact.chip, artifact.kernel_type, flags).entries


def assert_passes_agree(artifact, arrays: dict, scalars: dict):
    """The kernel means the same after every pass on Tile IR. Returns what the last of them did."""
    func = artifact.tile_ir
    args = [arrays[p.name] if p.name in arrays else scalars[p.name] for p in func.params]
    found = validate([("tile_ir", func), *lower_stages(artifact)], args)
    assert found.finding is None, found.finding.text()
    return found.last


def run(kernel, arrays: dict, scalars: dict | None = None, text: bool = True, flags=(), values: bool = True) -> dict:
    """Strict run of the IR and (with `text`) of the emitted text: no hazards, equal values, equal streams.

    `flags`: further flags of the C++ compiler. `values`: results are those of the last Tile IR stage; not where functions have no digits of
    value (docs/numbers.md).
    """
    artifact, scalars = kernel.artifact, scalars or {}
    last = assert_passes_agree(artifact, arrays, scalars)
    problems = verify_ascend(artifact.ascend_ir, arch.get_chip(artifact.chip))
    assert not problems, "the program breaks a rule: " + "\n".join(map(str, problems[:3]))
    out, result = launch(artifact, program_of(artifact).entries, arrays, scalars)
    assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    difference = write_difference(last, result.writes) or (value_difference(artifact.tile_ir, last, out) if values else None)
    assert difference is None, difference
    if text:
        out_text, result_text = launch(artifact, twin_entries(artifact, flags), arrays, scalars)
        assert not result_text.hazards, "\n".join(h.text() for h in result_text.hazards[:3])
        for name in out:
            assert out[name].tobytes() == out_text[name].tobytes(), f"the emitted text computes another {name}"
        difference = first_difference(result.streams, result_text.streams)
        assert difference is None, f"the emitted text issues other instructions: {difference}"
        assert result.output == result_text.output, "the emitted text prints something else"
    return out


def once(func, chip: str, arrays: dict):
    """A strict run of `func`, lowered once and not cached: (results by name, printed text).

    Every pass validated, the verifier, all checks, the number of writes of every element, and the values Tile IR has by its definition.
    """
    broken = verify_tile(func)
    assert not broken, "\n".join(map(str, broken[:3]))
    lowered = pipeline.lower(func, arch.get_chip(chip), keep_stages=True)
    abi, kernel_type = describe_program(lowered.ascend_ir)
    emit(lowered.ascend_ir)
    program = SimpleNamespace(
        abi=abi, kernel_type=kernel_type, block_dim=lowered.block_dim, chip=chip, signature=read_signature(func, (), written_buffers(lowered.ascend_ir))
    )  # fmt: skip
    found = validate([("tile_ir", func), *lowered.stages], [arrays[p.name] for p in func.params])
    assert found.finding is None, found.finding.text()
    problems = verify_ascend(lowered.ascend_ir, arch.get_chip(chip))
    assert not problems, "the program breaks a rule: " + "\n".join(map(str, problems[:3]))
    out, result = launch(program, build_program(lowered.ascend_ir).entries, arrays, {}, STRICT)
    assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    difference = write_difference(found.last, result.writes) or value_difference(func, found.last, out)
    assert difference is None, difference
    return out, result.output


# ---- mutation ------------------------------------------------------------------------------------------------------

SYNC_OPS = {
    "ascend.set_flag", "ascend.wait_flag", "ascend.pipe_barrier", "ascend.cross_core_set_flag", "ascend.cross_core_wait_flag",
}  # fmt: skip


def mutants(module):
    """(description, module) with one synchronisation instruction removed, for every one but the barrier that ends a program."""
    from tilelang_ascend.ir import Evaluate, IRModule, StmtMutator, attrs_of, op_name, statements

    class Remove(StmtMutator):
        def __init__(self, index):
            self.left = index

        def visit_Evaluate(self, s: Evaluate):
            if op_name(s) in SYNC_OPS:
                self.left -= 1
                if self.left == -1:
                    return None
            return s

    for gv, func in module.functions.items():
        found = [s for s in statements(func.body) if op_name(s) in SYNC_OPS]
        for i, s in enumerate(found[:-1]):
            functions = dict(module.functions.items())
            functions[gv] = func.with_body(Remove(i)(func.body))
            yield f"{func.attrs['ascend.core']} #{i}: {op_name(s)} {s.value.args} {attrs_of(s)}", IRModule(functions)


def surviving_mutants(kernel, arrays: dict, scalars: dict | None = None) -> list[str]:
    """Removals of one synchronisation instruction that no check notices."""
    from tilelang_ascend.sim.lower import host_program

    options = replace(STRICT, time=False, record_stream=False)
    survivors = []
    for label, module in mutants(kernel.artifact.ascend_ir):
        _, result = launch(kernel.artifact, host_program(module).entries, arrays, scalars or {}, options)
        if not result.hazards:
            survivors.append(label)
    return survivors


def tolerance(dtype, length: int) -> dict:
    """rtol/atol of a sum of `length` products of values of order one, accumulated in float32 and rounded once to `dtype`."""
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "int32": 0.0}[str(dtype)]
    accumulate = 0.0 if str(dtype) == "int32" else 2**-24 * max(1, length) ** 0.5 * 4
    return {"rtol": 2 * eps + accumulate, "atol": accumulate * max(1, length) ** 0.5 * 2 + (0 if str(dtype) == "int32" else 1e-7)}
