"""Loops that stream tiles: some seeds, and what longer traces are for."""

import sys
from pathlib import Path

import pytest

from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import AllocBuffer, PrimFunc, imm, intrin, loop, seq, tirx

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from testing.fuzz import streams
from testing.fuzz.long_traces import unordered

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "transform"))

import sync_kernels as K


# 103, 170: conditions that leave loops; 135: a loop the machine divides; 244: a flag that stays one too many once loops have taken over others
@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [0, 1, 103, 170, 244])
def test_streams_mean_what_numpy_says(seed, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    outcome = streams.check(seed)
    assert outcome is None, outcome


def test_a_seed_gives_one_program():
    assert streams.Generator(3).program() == streams.Generator(3).program() != streams.Generator(4).program()


def rings_with_one_flag_in_common():
    """Loads of a tile of three copies and of one of four, whose flags have ids 0 to 2 and 2 to 5; iterations stand one behind the other."""
    x, a, b, c, k = K.gm("X", 64, "float32"), K.ub("a", 64, 3), K.ub("b", 64, 4), K.ub("c", 64), K.var()
    first, second = tirx.floormod(k, imm(3)), tirx.floormod(k, imm(4))
    flag = lambda what, event, at: intrin(what + "_flag", at, event=event, core="aiv")  # noqa: E731
    body = [
        flag("wait", "V_MTE2", imm(0)),
        K.load_ub(K.at(a, first), K.at(x, imm(0)), 64), flag("set", "MTE2_V", first),
        K.load_ub(K.at(b, second), K.at(x, imm(0)), 64), flag("set", "MTE2_V", second + 2),
        flag("wait", "MTE2_V", first), flag("wait", "MTE2_V", second + 2),
        intrin("pipe_barrier", pipe="V", core="aiv"), intrin("add", K.at(c, imm(0)), K.at(a, first), K.at(b, second), 64),
        flag("set", "V_MTE2", imm(0)),
    ]  # fmt: skip
    around = [flag("set", "V_MTE2", imm(0)), loop(k, 29, seq(body)), flag("wait", "V_MTE2", imm(0))]
    return PrimFunc([x], seq(*(AllocBuffer(t) for t in (a, b, c)), *around))


def test_rings_that_meet_late_are_seen():
    """In the ninth iteration."""
    func, chip = rings_with_one_flag_in_common(), get_chip("a2")
    assert sync_covers(func, chip) and unordered(func, chip)
