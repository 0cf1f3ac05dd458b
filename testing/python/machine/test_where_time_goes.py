"""Why the time is what it is: waits, critical path, usage, and replays at other prices, on programs written by hand."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from stream_program import CHIP, Program, add_arrays, chip_with, gm, launch, operand, ub, vector_add

from tilelang_ascend.isa.base import Space
from tilelang_ascend.runtime.simulation import SimulationReport
from tilelang_ascend.sim.profile.critical import critical_path
from tilelang_ascend.sim.profile.traffic import data_paths, l2_use, tensor_traffic
from tilelang_ascend.sim.profile.waits import KINDS, pipe_times, stalls
from tilelang_ascend.sim.recording import COSTS, Scale
from tilelang_ascend.sim.report import PIPES

TIME = {"values": False, "checks": (), "adversarial": False, "keep_record": True}

ROUNDING = 1e-12
"""Relative: completions of transfers that share bandwidth are sums."""


def _time(arrays, aiv=None, aic=None, **more):
    return launch(arrays, aiv, aic, **{**TIME, **more})


def _adds(cores=1, tiles=6, n=2048, **more):
    """Single-buffered additions, each core its own part."""
    a, b, c = (np.zeros(cores * tiles * n, np.float32) for _ in range(3))
    part = tiles * n
    programs = [vector_add(a[i * part :], b[i * part :], c[i * part :], tiles, n) for i in range(cores)]
    return _time({"a": (a, "in"), "b": (b, "in"), "c": c}, programs, blocks=cores, **more)


def _to_and_fro(rounds=8, n=4096, **more):
    """The cube core hands tiles to the vector cores and back through GM."""
    w = np.zeros(4 * n, np.float32)
    aic, aiv = Program(), Program()
    for _ in range(rounds):
        aic.op("mmad", operand(Space.L0C, 0), operand(Space.L0A, 0, "float16"), operand(Space.L0B, 0, "float16"), 128, 128, 64, 0, 0, 1)
        aic.cross_set(1, pipe="M").cross_wait(2)
        aiv.cross_wait(1).load(ub(0), gm(w), 4 * n).sync("MTE2_V").add(ub(65536), ub(0), ub(32768), n).sync("V_MTE3")
        aiv.store(gm(w, 4 * n), ub(65536), 4 * n).barrier("ALL").cross_set(2)
    return _time({"w": (w, "scratch")}, aiv, aic, **more)


def _scalar(**more):
    a = np.zeros(4096, np.float32)
    p = Program()
    for i in range(60):
        p.load(ub(0), gm(a, 64 * (i % 16)), 64)
    p.sync("MTE2_V").add(ub(4096), ub(0), ub(0), 64).op("set_flag", 0, event="V_S").op("wait_flag", 0, event="V_S")
    p.op("get_value", ub(4096), 0).add(ub(4096), ub(0), ub(0), 64).barrier("V").add(ub(4096), ub(4096), ub(0), 64).barrier("ALL")
    return _time({"a": a}, p, **more)


RUNS = {
    "add": _adds,
    "add on all cores": lambda **more: _adds(48, 3, 4096, **more),
    "to and fro": _to_and_fro,
    "scalar": _scalar,
}


@pytest.fixture(params=RUNS)
def result(request):
    return RUNS[request.param]()


def test_the_time_of_a_pipe_is_divided_without_a_rest(result):
    rows = pipe_times(result.recording.analysis)
    assert rows
    for row in rows:
        parts = [row["busy_cycles"], *(row[f"{kind}_cycles"] for kind in KINDS)]
        assert sum(parts) == pytest.approx(row["elapsed_cycles"]) and min(parts) >= -1e-6, row
        assert row["elapsed_cycles"] == pytest.approx(result.cycles)
        assert (row["busy_cycles"] + row["bandwidth_cycles"]) / row["elapsed_cycles"] == pytest.approx(_occupancy(result, row))


def _occupancy(result, row):
    busy = [c.busy_cycles[row["pipe"]] for c in result.per_core if c.name.startswith(row["core"])]
    return sum(busy) / len(busy) / result.cycles


def test_the_stalls_of_a_pipe_are_what_it_is_not_busy(result):
    pipes = pipe_times(result.recording.analysis)
    waited = Counter()
    for s in stalls(result.recording.analysis, pipes):
        waited[s["core"], s["pipe"]] += s["cycles"]
    for row in pipes:
        assert waited[row["core"], row["pipe"]] + row["busy_cycles"] == pytest.approx(row["elapsed_cycles"])


def test_the_critical_path_is_the_whole_time_without_gaps(result):
    path = critical_path(result.recording, 10**9)
    overhead = result.launch_us * 1e-6 * CHIP.clock_hz
    assert path["cycles"] == pytest.approx(result.cycles + overhead)
    assert sum(e["cycles"] for e in path["entries"]) == pytest.approx(path["cycles"])
    first, *steps = path["steps"]
    assert first["kind"] == "launch" and first["cycles"] == pytest.approx(overhead) and path["num_steps"] == len(steps) + 1
    at = 0.0
    for step in steps:
        assert step["start_cycles"] == pytest.approx(at) and step["cycles"] > 0
        at = step["start_cycles"] + step["cycles"]
    assert at == pytest.approx(result.cycles)
    assert len(critical_path(result.recording, 3)["steps"]) == 3


@pytest.mark.parametrize("name", ["add", "to and fro", "scalar"])
def test_a_line_on_the_critical_path_is_as_long_as_the_run_gets_longer_by_it(name):
    """The derivative of the time with respect to the work of a line, by replays: it does not know of the path."""
    result = RUNS[name]()
    spent = Counter()
    for e in critical_path(result.recording, 0)["entries"]:
        if e["kind"] == "busy":
            spent[e["pipe"], e["line"]] += e["cycles"]
    small, cycle = 1e-4, 1e6 / CHIP.clock_hz
    before = result.recording.simulated_us()
    checked = 0
    for pipe, line in spent:
        # Interval and bytes go on at the same time: the longer one decides.
        scales = [Scale(what, 1 + small, pipe=pipe, line=line) for what in ("busy", "rate")]
        longer = (result.recording.simulated_us(*scales) - before) / small / cycle
        assert longer == pytest.approx(spent[pipe, line], rel=0.02), (pipe, line)
        checked += 1
    assert checked >= 5
    # And what is not on the path has time to spare.
    lines = {line for _, line in spent}
    free = [line for line in range(1, 80) if line not in lines]
    assert all(result.recording.simulated_us(Scale("busy", 1 + small, line=line)) - before < 1e-9 for line in free)


def test_a_wait_names_its_flag():
    """One load, then an addition that needs it: V waits from the end of its issue to the end of the load."""
    a = np.zeros(8192, np.float32)
    p = Program().load(ub(0), gm(a), 32768).set("MTE2_V").wait("MTE2_V").add(ub(65536), ub(0), ub(32768), 64)
    result = _time({"a": a}, p)
    pipes = pipe_times(result.recording.analysis)
    (wait,) = [s for s in stalls(result.recording.analysis, pipes) if s["kind"] == "flag"]
    assert (wait["core"], wait["pipe"], wait["resource"], wait["line"], wait["set_line"]) == ("AIV", "V", "MTE2", 3, 2)
    busy = next(r for r in pipes if r["pipe"] == "MTE2")
    loaded = CHIP.issue_cycles + busy["busy_cycles"] + busy["bandwidth_cycles"] + CHIP.prices["gm_to_ub"].latency_cycles
    assert wait["cycles"] == pytest.approx(loaded + CHIP.flag_cycles - 3 * CHIP.issue_cycles)
    kinds = [(e["pipe"], e["kind"]) for e in sorted(critical_path(result.recording, 99)["steps"], key=lambda s: s["start_cycles"])]
    assert kinds[-5:] == [("MTE2", "busy"), ("MTE2", "latency"), ("V", "flag"), ("V", "busy"), ("V", "latency")]


def test_idle_pipes_wait_for_what_the_scalar_pipe_waits_for():
    kinds = {s["pipe"]: set() for s in stalls(_scalar().recording.analysis, pipe_times(_scalar().recording.analysis))}
    for s in stalls(_scalar().recording.analysis, pipe_times(_scalar().recording.analysis)):
        kinds[s["pipe"]].add((s["kind"], s["resource"]))
    assert {("queue", "MTE2"), ("flag", "V"), ("barrier", "")} <= kinds["S"], "its own waits"
    assert {("queue", "MTE2"), ("scalar", "V"), ("issue", ""), ("barrier", "")} <= kinds["V"], "V runs dry meanwhile"
    between = stalls(_to_and_fro().recording.analysis, pipe_times(_to_and_fro().recording.analysis))
    crossed = {(s["core"], s["pipe"], s["resource"]) for s in between if s["kind"] == "cross"}
    assert {("AIC", "S", "MTE3"), ("AIC", "M", "MTE3"), ("AIV", "S", "M"), ("AIV", "MTE2", "M")} <= crossed


def test_bandwidth_is_lost_to_other_cores_only():
    lost = lambda result: sum(r["bandwidth_cycles"] for r in pipe_times(result.recording.analysis))
    assert lost(_adds()) == 0 and lost(_adds(48, 3, 4096)) > 0
    assert (
        lost(_adds(48, 3, 4096, chip=chip_with(hbm_bytes_per_second=1e18, l2_read_bytes_per_second=1e18, l2_write_bytes_per_second=1e18)))
        == 0
    )


def test_tensors_cost_what_they_are_read_against_every_byte_once():
    a, c = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    p = Program()
    for offset in (0, 512, 512, 1024):  # bytes 512..1536 twice
        p.load(ub(0), gm(a, offset), 1024)
    p.store(gm(c, 100), ub(0), 64).store(gm(c, 130), ub(0), 64)
    result = _time({"a": (a, "in"), "c": c}, p)
    rows = {row["name"]: row for row in tensor_traffic(result.recording)}
    assert (rows["a"]["read_bytes"], rows["a"]["least_read_bytes"], rows["a"]["written_bytes"]) == (4096, 2048, 0)
    assert (rows["c"]["written_bytes"], rows["c"]["least_written_bytes"]) == (128, 94)
    assert rows["a"]["hbm_read_bytes"] == result.traffic["hbm_read"]
    assert [(row["path"], row["bytes"]) for row in data_paths(result.recording)] == [("GM->UB", 4096), ("UB->GM", 128)]


def test_bytes_add_up(result):
    rows = tensor_traffic(result.recording)
    l2 = l2_use(result, False)
    assert sum(row["read_bytes"] for row in rows) == l2["read_bytes"] and sum(row["written_bytes"] for row in rows) == l2["written_bytes"]
    assert sum(row["hbm_read_bytes"] for row in rows) == l2["hbm_read_bytes"]
    assert sum(row["hbm_written_bytes"] for row in rows) == l2["hbm_written_bytes"]
    paths = {row["path"]: row["bytes"] for row in data_paths(result.recording)}
    assert paths["GM->UB"] == l2["read_bytes"] and paths.get("UB->GM", 0) == l2["written_bytes"]


def test_write_backs_belong_to_the_tensor_whose_lines_they_are():
    a, c = np.zeros(1 << 15, np.float32), np.zeros(1 << 15, np.float32)
    p = Program()
    for i in range(4):
        p.store(gm(c, 32768 * i), ub(0), 32768)
    for i in range(4):
        p.load(ub(0), gm(a, 32768 * i), 32768)
    result = _time({"a": (a, "in"), "c": c}, p, chip=chip_with(l2_bytes=65536))
    rows = {row["name"]: row for row in tensor_traffic(result.recording)}
    assert rows["c"]["hbm_written_bytes"] == result.traffic["hbm_write"] > 0 and rows["a"]["hbm_written_bytes"] == 0


# ---- replays


def test_a_replay_without_changes_is_the_run(result):
    assert result.recording.simulated_us() == result.simulated_us
    assert [launch.time["cycles"] for launch in result.recording.analysis.launches] == [result.cycles], "also the one that notes causes"


@pytest.mark.parametrize(
    "what, numbers",
    [
        ("hbm", {"hbm_bytes_per_second": 1e-9}),
        ("l2", {"l2_read_bytes_per_second": 1e-9, "l2_write_bytes_per_second": 1e-9}),
        ("issue", {"issue_cycles": 1}),
        ("flag", {"flag_cycles": 1}),
        ("cross", {"cross_core_flag_cycles": 1}),
    ],
)
@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("name", RUNS)
def test_a_replay_is_a_run_on_a_chip_with_these_numbers(name, what, numbers, factor):
    own = {key: getattr(CHIP, key) * (factor if unit == 1 else 1 / max(factor, unit)) for key, unit in numbers.items()}
    replayed = RUNS[name]().recording.simulated_us(Scale(what, factor))
    assert replayed == pytest.approx(RUNS[name](chip=chip_with(**own)).simulated_us, rel=1e-12)


@pytest.mark.parametrize("what, price", [("latency", "latency_cycles"), ("rate", "bytes_per_cycle")])
def test_prices_of_instructions_scale_as_the_chip_data(what, price):
    numbers = {f"gm_to_ub_{price}": getattr(CHIP, f"gm_to_ub_{price}") * (0.5 if what == "latency" else 2)}
    if what == "rate":
        numbers["gm_to_ub_hbm_bytes_per_cycle"] = CHIP.gm_to_ub_hbm_bytes_per_cycle * 2
    replayed = _adds().recording.simulated_us(Scale(what, 0.5, pipe="MTE2"))
    assert replayed == pytest.approx(_adds(chip=chip_with(**numbers)).simulated_us, rel=1e-6) and replayed < _adds().simulated_us


def test_a_wait_that_is_removed_is_a_program_without_it():
    """`V_MTE2` says that V has read the tile: without it the next load runs ahead, as where there are more buffers."""
    a, b, c = add_arrays(6 * 2048)
    program = vector_add(a, b, c, 6, 2048)
    arrays = {"a": (a, "in"), "b": (b, "in"), "c": c}
    result = _time(arrays, program)
    waits = [i for i, name in enumerate(program.names()) if name == "wait_flag" and program.items[i][2] == _code("V_MTE2")]
    line = program.items[waits[1]][1]
    scale = Scale("wait", pipe="MTE2", source="V", line=line)
    # The set stays: one of the waits that follow must not take it for its own. Without the pair nothing of it is left.
    sets = [i for i, name in enumerate(program.names()) if name == "set_flag" and program.items[i][2] == _code("V_MTE2")]
    bare = Program()
    bare.items = [item for i, item in enumerate(program.items) if i not in (waits[1], sets[1])]
    replayed = result.recording.simulated_us(scale, Scale("issue"))
    assert replayed == pytest.approx(_time(arrays, bare, chip=chip_with(issue_cycles=0)).simulated_us, rel=1e-12)
    assert replayed < result.recording.simulated_us(Scale("issue"))
    everything = [Scale(what) for what in ("wait", "barrier", "cross_wait")]
    assert result.recording.simulated_us(*everything) < result.recording.simulated_us(scale) < result.simulated_us


def _code(event):
    from tilelang_ascend.isa.table import TABLE

    return [TABLE["set_flag"].attrs["event"].index(event), 0]


@pytest.mark.parametrize("what, of", [("wait", "barrier"), ("barrier", "wait")])
def test_only_the_waits_that_are_named_are_removed(what, of):
    p = Program()
    for _ in range(10):
        p.add(ub(0), ub(8192), ub(16384), 64)
        p = p.barrier("V") if of == "barrier" else p.sync("V_MTE3").sync("MTE3_V")
    result = _time({}, p)
    assert result.recording.simulated_us(Scale(what)) == result.simulated_us > result.recording.simulated_us(Scale(of))


def test_cross_core_waits_are_removed_on_one_side():
    result = _to_and_fro()
    free = [result.recording.simulated_us(Scale("cross_wait", core=core)) for core in ("AIC", "AIV")]
    assert max(free) < result.simulated_us and result.recording.simulated_us(Scale("cross_wait")) < min(free)


@pytest.mark.parametrize("what", COSTS)
@pytest.mark.parametrize("name", RUNS)
def test_less_cost_is_never_slower(name, what):
    recording = RUNS[name]().recording
    times = [recording.simulated_us(Scale(what, factor)) for factor in (0.0, 0.25, 0.5, 0.9, 1.0, 1.5, 4.0)]
    assert all(b >= a * (1 - ROUNDING) for a, b in zip(times, times[1:])), times


@pytest.mark.parametrize("key", ["hbm_bytes_per_second", "l2_read_bytes_per_second", "l2_write_bytes_per_second"])
def test_more_bandwidth_is_never_slower(key):
    factors = (0.25, 0.5, 0.75, 1, 1.5, 2, 8)
    warm = key == "l2_read_bytes_per_second"
    times = [_adds(48, 3, 4096, chip=chip_with(**{key: getattr(CHIP, key) * f}), warm=warm).cycles for f in factors]
    assert all(b <= a * (1 + ROUNDING) for a, b in zip(times, times[1:])) and times[0] > 1.1 * times[-1]


def test_more_conflicts_are_slower():
    """The same additions at other addresses: read and written rows in one bank, or not."""

    def run(dst):
        p = Program()
        for _ in range(8):
            p.add(ub(dst), ub(0), ub(32768 + 256), 4096).barrier("V")
        return _time({}, p)

    period = CHIP.ub_bank_groups * CHIP.ub_bank_bytes  # rows of one bank come again after it
    apart, meeting = run(131072), run(256 + 0 * period)
    conflict = lambda r: sum(row["conflict_cycles"] for row in r.recording.analysis.ops)
    assert meeting.cycles > apart.cycles and conflict(meeting) > conflict(apart)
    assert meeting.recording.simulated_us(Scale("conflict")) == pytest.approx(apart.recording.simulated_us(Scale("conflict")))


def test_rows_of_blocks_meet_the_groups_of_all_of_them():
    """A block for each repeat, one behind the other, comes by all groups: where it starts makes no difference, though it does for the first repeats."""

    def run(first):
        half, blocks_apart = 256, 2 * CHIP.ub_bank_groups  # The other source is read from the same half of the groups in every repeat.
        p = Program().op("add_mask", ub(131072), ub(half), ub(98304 + first), -1, -1, 33, 1, 1, 0, 8, blocks_apart, 1)
        return _time({}, p).cycles

    assert run(0) == run(256)


def test_scales_say_what_they_do_not_know():
    with pytest.raises(ValueError, match="no cost 'speed'; there are busy, latency"):
        Scale("speed")
    with pytest.raises(ValueError, match="at least 0"):
        Scale("hbm", -1)
    with pytest.raises(ValueError, match="keep_record=True needs time"):
        launch({}, Program(), keep_record=True, time=False)
    assert launch({}, Program()).recording is None


def test_pipes_are_known_by_name():
    """A name the machine does not know would select everything."""
    result = _to_and_fro()
    assert all(result.recording.simulated_us(Scale("busy", pipe=pipe)) <= result.simulated_us for pipe in PIPES)
    with pytest.raises(ValueError, match="no pipe 'MTE4'"):
        Scale("busy", pipe="MTE4")
    with pytest.raises(ValueError, match="AIC or AIV"):
        Scale("busy", core="cube")


def test_a_core_that_never_ends_is_named():
    result = _time({}, Program().add(ub(0), ub(8192), ub(16384), 64).wait("MTE2_V"))
    report = SimulationReport(CHIP.name, "waits", (), result, launch_names=("waits_kernel",))
    assert "the AIV core of block 0 never ends; its times mean nothing" in str(report) and report.to_dict()["stuck"]
    assert "never ends" in str(report.explain()) and not report.explain().changes


def test_waits_of_one_line_are_told_apart_by_what_they_wait_for():
    """V waits for a store, and in the same line for a load that takes longer."""
    a, c = np.zeros(16384, np.float32), np.zeros(16384, np.float32)
    p = Program().load(ub(0), gm(a), 65536).set("MTE2_V").store(gm(c), ub(98304), 32768).set("MTE3_V")
    for event in ("MTE3_V", "MTE2_V"):
        p.op("wait_flag", 0, line=7, event=event).add(ub(65536), ub(0), ub(32768), 2048)
    result = _time({"a": (a, "in"), "c": c}, p)
    free = lambda **which: result.recording.simulated_us(Scale("wait", **which))
    assert free() == free(line=7) == free(pipe="V") == free(core="AIV") == free(pipe="V", line=7, core="AIV") < result.simulated_us
    assert free(line=8) == free(pipe="MTE2") == free(core="AIC") == free(source="M") == result.simulated_us
    assert free(source="MTE2") < free(source="MTE3") == result.simulated_us


@pytest.mark.parametrize(
    "assumed, kind, pipe",
    [
        (("issue_cycles",), "issue", "S"),
        (("flag_cycles",), "flag", ""),
        (("cross_core_flag_cycles",), "cross", "S"),
        (("gm_to_ub_latency_cycles",), "latency", "MTE2"),
        ((), "busy", "V"),
    ],
)
def test_what_rests_on_assumed_constants_is_that_part_of_the_critical_path(assumed, kind, pipe):
    quantities = {}
    for key, number in CHIP.quantities.items():
        source = "assumed" if key in assumed else "doc: here"
        quantities[key] = dataclasses.replace(number, source=source)
    result = _to_and_fro(chip=dataclasses.replace(CHIP, quantities=quantities))
    entries = critical_path(result.recording, 0)["entries"]
    there = sum(e["cycles"] for e in entries if e["kind"] == kind and pipe in ("", e["pipe"]))
    (launch,) = result.recording.analysis.launches
    assert there > 0 and launch.assumed_cycles == pytest.approx(there if assumed else 0)
