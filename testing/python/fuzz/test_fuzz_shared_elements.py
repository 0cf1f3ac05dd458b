"""Some of the programs of `python -m testing.fuzz.shared_elements`."""

import pytest

from testing.fuzz.shared_elements import check


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [110, 126, 1034, 4104])
def test_seeds(seed):
    assert check(seed, text=False) in (None, "order")
