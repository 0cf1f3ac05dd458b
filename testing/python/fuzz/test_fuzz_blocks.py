"""Some of the programs of `python -m testing.fuzz.blocks`, `product_grids`, `attention` and `mixed_loops`."""

import pytest

from testing.fuzz import attention, blocks, mixed_loops, product_grids


@pytest.mark.parametrize("module, seed", [(blocks, 5), (blocks, 10684), (product_grids, 3), (attention, 5), (mixed_loops, 81)])
def test_seeds(module, seed):
    assert module.check(seed) is None
