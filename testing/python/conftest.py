"""Modules next to this file (samples, helpers) are importable from every test."""

import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import covering

# Jobs that a shell starts in the background ignore interrupts and hand that down; tests of interrupts need the usual state.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_fresh = {}
"""State in which each module left its generator when it was imported."""


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order(request):
    """Tests that draw from the `RNG` of their module get the same numbers whichever tests ran before them in this process."""
    rng = getattr(request.module, "RNG", None)
    if rng is not None:
        rng.bit_generator.state = _fresh.setdefault(request.module.__name__, rng.bit_generator.state)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """A GPU script's session that a module leaves open changes what all tests after it see."""
    from tilelang_ascend.compat.aliases import AliasFinder

    def finders():
        return [finder for finder in sys.meta_path if isinstance(finder, AliasFinder)]

    before = finders()
    result = yield
    assert finders() == before, "a test module left a session open"
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a test with the mark `one_in(n)` that are not slow anyway, all but an n-th part are: always the same ones."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and item.get_closest_marker("slow") is None:
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, n), found in cases.items():
        values = {item.nodeid: getattr(getattr(item, "callspec", None), "params", {}) for item in found}
        kept = covering.share(values, -(-len(found) // n))
        for item in found:
            if item.nodeid not in kept:
                item.add_marker("slow")
