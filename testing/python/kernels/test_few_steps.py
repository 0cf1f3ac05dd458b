"""Tiles of few long steps, or of one, follow each other on a core without a pause: their late statements run several tiles behind."""

import attention_cases as cases
import pytest
import strict
import torch
from test_attention_bad_input import arrays_of
from test_ragged_tiles import chained

import tilelang_ascend as tilelang
from tilelang_ascend.tile.uses import BEHIND

TILES = {"bM": 16, "bN": 16}
OPTIONS = {"tl.coarsen_blocks": False}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Long steps have 64 keys."""
    monkeypatch.setattr("tilelang_ascend.transform.nests.merge_steps.LONG_STEPS", ((64, 4, 2),))


def compiled(case, **how):
    return tilelang.compile(case[0], pass_configs=OPTIONS, **how)


@pytest.mark.parametrize("keys", [40, 64, 128, 192, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.one_in(6)
def test_numbers_of_steps(two_cores, keys, causal):
    """Of tiles that have as many steps, or some of which have fewer, and may have none as far as anybody knows."""
    torch.manual_seed(keys)
    case = cases.forward(1, 6, keys, 32, causal=causal, **TILES)
    kernel = compiled(case)
    if not causal:
        (loop,) = chained(kernel, coarsen=False)
        assert int(loop.annotations[BEHIND]) > 1 or keys == 256
    cases.check(case, lambda _, arrays: strict.run(kernel, arrays, text=keys in (64, 128)))


@pytest.mark.parametrize("keys", [64, 128])
def test_no_flag_is_needless(two_cores, keys):
    torch.manual_seed(1)
    case = cases.forward(1, 5, keys, 32, **TILES)
    kernel = compiled(case)
    assert chained(kernel, coarsen=False)
    assert [x for x in strict.surviving_mutants(kernel, arrays_of(case)) if "flag" in x] == []


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_other_chips(chip):
    torch.manual_seed(2)
    case = cases.forward(1, 33, 64, 32, **TILES)
    kernel = compiled(case, target=chip)
    assert chained(kernel, coarsen=False)
    cases.check(case, lambda _, arrays: strict.run(kernel, arrays))


def test_a_single_tile_of_a_core_has_more_steps(two_cores):
    """Nothing follows it: steps are so long that some are left to be worked on beside each other."""
    kernel = compiled(cases.forward(1, 1, 32, 32, **TILES))
    assert not any("worked on together" in note for note in kernel.artifact.notes)
