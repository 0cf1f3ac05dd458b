"""Compare a kernel with its reference, and prove for each comparison that it would notice a wrong kernel."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from perturb import MISTAKES, perturbed_functions, skeleton
from references import numpy_dtype

import tilelang_ascend as tilelang
from tilelang_ascend.sim.machine import SimOptions
from tilelang_ascend.sim.validate import validate

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))

import strict  # noqa: E402

UNCHECKED = SimOptions(checks=(), adversarial=False, time=False, max_instructions=20_000_000)
SENTINEL = {"f": 77.0, "i": 77, "u": 77, "b": True, "V": 77.0}


def untouched(shape, dtype):
    """An output full of a value no reference produces."""
    dtype = numpy_dtype(dtype)
    return np.full(shape, SENTINEL[dtype.kind], dtype)


def small_and_large(small, large):
    """Parameters of which the `large` ones are marked slow."""
    return [*small, *(pytest.param(p, marks=pytest.mark.slow) for p in large)]


def compare(got, want, rtol, atol):
    """NaN-free, shape-true comparison; exact with zero tolerances."""
    assert got.shape == np.shape(want)
    want = np.asarray(want).astype(np.float64)
    assert np.isfinite(want).all(), "a reference that overflows proves nothing"
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=atol)


def perturbed(want, before):
    """(name, result of a wrong kernel) for the mistakes worth noticing: tail never written, off by one, neighbours swapped, one lane wrong."""
    flat, old = want.reshape(-1), before.reshape(-1)
    tail = max(1, flat.size // 7)
    dropped = flat.copy()
    dropped[-tail:] = old[-tail:]
    yield "the last part is never written", dropped
    if flat.size > 1:
        yield "off by one", np.roll(flat, 1)
    lane = flat.copy()
    lane[flat.size // 2] = old[flat.size // 2]
    yield "one element is never written", lane


def assert_can_fail(want, before, rtol, atol, name):
    """`compare` must reject every perturbed result that differs from the right one at all."""
    want = np.asarray(want).astype(np.float64)
    before = np.asarray(before).astype(np.float64)
    noticed = 0
    for mistake, wrong in perturbed(want, before):
        wrong = wrong.reshape(want.shape)
        if np.array_equal(wrong, want):
            continue
        try:
            compare(wrong, want, rtol, atol)
        except AssertionError:
            noticed += 1
        else:
            raise AssertionError(f"{name}: the comparison does not notice that {mistake}")
    assert noticed, f"{name}: no perturbation changes the result"


_made: set[tuple] = set()
"""(test, skeleton of the kernel, mistake) that have been tried: one case of each is enough."""


def _results(function, arrays, scalars) -> dict:
    """What a kernel leaves in its tensors: interpreted, which takes a fraction of the time; compiled where that finds no result."""
    last = validate([("tile_ir", function)], [arrays[p.name] if p.name in arrays else scalars[p.name] for p in function.params]).last
    if last is not None:
        return {name: m.data for name, m in last.tensors.items()}
    wrong = tilelang.compile(function)
    return strict.launch(wrong.artifact, strict.entries_of(wrong.artifact), arrays, scalars, UNCHECKED)[0]


def _check_wrong_kernels(kernel, arrays, expected, tolerances, scalars):
    """Every wrong version of the kernel must give results that `compare` rejects."""
    if any(a.size == 0 for a in arrays.values()):
        return
    key = os.environ["PYTEST_CURRENT_TEST"].split("[")[0], skeleton(kernel.prim_func)
    left = [mistake for mistake in MISTAKES if (*key, mistake) not in _made]
    for mistake, function in perturbed_functions(kernel.prim_func, left):
        _made.add((*key, mistake))
        out = _results(function, arrays, scalars)
        try:
            for name, want in expected.items():
                compare(out[name], want, *tolerances[name])
        except AssertionError:
            continue
        raise AssertionError(f"{kernel.artifact.name}: the comparison does not notice that {mistake}")


def check(kernel, arrays, expected, rtol=0.0, atol=0.0, scalars=None, text=True, tolerances=None):
    """Run `kernel` strictly on `arrays` and compare the outputs named in `expected`; returns all results.

    `tolerances`: (rtol, atol) of outputs that have their own. The comparison itself is tested: against results with an unwritten tail,
    shifted by one, or one element missing, and against wrong kernels.
    """
    tolerances = {name: (rtol, atol) for name in expected} | (tolerances or {})
    out = strict.run(kernel, arrays, scalars, text=text)
    for name, want in expected.items():
        compare(out[name], want, *tolerances[name])
        assert_can_fail(want, arrays[name], *tolerances[name], name)
    _check_wrong_kernels(kernel, arrays, expected, tolerances, scalars or {})
    for name, before in arrays.items():
        if name not in expected:
            assert out[name].tobytes() == before.tobytes(), f"{name} is an input and was changed"
    return out
