"""Homes of stand-in releases of CANN, made once for all tests of this folder."""

import pytest
from stand_in_cann import make_home, use

from tilelang_ascend.runtime import executors
from tilelang_ascend.runtime.npu import board, cann


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Release -> its home."""
    return {major: make_home(tmp_path_factory.mktemp("cann") / str(major), major) for major in (8, 9)}


@pytest.fixture(name="cann")
def _cann_9(homes, monkeypatch):
    """CANN 9 with one Ascend910B3."""
    return use(homes[9], monkeypatch)


@pytest.fixture(autouse=True)
def _no_board_stays():
    yield
    cann._find.cache_clear()
    board._open.cache_clear()
    executors._told.clear()
