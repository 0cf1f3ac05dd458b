"""Does a kernel do what its reference says? The strict machine run, the emitted text, and NumPy."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np

from . import memory, numbers
from .numbers import of

sys.path.append(str(Path(__file__).resolve().parents[1] / "python" / "kernels"))

TEXT_FLAGS = ("-O0",)
"""The emitted text runs once: compiling it costs more than running it."""

_names = itertools.count()


@dataclass(frozen=True)
class Failure:
    """What went wrong. `kind` is stable while a case is reduced, `text` is for people."""

    kind: str
    text: str

    refused: bool = False
    """The compiler named a limit of its own or of the chip: no wrong code."""


@dataclass
class Outcome:
    """One checked kernel. `unknown` is the share of the results that the reference could not predict."""

    failure: Failure | None
    unknown: float = 0.0
    warnings: int = 0


def trace(source: str, name: str | None = None):
    """The traced kernel of a program text, which is the file `name`."""
    name = name or f"<fuzz {next(_names)}>"
    source = "import tilelang_ascend.language as T\n" + source
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"__name__": "fuzz_case"}
    exec(compile(source, name, "exec"), scope)  # noqa: S102
    return scope["kernel"]


def interpret(source: str):
    """The `reference` function of a NumPy text."""
    scope = {n: getattr(m, n) for m in (numbers, memory) for n in vars(m)}
    exec(compile(source, "<reference>", "exec"), scope)  # noqa: S102
    return scope["reference"]


def expected(func, reference, inputs: dict) -> dict:
    """What `reference` leaves in the tensors: name -> `memory.Memory`."""
    dtypes = {p.name: str(getattr(p.ty, "dtype", "")) for p in func.params}
    made = {n: memory.tensor(a, dtypes[n]) if a.ndim else of(dtypes[n], a) for n, a in inputs.items()}
    with np.errstate(all="ignore"):
        reference(*(made[str(p.name)] for p in func.params))
    return {n: m for n, m in made.items() if inputs[n].ndim}


def check(
    func, reference, inputs: dict[str, np.ndarray], chip: str = "a2", text: bool = False, oracle=None, hooks=(), packed: dict | None = None
) -> Failure | None:
    """Compile `func`, run it strictly (with `text` the emitted program too), and compare with `reference`.

    Args:
        func: a traced kernel, or the text that defines `kernel`.
        reference: a function on `memory.Memory` tensors and `numbers.Numbers` scalars, or the text that defines one.
        inputs: arrays for every parameter by name; 0-dimensional ones are scalars.
        oracle: what the reference text means, a module with `interpret` and `expected`; this one unless given.
        hooks: further opinions beside `HOOKS`.
        packed: arguments of `packed_memory`, to compile as if memory were scarce.

    Returns:
        None, or the first failure: ``trace``, ``compile``, ``run`` (hazards, guard bytes, other text) or ``value``.
    """
    return examine(func, reference, inputs, chip, text, oracle, hooks, packed).failure


HOOKS: list = []
"""Further opinions on a kernel that ran and agreed, see `opinions`: called with (traced kernel, compiled kernel, arrays, scalars, results
by name), they return None or a `Failure`. The arrays are the inputs; whoever writes to one copies it first."""


def located_refusal(error: Exception) -> bool:
    """The compiler names a limit and the line it is about."""
    from tilelang_ascend.errors import OutOfMemory, TilelangAscendError, UnsupportedConstruct

    if "Check failed" in str(error) or "InternalError" in str(error):
        return False  # a text of TVM
    if isinstance(error, (UnsupportedConstruct, OutOfMemory)):
        return True
    return isinstance(error, TilelangAscendError) and error.location is not None


@contextmanager
def before_nests(rewrite: Callable):
    """Inside, `rewrite(run, IR, context)` makes the IR that the passes of `NESTS` are given; `run` runs passes."""
    from tilelang_ascend.transform import pipeline

    usual = pipeline.run

    def run(passes, ir, context, **wanted):
        return usual(passes, rewrite(usual, ir, context) if passes is pipeline.NESTS else ir, context, **wanted)

    with mock.patch.object(pipeline, "run", run):
        yield


LEAST_UB = 4096
"""Bytes of UB that temporaries of any kernel fit in."""


@contextmanager
def small_memory(times: float):
    """Inside, tiles of UB are `times` as large as UB together, but for kernels whose tiles are small."""
    from tilelang_ascend.arch.spec import ChipSpec
    from tilelang_ascend.ir import AllocBuffer, scope_of, statements
    from tilelang_ascend.ir.functions import fixed_bytes
    from tilelang_ascend.isa.base import Space

    usual, room = ChipSpec.capacity_bytes, {}

    def noted(run, ir, context):
        declared = (s.buffer for s in statements(ir.body) if isinstance(s, AllocBuffer))
        room[Space.UB] = max(LEAST_UB, int(sum(fixed_bytes(b) for b in declared if scope_of(b) == "shared.ub") / times))
        return ir

    def capacity_bytes(chip, space):
        return min(usual(chip, space), room.get(space, usual(chip, space)))

    with before_nests(noted), mock.patch.object(ChipSpec, "capacity_bytes", capacity_bytes):
        yield


@contextmanager
def packed_memory(lanes: int | None = None, room: float | None = None, times: float | None = None):
    """Inside, memory is used as if it were scarce: one version of each tile, addresses shared wherever live ranges allow it, with `lanes` nests
    split into parts of so many iterations, and with `room` tiles in GM but for this share of UB. Kernels small enough to be run by the thousand
    never have to. `times`: there is so much less of it than tiles need, and nothing else is done about that."""
    if times is not None:
        with small_memory(times):
            yield
        return
    from tilelang_ascend.transform import fit, pipeline
    from tilelang_ascend.transform.memory import plan_memory

    whole = fit.attempt

    def attempt(mapped, context, sharing, _=None, *more):
        return whole(mapped, context, replace(sharing, versions=1), lanes, *more)

    def where_they_are(buffers, placed, *_):
        return placed

    def spilled(run, ir, context):
        return ir if room is None else run(pipeline.SPILL, ir, context, room=room, placed=True)

    with (
        before_nests(spilled),
        mock.patch.object(fit, "attempt", attempt),
        mock.patch.object(plan_memory, "LIFETIMES", plan_memory.LIFETIMES[-1:]),
        mock.patch.object(plan_memory, "_least_waits", where_they_are),
    ):
        yield


def examine(func, reference, inputs, chip: str = "a2", text: bool = False, oracle=None, hooks=(), packed: dict | None = None) -> Outcome:
    """`check`, with figures."""
    import strict

    oracle = oracle or sys.modules[__name__]

    import tilelang_ascend as tilelang

    try:
        func = trace(func) if isinstance(func, str) else func
    except Exception as error:  # noqa: BLE001  any error is a finding
        return Outcome(Failure(f"trace {type(error).__name__}", str(error), located_refusal(error)))
    want = oracle.expected(func, oracle.interpret(reference) if isinstance(reference, str) else reference, inputs)
    # Validation lowers the kernel again.
    with packed_memory(**packed) if packed is not None else nullcontext():
        try:
            kernel = tilelang.compile(func, target=chip)
        except Exception as error:  # noqa: BLE001  any error is a finding
            return Outcome(Failure(f"compile {type(error).__name__}", str(error), located_refusal(error)))
        arrays, scalars = arguments(func, inputs)
        try:
            got = strict.run(kernel, arrays, scalars, text=text, flags=TEXT_FLAGS, values=False)  # compared below
        except AssertionError as error:
            return Outcome(Failure("run " + str(error).split("\n")[0].split(":")[0][:24], str(error)))
        except Exception as error:  # noqa: BLE001  any error is a finding
            return Outcome(Failure(f"run {type(error).__name__}", str(error)))
    outcome = _compare(got, want)
    if outcome.failure is None:
        found = (hook(func, kernel, arrays, scalars, got) for hook in (*HOOKS, *hooks))
        outcome.failure = next((failure for failure in found if failure), None)
    return outcome


def arguments(func, inputs: dict) -> tuple[dict, dict]:
    """(arrays, scalars with the dynamic dimensions) of a kernel by name."""
    arrays = {n: a for n, a in inputs.items() if a.ndim}
    scalars = {n: a.item() for n, a in inputs.items() if not a.ndim}
    return arrays, {**scalars, **_sizes(func, arrays)}


def _sizes(func, arrays) -> dict[str, int]:
    """Values of the dynamic dimensions."""
    out = {}
    for p in func.params:
        for dim, n in zip(getattr(p.ty, "shape", ()), arrays[p.name].shape if p.name in arrays else ()):
            if type(dim).__name__ == "Var":
                out[dim.name] = n
    return out


def _compare(got, want) -> Outcome:
    unknown = total = 0
    for name, m in want.items():
        have = of(m.dtype, got[name]).v
        with np.errstate(all="ignore"):
            bad = ~((have == m.v) | np.isinf(m.e))
            if m.dtype != "bool":  # Integers have a bound where it is open which of two they are.
                bad &= ~(np.abs(have - m.v) <= m.e)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            return Outcome(Failure(
                "value", f"{name}{list(where)} is {have[where]}, not {m.v[where]} "
                f"(error at most {m.e[where]:.3g}; {bad.sum()} of {bad.size} elements are wrong)"))  # fmt: skip
        if not m.tile and m.e.any():
            unknown += int(np.isinf(m.e).sum())
        total += m.v.size
    return Outcome(None, unknown / max(total, 1))
