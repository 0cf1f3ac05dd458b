"""Launches one after the other: what is undefined passes on, and results are those of all."""

import numpy as np
import pytest
from stream_program import CHIP, Program, gm, ub

from tilelang_ascend.sim.machine import Launch, SimOptions, Tensor, run, run_in_order

OPTIONS = SimOptions(count_writes=True, trace=True, record_stream=True)


def moved(target, source, nbytes, skip=0):
    """One vector core copies the first bytes, from `skip` on."""
    program = Program().load(ub(0), gm(source, skip), nbytes).sync("MTE2_MTE3").store(gm(target, skip), ub(0), nbytes)
    return Launch("aiv_only", 1, {"aiv": [program.barrier("ALL").data()]}, [])


def arrays(count):
    return [np.arange(64, dtype=np.float32) + 100 * k for k in range(count)]


def rows(a, w, c, **how):
    return [Tensor(a.ctypes.data, a.nbytes, "a", False), Tensor(w.ctypes.data, w.nbytes, "w", **how), Tensor(c.ctypes.data, c.nbytes, "c")]


@pytest.mark.parametrize("how", [{"scratch": True}, {"fresh": True}], ids=["workspace", "output"])
def test_what_a_launch_wrote_is_defined_in_the_next(how):
    a, w, c = arrays(3)
    result = run_in_order(CHIP, [moved(w, a, 256), moved(c, w, 256)], rows(a, w, c, **how), OPTIONS)
    assert result.ok and not result.unwritten, result.text()
    np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("how", [{"scratch": True}, {"fresh": True}], ids=["workspace", "output"])
def test_what_no_launch_wrote_is_not(how):
    a, w, c = arrays(3)
    launches = [moved(w, a, 128), moved(w, a, 64, skip=128), moved(c, w, 256)]
    result = run_in_order(CHIP, launches, rows(a, w, c, **how), OPTIONS)
    (hazard,) = result.hazards
    assert hazard.check == "initcheck" and hazard.first.core == "launch 3 AIV 0"
    assert [(u.tensor, u.lo, u.hi, u.nbytes) for u in result.unwritten] == ([("w", 192, 256, 64)] if "fresh" in how else [])
    assert run_in_order(CHIP, [*launches[:2], moved(c, w, 192)], rows(a, w, c, **how), OPTIONS).ok


def test_without_initcheck_nothing_is_kept():
    a, w, c = arrays(3)
    options = SimOptions(checks=("memcheck",))
    assert run_in_order(CHIP, [moved(w, a, 128), moved(c, w, 256)], rows(a, w, c, scratch=True), options).ok


def test_launches_are_ordered_without_a_flag():
    a, w, c = arrays(3)
    assert run_in_order(CHIP, [moved(w, a, 256), moved(w, c, 256)], rows(a, w, c), OPTIONS).ok
    np.testing.assert_array_equal(w, c)


def test_results_are_those_of_all():
    a, w, c = arrays(3)
    launches = [moved(w, a, 256), moved(w, a, 64), moved(c, w, 256)]
    each = [run(CHIP, *launch, rows(a, w, c), OPTIONS) for launch in launches]
    result = run_in_order(CHIP, launches, rows(a, w, c), OPTIONS)
    assert result.simulated_us == pytest.approx(result.launch_us + result.cycles / CHIP.clock_hz * 1e6)
    assert result.launch_us == pytest.approx(3 * each[0].launch_us)
    assert result.writes["w"].tolist() == [2] * 64 + [1] * 192 and result.writes["c"].tolist() == [1] * 256
    assert len(result.streams) == 3 and result.core_names == ("launch 1 AIV 0", "launch 2 AIV 0", "launch 3 AIV 0")
    assert result.traffic["l2_read"] == sum(r.traffic["l2_read"] for r in each)
    assert [r.traffic["hbm_read"] for r in each] == [512, 512, 512]
    assert result.traffic["hbm_read"] == 512  # the second and third launch find what the first one left in L2
    assert each[0].cycles < result.cycles <= sum(r.cycles for r in each)
    starts = [result.events[result.events["core"] == k]["start"].min() for k in range(3)]
    assert starts == sorted(starts) and starts[1] >= each[0].cycles


def test_what_a_launch_left_in_l2_is_read_faster():
    a, w, c = (np.zeros(8192, np.float32) for _ in range(3))
    launches = [moved(w, a, 32768), moved(c, w, 32768)]
    apart = [run(CHIP, *launch, rows(a, w, c), OPTIONS) for launch in launches]
    assert run_in_order(CHIP, launches, rows(a, w, c), OPTIONS).cycles < sum(r.cycles for r in apart)


def test_nothing_follows_a_deadlock():
    a, w, c = arrays(3)
    stuck = Launch("aiv_only", 1, {"aiv": [Program().wait("MTE2_S").data()]}, [])
    result = run_in_order(CHIP, [moved(w, a, 256), stuck, moved(c, w, 256)], rows(a, w, c), OPTIONS)
    assert [h.check for h in result.hazards] == ["deadlock"] and result.core_names[-1] == "launch 2 AIV 0"
    assert c[0] == 200


def test_time_may_be_switched_off():
    a, w, c = arrays(3)
    result = run_in_order(CHIP, [moved(w, a, 256), moved(c, w, 256)], rows(a, w, c), SimOptions(time=False))
    assert result.ok and result.cycles == 0 and result.bound_pipe == "" and result.text() == ""
