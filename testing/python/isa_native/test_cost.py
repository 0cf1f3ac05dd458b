"""Prices against published measurements: mmad and Exp are exact, f32 Add is within 2 %, also with bank conflicts."""

import pytest
from probe import Probe

from tilelang_ascend.arch import get_chip

TOLERANCE = 0.02
FULL = 2**64 - 1
BANK = 4096 * 16  # bytes after which the bank number within a group changes


@pytest.fixture(scope="module")
def a2():
    return Probe({}, chip="a2")


def cycles(probe, name, operands, args, attrs=None):
    """Cycles of one instruction on an idle pipe until its result is complete."""
    cost = probe.cost(name, operands, args, attrs)
    return cost.busy + cost.latency


@pytest.mark.parametrize(
    "dtype, m, k, n, measured",
    [("float16", 40, 50, 60, 54), ("float16", 128, 128, 64, 262), ("int8", 6, 7, 8, 7), ("float32", 120, 110, 50, 902)],
)
def test_mmad_is_exact(a2, dtype, m, k, n, measured):
    result = "int32" if dtype == "int8" else "float32"
    operands = [("L0C", result, 0), ("L0A", dtype, 0), ("L0B", dtype, 0)]
    assert cycles(a2, "mmad", operands, [m, n, k, 0, 0, 1]) == measured


def add_64_repeats(probe, d, s0, s1):
    operands = [("UB", "float32", d), ("UB", "float32", s0), ("UB", "float32", s1)]
    return cycles(probe, "add_mask", operands, [0, FULL, 64, 1, 1, 1, 8, 8, 8])


@pytest.mark.parametrize(
    "d, s0, s1, measured",
    [
        pytest.param(2 * BANK, 0, BANK + 256, 88.4, id="no conflict"),
        pytest.param(2 * BANK, 0, BANK, 154, id="both sources in the same groups"),
        pytest.param(256 * 65, 0, BANK + 256, 139, id="destination in the bank of a source"),
        pytest.param(0, 0, BANK + 256, 88.4, id="destination is a source"),
    ],
)
def test_add_with_bank_conflicts(a2, d, s0, s1, measured):
    assert add_64_repeats(a2, d, s0, s1) == pytest.approx(measured, rel=TOLERANCE)


def test_add_of_a_repeated_block(a2):
    """Block stride 0: 3584 ticks where the conflict-free instruction takes 2390 and 88.4 cycles."""
    operands = [("UB", "float32", 2 * BANK), ("UB", "float32", 0), ("UB", "float32", BANK + 256)]
    got = cycles(a2, "add_mask", operands, [0, FULL, 64, 1, 1, 0, 8, 8, 0])
    assert got == pytest.approx(88.4 * 3584 / 2390, rel=TOLERANCE)


def test_sources_that_meet_in_every_other_repeat(a2):
    """A source that stays in place while the other walks round the groups: conflicts in half of the repeats."""
    operands = [("UB", "float32", 2 * BANK), ("UB", "float32", 0), ("UB", "float32", BANK)]
    assert a2.cost("add_mask", operands, [0, FULL, 64, 1, 1, 1, 8, 8, 0]).busy == 64 * 1.5


def test_cast_that_steps_at_two_speeds(a2):
    """128 bytes a repeat are read, 256 written: in one bank they meet in half of the repeats."""
    busy = a2.cost("cast", [("UB", "float32", 16384), ("UB", "float16", 0)], [4096], {"round": "none"}).busy
    assert busy == pytest.approx(64 * (1 + 0.79 / 2))


def test_count_form_costs_the_same(a2):
    operands = [("UB", "float32", 2 * BANK), ("UB", "float32", 0), ("UB", "float32", BANK + 256)]
    assert cycles(a2, "add", operands, [4096]) == add_64_repeats(a2, 2 * BANK, 0, BANK + 256)


@pytest.mark.parametrize("dtype, second", [("float32", BANK), ("float16", BANK)])
def test_exp_of_4096_elements(a2, dtype, second):
    assert cycles(a2, "exp", [("UB", dtype, second), ("UB", dtype, 0)], [4096]) == pytest.approx(159, rel=TOLERANCE)


def test_3510_reads_two_rows_of_a_group_at_once():
    """Two reads and a write of every group: one and a half cycles a repeat, whatever the addresses."""
    probe = Probe({}, chip="a5")
    latency = get_chip("a5").simple_latency_cycles
    assert add_64_repeats(probe, 2 * BANK, 0, BANK) == add_64_repeats(probe, 2 * BANK, 0, BANK + 256) == 96 + latency


def test_transfers_leave_gm_bytes_to_the_machine(a2):
    """busy does not grow with the bytes, only with the rows; the rate of the path is given apart."""
    operands = [("UB", "float32", 0), ("GM", "float32", 0)]
    small = a2.cost("copy_gm_to_ub", operands, [1, 64, 0, 0, 0, 0, 0, 0.0])
    large = a2.cost("copy_gm_to_ub", operands, [1, 32768, 0, 0, 0, 0, 0, 0.0])
    rows = a2.cost("copy_gm_to_ub", operands, [400, 64, 0, 0, 0, 0, 0, 0.0])
    chip = get_chip("a2")
    assert small == large and small.gm_rate == chip.gm_to_ub_bytes_per_cycle
    assert rows.busy == 400 * chip.gm_to_ub_burst_cycles and rows.assumed == rows.busy


def test_loads_to_l0_run_at_the_rate_of_their_path(a2):
    args = [0, 64, 1, 0, 0]
    a = a2.cost("load_l0a", [("L0A", "float16", 0), ("L1", "float16", 0)], args)
    b = a2.cost("load_l0b", [("L0B", "float16", 0), ("L1", "float16", 0)], args)
    assert (a.busy, b.busy) == (64 * 512 / 256, 64 * 512 / 128) and a.latency == b.latency == 28


def test_nothing_to_do_still_costs_its_interval(a2):
    operands = [("UB", "float32", 0), ("UB", "float32", 4096), ("UB", "float32", 8192)]
    assert a2.cost("add", operands, [0]).busy == get_chip("a2").simple_interval_cycles
