"""schedule_vector: what moves together, and what keeps its place."""

import pytest
import sync_kernels as K

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import intrin, op_name, seq, statements
from tilelang_ascend.transform.memory.plan_memory import plan_memory
from tilelang_ascend.transform.schedule.schedule_vector import schedule_vector
from tilelang_ascend.transform.sync.insert_sync import insert_sync

CHIP = get_chip("a2")
N = 256


class Chains:
    """`x` is loaded, a statement list made of `make(self)` runs on a, b and c, and `z` stored."""

    def __init__(self, make):
        x, z = K.gm("x", N, "float32"), K.gm("z", N, "float32")
        self.x, self.a, self.b, self.z = (K.ub(name, N) for name in ("tile", "a", "b", "out"))
        body = seq(K.load_ub(K.at(self.x), K.at(x, 0), N), make(self), K.store_ub(K.at(z, 0), K.at(self.z), N))
        self.func, _ = plan_memory(K.kernel([x, z], [self.x, self.a, self.b, self.z], body), CHIP)

    def order(self):
        return [op_name(s).removeprefix("ascend.") for s in statements(schedule_vector(self.func, CHIP).body) if op_name(s)][1:-1]

    def barriers(self, func):
        return [op_name(s) for s in statements(insert_sync(func, CHIP).body)].count("ascend.pipe_barrier")


def unary(name, d, s):
    return intrin(name, K.at(d), K.at(s), N)


def two_chains(k):
    return seq(
        unary("abs", k.a, k.x), unary("ln", k.a, k.a), unary("sqrt", k.a, k.a),
        unary("exp", k.b, k.x), unary("relu", k.b, k.b),
        intrin("add", K.at(k.z), K.at(k.a), K.at(k.b), N),
    )  # fmt: skip


def test_chains_run_side_by_side():
    chains = Chains(two_chains)
    assert chains.order() == ["abs", "exp", "ln", "relu", "sqrt", "add"]
    assert chains.barriers(chains.func) == 4
    assert chains.barriers(schedule_vector(chains.func, CHIP)) == 3


@pytest.mark.parametrize("last", ["reads", "writes"])
def test_dependent_instructions_keep_their_order(last):
    """A write waits for the reads before it as a read does for the write."""

    def make(k):
        again = unary("relu", k.z, k.a) if last == "reads" else unary("relu", k.a, k.b)
        return seq(unary("abs", k.a, k.x), unary("ln", k.b, k.a), unary("sqrt", k.b, k.b), again, unary("exp", k.z, k.a))

    order = Chains(make).order()
    assert order.index("abs") < order.index("ln") < order.index("sqrt")
    assert order.index("abs") < order.index("relu") < order.index("exp")
    assert last == "reads" or order.index("sqrt") < order.index("relu")


def test_work_on_transferred_tiles_does_not_pass_what_stands_before():
    """The last one is ready from the start, but reads what is loaded."""

    def make(k):
        return seq(unary("abs", k.a, k.a), unary("ln", k.a, k.a), unary("sqrt", k.a, k.a), unary("exp", k.b, k.x), unary("relu", k.z, k.b))

    assert Chains(make).order() == ["abs", "ln", "sqrt", "exp", "relu"]


def test_constants_are_made_while_the_load_is_on_its_way():
    """What reads neither what is loaded nor what comes of it goes in front; not over a write to the same tile."""

    def make(k):
        return seq(
            unary("abs", k.a, k.x),
            intrin("duplicate", K.at(k.b), 1.0, N), unary("exp", k.b, k.b),
            unary("ln", k.a, k.a), intrin("add", K.at(k.z), K.at(k.a), K.at(k.b), N), intrin("duplicate", K.at(k.a), 0.0, N),
        )  # fmt: skip

    assert Chains(make).order() == ["duplicate", "exp", "abs", "ln", "add", "duplicate"]


def test_a_function_without_gain_is_returned_as_it_is():
    func, _ = plan_memory(K.vector_add(), CHIP)
    assert schedule_vector(func, CHIP) is func
