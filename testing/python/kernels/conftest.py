"""Chips that kernels of several files run on."""

import pytest

from tilelang_ascend.arch import get_chip


@pytest.fixture
def two_cores():
    """Ascend910B1 with two cores only: each has several tiles."""
    chip = get_chip("Ascend910B1")
    cores = chip.num_aic
    object.__setattr__(chip, "num_aic", 2)
    yield
    object.__setattr__(chip, "num_aic", cores)
