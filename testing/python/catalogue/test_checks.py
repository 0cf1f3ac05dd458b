"""The comparison of the catalogue can fail: for wrong results, wrong kernels and useless references."""

import kernels_elementwise as k
import numpy as np
import pytest
from checks import assert_can_fail, check, compare, untouched


def test_wrong_kernel_is_noticed():
    x, y = np.random.default_rng(0).random((2, 3000), dtype=np.float32)
    arrays = {"X": x, "Y": y, "Z": untouched(3000, "float32")}
    check(k.binary(lambda a, b: a + b), arrays, {"Z": x + y}, scalars={"N": 3000})
    for wrong in (lambda a, b: a - b, lambda a, b: a + a, lambda a, b: a + b * 1.0001):
        with pytest.raises(AssertionError):
            check(k.binary(wrong), arrays, {"Z": x + y}, 1e-6, scalars={"N": 3000})


def test_kernel_that_leaves_out_the_tail_is_noticed():
    x, y = np.random.default_rng(0).random((2, 16384), dtype=np.float32)
    arrays = {"X": x, "Y": y, "Z": untouched(16384, "float32")}
    with pytest.raises(AssertionError):
        check(k.add_tiled(tiles=15), arrays, {"Z": x + y})


def test_comparison_too_loose_to_notice_anything_is_refused():
    want = np.linspace(1, 1.001, 100)
    with pytest.raises(AssertionError, match="does not notice"):
        assert_can_fail(want, np.full(100, 1.0), 1e-2, 0, "Y")


def test_reference_that_overflows_is_refused():
    with pytest.raises(AssertionError, match="overflows"):
        compare(np.full(3, np.inf), np.full(3, np.inf), 0, 0)
