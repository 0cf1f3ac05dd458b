"""Some of the programs of `python -m testing.fuzz.places`."""

import pytest

from testing.fuzz.places import check


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [3, 9, 111, 235])
def test_seeds(seed):
    assert check(seed) is None
