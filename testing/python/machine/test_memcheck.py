"""memcheck, initcheck and malformed instructions."""

import numpy as np
import pytest
from stream_program import Program, add_arrays, checks, gm, launch, operand, ub

from tilelang_ascend.isa.base import Space


def _one(result):
    assert len(result.hazards) == 1, result.text()
    return result.hazards[0]


def test_reads_beyond_a_tensor():
    a, _, _ = add_arrays(64)
    hazard = _one(launch({"a": a}, Program().load(ub(0), gm(a, 200), 64)))
    assert hazard.check == "memcheck" and hazard.tensor == "a" and (hazard.lo, hazard.hi) == (200, 264)
    assert "8 bytes beyond its end (it has 256 bytes)" in hazard.message
    assert launch({"a": a}, Program().load(ub(0), gm(a, 192), 64)).ok


def test_the_last_row_of_a_strided_copy_counts():
    a, _, _ = add_arrays(64)
    p = Program().op("copy_gm_to_ub", ub(0), gm(a), 4, 32, 64, 0, 0, 0, 0, 0.0)
    assert checks(launch({"a": a}, p)) == {"memcheck"}
    assert launch({"a": a}, Program().op("copy_gm_to_ub", ub(0), gm(a), 3, 32, 64, 0, 0, 0, 0, 0.0)).ok


def test_writes_to_a_read_only_tensor():
    a, _, _ = add_arrays(64)
    p = Program().load(ub(0), gm(a), 64).sync("MTE2_MTE3").store(gm(a), ub(0), 64)
    before = a.copy()
    assert "read-only" in _one(launch({"a": (a, "in")}, p)).message
    np.testing.assert_array_equal(a, before)
    assert launch({"a": a}, p).ok


def test_address_of_nothing():
    a, _, _ = add_arrays(64)
    assert checks(launch({"a": a}, Program().load(ub(0), operand(Space.GM, 64), 64))) == {"memcheck"}


def test_local_memory_limits_and_alignment():
    a, _, _ = add_arrays(64)
    assert "outside of its 188416 bytes" in _one(launch({"a": a}, Program().load(ub(188416 - 32), gm(a), 64))).message
    assert "multiple of 32" in _one(launch({"a": a}, Program().load(ub(16), gm(a), 64))).message
    l1 = operand(Space.L1, 0)
    assert "does not have" in _one(launch({"a": a}, Program().load(l1, gm(a), 64))).message


def test_an_access_outside_is_never_let_through_silently():
    a, _, _ = add_arrays(64)
    hazard = _one(launch({"a": a}, Program().load(ub(0), gm(a, 4096), 64), checks=()))
    assert hazard.check == "invalid"


def test_undefined_values_travel_silently_until_they_matter():
    a, _, c = add_arrays(64)
    p = Program().load(ub(0), gm(a), 128).sync("MTE2_V").add(ub(512), ub(0), ub(0), 64).sync("V_MTE3")
    assert launch({"a": a, "c": c}, Program()).ok
    travel = Program()
    travel.items = p.items[:]
    assert launch({"a": a, "c": c}, travel).ok
    assert launch({"a": a, "c": c}, travel.store(gm(c), ub(512), 128)).ok
    whole = Program()
    whole.items = p.items[:]
    hazard = _one(launch({"a": a, "c": c}, whole.store(gm(c), ub(512), 256)))
    assert hazard.check == "initcheck" and hazard.space == "UB" and hazard.lo == 512 + 128


def test_undefined_values_pass_through_scratch_memory():
    w, c = np.zeros(64, np.float32), np.zeros(64, np.float32)
    through = Program().store(gm(w), ub(0), 64).sync("MTE3_MTE2").load(ub(512), gm(w), 64)
    assert launch({"w": (w, "scratch"), "c": c}, through).ok
    out = through.sync("MTE2_MTE3").store(gm(c), ub(512), 64)
    assert checks(launch({"w": (w, "scratch"), "c": c}, out)) == {"initcheck"}


def test_undefined_scalar():
    assert checks(launch({}, Program().op("get_value", ub(0, "int32")))) == {"initcheck"}


@pytest.mark.parametrize(
    "item, text",
    [
        ((100000, 1, []), "not in the instruction table"),
        ((-1, 1, []), "not in the instruction table"),
        ((0, 1, [0]), "arguments"),
    ],
)
def test_malformed_instructions(item, text):
    p = Program()
    p.items.append(item)
    hazard = _one(launch({}, p, checks=()))
    assert hazard.check == "invalid" and text in hazard.message


def test_instruction_for_the_other_core():
    assert "needs pipe V" in _one(launch({}, aic=Program().add(ub(0), ub(64), ub(128), 8))).message


def test_instruction_limit():
    p = Program()
    for _ in range(100):
        p.barrier("V")
    assert "stopped after 50 instructions" in _one(launch({}, p, max_instructions=50)).message
    assert launch({}, p, max_instructions=100).ok
