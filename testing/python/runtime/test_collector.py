"""Python's search for garbage, paused and resumed."""

import gc

import pytest

from tilelang_ascend.collector import PAUSED_COLLECTOR


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_it_was_behind_the_last_who_paused_it(on):
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError), PAUSED_COLLECTOR:
            with PAUSED_COLLECTOR:
                assert not gc.isenabled()
            assert not gc.isenabled()
            1 / 0
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()


def test_it_runs_while_tests_do():
    assert gc.isenabled()
