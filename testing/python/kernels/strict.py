"""Run a kernel the strict way: every pass validated, the verifier, all checks, late transfers, sentinels, and the emitted text beside the IR.

`run(kernel, *arrays)` takes NumPy arrays for all buffer parameters (outputs included, changed in place) and scalars by name.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from tilelang_ascend import arch
from tilelang_ascend.codegen import emit
from tilelang_ascend.ir import verify_ascend
from tilelang_ascend.isa.stream import float_bits, is_float
from tilelang_ascend.jit.build import describe_steps, lower_stages, written_buffers
from tilelang_ascend.jit.signature import read_signature
from tilelang_ascend.runtime.simulation import build_programs, programs_of
from tilelang_ascend.sim import machine, twin
from tilelang_ascend.sim.streams import Recorded, first_difference
from tilelang_ascend.sim.validate import validate, value_difference, write_difference
from tilelang_ascend.tile.verify import verify_tile
from tilelang_ascend.transform import pipeline

STRICT = machine.SimOptions(record_stream=True, count_writes=True, max_instructions=20_000_000)
GUARD_BYTES = 4096
GUARD = 0xA5

SERIAL = {"tl.vectorize_loops": False}
"""Pass configs under which serial loops are work of the scalar unit, whose values are compared with those of the vector unit."""

WHOLE_SHARE = "TILELANG_TEST_WHOLE_SHARE"
"""Name of the environment variable that says of which part of tests, an n-th, runs leave nothing out; of all of them if it is not set."""


def whole() -> bool:
    """Whether strict runs of the current test leave nothing out. The others do not run what lies between the first Tile IR stage and the last
    as long as these agree, and the compiler of their text does not follow values from statement to statement.

    A pass that makes another program, which no later pass keeps, and text with warnings only the optimiser has are seen in a share of the tests
    of every kind: always the same ones, in no order.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return zlib.crc32(test.encode()) % int(os.environ.get(WHOLE_SHARE, 1)) == 0


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
    """Run `entries`, one mapping for each launch, on guarded copies of `arrays`; returns ({name: result}, RunResult). They may be a function of
    the addresses of the tensors."""
    guarded = {name: Guarded(a) for name, a in arrays.items()}
    tensors, addresses, keep = [], {}, []

    def add(slot, nbytes: int) -> int:
        memory = np.zeros(max(1, nbytes) + 512, np.uint8)
        keep.append(memory)
        address = memory.ctypes.data + -memory.ctypes.data % 512
        if nbytes:
            tensors.append(machine.Tensor(address, nbytes, slot.name, scratch=True))
        return address

    def word(slot, block_dim: int) -> int:
        if slot.kind == "scalar":
            return float_bits(scalars[slot.name]) if is_float(slot.dtype) else int(scalars[slot.name])
        if slot.kind == "workspace":
            return add(slot, slot.nbytes * block_dim)
        if slot.name not in addresses:
            if slot.kind == "shared":
                addresses[slot.name] = add(slot, slot.nbytes)
            else:
                view = guarded[slot.name].view
                written = next(p.writes for p in artifact.signature.parameters if p.name == slot.name)
                addresses[slot.name] = view.ctypes.data
                if view.nbytes:
                    tensors.append(machine.Tensor(view.ctypes.data, view.nbytes, slot.name, written))
        return addresses[slot.name]

    words = [[word(slot, step.block_dim) for slot in step.abi] for step in artifact.steps]
    if callable(entries):
        entries = entries([t.address for t in tensors])
    launches = [machine.Launch(step.kernel_type, step.block_dim, e, w) for step, e, w in zip(artifact.steps, entries, words, strict=True)]
    result = machine.run_in_order(arch.get_chip(artifact.chip), launches, tensors, options)
    for name, g in guarded.items():
        g.assert_untouched(name)
    return {name: g.view for name, g in guarded.items()}, result


def entries_of(artifact) -> list:
    """Entries of each launch of a compiled kernel."""
    return [program.entries for program in programs_of(artifact)]


def module_entries(ascend_ir) -> list:
    """Entries of each launch of a lowered program."""
    return [program.entries for program in build_programs(ascend_ir)]


def twin_entries(artifact, flags=()) -> list:
    """Entries of the emitted text, launch by launch, compiled with warnings as errors and further `flags`."""
    source = emit(artifact.ascend_ir, artifact.options.get("cann", 8))
    assert source.kernel == artifact.kernel_source
    flags = (*twin.FLAGS, *(() if whole() else ("-O0",)), *flags)
    return [
        twin.compile_text(source.text, signature.kernel, artifact.chip, signature.kind, flags).entries for signature in source.signatures
    ]


def assert_passes_agree(artifact, arrays: dict, scalars: dict):
    """The kernel means the same after every pass on Tile IR (see `whole`). Returns what the last of them did."""
    func = artifact.tile_ir
    args = [arrays[p.name] if p.name in arrays else scalars[p.name] for p in func.params]
    found = validate([("tile_ir", func), *lower_stages(artifact)], args, every=whole())
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
    out, result = launch(artifact, entries_of(artifact), arrays, scalars)
    assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    difference = write_difference(last, result.writes) or (value_difference(artifact.tile_ir, last, out) if values else None)
    assert difference is None, difference
    if text:
        out_text, result_text = launch(artifact, twin_entries(artifact, flags), arrays, scalars)
        assert not result_text.hazards, "\n".join(h.text() for h in result_text.hazards[:3])
        for name in out:
            same = out[name].tobytes() == out_text[name].tobytes() or np.array_equal(bits(out[name]), bits(out_text[name]))
            assert same, f"the emitted text computes another {name}"
        difference = first_difference(result.streams, result_text.streams)
        assert difference is None, f"the emitted text issues other instructions: {difference}"
        assert result.output == result_text.output, "the emitted text prints something else"
    return out


def bits(array: np.ndarray) -> np.ndarray:
    """Bits, with one NaN: of these only serial code makes several, with the sign of the machine it runs on."""
    if array.dtype.kind in "iub":
        return array
    clean = np.where(np.isnan(array.astype("float32")), array.dtype.type(np.nan), array)
    return clean.view(f"u{array.dtype.itemsize}")


def once(func, chip: str, arrays: dict, lowered=None, scalars: dict | None = None):
    """A strict run of `func`, lowered once and not cached: (results by name, printed text). `lowered`: with all stages, if that has been done.

    Every pass validated, the verifier, all checks, the number of writes of every element, and the values Tile IR has by its definition.
    """
    scalars = scalars or {}
    broken = verify_tile(func)
    assert not broken, "\n".join(map(str, broken[:3]))
    lowered = lowered or pipeline.lower(func, arch.get_chip(chip), keep_stages=True)
    emit(lowered.ascend_ir)
    signature = read_signature(func, (), written_buffers(lowered.ascend_ir))
    program = SimpleNamespace(steps=describe_steps(lowered.ascend_ir), chip=chip, signature=signature)
    found = validate([("tile_ir", func), *lowered.stages], [{**arrays, **scalars}[p.name] for p in func.params], every=whole())
    assert found.finding is None, found.finding.text()
    problems = verify_ascend(lowered.ascend_ir, arch.get_chip(chip))
    assert not problems, "the program breaks a rule: " + "\n".join(map(str, problems[:3]))
    out, result = launch(program, module_entries(lowered.ascend_ir), arrays, scalars, STRICT)
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
    module, labels = numbered(kernel.artifact.ascend_ir)
    entries, options = module_entries(module), replace(STRICT, time=False, count_writes=False)
    for scalars in launches or ({},):
        _, whole = launch(kernel.artifact, entries, arrays, scalars, options)
        assert not whole.hazards, "\n".join(h.text() for h in whole.hazards[:3])
        streams = [(*_launch_and_core(name), Recorded(stream)) for name, stream in zip(whole.core_names, whole.streams)]

        def hazards(line=None):
            def again(addresses, streams=streams):
                issued: list[dict] = [{} for _ in kernel.artifact.steps]
                for launch, core, stream in streams:
                    issued[launch].setdefault(core, []).append(stream.issued(addresses, line))
                return issued

            return launch(kernel.artifact, again, arrays, scalars, replace(options, record_stream=False))[1].hazards

        assert not hazards(), "the recorded streams are not what ran"
        executed = set().union(*(stream.lines.tolist() for _, _, stream in streams))
        labels = {line: label for line, label in labels.items() if line not in executed or not hazards(line)}
    return list(labels.values())


def _launch_and_core(name: str) -> tuple[int, str]:
    """What `launch 2 AIV 3`, or `AIV 3` of a single launch, belongs to: (1, "aiv")."""
    words = name.split()
    return (int(words[1]) - 1, words[2].lower()) if words[0] == "launch" else (0, words[0].lower())


def tolerance(dtype, length: int) -> dict:
    """rtol/atol of a sum of `length` products of values of order one, accumulated in float32 and rounded once to `dtype`."""
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "int32": 0.0}[str(dtype)]
    accumulate = 0.0 if str(dtype) == "int32" else 2**-24 * max(1, length) ** 0.5 * 4
    return {"rtol": 2 * eps + accumulate, "atol": accumulate * max(1, length) ** 0.5 * 2 + (0 if str(dtype) == "int32" else 1e-7)}
