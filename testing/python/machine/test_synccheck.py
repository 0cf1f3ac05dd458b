"""synccheck and deadlocks: misuse of flags inside a core and between cores."""

import numpy as np
import pytest
from stream_program import Program, add_arrays, checks, gm, launch, ub

SYNC_ONLY = {"checks": ("synccheck",)}


def _one(result):
    assert len(result.hazards) == 1, result.text()
    return result.hazards[0]


def test_flag_set_twice():
    hazard = _one(launch({}, Program().set("V_MTE2").set("V_MTE2").wait("V_MTE2"), **SYNC_ONLY))
    assert hazard.check == "synccheck" and "set while it is still up" in hazard.message
    assert (hazard.first.line, hazard.second.line) == (2, 1)


def test_second_set_must_be_ordered_after_the_wait():
    # In every schedule the wait may come late; only an edge back to V makes the second set safe.
    loop = Program().sync("V_MTE2").sync("V_MTE2")
    assert "may be set before the wait" in launch({}, loop, adversarial=False, **SYNC_ONLY).hazards[0].message
    closed = Program().sync("V_MTE2").sync("MTE2_V").sync("V_MTE2")
    assert launch({}, closed, **SYNC_ONLY).ok


def test_flag_left_up():
    hazard = _one(launch({}, Program().set("V_MTE2", 3), **SYNC_ONLY))
    assert "flag V_MTE2 id 3 is still up at the end" in hazard.message


def test_wait_that_nothing_satisfies():
    hazard = _one(launch({}, Program().wait("MTE2_V", 2), **SYNC_ONLY))
    assert "pipe V still waits for flag MTE2_V id 2" in hazard.message and hazard.first.line == 1


def test_ids_and_pipes():
    assert "ids are 0 to 7" in _one(launch({}, Program().set("V_MTE2", 8), **SYNC_ONLY)).message
    assert "does not have" in _one(launch({}, Program().set("MTE1_M"), **SYNC_ONLY)).message
    assert "does not have" in _one(launch({}, Program().barrier("M"), **SYNC_ONLY)).message
    assert "does not have" in _one(launch({}, aic=Program().barrier("V"), **SYNC_ONLY)).message


def test_scalar_pipe_deadlock_is_reported_not_hung():
    hazard = _one(launch({}, Program().wait("MTE2_S"), checks=()))
    assert hazard.check == "deadlock" and "AIV 0 waits for flag MTE2_S id 0 (line 1)" in hazard.message


def test_barrier_deadlock_names_the_pipe():
    hazard = _one(launch({}, Program().wait("MTE2_V").barrier("ALL"), checks=()))
    assert "waits for all pipes, V waits for flag MTE2_V id 0" in hazard.message


def test_cycle_of_pipes_is_a_deadlock():
    cycle = Program().wait("MTE2_V").set("V_MTE2").wait("V_MTE2").set("MTE2_V").barrier("ALL")
    good = Program().set("MTE2_V").wait("MTE2_V").set("V_MTE2").wait("V_MTE2").barrier("ALL")
    stuck = Program().wait("MTE2_V").set("V_MTE3").wait("V_MTE3").set("MTE3_MTE2").wait("MTE3_MTE2").set("MTE2_V")
    stuck.barrier("ALL")
    assert checks(launch({}, stuck)) == {"deadlock"}
    assert checks(launch({}, cycle)) == {"deadlock"}
    assert launch({}, good).ok


# ---- between cores


def _producer(a, w):
    """Vector core: w = a, then tell the cube core of the block."""
    return Program().load(ub(0), gm(a), 256).sync("MTE2_MTE3").store(gm(w), ub(0), 256).cross_set(1)


def _consumer(w):
    """Cube core: wait, then read w."""
    return Program().cross_wait(1).op("get_value", gm(w, 0, "int32"))


def test_cross_core_flag_orders_memory():
    a, w = np.ones(64, np.float32), np.zeros(64, np.float32)
    half = Program().cross_set(1)
    assert launch({"a": a, "w": w}, aiv=[_producer(a, w), half], aic=_consumer(w)).ok
    racy = Program().op("get_value", gm(w, 0, "int32")).cross_wait(1)
    result = launch({"a": a, "w": w}, aiv=[_producer(a, w), half], aic=racy)
    assert checks(result) == {"racecheck"}, result.text()


def test_mode_2_needs_both_vector_cores():
    a, w = np.ones(64, np.float32), np.zeros(64, np.float32)
    result = launch({"a": a, "w": w}, aiv=[_producer(a, w), Program()], aic=_consumer(w))
    hazard = _one(result)
    assert hazard.check == "deadlock" and "AIC 0 waits for cross-core flag 1 (line 1)" in hazard.message


def test_cube_core_signals_both_vector_cores():
    aic = Program().cross_set(3, pipe="FIX")
    assert launch({}, aiv=Program().cross_wait(3), aic=aic, blocks=2).ok
    result = launch({}, aiv=[Program().cross_wait(3), Program()], aic=aic)
    assert "cross-core flag 3 of AIV 1 still counts 1" in _one(result).message


def test_late_transfer_lands_only_when_the_waiter_needs_it():
    a, w = np.ones(64, np.float32), np.zeros(64, np.float32)
    for seed in range(4):
        w[:] = 0
        programs = [_producer(a, w), Program().cross_set(1)]
        assert launch({"a": a, "w": w}, aiv=programs, aic=_consumer(w), seed=seed).ok
        assert (w == 1).all()


def test_modes_0_and_1():
    all_cores = Program().cross_set(5, mode=0).cross_wait(5)
    assert launch({}, aiv=all_cores, aic=Program(), blocks=3).ok
    one_missing = [all_cores] * 5 + [Program()]
    assert checks(launch({}, aiv=one_missing, aic=Program(), blocks=3)) == {"deadlock"}
    pair = Program().cross_set(6, mode=1).cross_wait(6)
    assert launch({}, aiv=[pair, pair, Program(), Program()], aic=Program(), blocks=2).ok
    on_cube = Program().cross_set(6, mode=1, pipe="FIX")
    assert "not for this core type" in _one(launch({}, aiv=Program(), aic=on_cube)).message


def test_counter_overflow_and_leftovers():
    aic = Program()
    for _ in range(16):
        aic.cross_set(2, pipe="FIX")
    waits = Program()
    for _ in range(16):
        waits.cross_wait(2)
    result = launch({}, aiv=Program(), aic=aic)
    assert any("counts beyond 15" in h.message for h in result.hazards)
    assert any("still counts 16" in h.message for h in result.hazards)
    lonely = [Program().cross_set(4), Program()]
    assert "never by all of its partners" in _one(launch({}, aiv=lonely, aic=Program())).message


def test_cross_core_flags_need_a_mix_kernel():
    assert "need a kernel with cube and vector cores" in _one(launch({}, Program().cross_set(1))).message


@pytest.mark.parametrize("drop", range(6))
def test_cross_core_mutations(drop):
    """Cube core and vector cores hand one buffer to and fro; removing any flag is caught."""
    a, w = np.ones(64, np.float32), np.zeros(64, np.float32)
    vector = _producer(a, w).cross_wait(7).load(ub(512), gm(w), 256)
    cube = _consumer(w).op("set_value", gm(w, 0, "int32"), 5).barrier("ALL").cross_set(7, pipe="FIX")
    partner = Program().cross_set(1).cross_wait(7)
    assert launch({"a": a, "w": w}, aiv=[vector, partner], aic=cube).ok
    places = [(p, i) for p in (vector, cube, partner) for i, name in enumerate(p.names()) if "cross" in name]
    program, index = places[drop]
    broken = [p.without(index) if p is program else p for p in (vector, cube, partner)]
    result = launch({"a": a, "w": w}, aiv=[broken[0], broken[2]], aic=broken[1])
    assert result.hazards, f"dropping {program.names()[index]} went unnoticed"


def test_random_programs_never_hang():
    rng = np.random.default_rng(1)
    events = ("V_MTE2", "MTE2_V", "V_MTE3", "MTE3_V", "MTE2_S", "S_V")
    a, _, _ = add_arrays(64)
    for _ in range(200):
        p = Program()
        for _ in range(12):
            kind = rng.integers(4)
            if kind == 0:
                p.set(events[rng.integers(6)], rng.integers(2))
            elif kind == 1:
                p.wait(events[rng.integers(6)], rng.integers(2))
            elif kind == 2:
                p.load(ub(0), gm(a), 64)
            else:
                p.add(ub(0), ub(512), ub(1024), 16)
        launch({"a": a}, p, seed=int(rng.integers(100)))
