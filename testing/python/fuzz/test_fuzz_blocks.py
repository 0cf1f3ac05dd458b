"""Some of the programs of `python -m testing.fuzz.blocks`, `product_grids`, `attention`, `mixed_loops` and
`tiles_in_turn`."""

import pytest

from testing.fuzz import attention, blocks, mixed_loops, product_grids, tiles_in_turn


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "module, seed", [(blocks, 5), (blocks, 10684), (product_grids, 3), (attention, 5), (mixed_loops, 81), (tiles_in_turn, 1)]
)
def test_seeds(module, seed):
    assert module.check(seed) is None
