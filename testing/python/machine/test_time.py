"""Simulated time: dependences, sharing of bandwidth, L2 reuse, and what the report says about them."""

import json
import time

import numpy as np
import pytest
from stream_program import CHIP, Program, add_arrays, chip_with, gm, launch, ub, vector_add

TIME = {"values": False, "checks": (), "adversarial": False}


def _time(arrays, aiv=None, aic=None, **more):
    return launch(arrays, aiv, aic, **{**TIME, **more})


def test_dependent_instructions_add_up_and_independent_ones_overlap():
    a = np.zeros(32768, np.float32)
    n = 8192
    apart, chained = Program(), Program()
    for i in range(8):
        apart.load(ub(0), gm(a, 4 * n * (i % 4)), 4 * n).add(ub(65536), ub(32768), ub(32768), n)
        chained.load(ub(0), gm(a, 4 * n * (i % 4)), 4 * n).sync("MTE2_V").add(ub(65536), ub(0), ub(0), n).sync("V_MTE2")
    overlapped, serial = _time({"a": a}, apart), _time({"a": a}, chained)
    busy = overlapped.per_core[0].busy_cycles
    assert overlapped.cycles < 1.2 * max(busy.values())
    assert serial.cycles > busy["V"] + busy["MTE2"]
    assert overlapped.bound_pipe == "MTE2"


def test_barrier_waits_for_results_and_back_to_back_instructions_do_not():
    def many(barrier):
        p = Program()
        for i in range(64):
            p.add(ub(512 * (i % 8)), ub(8192), ub(16384), 64)
            if barrier:
                p.barrier("V")
        return _time({}, p).cycles

    assert many(True) > many(False) + 64 * 10


def test_one_core_is_limited_by_its_path_and_all_cores_by_memory():
    nbytes = 32768
    a = np.zeros(48 * 16 * nbytes // 4, np.float32)

    def cycles(cores):
        programs = []
        for core in range(cores):
            p = Program()
            for i in range(16):
                p.load(ub(0), gm(a, (core * 16 + i) * nbytes), nbytes)
            programs.append(p)
        return _time({"a": a}, programs, blocks=cores).cycles

    one, all_cores = cycles(1), cycles(48)
    hbm = CHIP.hbm_bytes_per_second / CHIP.clock_hz
    assert all_cores == pytest.approx(48 * 16 * nbytes / hbm, rel=0.1)
    assert one < all_cores and one > 16 * nbytes / 120


def test_second_touch_comes_from_l2_unless_it_does_not_fit():
    a = np.zeros(1 << 16, np.float32)
    p = Program()
    for _ in range(3):
        for i in range(8):
            p.load(ub(0), gm(a, 32768 * i), 32768)
    result = _time({"a": a}, p)
    assert result.traffic["hbm_read"] == a.nbytes and result.traffic["l2_read"] == 3 * a.nbytes
    small = _time({"a": a}, p, chip=chip_with(l2_bytes=65536))
    assert small.traffic["hbm_read"] == 3 * a.nbytes
    assert small.cycles >= result.cycles


def test_written_lines_go_to_memory_when_they_are_evicted():
    a = np.zeros(1 << 16, np.float32)
    p = Program()
    for i in range(8):
        p.store(gm(a, 32768 * i), ub(0), 32768)
    assert _time({"a": a}, p).traffic["hbm_write"] == 0
    assert _time({"a": a}, p, chip=chip_with(l2_bytes=65536)).traffic["hbm_write"] >= a.nbytes - 2 * 65536


def test_cross_core_flags_hold_cores():
    # The cube core hands work to and fro with the vector cores: 8 round trips cost at least 16 flags.
    aic, aiv = Program(), Program()
    for _ in range(8):
        aic.cross_set(1, pipe="FIX").cross_wait(2)
        aiv.cross_wait(1).cross_set(2)
    result = _time({}, aiv, aic)
    assert result.cycles >= 16 * CHIP.cross_core_flag_cycles and not result.stuck


def test_a_deadlock_is_named_not_hung():
    assert "AIV core of block 0" in _time({}, Program().wait("MTE2_V")).stuck
    assert _time({}, Program().cross_wait(1), Program()).stuck


def test_report_adds_up():
    a, b, c = add_arrays()
    result = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c))
    assert result.simulated_us == pytest.approx(result.launch_us + 1e6 * result.cycles / CHIP.clock_hz)
    assert result.launch_us == pytest.approx(1e6 * CHIP.launch_seconds)
    assert 0 <= result.assumed_share <= 1
    assert set(result.occupancy) == {"S", "V", "MTE2", "MTE3"}
    assert all(0 <= share <= 1 for share in result.occupancy.values())
    assert result.per_core[0].instructions["V"] == 3 and result.per_core[0].name == "AIV 0"
    assert "simulated" in result.text() and "bound by" in result.text()


def test_values_do_not_change_time():
    a, b, c = add_arrays()
    full = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c))
    fast = _time({"a": a, "b": b, "c": c}, vector_add(a, b, c))
    assert full.cycles == fast.cycles


def test_time_can_be_switched_off():
    a, b, c = add_arrays()
    result = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), time=False)
    assert result.cycles == 0 and result.bound_pipe == "" and not result.per_core


def test_trace(tmp_path):
    from tilelang_ascend.sim.trace import write_chrome_trace

    a, b, c = add_arrays()
    result = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), trace=True)
    events = json.loads(write_chrome_trace(result, tmp_path / "t.json", "kernel.py").read_text())["traceEvents"]
    adds = [e for e in events if e["ph"] == "X" and e["name"] == "add"]
    assert len(adds) == 3 and adds[0]["args"]["source"] == "kernel.py:9"
    rows = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"V", "MTE2", "MTE3"} <= rows
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"AIV 0"}
    with pytest.raises(ValueError, match="needs time"):
        launch({}, Program(), trace=True, time=False)


def test_time_only_is_fast():
    a = np.zeros(64, np.float32)
    p = Program()
    for _ in range(50):
        p.sync("MTE2_V").add(ub(0), ub(512), ub(1024), 64).sync("V_MTE2")
    p.items = p.items * 1000
    data = p.data()
    from tilelang_ascend.sim.machine import SimOptions, Tensor, run

    start = time.perf_counter()
    result = run(CHIP, "aiv_only", 1, {"aiv": [data]}, [], [Tensor(a.ctypes.data, 256, "a")], SimOptions.time_only())
    assert result.per_core[0].instructions["V"] == 50_000
    assert time.perf_counter() - start < 5, "a quarter of a million instructions; generous for a loaded machine"
