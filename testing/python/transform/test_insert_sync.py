"""insert_sync: everything is ordered, nothing is redundant, flags are legal."""

from __future__ import annotations

import numpy as np
import pytest
import sync_kernels as K

from tilelang_ascend import isa
from tilelang_ascend.analysis.dependence.core_use import call_of
from tilelang_ascend.analysis.dependence.program import QUEUES
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import const_int, if_then, intrin, loop, op_name, seq, statements, structural_equal, tirx
from tilelang_ascend.isa import CORE_EVENTS
from tilelang_ascend.transform.sync.edges import EdgeChooser
from tilelang_ascend.transform.sync.executions import Executions
from tilelang_ascend.transform.sync.ids import IdAssigner, refusing
from tilelang_ascend.transform.sync.insert_sync import insert_sync, plan_and_insert_sync, plan_sync
from tilelang_ascend.transform.sync.place import place_sync
from tilelang_ascend.transform.sync.plan import Binder

CHIP = get_chip("a2")

KERNELS = {
    "vector_add": lambda: K.vector_add(),
    "vector_add single buffered": lambda: K.vector_add(versions=1),
    "vector_add three versions": lambda: K.vector_add(trips=7, versions=3),
    "vector_add unknown trips": lambda: K.vector_add("n"),
    "vector_add once": lambda: K.vector_add(1),
    "in_place_chain": lambda: K.in_place_chain(),
    "gemm": lambda: K.gemm(),
    "gemm persistent": lambda: K.gemm(tiles=5),
    "gemm odd trips": lambda: K.gemm(tiles=5, k_trips=3),
    "gemm three L0 pieces": lambda: K.gemm(tiles=3, k_trips=3, l0=4, kk=64, l0_versions=2),
    "gemm three stages": lambda: K.gemm(tiles=5, stages=3, k_trips=10),
    "gemm unknown trips": lambda: K.gemm(tiles="tiles", k_trips="trips"),
    "gemm small": lambda: K.gemm(tiles=5, m=16, n=16),
    "products": lambda: K.products(),
    "products odd pieces": lambda: K.products(trips=7, first=3, second=4),
    "products of some steps": lambda: K.products(most=4),
    "products unknown trips": lambda: K.products("n"),
    "mix": lambda: K.mix(),
    "mix one version": lambda: K.mix(versions=1),
    "mix unknown trips": lambda: K.mix("n"),
    "branch_tail": lambda: K.branch_tail(),
    "branch_in_loop": lambda: K.branch_in_loop(),
    "branch_in_loop unknown trips": lambda: K.branch_in_loop("n"),
    "scalar_reads": lambda: K.scalar_reads(),
    "in_place_gm": lambda: K.in_place_gm(),
    "with_break": lambda: K.with_break(),
    "while_loop": lambda: K.while_loop(),
    "many inputs": lambda: K.many_inputs(4),
    "phases": lambda: K.phases(3),
    "sweeps": lambda: K.sweeps(2, 2),
    "interleaved_columns": lambda: K.interleaved_columns(),
    "flash": lambda: K.flash(),
    "flash unknown trips": lambda: K.flash("n"),
}


@pytest.fixture(params=KERNELS, ids=lambda name: name.replace(" ", "_"))
def func(request):
    return KERNELS[request.param]()


def test_everything_is_ordered(func):
    assert sync_covers(func, CHIP), "the kernel needs no synchronisation: a useless test"
    assert sync_covers(insert_sync(func, CHIP), CHIP) == []


@pytest.mark.one_in(3)
def test_every_flag_and_barrier_is_needed(func):
    program, plan = plan_sync(func, CHIP)
    items = [*plan.edges, *(b for b in plan.barriers if not b.fixed)]
    for item in items:
        weaker = place_sync(func, program, plan.without(item))
        assert sync_covers(weaker, CHIP), f"{item} can be removed"


def test_what_is_remembered_of_a_trace_is_what_a_plan_adds(func):
    program, plan = plan_sync(func, CHIP)
    fresh, used = (Executions(program).traces for _ in range(2))
    for a, b in zip(fresh, used, strict=True):
        for item in [*plan.edges, *plan.barriers]:
            Binder(plan.without(item)).bind(b)
        one, other = (Binder(plan).bind(trace) for trace in (a, b))
        assert one.run().clean and np.array_equal(one._table, other._table)


def test_short_executions_count():
    """A plan is made for the longest trace first: what only shorter ones need is found when it is tried in them."""
    program, plan = plan_sync(KERNELS["flash unknown trips"](), CHIP)
    executions = Executions(program)
    longest = [max(executions.traces, key=lambda trace: len(trace.events))]
    alone = IdAssigner(
        EdgeChooser(executions, CORE_EVENTS, seen=longest).choose(), longest, CHIP, executions.credit, CHIP.usable_cross_core_flags
    ).assign()
    assert not refusing(alone, longest, executions.credit) and refusing(alone, executions.traces, executions.credit)
    assert not refusing(plan, executions.traces, executions.credit)


@pytest.mark.one_in(3)
def test_every_single_flag_statement_is_needed(func):
    """Removing one statement unbalances a flag or leaves something unordered."""
    synced = insert_sync(func, CHIP)
    fixed = {id(b) for b in plan_and_insert_sync(func, CHIP)[1].barriers if b.fixed}
    for s in statements(synced.body):
        call = call_of(s)
        if call is None or not _is_sync(call) or (fixed and "pipe_barrier" in call.op.name):
            continue
        assert sync_covers(synced.with_body(_Without(s)(synced.body)), CHIP), f"{s} can be removed"


def test_ids_and_events_are_legal(func):
    for s in statements(insert_sync(func, CHIP).body):
        call = call_of(s)
        if call is None or not _is_sync(call):
            continue
        if call.op.name in ("ascend.set_flag", "ascend.wait_flag"):
            assert str(call.attrs["event"]) in isa.CORE_EVENTS[str(call.attrs["core"])]
            limit = CHIP.usable_event_ids
        elif call.op.name.startswith("ascend.cross_core"):
            limit = CHIP.usable_cross_core_flags
        else:
            continue
        value = const_int(call.args[0])
        assert value is None or 0 <= value < limit


def test_deterministic():
    func = K.gemm(tiles=5)
    assert structural_equal(insert_sync(func, CHIP).body, insert_sync(func, CHIP).body)


def test_double_buffering_keeps_loads_ahead():
    """Two versions: a load waits for the work of two iterations before, not of the last one."""
    _, plan = plan_sync(K.vector_add(), CHIP)
    assert sorted(e.distance for e in plan.edges) == [0, 0, 2, 2]


@pytest.mark.parametrize("case", [dict(), dict(first=3, second=4), dict(most=4), dict(trips="n")], ids=str)
def test_products_use_places_in_turn(case):
    """A place that is free again is filled, whichever product used it: two flags for all of them, each set and waited for inside of the loops over pieces."""
    synced, plan = plan_and_insert_sync(K.products(**case), CHIP)
    back = [e for e in plan.edges if (QUEUES[e.src][1], QUEUES[e.dst][1]) == ("M", "MTE1")]
    assert len(back) == 2 and {plan.ids[e.flags] for e in back} == {0} and not plan.barriers
    calls = [call_of(s) for s in statements(synced.body)]
    both = [c for c in calls if c is not None and c.op.name.endswith("_flag") and str(c.attrs.get("event")) == "M_MTE1"]
    assert [const_int(c.args[0]) for c in both].count(None) == 4 and len(both) == 8


def test_more_places_than_flags_are_used_without_turns():
    """Where there are fewer ids than places, a flag from product to product stays."""
    synced, plan = plan_and_insert_sync(K.products(first=8, second=8, places=8), CHIP)
    assert sync_covers(synced, CHIP) == [] and all(e.twin is None for e in plan.edges)


def test_gemm_has_the_textbook_flags():
    _, plan = plan_sync(K.gemm(tiles=5), CHIP)
    names = sorted((repr(e).split(",")[0][1:].replace("aic.", ""), e.distance, e.count) for e in plan.edges)
    assert names == [
        ("FIX -> M", 1, 1), ("M -> FIX", 0, 1), ("M -> MTE1", 2, 2),
        ("MTE1 -> M", 0, 2), ("MTE1 -> MTE2", 2, 2), ("MTE2 -> MTE1", 0, 2),
    ]  # fmt: skip
    assert plan.barriers == []


def test_small_mmads_get_a_barrier():
    _, plan = plan_sync(K.gemm(m=32, n=32), CHIP)
    assert [b.core for b in plan.barriers] == ["aic"]
    _, plan = plan_sync(K.gemm(m=128, n=128), CHIP)
    assert plan.barriers == []


def test_workspace_versions_are_credits():
    for versions in (1, 2, 3):
        _, plan = plan_sync(K.mix(versions=versions), CHIP)
        crossing = sorted(e.distance for e in plan.edges if e.cross)
        assert crossing == [0, versions]


@pytest.mark.parametrize("make", [
    lambda: K.many_inputs(12), lambda: K.many_inputs(6, 2), lambda: K.many_inputs(5, 3), lambda: K.phases(12),
])  # fmt: skip
def test_ids_are_shared_or_flags_merged_when_they_run_out(make):
    """More flags between two pipes than there are ids: still ordered, legal and without barriers for all pipes."""
    func = make()
    synced, plan = plan_and_insert_sync(func, CHIP)
    assert sync_covers(synced, CHIP) == []
    assert plan.notes == []
    used = {}
    for e in plan.edges:
        used.setdefault((e.src, e.dst), set()).update(range(plan.ids[e], plan.ids[e] + e.count))
    assert all(max(ids) < CHIP.usable_event_ids for ids in used.values())


@pytest.mark.parametrize("trips, tiles", [(8, None), (9, None), ("n", None), (8, 3), (9, 3), ("n", "t")])
@pytest.mark.parametrize("count", [2, 3])
def test_a_loop_takes_over_the_flags_of_the_one_before(count, trips, tiles):
    """Four versions in each of several loops need more ids than there are; loads of all of them run four iterations ahead nevertheless."""
    synced, plan = plan_and_insert_sync(K.sweeps(count, 4, trips, tiles), CHIP)
    assert sync_covers(synced, CHIP) == []
    for queues in ("aiv.V -> aiv.MTE2", "aiv.MTE3 -> aiv.V") if trips != "n" else ("aiv.V -> aiv.MTE2",):
        carried = [e for e in plan.edges if e.ring and e.distance and queues in repr(e)]
        assert [(e.distance, e.count) for e in carried] == [(4, 4)] * count
        assert sum(e.primed for e in carried) == sum(e.drained for e in carried) == 1
    assert all(plan.ids[e.flags] + e.count <= CHIP.usable_event_ids for e in plan.edges)


def test_more_flags_than_loops_can_take_over():
    """Flags that were to be shared and still are too many: all of their own again, and rings of more than there are ids stop."""
    for versions in (5, 6, 7):
        synced, plan = plan_and_insert_sync(K.sweeps(2, versions, 11, 2), CHIP)
        assert sync_covers(synced, CHIP) == []
        assert not plan.notes and bool(plan.stopped) == (versions > CHIP.usable_event_ids)


def test_interleaved_pieces_need_no_barriers():
    """Fractals and column tiles whose spans overlap but whose bytes do not."""
    _, plan = plan_sync(K.interleaved_columns(), CHIP)
    assert plan.barriers == []


def test_overlapping_pieces_need_a_barrier():
    _, plan = plan_sync(K.interleaved_columns(step=16), CHIP)
    assert [b.queue for b in plan.barriers] != []


def test_no_flag_between_the_cores_straddles_a_jump():
    """What the other core waits for, it waits for in front of the jump: who leaves the loop has handed over all flags."""
    func = K.mix_with_break()
    assert sync_covers(insert_sync(func, CHIP), CHIP) == []


def test_tiles_of_the_grid_are_not_ordered_through_user_tensors():
    """The persistent loop may write any place of the output; a workspace is still protected."""
    _, plan = plan_sync(K.gemm(tiles=5), CHIP)
    assert not any("FIX" in repr(e) and "MTE2" in repr(e) for e in plan.edges)


def test_no_barriers_for_all_pipes_without_need():
    for name, make in KERNELS.items():
        _, plan = plan_sync(make(), CHIP)
        assert bool(plan.notes) == (name == "with_break")


def _is_sync(call) -> bool:
    return call.op.name.removeprefix("ascend.") in (
        "set_flag",
        "wait_flag",
        "pipe_barrier",
        "cross_core_set_flag",
        "cross_core_wait_flag",
    )


class _Without:
    """Removes one statement."""

    def __init__(self, target):
        from tilelang_ascend.ir import StmtMutator

        class Mutator(StmtMutator):
            def visit_Evaluate(self, s):
                return None if s.same_as(target) else s

        self.mutator = Mutator()

    def __call__(self, body):
        return self.mutator(body)


@pytest.mark.parametrize("late", (0, 1))
def test_versions_of_tiles_do_not_rotate_in_loops_inside(late):
    """All iterations of a loop inside use one version: two of them need more than a flag for each version."""
    x, z, a, y, t, k = K.gm("x", 1 << 16, "float32"), K.gm("z", 1 << 16, "float32"), K.ub("a", 64, 2), K.ub("y", 64), K.var("t"), K.var("k")
    tile = K.at(a, t % 2)
    windows = [if_then(k < 7, K.load_ub(tile, K.at(x, k * 64), 64)), if_then(k >= 1, intrin("exp", K.at(y), tile, 64))]
    body = seq(loop(k, 8, seq(windows[late], windows[1 - late])), K.store_ub(K.at(z), K.at(y), 64))
    assert sync_covers(insert_sync(K.kernel([x, z], [a, y], loop(t, 4, body)), CHIP), CHIP) == []


def test_flags_are_raised_in_front_of_what_is_loaded_once():
    """The vector unit waits for the operand of all iterations, and raised behind that its flags would hold up the first load of the loop."""
    x, gain, z, once, tile, out = (
        K.gm("x", 1024, "float32"), K.gm("gain", 128, "float32"), K.gm("z", 1024, "float32"),
        K.ub("once", 128), K.ub("tile", 128, 2), K.ub("out", 128, 2),
    )  # fmt: skip
    k = K.var()
    version = tirx.floormod(k, 2)
    body = seq(
        K.load_ub(K.at(once), K.at(gain, 0), 128),
        intrin("exp", K.at(once), K.at(once), 128),
        loop(k, 8, seq(
            K.load_ub(K.at(tile, version), K.at(x, k * 128), 128),
            intrin("add", K.at(out, version), K.at(tile, version), K.at(once), 128),
            K.store_ub(K.at(z, k * 128), K.at(out, version), 128),
        )),
    )  # fmt: skip
    func = insert_sync(K.kernel([x, gain, z], [once, tile, out], body), CHIP)
    assert sync_covers(func, CHIP) == []
    names = [
        (op_name(s).removeprefix("ascend."), str((call_of(s).attrs or {}).get("event", "")))
        for s in statements(func.body)
        if call_of(s) is not None
    ]
    assert names.index(("set_flag", "V_MTE2")) < names.index(("copy_gm_to_ub", "")) < names.index(("exp", ""))
