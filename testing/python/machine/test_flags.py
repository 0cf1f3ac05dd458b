"""Flags of the time line as links between instructions, and as arrows of the trace."""

import json

import numpy as np
from stream_program import CHIP, Program, add_arrays, gm, launch, operand, ub, vector_add

from tilelang_ascend.isa.base import Space
from tilelang_ascend.isa.table import TABLE
from tilelang_ascend.sim.flags import flag_links, flag_name
from tilelang_ascend.sim.machine import Launch, SimOptions, Tensor, run_in_order
from tilelang_ascend.sim.trace import write_chrome_trace

NAMES = list(TABLE)
TIME = {"values": False, "checks": (), "adversarial": False, "trace": True}


def readable(run):
    """(flag, line of the source, line of the destination), with the cores where they differ."""
    found = []
    for source, destination, event, number in flag_links(run).tolist():
        a, b = run.events[source], run.events[destination]
        cores = () if a["core"] == b["core"] else (run.core_names[a["core"]], run.core_names[b["core"]])
        found.append((flag_name(event, number), int(a["line"]), int(b["line"]), *cores))
    return sorted(found)


def test_a_flag_links_the_instructions_around_it():
    a, b, c = add_arrays()
    run = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), trace=True)
    assert {NAMES[op] for op in run.events["op"].tolist()} == {"copy_gm_to_ub", "add", "copy_ub_to_gm"}
    pairs = {
        (flag, NAMES[run.events["op"][s]], NAMES[run.events["op"][d]])
        for (s, d, e, n) in flag_links(run).tolist()
        for flag in [flag_name(e, n)]
    }
    assert {(flag.split()[0], s, d) for flag, s, d in pairs} == {
        ("MTE2_V", "copy_gm_to_ub", "add"),
        ("V_MTE3", "add", "copy_ub_to_gm"),
        ("V_MTE2", "add", "copy_gm_to_ub"),  # one buffer: the next tile waits until this one is used
        ("MTE3_V", "copy_ub_to_gm", "add"),
    }


def test_sets_and_waits_meet_in_order():
    a = np.zeros(4096, np.float32)
    p = Program()
    for i in range(3):  # lines 1-4, 5-8, 9-12
        p.load(ub(0), gm(a), 1024).set("MTE2_V", i % 2).wait("MTE2_V", i % 2).add(ub(1024), ub(0), ub(0), 256)
    assert readable(launch({"a": a}, p, **TIME)) == [("MTE2_V 0", 1, 4), ("MTE2_V 0", 9, 12), ("MTE2_V 1", 5, 8)]


def test_flags_with_nothing_on_one_side_link_nothing():
    a = np.zeros(256, np.float32)
    first = Program().sync("MTE2_V").add(ub(1024), ub(0), ub(0), 256)  # nothing was loaded in front of the set
    last = Program().load(ub(0), gm(a), 1024).sync("MTE2_V")  # and nothing follows this wait
    for p in (first, last):
        run = launch({"a": a}, p, **TIME)
        assert len(run.syncs) == 2 and len(flag_links(run)) == 0


def cube_load(p, a):
    """A matrix of 16x16 float16 to L1."""
    source = operand(Space.GM, a.ctypes.data, "float16")
    return p.op("copy_gm_to_l1_nd2nz", operand(Space.L1, 0, "float16"), source, 1, 16, 16, 0, 16, 16, 1, 0)


def test_both_vector_cores_of_a_block_wait_for_its_cube_core():
    a = np.zeros(4096, np.float32)
    cube = cube_load(Program(), a).cross_set(3, pipe="MTE2")
    vector = Program().cross_wait(3).add(ub(1024), ub(0), ub(0), 64)
    run = launch({"a": a}, vector, cube, blocks=2, **TIME)
    cores = [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert readable(run) == [("cross-core 3", 1, 2, f"AIC {c}", f"AIV {v}") for c, v in cores]


def test_a_flag_of_both_vector_cores_comes_from_the_later_one():
    a = np.zeros(65536, np.float32)
    early = Program().load(ub(0), gm(a), 32).cross_set(2, pipe="MTE2")
    late = Program().load(ub(0), gm(a), 32).load(ub(1024), gm(a), 65536).cross_set(2, pipe="MTE2")
    cube = cube_load(Program().cross_wait(2), a)
    assert readable(launch({"a": a}, [early, late], cube, **TIME)) == [("cross-core 2", 2, 2, "AIV 1", "AIC 0")]
    assert readable(launch({"a": a}, [late, early], cube, **TIME)) == [("cross-core 2", 2, 2, "AIV 0", "AIC 0")]


def test_flags_two_groups_raise_link_nothing():
    a = np.zeros(4096, np.float32)
    cube = cube_load(Program(), a).cross_set(1, pipe="MTE2")  # to the vector cores of its block
    vector = Program().load(ub(0), gm(a), 32).cross_set(1, mode=1, pipe="MTE2")  # to each other, by the same counter
    vector.cross_wait(1).cross_wait(1).add(ub(1024), ub(0), ub(0), 64)
    run = launch({"a": a}, vector, cube, **TIME)
    assert not run.stuck and len(run.syncs) == 7 and readable(run) == []


def test_launches_have_flags_of_their_own():
    a, b, c = add_arrays()
    rows = [Tensor(x.ctypes.data, x.nbytes, name) for name, x in (("a", a), ("b", b), ("c", c))]
    once = Launch("aiv_only", 1, {"aiv": [vector_add(a, b, c).data()]}, [])
    options = SimOptions(**TIME)
    alone = run_in_order(CHIP, [once], rows, options)
    twice = run_in_order(CHIP, [once, once], rows, options)
    assert readable(twice) == sorted(2 * readable(alone))
    in_order(twice)


def in_order(run):
    links, e = flag_links(run), run.events
    ends = e["start"] + e["duration"]
    assert len(links) and (ends[links["source"]] <= e["start"][links["destination"]] + 1e-6).all()


def test_arrows_of_the_trace_lie_in_their_slices(tmp_path):
    a, b, c = add_arrays()
    run = launch({"a": a, "b": b, "c": c}, vector_add(a, b, c), trace=True)
    in_order(run)
    rows = json.loads(write_chrome_trace(run, tmp_path / "t.json").read_text())["traceEvents"]
    slices = [r for r in rows if r["ph"] == "X"]
    arrows = {ph: {r["id"]: r for r in rows if r["ph"] == ph} for ph in "sf"}
    assert len(arrows["s"]) == len(arrows["f"]) == len(flag_links(run)) > 0
    for number, begin in arrows["s"].items():
        end = arrows["f"][number]
        assert begin["name"] == end["name"] and begin["ts"] <= end["ts"] and end["bp"] == "e"
        for row in (begin, end):
            around = [s for s in slices if (s["pid"], s["tid"]) == (row["pid"], row["tid"]) and s["ts"] <= row["ts"] <= s["ts"] + s["dur"]]
            assert around
