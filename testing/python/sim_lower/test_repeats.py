"""Loops that repeat themselves: which qualify, and that counting their iterations tells what issuing all of them does."""

import numpy as np
import pytest
from ascend_ir_samples import Builder, at, flag, gm, load, module

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Bind, Break, BufferStore, IfThenElse, Var, call, if_then, intrin, loop, seq, tirx
from tilelang_ascend.sim.lower import host_program
from tilelang_ascend.sim.machine import SimOptions, Tensor, run
from tilelang_ascend.sim.repeats import period_of

TRIPS, ELEMENTS = 120, 512
X = gm("X", "float32", TRIPS * ELEMENTS)
N = Var("n", "int32")
J = Var("j", "int32")


class OneLoop:
    """A vector core that does `body(self, k)` in each iteration of a loop."""

    def __init__(self, body, trips=TRIPS, before=()):
        b = Builder()
        self.ub = b.alloc("ring", "float32", "ub", 2 * ELEMENTS, 0, versions=4)
        self.count = b.var("count")
        self.k = Var("k", "int32")
        self.loop = loop(self.k, trips, seq(body(self, self.k)))
        self.module = module(b.function("one_loop", "aiv", "aiv_only", [N, X], seq(*before, self.loop)))

    def get(self, element, version=0, nbytes=4 * ELEMENTS):
        return intrin("copy_gm_to_ub", at(self.ub, version, 0), at(X, element), 1, nbytes, 0, 0, 0, 0, 0, 0.0)

    def add(self, version=0, offset=0, elements=64):
        return intrin("adds", at(self.ub, version, offset), at(self.ub, 0, 0), 1.0, elements)


def ring(p, k):
    return [flag("set", "V_MTE2", k % 3), flag("wait", "V_MTE2", k % 3), p.get(k * ELEMENTS, k % 3), p.add(k % 2)]


def element(p, k):
    """An integer of X, which is full of zeros."""
    return tirx.Cast("int32", call("ascend.get_value", [at(X, k)], dtype="float32"))


def scaled(p, value):
    return intrin("adds", at(p.ub, 0, 0), at(p.ub, 0, 0), tirx.Cast("float32", value), 64)


def pages(p, k):
    page = Var("page", "int32")
    return [Bind(page, element(p, k)), p.get((page + k) * ELEMENTS, k % 2), p.add(k % 2)]


QUALIFY = {
    "an address that moves": (1, lambda p, k: [p.get(k * ELEMENTS), p.add()]),
    "rings of two and three": (6, ring),
    "a ring of every other": (4, lambda p, k: [p.get(k * ELEMENTS, tirx.floormod(k * 2, 8) // 2)]),
    "rows of pages": (4, lambda p, k: [p.get(tirx.floordiv(k, 4) * ELEMENTS)]),
    "a triangle": (1, lambda p, k: [p.get(k * k * 2), p.add()]),
    "pages that data names": (2, pages),
    "a scalar of data, read on the way": (1, lambda p, k: [p.get(k * ELEMENTS), scaled(p, element(p, k))]),
    "data where only some iterations look": (2, lambda p, k: [if_then((k % 2).equal(0), scaled(p, element(p, k))), p.get(k * ELEMENTS)]),
    "GM in the other arm only": (2, lambda p, k: [IfThenElse((k % 2).equal(0), seq([p.add()]), seq([p.get(k * ELEMENTS)])), p.add()]),
    "a loop inside that reaches GM": (1, lambda p, k: [loop(J, 3, seq([p.get((k + J) * ELEMENTS), p.add()])), p.add()]),
    "a branch by turns": (2, lambda p, k: [if_then((k % 2).equal(0), p.add()), p.get(k * ELEMENTS)]),
    "a loop inside": (1, lambda p, k: [loop(Var("j", "int32"), 3, p.add()), p.get(k * ELEMENTS + N * 8)]),
    "a scalar of data": (1, lambda p, k: [intrin("adds", at(p.ub, 0, 0), at(p.ub, 0, 0), tirx.Cast("float32", tirx.max(k, 7)), 64)]),
}
DO_NOT = {
    "a branch at the end": lambda p, k: [if_then(k.equal(TRIPS - 1), p.add()), p.get(k * ELEMENTS)],
    "a length that shrinks": lambda p, k: [p.get(k * ELEMENTS, 0, tirx.min(4 * ELEMENTS, (TRIPS - k) * 64))],
    "a length that grows": lambda p, k: [p.add(elements=k + 1)],
    "an address in UB": lambda p, k: [p.add(offset=k * 8)],
    "a loop that grows": lambda p, k: [loop(Var("j", "int32"), k + 1, p.add())],
    "a variable": lambda p, k: [BufferStore(p.count, load(p.count) + 1, [0]), p.get(load(p.count) * ELEMENTS)],
    "an exit": lambda p, k: [p.add(), if_then(k.equal(N), Break())],
    "a long period": lambda p, k: [p.get(k * ELEMENTS), if_then(tirx.floormod(k, 65).equal(0), p.add())],
    "a length that data says": lambda p, k: [p.add(elements=element(p, k))],
    "a remainder towards zero": lambda p, k: [p.add(tirx.truncmod(k - 2, 2) + 1)],
}


@pytest.mark.parametrize("name", QUALIFY)
def test_these_repeat(name):
    period, body = QUALIFY[name]
    assert period_of(OneLoop(body).loop) == period


@pytest.mark.parametrize("name", DO_NOT)
def test_these_do_not(name):
    assert period_of(OneLoop(DO_NOT[name]).loop) is None


def test_short_loops_are_not_worth_it():
    assert period_of(OneLoop(ring, trips=12).loop) is None
    assert period_of(OneLoop(ring, trips=N).loop) == 6


def times(p, n, every_step, limit=0):
    program = host_program(p.module)
    data = np.zeros(TRIPS * ELEMENTS, np.float32)
    options = SimOptions.time_only(every_step=every_step, max_instructions=limit, keep_record=True)
    gm_tensors = [Tensor(data.ctypes.data, data.nbytes, "X")]
    return run(get_chip("Ascend910B1"), "aiv_only", 1, program.entries, [n, data.ctypes.data], gm_tensors, options)


@pytest.mark.parametrize("name", [*QUALIFY, *(name for name in DO_NOT if name not in ("an exit", "a variable"))])
def test_both_ways_agree(name):
    p = OneLoop(QUALIFY[name][1] if name in QUALIFY else DO_NOT[name])
    few, all_ = times(p, 5, False), times(p, 5, True)
    assert few.simulated_us == pytest.approx(all_.simulated_us, rel=1e-3)
    assert few.traffic == all_.traffic
    assert few.per_core[0].instructions == all_.per_core[0].instructions
    for pipe, busy in all_.per_core[0].busy_cycles.items():
        assert few.per_core[0].busy_cycles[pipe] == pytest.approx(busy, rel=1e-2), pipe
    # The time line stands for every iteration, however few were issued.
    np.testing.assert_array_equal(few.events[["op", "line"]], all_.events[["op", "line"]])
    np.testing.assert_allclose(few.events["start"], all_.events["start"], rtol=1e-9)


@pytest.mark.parametrize("trips", [*range(8), 17, 18, 19, 29, 30, 31, 32, 33, 41, 100])
def test_any_number_of_iterations(trips):
    p = OneLoop(ring, trips=N)
    few, all_ = times(p, trips, False), times(p, trips, True)
    assert few.per_core[0].instructions == all_.per_core[0].instructions and few.traffic == all_.traffic
    assert few.simulated_us == pytest.approx(all_.simulated_us, rel=1e-3)


def test_few_iterations_are_issued():
    p = OneLoop(ring)
    assert any("stopped" in h.message for h in times(p, 0, True, limit=200).hazards)
    assert not times(p, 0, False, limit=200).hazards


@pytest.mark.parametrize("name", ["rings of two and three", "a loop inside that reaches GM", "data where only some iterations look"])
def test_a_core_may_stop_where_iterations_are_counted(name):
    p = OneLoop(QUALIFY[name][1])
    whole, before = times(p, 0, False), 0.0
    for limit in range(45, 180, 15):
        found = times(p, 0, False, limit=limit)
        assert ["stopped" in h.message for h in found.hazards] == [True]
        loads = found.per_core[0].instructions["MTE2"]
        assert 0 < loads < whole.per_core[0].instructions["MTE2"]
        assert found.traffic["l2_read"] == loads * 4 * ELEMENTS
        assert before <= found.simulated_us < whole.simulated_us
        assert len(found.events) == sum(found.per_core[0].instructions.values())
        assert found.recording.simulated_us() == pytest.approx(found.simulated_us, rel=1e-3)
        before = found.simulated_us


@pytest.mark.parametrize("event", ["V_MTE2", "V_S"])  # waits of another pipe, and of the scalar pipe itself
@pytest.mark.parametrize("every_step", [True, False])
def test_a_loop_that_runs_out_of_flags_is_stuck(event, every_step):
    up = 60
    p = OneLoop(lambda p, k: [p.get(k * ELEMENTS), p.add(), flag("wait", event, 0)], before=[flag("set", event, 0)] * up)
    found = times(p, 0, every_step)
    assert found.stuck == "AIV core of block 0"
    assert found.per_core[0].instructions["MTE2"] == up + 1
