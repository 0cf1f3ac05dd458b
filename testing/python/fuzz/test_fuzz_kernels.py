"""Random kernels: the strict machine run, the emitted text, and NumPy agree."""

import inspect
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from testing import warm_python
from testing.fuzz import memory, numbers, shrink, workers
from testing.fuzz.check import Failure, check, interpret, trace
from testing.fuzz.coverage import MUST_OCCUR, SINCE_10000, count
from testing.fuzz.generate import generate
from testing.fuzz.shrink import fails, reduce_case, run, script

SLOW = (21, 27, 36, 10_002, 10_004)
"""Their kernels fit in few ways, or are run long: each takes as long as ten others."""
SEEDS = tuple(seed for seed in (*range(38), *range(10_000, 10_014)) if seed not in SLOW)
PARTS = 13
TEXT_EVERY = 4
REFUSED_AT_MOST = 0.15
"""Share of cases the compiler may refuse: above it the generator no longer tests the compiler."""
UNKNOWN_AT_MOST = 0.1
"""Share of the results that may hang on a rounding, so that they are not compared."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")


def check_part(seeds) -> None:
    """Fails with a reduced script for the first seed whose results differ."""
    refused, unknown = 0, 0.0
    for seed in seeds:
        case, text = generate(seed), seed % TEXT_EVERY == 0
        outcome = run(case, text)
        unknown += outcome.unknown
        if outcome.failure is None:
            continue
        if outcome.failure.refused:
            refused += 1
        else:
            pytest.fail(script(*reduce_case(case, outcome.failure, text), text), pytrace=False)
    assert refused <= max(4, REFUSED_AT_MOST * len(seeds)), f"{refused} of {len(seeds)} cases were refused"
    assert unknown <= max(1.0, UNKNOWN_AT_MOST * len(seeds))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.one_in(12)
def test_random_kernels(part):
    check_part(SEEDS[part * len(SEEDS) // PARTS : (part + 1) * len(SEEDS) // PARTS])


def test_a_seed_always_gives_the_same_case():
    assert generate(5).kernel() == generate(5).kernel()
    assert all(np.array_equal(a, b) for a, b in zip(generate(5).arrays().values(), generate(5).arrays().values()))


def test_the_generator_covers_the_language():
    found = count(range(1000))
    assert not [t for t in MUST_OCCUR if found[t] < 3]
    assert not [t for t in SINCE_10000 if found[t]]
    found = count(range(10_000, 11_000))
    assert not [t for t in MUST_OCCUR if found[t] < 3]
    assert not [t for t in SINCE_10000 if found[t] < 10]


# ---- the fuzzer can fail ---------------------------------------------------------------------------------------------

KERNEL = """
@T.prim_func
def kernel(X: T.Tensor((40,), "float32"), Y: T.Tensor((40,), "float32")):
    with T.Kernel(2) as bx:
        x = T.alloc_shared((32,), "float32")
        T.copy(X[bx * 32], x)
        for i in T.Parallel(32):
            x[i] = 3.0 - x[i]
        T.copy(x, Y[bx * 32])
"""

REFERENCE = """
def reference(X, Y):
    for bx in range(2):
        (i,) = space(32)
        put(Y, (bx * 32 + i,), 3.0 - at(X, bx * 32 + i))
"""


def inputs():
    return {"X": np.arange(40, dtype=np.float32), "Y": np.zeros(40, np.float32)}


def test_a_right_kernel_passes():
    assert check(KERNEL, REFERENCE, inputs(), text=True) is None


@pytest.mark.parametrize("wrong", ["bx * 32 + i + 1", "bx * 32 + 31 - i", "bx * 33 + i"])
def test_a_wrong_index_is_noticed(wrong):
    failure = check(KERNEL, REFERENCE.replace("at(X, bx * 32 + i)", f"at(X, {wrong})"), inputs())
    assert failure and failure.kind == "value" and "Y[" in failure.text


def first_failure(seeds):
    """The shortest kernel that fails otherwise than by refusal."""
    for case in sorted(map(generate, seeds), key=lambda case: len(case.kernel())):
        failure = fails(case)
        if failure and not failure.refused:
            return case, failure
    return None


def swapped_operands(setattr):
    """`a - b` is lowered as `b - a`."""
    from tilelang_ascend.tileop.vector.graph.operations import VectorOps

    right = VectorOps.arithmetic
    turned = lambda self, name, a, b, logical: right(self, name, *((b, a) if name == "sub" else (a, b)), logical)  # noqa: E731
    setattr(VectorOps, "arithmetic", turned)


def unclipped_tails(setattr):
    """Transfers of whole tiles, whatever of them lies inside the tensor."""
    from tilelang_ascend.tileop.copy import axes as copy_axes

    right = copy_axes.clip
    setattr(copy_axes, "clip", lambda *args: right(*args).unclipped())


def dropped(op, **wanted):
    """A fault that drops synchronisation instructions."""

    def fault(setattr):
        from tilelang_ascend.ir import StmtMutator, attrs_of, op_name
        from tilelang_ascend.transform import pipeline
        from tilelang_ascend.transform.sync import insert_sync

        class Drop(StmtMutator):
            def visit_Evaluate(self, s):
                return None if op_name(s) == op and wanted.items() <= dict(attrs_of(s)).items() else s

        def without(func, chip, most_traces):
            synced, plan = insert_sync.plan_and_insert_sync(func, chip, most_traces)
            return synced.with_body(Drop()(synced.body)), plan

        setattr(pipeline, "plan_and_insert_sync", without)

    return fault


FAULTS = {
    "swapped operands": (swapped_operands, "value"),
    "unclipped tails": (unclipped_tails, "run"),
    "dropped barriers": (dropped("ascend.pipe_barrier"), "run racecheck"),
    "dropped waits": (dropped("ascend.wait_flag", event="MTE2_V"), "run"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FAULTS)
def test_wrong_code_is_found(name, monkeypatch):
    fault, kind = FAULTS[name]
    fault(monkeypatch.setattr)
    case, failure = first_failure(range(60))
    assert failure.kind.startswith(kind), failure


def last_of_equals_first(setattr):
    def sort(values, places, src, dim, descending):
        turned = memory.Memory(src.dtype, np.flip(src.v, dim), np.flip(src.e, dim), tile=True)
        right(values, places, turned, dim, descending)
        if places is not None:
            last = src.shape[dim] - 1 - memory.Numbers("int32", places.v, places.e)
            memory.put(places, memory.box((0,) * len(places.shape), places.shape), last)

    right = memory.sort
    setattr(memory, "sort", sort)


def truncated(setattr):
    def stored(x, dtype):
        nearest = right(x, dtype)
        step = np.nextafter(nearest.v.astype(numbers.FLOATS[dtype]), np.zeros((), numbers.FLOATS[dtype])).astype(np.float64)
        return numbers.Numbers(dtype, np.where(abs(nearest.v) > abs(x.v), step, nearest.v), nearest.e)

    right = numbers._stored
    setattr(numbers, "_stored", stored)


def copied(m, shape):
    return memory.Memory(m.dtype, m.v.reshape(shape).copy(), m.e.reshape(shape).copy(), m.tile)


MISREADINGS = {
    "argsort": last_of_equals_first,
    "8-bit float store": truncated,
    "reshape": lambda setattr: setattr(memory, "reshape", copied),
    "view as another dtype": lambda setattr: setattr(memory, "reinterpret", numbers.cast),
    "reducer min": lambda setattr: setattr(numbers, "neutral", lambda kind, dtype: numbers.of(dtype, 0)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tag", MISREADINGS)
def test_a_reference_that_means_something_else_is_noticed(tag, monkeypatch):
    MISREADINGS[tag](monkeypatch.setattr)
    cases = [c for c in map(generate, range(10_000, 10_400)) if tag in c.all_tags()]
    failures = (fails(c) for c in sorted(cases, key=lambda c: len(c.kernel()))[:10])
    assert any(f and f.kind == "value" for f in failures)


def test_a_failure_is_printed_as_a_script(monkeypatch, tmp_path):
    with monkeypatch.context() as m:
        swapped_operands(m.setattr)
        case, failure = first_failure(range(60))
        small, failure = reduce_case(case, failure, seconds=6)
        assert failure.kind == "value" and len(small.kernel()) < len(case.kernel())
    text, path = script(small, failure), tmp_path / "reproduce.py"
    # The script runs in a process of its own, which does not have the fault: all is well there …
    path.write_text(text)
    result = run_script(path)
    assert result.returncode == 0 and "passes" in result.stdout, result.stdout + result.stderr
    # … until the fault is put in.
    path.write_text(f"{inspect.getsource(swapped_operands)}\n\nswapped_operands(setattr)\n{text}")
    result = run_script(path)
    assert result.returncode == 1 and "elements are wrong" in result.stdout, result.stdout + result.stderr


def run_script(path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return warm_python.run([sys.executable, path], cwd=ROOT, env=environment)


def test_reduction_keeps_what_fails(monkeypatch):
    """If every program with an `exp` failed, what is left of a case would hold one statement with an `exp`."""

    def fake(case, text=False):
        return Failure("value", "wrong") if "T.exp(" in case.kernel() else None

    monkeypatch.setattr(shrink, "fails", fake)
    case = next(c for c in map(generate, SEEDS) if fake(c) and len(c.body) > 3)
    small, failure = shrink.reduce_case(case, fake(case))
    assert fake(small) and all(fake(small.without(b)) is None for b in shrink.smaller(small.body))
    assert small.kernel().count("T.exp(") == 1
    trace(small.kernel())
    interpret(small.reference())
    assert f"Seed {case.seed}" in script(small, failure)


# ---- workers ---------------------------------------------------------------------------------------------------------


def faulty(pipe):
    """A worker that crashes on seed 1 and hangs on seed 2."""
    import time

    while (job := pipe.recv()) is not None:
        if job[0] == 1:
            os._exit(7)
        if job[0] == 2:
            time.sleep(1000)
        pipe.send(workers.Result(job[0]))


def test_a_crash_and_a_hang_cost_their_seed_only(monkeypatch):
    monkeypatch.setattr(workers, "work", faulty)
    monkeypatch.setattr(workers, "FIRST_SECONDS", 5)
    found = {r.seed: r.kind for r in workers.check_seeds(range(5), jobs=1, timeout=1)}
    assert found == {0: "", 1: "crash", 2: "hang", 3: "", 4: ""}
