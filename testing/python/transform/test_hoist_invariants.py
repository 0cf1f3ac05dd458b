"""hoist_invariants: what leaves a loop and what has to stay."""

import pytest
import sync_kernels as K

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import AllocBuffer, For, if_then, intrin, loop, op_name, seq, statements, stmts_of, tirx
from tilelang_ascend.transform.lower.hoist_invariants import hoist_invariants

CHIP = get_chip("a2")
N = 256


def names(stmt):
    """Instructions of `stmt` outside of loops, without `ascend.`."""
    return [op_name(s).removeprefix("ascend.") for s in stmts_of(stmt) if not isinstance(s, For) and op_name(s)]


def parts(func):
    """(instructions in front of the loop, instructions directly in it)."""
    hoisted = hoist_invariants(func, CHIP)
    (outer, *_) = [s for s in stmts_of(hoisted.body) if isinstance(s, For)]
    return names(hoisted.body), names(outer.body)


class Kernel:
    """`body(k)` in a loop over k that loads `x`, adds `lanes` to it and stores it."""

    def __init__(self, first, before=()):
        self.x, self.z = K.gm("x", 1 << 16, "float32"), K.gm("z", 1 << 16, "float32")
        self.a, self.lanes, self.more = K.ub("a", N), K.ub("lanes", N), K.ub("more", N)
        self.k = K.var()
        body = seq(
            K.load_ub(K.at(self.a), K.at(self.x, self.k * N), N),
            first(self),
            intrin("add", K.at(self.a), K.at(self.a), K.at(self.lanes), N),
            K.store_ub(K.at(self.z, self.k * N), K.at(self.a), N),
        )
        front = [make(self) for make in before]
        self.func = K.kernel([self.x, self.z], [self.a, self.lanes, self.more], seq(front, loop(self.k, 8, body)))


def iota(k):
    return intrin("create_vec_index", K.at(k.lanes), 0, N)


def test_lane_numbers_leave():
    assert parts(Kernel(iota).func) == (["create_vec_index"], ["copy_gm_to_ub", "add", "copy_ub_to_gm"])


def test_what_follows_from_them_leaves_too():
    func = Kernel(lambda k: seq(intrin("create_vec_index", K.at(k.more), 0, N), intrin("muls", K.at(k.lanes), K.at(k.more), 2.0, N))).func
    assert parts(func)[0] == ["create_vec_index", "muls"]


def test_what_is_made_in_its_place_leaves_as_a_whole():
    func = Kernel(lambda k: seq(
        iota(k), intrin("duplicate", K.at(k.more), 2.0, N), intrin("mul", K.at(k.lanes), K.at(k.lanes), K.at(k.more), N),
        intrin("adds", K.at(k.lanes, 0, N // 2), K.at(k.lanes), 1.0, N // 2),
    )).func  # fmt: skip
    assert parts(func) == (["create_vec_index", "duplicate", "mul", "adds"], ["copy_gm_to_ub", "add", "copy_ub_to_gm"])


def test_both_loops_are_left():
    inner = Kernel(iota)
    outer = K.var("outer")
    assert parts(inner.func.with_body(seq([s for s in stmts_of(inner.func.body) if not isinstance(s, For)],
        loop(outer, 2, [s for s in stmts_of(inner.func.body) if isinstance(s, For)][0]))))[0] == ["create_vec_index"]  # fmt: skip


@pytest.mark.parametrize(
    "first, before",
    [
        pytest.param(lambda k: intrin("create_vec_index", K.at(k.lanes), k.k, N), (), id="depends on the loop"),
        pytest.param(lambda k: intrin("exp", K.at(k.lanes), K.at(k.a), N), (), id="reads what the loop loads"),
        pytest.param(lambda k: if_then(tirx.EQ(k.k, 2), iota(k)), (), id="runs under a condition"),
        pytest.param(
            lambda k: intrin("add", K.at(k.lanes), K.at(k.lanes), K.at(k.more), N), (iota,), id="goes on from the iteration before"
        ),
        pytest.param(
            lambda k: seq(iota(k), intrin("exp", K.at(k.more), K.at(k.lanes), N), intrin("muls", K.at(k.lanes), K.at(k.lanes), 2.0, N)),
            (),
            id="is overwritten when it has been read",
        ),
        pytest.param(
            lambda k: seq(iota(k), intrin("add", K.at(k.lanes), K.at(k.lanes), K.at(k.a), N)), (), id="goes on with what the loop loads"
        ),
        pytest.param(
            lambda k: seq(iota(k), if_then(k.k > 2, intrin("muls", K.at(k.lanes), K.at(k.lanes), 2.0, N))),
            (),
            id="goes on under a condition",
        ),
        pytest.param(iota, (lambda k: intrin("duplicate", K.at(k.lanes), 0.0, N),), id="is used outside of the loop"),
        pytest.param(lambda k: seq(intrin("exp", K.at(k.more), K.at(k.lanes), N), iota(k)), (), id="is read before it is written"),
    ],
)
def test_stays(first, before):
    func = Kernel(first, before).func
    assert hoist_invariants(func, CHIP) is func
    assert len(statements(func.body)) > 4


def in_windows(elements, *made):
    """Iterations 0 to 6 of 8 add lane numbers, made in every third one for each of the tiles `made`, to what they load; iterations 1 to 7 store."""
    x, z = K.gm("x", 1 << 16, "float32"), K.gm("z", 1 << 16, "float32")
    a, lanes, k = K.ub("a", elements), [K.ub(name, elements) for name in made], K.var()
    work = [
        y for b in lanes for y in (intrin("create_vec_index", K.at(b), 0, elements), intrin("add", K.at(a), K.at(a), K.at(b), elements))
    ]
    early = if_then(k < 7, seq(K.load_ub(K.at(a), K.at(x, k * elements), elements), if_then(tirx.EQ(tirx.floormod(k, 3), 1), seq(work))))
    late = if_then(k >= 1, K.store_ub(K.at(z, k * elements), K.at(a), elements))
    return K.kernel([x, z], [a, *lanes], loop(k, 8, seq(early, late)))


@pytest.mark.parametrize("elements, leaves", [(1024, True), (1032, False)])
def test_small_things_leave_branches_of_loops_with_windows(elements, leaves):
    func = in_windows(elements, "lanes")
    assert names(hoist_invariants(func, CHIP).body) == ["create_vec_index"] * leaves


def test_what_is_made_alike_is_made_once():
    hoisted = hoist_invariants(in_windows(256, "lanes", "more"), CHIP)
    assert names(hoisted.body) == ["create_vec_index"]
    added = [s.value.args[2].source for s in statements(hoisted.body) if op_name(s) == "ascend.add"]
    assert len(added) == 2 and added[0].same_as(added[1])
    assert sum(b.name == added[0].name for b in (s.buffer for s in statements(hoisted.body) if isinstance(s, AllocBuffer))) == 1
    assert len([s for s in statements(hoisted.body) if isinstance(s, AllocBuffer)]) == 2


def test_what_may_have_no_value_in_front_of_a_branch_stays():
    """`more` is filled in front of the loop, under a condition of its own."""
    x, z, a, lanes, more, k = (
        K.gm("x", 1 << 16, "float32"),
        K.gm("z", 1 << 16, "float32"),
        K.ub("a", N),
        K.ub("lanes", N),
        K.ub("more", N),
        K.var(),
    )
    chosen = if_then(
        tirx.EQ(tirx.floormod(k, 3), 1),
        seq(intrin("muls", K.at(lanes), K.at(more), 2.0, N), intrin("add", K.at(a), K.at(a), K.at(lanes), N)),
    )
    body = seq(if_then(k < 7, seq(K.load_ub(K.at(a), K.at(x, k * N), N), chosen)), if_then(k >= 1, K.store_ub(K.at(z, k * N), K.at(a), N)))
    func = K.kernel([x, z], [a, lanes, more], seq(intrin("duplicate", K.at(more), 2.0, N), loop(k, 8, body)))
    assert hoist_invariants(func, CHIP) is func
