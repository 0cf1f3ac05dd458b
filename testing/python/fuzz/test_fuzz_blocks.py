"""Some of the programs of `python -m testing.fuzz.blocks`, `product_grids` and `attention`."""

import pytest

from testing.fuzz import attention, blocks, product_grids


@pytest.mark.parametrize("module, seed", [(blocks, 5), (blocks, 10684), (product_grids, 3), (attention, 5)])
def test_seeds(module, seed):
    assert module.check(seed) is None
