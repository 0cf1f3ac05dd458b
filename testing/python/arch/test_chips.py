"""Chip data: complete, consistent, every number with a source; targets."""

import json

import pytest

from tilelang_ascend import arch
from tilelang_ascend.arch import Price, Quantity
from tilelang_ascend.arch.load import build, family_table, merge
from tilelang_ascend.errors import TargetError
from tilelang_ascend.isa import TABLE, Space

ALL = list(arch.chips().values())


def test_all_known_skus_are_there():
    names = set(arch.chips())
    assert {
        "Ascend910B1",
        "Ascend910B4-1",
        "Ascend910_9362",
        "Ascend910_9392",
        "Ascend950PR_957x",
        "Ascend950DT_9582",
    } <= names
    assert len(names) == 19


@pytest.mark.parametrize("chip", ALL, ids=lambda c: c.name)
def test_every_number_has_a_source(chip):
    assert len(chip.quantities) > 150
    for key in chip.quantities:
        assert chip.source(key).startswith(("doc:", "measured:", "assumed")), key


@pytest.mark.parametrize("chip", ALL, ids=lambda c: c.name)
def test_every_cost_class_of_the_table_is_priced(chip):
    needed = {record.cost_class for record in TABLE.values() if record.runs_on(chip.generation)}
    assert needed <= set(chip.prices)


def test_flat_json():
    chip = arch.get_chip("Ascend910B1")
    flat = json.loads(chip.to_json())
    assert flat["name"] == "Ascend910B1" and flat["generation"] == "c220"
    assert flat["num_aic"] == 24 and flat["num_aiv"] == 48 and flat["clock_hz"] == 1.85e9
    assert flat["ub_bytes"] == 188416 and flat["l1_bytes"] == 524032 and flat["l0c_bytes"] == 131072
    assert "issue_cycles" in flat["assumed_keys"] and "num_aic" not in flat["assumed_keys"]
    assert all(isinstance(v, (int, float)) for k, v in flat.items() if k not in ("name", "generation", "assumed_keys"))


def test_generations_differ_where_they_should():
    a2, a5 = arch.get_chip("a2"), arch.get_chip("a5")
    assert not a2.has_path("L0C", "UB") and a5.has_path("L0C", "UB")
    assert a2.l0a_layout == "zZ" and a5.l0a_layout == "nZ"
    assert not a2.orders("V") and a5.orders("V") and a2.orders("S")
    assert a5.capacity_bytes(Space.UB) == 253952 and a5.capacity_bytes(Space.L0C) == 2 * a2.capacity_bytes(Space.L0C)
    assert a2.prices["mmad"].rates["float32"] == 4 * a5.prices["mmad"].rates["float32"]


def test_prices_reproduce_measurements():
    """Profiled cases: f32 Add of 64 repeats 88 cycles, Exp of 4096 elements 159, mmads of facts section 2.1."""
    chip = arch.get_chip("a2")

    def total(name, work, rate):
        return chip.prices[name].busy_cycles(work, rate) + chip.prices[name].latency_cycles

    assert total("simple", 4096, "b32") == pytest.approx(88.4, abs=1)
    assert total("transcendental", 4096, "b16") == pytest.approx(159, abs=1)
    mmad = TABLE["mmad"]
    for dtype, acc, shape, cycles in (
        ("float16", "float32", (40, 50, 60), 54),
        ("float16", "float32", (128, 128, 64), 262),
        ("int8", "int32", (6, 7, 8), 7),
    ):
        work = mmad.work(mmad.bind((acc, dtype, dtype), (*shape, 0, 0, 1)))
        assert total("mmad", work, dtype) == pytest.approx(cycles, abs=0.5)


def test_gm_rates_reproduce_measurements():
    """8 KiB copies of the single-core add, from HBM: 350 cycles each. Latency and rate are fitted to the whole kernel (docs/calibration.md)."""
    price = arch.get_chip("a2").prices["gm_to_ub"]
    assert price.busy_cycles(8192, "hbm_bytes") + price.latency_cycles == pytest.approx(350, rel=0.1)


# ---- self-checks, shown to fail ------------------------------------------------------------------------------------


def test_a_number_without_a_source_is_refused():
    with pytest.raises(AssertionError, match="source"):
        Quantity(1, "somewhere")
    with pytest.raises(AssertionError, match="not a quantity"):
        Quantity("24", "doc: x")
    with pytest.raises(AssertionError, match="positive"):
        Price("simple", 0, 0, {"b16": 0})


@pytest.mark.parametrize(
    "path, value, message",
    [
        (("memory", "ub_capacity_bytes"), [200000, "assumed"], "UB banks"),
        (("memory", "l1_reserved_bytes"), [10**9, "assumed"], "reserved"),
        (("memory", "l0c_alignment_bytes"), [48, "assumed"], "L0C"),
        (("sync", "usable_event_ids"), [9, "assumed"], "9 usable event ids of 8"),
        (("memory", "l1_capacity_bytes"), 5, "write"),
    ],
)
def test_inconsistent_chips_are_refused(path, value, message):
    table = family_table("a2")
    section, key = path
    broken = merge(table, {section: {key: value}})
    with pytest.raises(AssertionError, match=message):
        build("Ascend910B1", broken, table["sku"]["Ascend910B1"])


def test_two_vector_cores_for_each_cube_core():
    table = family_table("a2")
    numbers = {**table["sku"]["Ascend910B1"], "num_aiv": [24, "assumed"]}
    with pytest.raises(AssertionError, match="24 AIC need 48 AIV"):
        build("Ascend910B1", table, numbers)


# ---- targets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target, sku",
    [
        (None, "Ascend910B1"), ("ascend", "Ascend910B1"), ("npuir", "Ascend910B1"), ("auto", "Ascend910B1"),
        ("a2", "Ascend910B1"),
        ("A3", "Ascend910_9391"), ("a5", "Ascend950PR_958x"), ("ascend910b3", "Ascend910B3"),
        ("ASCEND910B4-1", "Ascend910B4-1"),
        ("ascend -chip=Ascend910B2", "Ascend910B2"), ("npuir -chip=a5", "Ascend950PR_958x"),
        ({"kind": "ascend"}, "Ascend910B1"),
        ({"kind": "ascend", "chip": "a3"}, "Ascend910_9391"), ({"chip": "Ascend950DT_9581"}, "Ascend950DT_9581"),
    ],
)  # fmt: skip
def test_targets(target, sku):
    assert arch.parse_target(target).name == sku
    assert arch.parse_target(arch.get_chip(sku)).name == sku


@pytest.mark.parametrize(
    "target, message",
    [
        ("ascend910b9", "did you mean .*Ascend910B"),
        ("h100", "unknown chip 'h100'"),
        ("ascend -mchip=a2", "unknown target option 'mchip'"),
        ("ascend chip=a2", "not of the form -key=value"),
        ({"kind": "cuda"}, "unknown target kind 'cuda'"),
        ("", "empty"),
        (7, "not int"),
    ],
)
def test_bad_targets(target, message):
    with pytest.raises(TargetError, match=message):
        arch.parse_target(target)


def test_unknown_numbers_are_attribute_errors():
    with pytest.raises(AttributeError, match="num_gpus"):
        arch.get_chip().num_gpus
