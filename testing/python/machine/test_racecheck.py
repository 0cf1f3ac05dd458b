"""racecheck: a racy twin for every kind of ordering, and the mutation test."""

import numpy as np
import pytest
from stream_program import Program, add_arrays, checks, gm, launch, ub, vector_add

SYNC = {"set_flag", "wait_flag", "pipe_barrier", "cross_core_set_flag", "cross_core_wait_flag"}


def _sync_positions(tiles=3):
    a, b, c = add_arrays()
    return [i for i, name in enumerate(vector_add(a, b, c, tiles).names()) if name in SYNC]


@pytest.mark.parametrize("index", _sync_positions())
def test_removing_any_flag_is_caught(index):
    a, b, c = add_arrays()
    result = launch({"a": (a, "in"), "b": (b, "in"), "c": c}, vector_add(a, b, c).without(index))
    assert checks(result) & {"racecheck", "synccheck", "deadlock"}, result.text()


def test_read_after_write_names_both_instructions():
    a, _, c = add_arrays(64)
    p = Program().load(ub(0), gm(a), 256).add(ub(1024), ub(0), ub(0), 64)
    result = launch({"a": a, "c": c}, p, checks=("racecheck",))
    (hazard,) = result.hazards
    assert (hazard.first.op, hazard.first.line, hazard.second.op, hazard.second.line) == ("add", 2, "copy_gm_to_ub", 1)
    assert (hazard.space, hazard.lo) == ("UB", 0)
    assert "read after write" in hazard.message and "no flag orders pipe MTE2 before pipe V" in hazard.message
    assert "line 2" in hazard.text() and "line 1" in hazard.text()


def test_vector_instructions_overlap():
    a, _, _ = add_arrays(64)
    load = Program().load(ub(0), gm(a), 256).sync("MTE2_V")
    dependent = load.add(ub(1024), ub(0), ub(0), 64).add(ub(2048), ub(1024), ub(0), 64)
    result = launch({"a": a}, dependent, checks=("racecheck",))
    assert [h.check for h in result.hazards] == ["racecheck"]
    assert "no barrier is between them" in result.hazards[0].message

    ordered = Program().load(ub(0), gm(a), 256).sync("MTE2_V")
    ordered.add(ub(1024), ub(0), ub(0), 64).barrier("V").add(ub(2048), ub(1024), ub(0), 64)
    assert launch({"a": a}, ordered, checks=("racecheck",)).ok
    independent = Program().load(ub(0), gm(a), 256).sync("MTE2_V")
    independent.add(ub(1024), ub(0), ub(0), 64).add(ub(2048), ub(0), ub(0), 64)
    assert launch({"a": a}, independent, checks=("racecheck",)).ok


@pytest.mark.parametrize("barrier", [False, True])
def test_an_update_in_place_must_not_overtake_earlier_reads(barrier):
    """The update reads the same bytes: its own read does not stand for the ones before it."""
    a, _, _ = add_arrays(64)
    p = Program().load(ub(0), gm(a), 256).sync("MTE2_V").add(ub(1024), ub(0), ub(0), 64)
    p = (p.barrier("V") if barrier else p).add(ub(0), ub(0), ub(0), 64)
    result = launch({"a": a}, p, checks=("racecheck",))
    assert result.ok is barrier
    assert barrier or "write after read" in result.hazards[0].message


@pytest.mark.parametrize("start, found", [(156, False), (155, True), (100, True), (81, True), (80, False)])
def test_overlap_is_exact_to_the_byte(start, found):
    a = np.zeros(512, np.uint8)
    p, q = Program().store(gm(a, 100), ub(0), 56), Program().store(gm(a, start), ub(0), 20)
    assert launch({"a": a}, [p, q], blocks=2, checks=("racecheck",)).ok is not found


def test_pipe_all_orders_everything():
    a, b, c = add_arrays(64)
    p = Program().load(ub(0), gm(a), 256).load(ub(1024), gm(b), 256).barrier("ALL").add(ub(2048), ub(0), ub(1024), 64)
    p.barrier("ALL").store(gm(c), ub(2048), 256)
    result = launch({"a": a, "b": b, "c": c}, p)
    assert result.ok, result.text()
    np.testing.assert_array_equal(c, a + b)


def test_two_blocks_writing_one_place():
    a = np.zeros(64, np.float32)
    p = Program().load(ub(0), gm(a), 128).sync("MTE2_MTE3").store(gm(a, 128), ub(0), 64)
    result = launch({"a": a}, p, blocks=2)
    assert any("no cross-core flag orders AIV" in h.message for h in result.hazards), result.text()
    assert launch({"a": a}, p, blocks=1).ok


def test_atomic_updates_do_not_race_with_each_other_but_with_reads():
    a, c = np.ones(64, np.float32), np.zeros(64, np.float32)
    add = Program().load(ub(0), gm(a), 256).sync("MTE2_MTE3").op("set_atomic", op="add", dtype="float32")
    add.store(gm(c), ub(0), 256)
    assert launch({"a": a, "c": c}, add, blocks=4).ok
    np.testing.assert_array_equal(c, 4)
    read = Program().load(ub(0), gm(c), 256)
    assert checks(launch({"a": a, "c": c}, [add, read], blocks=2)) == {"racecheck"}


def test_many_readers_then_a_writer():
    a = np.zeros(64, np.float32)
    read, write = Program().load(ub(0), gm(a), 256), Program().store(gm(a), ub(0), 256)
    for seed in range(6):
        result = launch({"a": a}, [read, read, read, write], blocks=4, seed=seed, checks=("racecheck",))
        assert checks(result) == {"racecheck"}


def test_small_mmads_overlap_and_large_ones_do_not():
    from stream_program import operand

    from tilelang_ascend.isa.base import Space

    def twice(m, n):
        heads = operand(Space.L0C, 0), operand(Space.L0A, 0, "float16"), operand(Space.L0B, 0, "float16")
        return Program().op("mmad", *heads, m, n, 16, 0, 0, 1).op("mmad", *heads, m, n, 16, 0, 0, 0)

    assert checks(launch({}, aic=twice(16, 16), checks=("racecheck",))) == {"racecheck"}
    assert launch({}, aic=twice(64, 64), checks=("racecheck",)).ok


def test_a_wait_does_not_complete_the_instructions_in_front_of_it():
    from stream_program import operand

    from tilelang_ascend.isa.base import Space

    heads = operand(Space.L0C, 0), operand(Space.L0A, 0, "float16"), operand(Space.L0B, 0, "float16")

    def program(between):
        p = Program().sync("MTE1_M", 0).op("mmad", *heads, 32, 32, 16, 0, 0, 1)
        return between(p).op("mmad", *heads, 32, 32, 16, 0, 0, 0)

    assert checks(launch({}, aic=program(lambda p: p.sync("MTE1_M", 1)), checks=("racecheck",))) == {"racecheck"}
    assert launch({}, aic=program(lambda p: p.op("pipe_barrier", pipe="M")), checks=("racecheck",)).ok


@pytest.mark.parametrize("same_line, same_value, found", [(True, True, False), (True, False, True), (False, True, True)])
def test_iterations_of_one_statement_may_write_the_same_bytes(same_line, same_value, found):
    """Whichever comes last, that is what is there."""
    a, out = np.zeros(128, np.float32), np.zeros(64, np.float32)
    a[64:] = 0 if same_value else 1
    p = Program().load(ub(0), gm(a), 512).sync("MTE2_MTE3").store(gm(out), ub(0), 256).store(gm(out, 32), ub(256), 128)
    if same_line:
        (_, line, _), (op, _, words) = p.items[-2:]
        p.items[-1] = (op, line, words)
    result = launch({"a": (a, "in"), "out": out}, p, checks=("racecheck",))
    assert result.ok is not found, result.text()
    assert not found or "write after write" in result.hazards[0].message
