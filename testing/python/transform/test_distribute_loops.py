"""distribute_loops: what goes behind a loop, and what has to stay in it."""

import pytest
import sync_kernels as K

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Bind, For, const_int, if_then, imm, intrin, loop, op_name, seq, statements, stmts_of
from tilelang_ascend.transform.lower.distribute_loops import distribute_loops

CHIP = get_chip("a2")
N, TRIPS = 1024, 4


class Kernel:
    """`body(k)` in a loop over k that loads `x`, folds it to `b` and that to `c`, of which each iteration has 16 elements in `y`."""

    def __init__(self, last, behind=(), large=False, named=False):
        self.x, self.z = K.gm("x", 1 << 16, "float32"), K.gm("z", 1 << 16, "float32")
        self.a, self.y = K.ub("a", N, 2), K.ub("y", 64)
        self.b, self.c = K.ub("b", 512 if large else 128), K.ub("c", 64)
        self.k = K.var()
        body = seq(
            K.load_ub(K.at(self.a, self.k % 2), K.at(self.x, self.k * N), N),
            intrin("block_reduce_sum", K.at(self.b), K.at(self.a, self.k % 2), 16, 64, 1, 1, 8),
            intrin("adds", K.at(self.b), K.at(self.b), 1.0, 512) if large else None,
            last(self),
        )
        stores = [make(self) for make in behind]
        end = seq(*stores, K.store_ub(K.at(self.z), K.at(self.y), 64))
        trips = K.var() if named else TRIPS
        name = Bind(trips, imm(TRIPS)) if named else None
        self.func = K.kernel([self.x, self.z], [self.a, self.b, self.c, self.y], seq(name, loop(self.k, trips, body), end))


def second(k):
    return intrin("block_reduce_sum", K.at(k.c), K.at(k.b), 2, 64, 1, 1, 8)


def third(k, count=16):
    return intrin("adds", K.at(k.y, 0, k.k * 16), K.at(k.c), 2.0, count)


def chain(k):
    return seq(second(k), third(k))


def late(k):
    """Those of the iteration before, in all but the first."""
    return if_then(k.k >= 1, seq(second(k), intrin("adds", K.at(k.y, 0, k.k * 16 - 16), K.at(k.c), 2.0, 16)))


def names(stmt):
    return [op_name(s).removeprefix("ascend.") for s in stmts_of(stmt) if op_name(s)]


def parts(func):
    """Instructions of each loop, and those that stand beside loops."""
    new = distribute_loops(func, CHIP)
    return [names(s.body) for s in stmts_of(new.body) if isinstance(s, For)], names(new.body)


def test_what_a_window_ends_with_goes_behind_without_it():
    """`c` is made and used in one iteration of the window: it has a copy for each of these. The loop behind starts at 0, as all do: analyses count on it."""
    new = distribute_loops(Kernel(late).func, CHIP)
    left, behind = (s for s in stmts_of(new.body) if isinstance(s, For))
    assert (
        names(left.body) == ["copy_gm_to_ub", "block_reduce_sum"] and [op_name(s) for s in statements(left.body)].count("ascend.adds") == 0
    )
    assert (int(behind.min), int(behind.extent)) == (0, TRIPS - 1) and names(behind.body) == ["adds"]
    to, of = (a.indices[1] for a in stmts_of(behind.body)[0].value.args[:2])
    assert [str(e) for e in (to, of)] == [f"{behind.loop_var.name} * 16"] * 2


def test_the_last_steps_of_a_reduction_go_behind():
    loops, outside = parts(Kernel(chain).func)
    assert loops == [["copy_gm_to_ub", "block_reduce_sum"], ["adds"]]
    assert outside == ["block_reduce_sum", "copy_ub_to_gm"], "as many repeats as all iterations have"


def test_the_number_of_iterations_has_a_name():
    """As where a variable is set once: what it stands for is known."""
    new = distribute_loops(Kernel(chain, named=True).func, CHIP)
    left, behind = (s for s in stmts_of(new.body) if isinstance(s, For))
    assert (names(left.body), names(behind.body)) == (["copy_gm_to_ub", "block_reduce_sum"], ["adds"])
    assert const_int(behind.extent) == TRIPS and names(new.body) == ["block_reduce_sum", "copy_ub_to_gm"]


def test_repeats_with_gaps_between_iterations_stay_a_loop():
    loops, outside = parts(
        Kernel(lambda k: seq(second(k), intrin("muls_mask", K.at(k.y, 0, k.k * 16), K.at(k.c), 2.0, 0, 255, 1, 1, 1, 8, 8))).func
    )
    assert loops[1] == ["muls_mask"] and outside == ["block_reduce_sum", "copy_ub_to_gm"]


STAYS = {
    "the next iteration reads what it leaves": lambda k: seq(second(k), intrin("add", K.at(k.y), K.at(k.y), K.at(k.c), 16), intrin("adds", K.at(k.b), K.at(k.y), 0.0, 16)),
    "the next iteration begins with what it leaves": lambda k: seq(intrin("add", K.at(k.b), K.at(k.b), K.at(k.c), 16), second(k)),
    "a transfer waits for it": lambda k: seq(second(k), K.store_ub(K.at(k.z, k.k * 16), K.at(k.c), 16)),
    "it runs under a condition": lambda k: if_then(k.k > 1, chain(k)),
    "what it reads is written again": lambda k: seq(second(k), intrin("duplicate", K.at(k.b), 0.0, 128)),
}  # fmt: skip


@pytest.mark.parametrize("last", STAYS.values(), ids=STAYS)
def test_stays(last):
    func = Kernel(last).func
    new = distribute_loops(func, CHIP)
    # Whatever else moves, what has a reason to stay is in the loop.
    assert names(next(s for s in stmts_of(new.body) if isinstance(s, For)).body) == names(
        next(s for s in stmts_of(func.body) if isinstance(s, For)).body
    )


def test_a_large_temporary_stays():
    assert distribute_loops((func := Kernel(second, large=True).func), CHIP) is func


def test_what_others_use_has_no_copies():
    func = Kernel(chain, behind=[lambda k: intrin("adds", K.at(k.y), K.at(k.c), 1.0, 16)]).func
    loops, _ = parts(func)
    assert loops == [["copy_gm_to_ub", "block_reduce_sum", "block_reduce_sum", "adds"]]


def test_a_chip_that_keeps_the_order_has_no_use_for_it():
    func = Kernel(chain).func
    assert get_chip("a5").orders("V") and distribute_loops(func, get_chip("a5")) is func
    assert len(statements(func.body)) > 4
