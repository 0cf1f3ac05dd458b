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
from tilelang_ascend.sim.streams import Recorded, first_difference
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
    """Run `entries` on guarded copies of `arrays`; returns ({name: result}, RunResult). They may be a function of the addresses of the tensors."""
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
    if callable(entries):
        entries = entries([t.address for t in tensors])
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
FIRST_LINE = 1 << 20
"""Lines of synchronisation instructions in numbered programs: above those of any source."""


def numbered(module):
    """(the program, {line: description}): synchronisation instructions have lines of their own; that which ends a program is not described."""
    from tilelang_ascend.ir import Evaluate, IRModule, SourceName, Span, StmtMutator, attrs_of, op_name

    class Number(StmtMutator):
        def __init__(self, core):
            self.core, self.labels = core, []

        def visit_Evaluate(self, s: Evaluate):
            if op_name(s) not in SYNC_OPS:
                return s
            line = FIRST_LINE + len(labels) + len(self.labels)
            self.labels.append(f"{self.core} #{len(self.labels)}: {op_name(s)} {s.value.args} {attrs_of(s)}")
            return Evaluate(s.value, span=Span(SourceName("sync"), line, line, 1, 1))

    functions, labels, ends = {}, {}, []
    for gv, func in module.functions.items():
        number = Number(func.attrs["ascend.core"])
        functions[gv] = func.with_body(number(func.body))
        labels |= {FIRST_LINE + len(labels) + i: label for i, label in enumerate(number.labels)}
        ends.append(FIRST_LINE + len(labels) - 1)
    return IRModule(functions), {line: label for line, label in labels.items() if line not in ends}


def surviving_mutants(kernel, arrays: dict, *launches: dict) -> list[str]:
    """Synchronisation instructions whose removal no check notices in any of the launches (scalars by name), but for that which ends a program.

    The recorded streams of a launch run again without the instructions: nothing is compiled anew.
    """
    from tilelang_ascend.sim.lower import host_program

    module, labels = numbered(kernel.artifact.ascend_ir)
    entries, options = host_program(module).entries, replace(STRICT, time=False, count_writes=False)
    for scalars in launches or ({},):
        _, whole = launch(kernel.artifact, entries, arrays, scalars, options)
        assert not whole.hazards, "\n".join(h.text() for h in whole.hazards[:3])
        streams = [(name[:3].lower(), Recorded(stream)) for name, stream in zip(whole.core_names, whole.streams)]

        def hazards(line=None):
            def again(addresses, streams=streams):
                return {
                    core: issued
                    for core in ("aic", "aiv")
                    if (issued := [stream.issued(addresses, line) for name, stream in streams if name == core])
                }

            return launch(kernel.artifact, again, arrays, scalars, replace(options, record_stream=False))[1].hazards

        assert not hazards(), "the recorded streams are not what ran"
        executed = set().union(*(stream.lines.tolist() for _, stream in streams))
        labels = {line: label for line, label in labels.items() if line not in executed or not hazards(line)}
    return list(labels.values())


def tolerance(dtype, length: int) -> dict:
    """rtol/atol of a sum of `length` products of values of order one, accumulated in float32 and rounded once to `dtype`."""
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "int32": 0.0}[str(dtype)]
    accumulate = 0.0 if str(dtype) == "int32" else 2**-24 * max(1, length) ** 0.5 * 4
    return {"rtol": 2 * eps + accumulate, "atol": accumulate * max(1, length) ** 0.5 * 2 + (0 if str(dtype) == "int32" else 1e-7)}
