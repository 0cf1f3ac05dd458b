"""Kernels of the catalogue that show a known gap. Strict: the mark must go when the gap does."""

import pytest

KNOWN_GAPS = {
    "test_k27_static_quantisation[1001]": "2x + 0.9 in float16 is rounded once more often than in the reference for one element",
    "test_k48_top_k_by_a_bitonic_network[shape0]": "the simulator's host program compares booleans as floats",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in KNOWN_GAPS and "catalogue" in str(item.fspath):
            item.add_marker(pytest.mark.xfail(reason=KNOWN_GAPS[item.name], strict=True))
