"""Random programs: loops around gemm that may not run, values carried through memory, atomics, tile ops on every operand."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from testing.fuzz import check as checking
from testing.fuzz.check import Failure, check, examine
from testing.fuzz.coverage import PROGRAMS_MUST_HAVE, count
from testing.fuzz.generate import PROGRAMS, generate
from testing.fuzz.programs import cells
from testing.fuzz.programs.generate import meaning
from testing.fuzz.shrink import fails, reduce_case, run, script, smaller

SEEDS = range(PROGRAMS + 39, PROGRAMS + 69)
TEXT_EVERY = 10


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.one_in(6)
def test_random_programs(seed):
    case, text = generate(seed), seed % TEXT_EVERY == 0
    failure = run(case, text).failure
    if failure and not failure.refused:
        pytest.fail(script(*reduce_case(case, failure, text, 20), text), pytrace=False)


def test_older_seeds_keep_their_kernels():
    texts = "".join(generate(seed).kernel() + generate(seed).reference() for seed in (0, 7, 9_999, 10_000, 11_882, 20_030))
    assert hashlib.sha256(texts.encode()).hexdigest() == OLDER


OLDER = "7997d70cfd8eb306f1c1b87442b4af69e93569969b2fb0d8c209c99766c7c663"


def test_a_seed_always_gives_the_same_program():
    assert generate(PROGRAMS + 5).kernel() == generate(PROGRAMS + 5).kernel()
    assert generate(PROGRAMS + 5).reference() == generate(PROGRAMS + 5).reference()


@pytest.mark.slow
def test_the_generator_covers_the_language():
    found = count(range(PROGRAMS, PROGRAMS + 1000))
    assert not [t for t in PROGRAMS_MUST_HAVE if not found[t]]


# ---- what programs mean ----------------------------------------------------------------------------------------------


def meant(body: str, **arrays):
    """What a reference leaves in its tensors."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    text = f"def reference({', '.join(arrays)}):\n    for bx in grid(2):\n{lines}"
    dtypes = {n: str(a.dtype) for n, a in arrays.items()}
    return {n: m.v.tolist() for n, m in cells.expected(dtypes, cells.interpret(text), arrays).items()}


def floats(*values):
    return np.array(values, np.float32)


def test_a_recurrence_is_computed_step_by_step():
    out = meant(
        "for i in parallel(2):\n    for k in range(2):\n        C[bx * 2 + i, k + 1] = C[bx * 2 + i, k] * 2", C=np.ones((4, 3), np.float32)
    )
    assert out["C"] == [[1, 2, 4]] * 4


@pytest.mark.parametrize(("body", "reason"), [
    ("t = tile((4,), 'float32')\nC[bx] = t[0]", "undefined"),
    ("t = tile((4,), 'float32')\nt[4] = 0", "outside"),
    ("C[0] = bx", "a race"),
    ("for i in parallel(2):\n    C[bx * 2] = i", "a race"),
    ("for i in parallel(2):\n    C[bx * 2 + i] = C[bx * 2 + 1 - i]", "a race"),
    ("for i in parallel(2):\n    atomic(C, (0,), 1, 'add')\n    C[bx * 2 + i] = 0", "a race"),
    ("C[bx] = C[bx] + 0.0000000001", "is no float32"),
    ("C[bx] = C[bx] // C[bx]", "division of floats"),
    ("copy(part(C, (bx * 2,), (2,)), part(C, (bx * 2 + 1,), (2,)))", "onto itself"),
    ("while going(bx < 3):\n    pass", "no end"),
])  # fmt: skip
def test_programs_without_one_meaning_are_no_cases(body, reason):
    with pytest.raises(cells.Discard, match=reason):
        meant(body, C=floats(1, 2, 3, 4))


def test_atomics_of_several_blocks_are_no_race():
    assert meant("for i in parallel(3):\n    atomic(C, (i // 2,), i, 'add')", C=floats(0, 0))["C"] == [2, 4]


def test_a_view_shares_its_storage():
    body = "t = tile((2, 2), 'float32')\nfill(t, 1)\nv = view(t, (4,), 'int32')\nv[3] = 0\nC[bx] = t[1, 1] + t[0, 0]"
    assert meant(body, C=floats(0, 0))["C"] == [1, 1]


# ---- the fuzzer can fail ---------------------------------------------------------------------------------------------

KERNEL = """
@T.prim_func
def kernel(A: T.Tensor((16, 64), "float16"), B: T.Tensor((64, 16), "float16"), C: T.Tensor((16, 16), "float32")):
    with T.Kernel(1) as bx:
        a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
        c = T.alloc_fragment((16, 16), "float32")
        T.clear(c)
        for k in T.serial(4):
            T.copy(A[0, k * 16], a)
            T.copy(B[k * 16, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)
"""
REFERENCE = """
def reference(A, B, C):
    for bx in grid(1):
        c = tile((16, 16), "float32")
        fill(c, 0)
        for k in range({steps}):
            gemm(part(A, (0, k * 16), (16, 16)), part(B, (k * 16, 0), (16, 16)), c)
        copy(c, C)
"""


def inputs():
    return {"A": np.ones((16, 64), np.float16), "B": np.ones((64, 16), np.float16), "C": np.zeros((16, 16), np.float32)}


def test_a_right_kernel_passes_and_a_wrong_one_does_not():
    assert check(KERNEL, REFERENCE.format(steps=4), inputs(), text=True, oracle=cells) is None
    failure = check(KERNEL, REFERENCE.format(steps=3), inputs(), oracle=cells)
    assert failure.kind == "value" and "C[0, 0] is 64.0, not 48.0" in failure.text


def test_a_further_opinion_is_asked(monkeypatch):
    asked = []

    def opinion(func, kernel, arrays, scalars, results):
        asked.append((sorted(arrays), float(results["C"][0, 0])))
        return Failure("stage", "differs")

    monkeypatch.setattr(checking, "HOOKS", [opinion])
    outcome = examine(KERNEL, REFERENCE.format(steps=4), inputs(), oracle=cells)
    assert outcome.failure.kind == "stage" and asked == [(["A", "B", "C"], 64.0)]


def test_wrong_code_is_found_and_reduced(monkeypatch, tmp_path):
    """`a - b` lowered as `b - a`."""
    from tilelang_ascend.tileop.vector.graph.operations import VectorOps

    right = VectorOps.arithmetic
    monkeypatch.setattr(
        VectorOps, "arithmetic", lambda self, name, a, b, logical: right(self, name, *((b, a) if name == "sub" else (a, b)), logical)
    )
    cases = (c for c in map(generate, range(PROGRAMS, PROGRAMS + 200)) if "] - " in c.kernel())
    case, failure = next((c, f) for c in cases if (f := fails(c)) and f.kind == "value")
    small, failure = reduce_case(case, failure, seconds=5)
    assert failure.kind == "value" and len(small.kernel()) < len(case.kernel())
    assert "oracle=cells" in script(small, failure)


def test_a_loop_is_reduced_to_one_run():
    case = next(
        c for c in map(generate, range(PROGRAMS, PROGRAMS + 100)) if any(s.kind == "loop" and "T.serial" in s.tile[0] for s in c.body)
    )
    bodies = ["\n".join(line for s in body for line in s.render("tile", 0)) for body in smaller(case.body)]
    assert any(" = 0\n" in b for b in bodies)
    for body in list(smaller(case.body))[:5]:
        try:
            meaning(case.without(body))
        except cells.Discard:
            pass
