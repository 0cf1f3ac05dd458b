"""prefetch_loads: loads in front of the computation before them, and what must not move stays.

That no pipe gets its items in another order is tested on the machine model in test_sync_machine.py.
"""

from __future__ import annotations

import pytest
import sync_kernels as K

from tilelang_ascend.analysis.dependence.core_use import call_of
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, IfThenElse, const_int, statements, stmts_of
from tilelang_ascend.transform.cores.split_cores import split_cores
from tilelang_ascend.transform.memory.plan_memory import plan_memory
from tilelang_ascend.transform.schedule.prefetch_loads import prefetch_loads
from tilelang_ascend.transform.sync.insert_sync import insert_sync

CHIP = get_chip("a2")


def split(func):
    planned, _ = plan_memory(func, CHIP)
    return split_cores(insert_sync(planned, CHIP))


def body_of(module):
    (func,) = module.functions.values()
    return func.body


def names(stmt):
    """Instructions of `stmt` and below, without `ascend.`."""
    return [call_of(s).op.name.removeprefix("ascend.") for s in statements(stmt) if call_of(s) is not None]


def parts(module):
    """(what stands right before the loop, the first statement in it, the others)."""
    top = stmts_of(body_of(module))
    at = next(i for i, s in enumerate(top) if isinstance(s, For))
    first, *rest = stmts_of(top[at].body)
    return top[at - 1], first, rest


def loads(stmts) -> int:
    return sum(names(s).count("copy_gm_to_ub") for s in stmts)


def test_the_loads_of_the_next_iteration_come_first():
    before, first, rest = parts(prefetch_loads(split(K.vector_add("n")), 0))
    assert isinstance(before, IfThenElse) and isinstance(first, IfThenElse)
    assert names(before) == names(first) and loads([first]) == 2 and loads(rest) == 0
    assert "wait_flag" in names(first) and "set_flag" in names(first)


def test_a_loop_that_surely_runs_needs_no_condition_in_front():
    before, first, _ = parts(prefetch_loads(split(K.vector_add(5)), 0))
    assert not isinstance(before, IfThenElse) and isinstance(first, IfThenElse)


def test_the_first_iteration_is_known():
    module = prefetch_loads(split(K.vector_add(5)), 0)
    ids = [const_int(call_of(s).args[0]) for s in stmts_of(body_of(module)) if call_of(s) is not None and names(s)[0] == "wait_flag"]
    assert None not in ids


def test_what_fits_the_queues_stays():
    module = split(K.vector_add(5))
    assert str(body_of(prefetch_loads(module, CHIP.queue_depth))) == str(body_of(module))


def test_one_iteration_stays():
    module = split(K.vector_add(1))
    assert str(body_of(prefetch_loads(module, 0))) == str(body_of(module))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: K.vector_add(5, 1), id="the tile is in use until the computation is over"),
        pytest.param(K.in_place_gm, id="the load reads what the iteration before stores"),
        pytest.param(lambda: K.with_break(4), id="the loop may be left"),
        pytest.param(lambda: K.scalar_reads(3), id="the address is read in the iteration"),
    ],
)
def test_stays(make):
    module = split(make())
    assert str(body_of(prefetch_loads(module, 0))) == str(body_of(module))
