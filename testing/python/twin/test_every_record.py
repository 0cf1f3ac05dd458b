"""Every record of the instruction table, with every legal combination of dtypes: the emitted text compiles and issues
what the host program issues."""

import pytest
from ascend_ir_samples import Builder, at, gm, module

from tilelang_ascend.arch import get_chip
from tilelang_ascend.codegen import emit
from tilelang_ascend.ir import AllocBuffer, Bind, Call, Evaluate, Var, call, decl_buffer, seq, tirx
from tilelang_ascend.isa import GENERATIONS, SCOPES, TABLE, Space, rules
from tilelang_ascend.sim import machine, twin
from tilelang_ascend.sim.lower import host_program
from tilelang_ascend.sim.streams import first_difference, records

CHIPS = {"c220": "Ascend910B1", "3510": "a5"}
SCOPE_OF = {space: scope for scope, space in SCOPES.items()}
OPTIONS = machine.SimOptions.time_only(time=False, record_stream=True)
ELEMENTS = 1024
# Hundreds of calls: optimising them would take most of the time of the test.
QUICK = tuple("-O0" if flag == "-Og" else flag for flag in twin.FLAGS)


def core_of(record) -> str:
    return "aiv" if "aiv" in record.cores else "aic"


def attr_choices(record):
    """One dict per value of each attribute, the others at their first value."""
    first = {name: values[0] if values else "%d" * len(record.args) for name, values in record.attrs.items()}
    out = [first] if first else [{}]
    for name, values in record.attrs.items():
        out += [{**first, name: v} for v in values[1:]]
    return out


def value_of(arg, index: int, shift: Var, dtype: str):
    """A legal value: constants for one half of the arguments, expressions of a scalar for the other."""
    if arg.kind == "float":
        constant = index % 2 or dtype.startswith("float8")
        return tirx.const(1.5, "float32") if constant else tirx.Cast("float32", shift) * 0.25
    lo = 0 if arg.lo is None else arg.lo
    hi = 8 if arg.hi is None else min(arg.hi, lo + 8)
    value = min(lo + 1 + index % 3, hi)
    return value if index % 2 or value == lo else shift + (value - 3)


def legal(record, dtypes, attrs, generation) -> bool:
    """False for combinations the record itself refuses, whatever the arguments."""
    bound = record.bind(dtypes, [None] * len(record.args), attrs, generation)
    return rules.check(bound) is None


class Program:
    """One function per core with a call of every record."""

    def __init__(self, generation: str):
        self.generation = generation
        self.calls = {"aic": 0, "aiv": 0}
        self.builders = {core: Builder() for core in ("aic", "aiv")}
        self.shift = {core: Var("shift", "int32") for core in ("aic", "aiv")}
        self.gm: dict = {}
        self.buffers: dict = {}
        self.body: dict = {"aic": [], "aiv": []}

    def operand(self, core, space, dtype, index):
        key = (core, space, dtype, index)
        if space is Space.GM:
            slot = list(self.gm).index((dtype, index)) if (dtype, index) in self.gm else None
            if slot is None:
                self.gm[(dtype, index)] = f"g_{dtype}_{index}"
            return ("gm", dtype, index)
        if key not in self.buffers:
            buffer = decl_buffer((2, ELEMENTS), dtype, f"{space.name}_{dtype}_{index}", scope=SCOPE_OF[space])
            self.buffers[key] = buffer
            self.builders[core].allocs.append(AllocBuffer(buffer, annotations={"address": 512 * index}))
        return ("local", self.buffers[key], None)


def build(generation: str):
    """(module, calls by core): two passes, because all GM parameters must be known before a call refers to them."""
    program = Program(generation)
    plan = []
    for record in TABLE.values():
        if not record.runs_on(generation) or record.expanded_by:
            continue
        core = core_of(record)
        for row in record.signatures[generation] or ((),):
            for attrs in attr_choices(record):
                if not legal(record, row, attrs, generation) or (record.returns and "float8" in str(row)):
                    continue  # there are no 8-bit float scalars
                refs = [program.operand(core, o.spaces[0], d, i) for i, (o, d) in enumerate(zip(record.operands, row))]
                plan.append((core, record, row, attrs, refs))
    params = {core: {key: gm(name, key[0], ELEMENTS) for key, name in program.gm.items()} for core in ("aic", "aiv")}
    counts = {"aic": 0, "aiv": 0}
    for number, (core, record, row, attrs, refs) in enumerate(plan):
        loads = []
        for kind, ref, index in refs:
            loads.append(at(params[core][(ref, index)], number % 5) if kind == "gm" else at(ref, number % 2, 32 * (number % 3)))
        args = [value_of(a, number + i, program.shift[core], (row or ("",))[-1]) for i, a in enumerate(record.args)]
        dtype = {"element": row[0] if row else "", "int32": "int32"}.get(record.returns or "", "void")
        node = call(record.name if "." in record.name else "ascend." + record.name, [*loads, *args], dict(attrs), dtype=dtype)
        assert isinstance(node, Call)
        program.body[core].append(Bind(Var(f"r{number}", dtype), node) if record.returns else Evaluate(node))
        counts[core] += 1
    functions = [
        program.builders[core].function("all", core, "mix_1_2", [program.shift[core], *params[core].values()], seq(program.body[core]))
        for core in ("aic", "aiv")
    ]
    return module(*functions), counts, list(program.gm)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_text_and_host_program_issue_the_same(generation):
    import numpy as np

    chip = get_chip(CHIPS[generation])
    ir, counts, gm_keys = build(generation)
    source = emit(ir)
    text = twin.compile_text(source.text, source.signature.kernel, chip, "mix_1_2", QUICK)
    arrays = [np.zeros(ELEMENTS * 8, np.uint8) for _ in gm_keys]
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, f"t{i}") for i, a in enumerate(arrays)]
    words = [3, *(a.ctypes.data for a in arrays)]
    runs = [machine.run(chip, "mix_1_2", 1, entries, words, tensors, OPTIONS) for entries in (host_program(ir).entries, text.entries)]
    assert first_difference(runs[0].streams, runs[1].streams) is None
    issued = [sum(1 for _ in records(stream)) for stream in runs[0].streams]
    assert issued == [counts["aic"], counts["aiv"], counts["aiv"]]
    assert min(counts.values()) > 20
