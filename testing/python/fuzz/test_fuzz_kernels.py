"""Random kernels: the strict machine run, the emitted text, and the reference interpreter agree."""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from testing.fuzz import shrink
from testing.fuzz.generate import generate
from testing.fuzz.oracle import Failure, check
from testing.fuzz.shrink import fails, reduce_case, script

SEEDS = 200
PARTS = 20
TEXT_EVERY = 20
REFUSED_AT_MOST = 0.15
"""Share of cases the compiler may refuse: above it the generator no longer tests the compiler."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")


def run_seeds(seeds) -> None:
    """Fails with a reduced script for the first seed whose results differ."""
    refused = 0
    for seed in seeds:
        case = generate(seed)
        text = seed % TEXT_EVERY == 0
        failure = fails(case, text)
        if failure is not None and failure.refused:
            refused += 1
        elif failure is not None:
            pytest.fail(script(reduce_case(case, failure, text), failure), pytrace=False)
    assert refused <= max(4, REFUSED_AT_MOST * len(seeds)), f"{refused} of {len(seeds)} cases were refused"


@pytest.mark.parametrize("part", range(PARTS))
def test_random_kernels(part):
    run_seeds(range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_many_random_kernels(part):
    run_seeds(range(1000 + part * 98, 1000 + (part + 1) * 98))


def test_a_seed_always_gives_the_same_case():
    assert generate(5).source() == generate(5).source()
    assert all(np.array_equal(a, b) for a, b in zip(generate(5).arrays().values(), generate(5).arrays().values()))


def test_the_generator_covers_the_language():
    text = "\n".join(generate(seed).source() for seed in range(SEEDS))
    counts = Counter(re.findall(r"T\.(\w+)", text))
    wanted = (
        "Parallel copy gemm reduce_sum reduce_max cumsum fill clear if_then_else And Or exp erf cast serial Pipelined"
    )
    assert not [name for name in [*wanted.split(), "dynamic", "atomic_add"] if counts[name] < 2], counts
    assert len(re.findall(r"\bif ", text)) > 50


WRONG = """
import tilelang_ascend.language as T

@T.prim_func
def kernel(X: T.Tensor((40,), "float32"), Y: T.Tensor((40,), "float32")):
    with T.Kernel(2) as bx:
        x = T.alloc_shared((32,), "float32")
        T.copy(X[bx * 32], x)
        for i in T.Parallel(32):
            x[i] = T.sqrt(x[i]) + 1.0
        T.copy(x, Y[bx * 32])
"""


def inputs():
    return {"X": np.arange(40, dtype=np.float32), "Y": np.zeros(40, np.float32)}


def test_the_oracle_notices_a_wrong_value(monkeypatch):
    assert check(WRONG, inputs()) is None
    from tilelang_ascend.sim import reference

    monkeypatch.setitem(reference._FUNCTIONS, "sqrt", lambda x: np.sqrt(x) * 1.001)
    failure = check(WRONG, inputs())
    assert failure and failure.kind == "value" and "Y[" in failure.text


def test_the_oracle_notices_a_hazard(monkeypatch):
    from tilelang_ascend.transform import insert_sync, pipeline

    def without_sync(func, chip):
        synced, plan = insert_sync.plan_and_insert_sync(func, chip)
        return _without_waits(synced), plan

    monkeypatch.setattr(pipeline, "plan_and_insert_sync", without_sync)
    failure = check(WRONG, inputs())
    assert failure and failure.kind.startswith("run"), failure


def _without_waits(func):
    """`func` without the waits for loads."""
    from tilelang_ascend.ir import StmtMutator, attrs_of, op_name

    class Drop(StmtMutator):
        def visit_Evaluate(self, s):
            return None if op_name(s) == "ascend.wait_flag" and attrs_of(s)["event"] == "MTE2_V" else s

    return func.with_body(Drop()(func.body))


def test_reduction_keeps_what_fails(monkeypatch):
    """If every program with an `exp` failed, what is left of a case would hold one `exp` statement."""

    def fake(case, text=False):
        return Failure("value", "wrong") if "T.exp" in case.source() else None

    monkeypatch.setattr(shrink, "fails", fake)
    case = next(c for c in map(generate, range(SEEDS)) if fake(c) and len(c.body) > 3)
    small = shrink.reduce_case(case, fake(case))
    assert fake(small) and all(fake(small.without(b)) is None for b in shrink.smaller(small.body))
    assert len(small.body) == 1 and small.source().count("T.exp") >= 1
    text = script(small, fake(small))
    assert f"Seed {case.seed}" in text and "T.exp" in text
    compile(text, "script", "exec")
