"""The synchronised kernels run on the machine model: no hazards; and without any one flag statement, hazards."""

from __future__ import annotations

import numpy as np
import pytest
import sync_kernels as K

from tilelang_ascend.analysis.dependence.core_use import call_of
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    Bind,
    Evaluate,
    SourceName,
    Span,
    StmtMutator,
    call,
    dtype_of,
    is_buffer_var,
)
from tilelang_ascend.isa import TABLE, split_event
from tilelang_ascend.sim import machine
from tilelang_ascend.sim.lower import host_program
from tilelang_ascend.sim.streams import Recorded
from tilelang_ascend.transform.cores.split_cores import split_cores
from tilelang_ascend.transform.memory.plan_memory import plan_memory
from tilelang_ascend.transform.schedule.prefetch_loads import prefetch_loads
from tilelang_ascend.transform.sync.insert_sync import plan_and_insert_sync

CHIP = get_chip("Ascend910B1")
OPS = list(TABLE)
SYNC = ("set_flag", "wait_flag", "pipe_barrier", "cross_core_set_flag", "cross_core_wait_flag")
OPTIONS = machine.SimOptions(checks=("memcheck", "racecheck", "synccheck"), time=False, record_stream=True, max_instructions=20000)

KERNELS = {
    "vector_add": (lambda: K.vector_add(), ()),
    "vector_add three versions": (lambda: K.vector_add(7, 3), ()),
    "vector_add none": (lambda: K.vector_add("n"), (0,)),
    "vector_add one": (lambda: K.vector_add("n"), (1,)),
    "vector_add five": (lambda: K.vector_add("n"), (5,)),
    "in_place_chain": (lambda: K.in_place_chain(4), ()),
    "gemm": (lambda: K.gemm(k_trips=4), ()),
    "gemm persistent": (lambda: K.gemm(tiles=3, k_trips=3), ()),
    "gemm three stages": (lambda: K.gemm(tiles=2, stages=3, k_trips=5, l0=4), ()),
    "gemm no trips": (lambda: K.gemm(tiles="t", k_trips="n"), (2, 0)),
    "gemm some trips": (lambda: K.gemm(tiles="t", k_trips="n"), (3, 3)),
    "gemm small": (lambda: K.gemm(k_trips=3, m=16, n=16), ()),
    "products": (lambda: K.products(4), ()),
    "products of some steps": (lambda: K.products("n", 3, 4, most=2), (4,)),
    "products no trips": (lambda: K.products("n"), (0,)),
    "mix": (lambda: K.mix(5), ()),
    "mix one version": (lambda: K.mix(4, versions=1), ()),
    "branch_tail": (lambda: K.branch_tail(), (3000,)),
    "branch_tail only": (lambda: K.branch_tail(), (100,)),
    "branch_in_loop": (lambda: K.branch_in_loop(6), ()),
    "scalar_reads": (lambda: K.scalar_reads(3), ()),
    "in_place_gm": (lambda: K.in_place_gm(3), ()),
    "with_break": (lambda: K.with_break(4), ()),
    "many inputs": (lambda: K.many_inputs(12), ()),
    "many inputs two versions": (lambda: K.many_inputs(6, 2), ()),
    "phases": (lambda: K.phases(12), ()),
    "sweeps": (lambda: K.sweeps(3, 4, 6), ()),
    "sweeps again": (lambda: K.sweeps(2, 4, 5, 2), ()),
    "sweeps unknown trips": (lambda: K.sweeps(2, 4, "n", "t"), (5, 2)),
    "interleaved_columns": (lambda: K.interleaved_columns(), ()),
    "flash": (lambda: K.flash(4), ()),
}
"""Kernel and the values of its integer parameters."""


class _Number(StmtMutator):
    """Gives every instruction its own source line, so that a stream tells which statement an instruction is from."""

    def __init__(self):
        self.count = 0
        self.sync: dict[int, str] = {}

    def visit_Evaluate(self, s):
        return Evaluate(self._call(s), span=self._span())

    def visit_Bind(self, s):
        return s if call_of(s) is None else Bind(s.var, self._call(s), span=self._span())

    def _call(self, s):
        self.count += 1
        name = str(s.value.op.name)
        if name.removeprefix("ascend.") in SYNC:
            self.sync[self.count] = str(s).strip()
        dtype = str(s.value.ty.dtype) if isinstance(s, Bind) else "void"
        attrs = dict(s.value.attrs) if s.value.attrs is not None else None
        return call(name, s.value.args, attrs, dtype=dtype)

    def _span(self):
        return Span(SourceName("kernel.py"), self.count, self.count, 1, 2)


class Prepared:
    """A compiled kernel with its tensors; `run` executes it, or recorded streams of it."""

    def __init__(self, func, scalars):
        planned, _ = plan_memory(func, CHIP)
        numbered = _Number()
        synced, plan = plan_and_insert_sync(planned, CHIP)
        self.all_pipes = any(b.fixed for b in plan.barriers)
        body = numbered(synced.body)
        self.sync = numbered.sync
        self.module = split_cores(planned.with_body(body))
        first = next(iter(self.module.functions.values()))
        self.kernel_type = str(first.attrs["ascend.kernel_type"])
        workspaces = int(first.attrs["ascend.num_workspaces"]) if "ascend.num_workspaces" in first.attrs else 0
        buffers = [p for p in first.params if is_buffer_var(p)]
        rng = np.random.default_rng(0)
        self.arrays = [(rng.random(int(b.ty.shape[0])) * 2).astype(dtype_of(b)) for b in buffers]
        self.scratch = [i >= len(buffers) - workspaces for i in range(len(buffers))]
        self.words = [*scalars, *(a.ctypes.data for a in self.arrays)]
        self.program = host_program(self.module)

    def run(self, entries=None):
        tensors = [
            machine.Tensor(a.ctypes.data, a.nbytes, f"t{i}", scratch=scratch)
            for i, (a, scratch) in enumerate(zip(self.arrays, self.scratch))
        ]
        return machine.run(CHIP, self.kernel_type, 1, entries or self.program.entries, self.words, tensors, OPTIONS)


@pytest.fixture(params=KERNELS, ids=lambda name: name.replace(" ", "_"), scope="module")
def prepared(request):
    make, scalars = KERNELS[request.param]
    return Prepared(make(), scalars)


@pytest.mark.one_in(3)
def test_no_hazards(prepared):
    result = prepared.run()
    assert result.ok, result.text()


@pytest.mark.one_in(3)
def test_without_any_one_flag_statement_there_are_hazards(prepared):
    """Recorded streams with the instructions of one statement left out; what never runs cannot be missed.

    Where a loop is left stands a barrier for all pipes; other barriers may be needless beside it.
    """
    result = prepared.run()
    streams = [(name[:3].lower(), Recorded(s)) for name, s in zip(result.core_names, result.streams)]
    addresses = [a.ctypes.data for a in prepared.arrays]

    def again(line=None):
        entries = {core: [s.issued(addresses, line) for name, s in streams if name == core] for core in ("aic", "aiv")}
        return prepared.run({core: e for core, e in entries.items() if e})

    assert again().ok, "the recorded streams are not what ran"
    executed = set().union(*(s.lines.tolist() for _, s in streams))
    missed = [
        text
        for line, text in prepared.sync.items()
        if line in executed and not (prepared.all_pipes and "pipe_barrier" in text) and again(line).ok
    ]
    assert missed == []


@pytest.mark.one_in(2)
def test_issuing_loads_ahead_keeps_the_sequence_of_every_pipe(prepared):
    """Loops are rotated wherever that is legal, however short."""
    ahead = host_program(prefetch_loads(prepared.module, 0))
    result, expected = prepared.run(ahead.entries), prepared.run()
    assert result.ok, result.text()
    assert _by_pipe(result) == _by_pipe(expected)


def _by_pipe(result) -> dict:
    """(core, pipe) -> what waits in the queue of the pipe, in order."""
    out: dict = {}
    for core, stream in zip(result.core_names, result.streams):
        for item in _items(stream):
            out.setdefault((core, _queue(item)), []).append((OPS[int(item[0])], *map(int, item[3:])))
    return out


def _queue(item) -> str:
    record = TABLE[OPS[int(item[0])]]
    attrs = {name: legal[int(code)] for (name, legal), code in zip(record.attrs.items(), item[3:])}
    if "event" in attrs:
        return split_event(attrs["event"])[record.name == "wait_flag"]
    return attrs.get("pipe", record.pipe.name)


def _items(stream):
    at = 0
    while at < len(stream):
        size = 3 + int(stream[at + 2])
        yield stream[at : at + size]
        at += size
