"""plan_memory: capacity, alignment, live ranges, banks, sharing, and the error when nothing fits."""

from __future__ import annotations

import pytest
import sync_kernels as K
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang_ascend.analysis.dependence.build_program import build_program
from tilelang_ascend.analysis.dependence.liveness import live_buffers, meet
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import OutOfMemory
from tilelang_ascend.ir import AllocBuffer, SourceName, Span, StmtMutator, imm, intrin, loop, seq, statements, tirx
from tilelang_ascend.isa import Space
from tilelang_ascend.transform.memory.plan_memory import plan_memory
from tilelang_ascend.transform.sync.insert_sync import insert_sync, plan_sync
from tilelang_ascend.transform.sync.place import place_sync

CHIP = get_chip("a2")
F32 = 4


def stages(sizes, trips=None):
    """x -> u0 -> u1 -> ... -> z: each buffer is read once, by the instruction that writes the next."""
    x, z = K.gm("x", 1 << 20, "float32"), K.gm("z", 1 << 20, "float32")
    buffers = [K.ub(f"u{i}", n) for i, n in enumerate(sizes)]
    count = min(sizes)
    k = K.var()
    base = k * count if trips else imm(0)
    body = [K.load_ub(K.at(buffers[0]), K.at(x, base), sizes[0])]
    for a, b, n in zip(buffers, buffers[1:], sizes[1:]):
        body.append(intrin("exp", K.at(b), K.at(a), min(n, count)))
    body.append(K.store_ub(K.at(z, base), K.at(buffers[-1]), count))
    return K.kernel([x, z], buffers, loop(k, trips, seq(*body)) if trips else seq(*body))


def placed(func):
    return plan_memory(func, CHIP)[1]


def address(memory_map, name):
    return next(e for e in memory_map.entries if e.name == name).address


def test_addresses_are_annotated_and_in_the_map():
    func, memory_map = plan_memory(K.gemm(tiles=3), CHIP)
    notes = {s.buffer.name: int(s.annotations["address"]) for s in statements(func.body) if isinstance(s, AllocBuffer)}
    assert notes == {e.name: e.address for e in memory_map.entries}
    assert {e.space for e in memory_map.entries} == {Space.L1, Space.L0A, Space.L0B, Space.L0C}


def test_buffers_lie_side_by_side_while_they_fit():
    memory_map = placed(stages([1024] * 5))
    ranges = sorted((e.address, e.end) for e in memory_map.entries)
    assert all(high <= low for (_, high), (low, _) in zip(ranges, ranges[1:]))


def test_buffers_nobody_uses_are_not_declared():
    func = stages([1024, 1024])
    unused = AllocBuffer(K.ub("unused", 512))
    planned, memory_map = plan_memory(func.with_body(seq(unused, func.body)), CHIP)
    names = [s.buffer.name for s in statements(planned.body) if isinstance(s, AllocBuffer)]
    assert names == ["u0", "u1"] == [e.name for e in memory_map.entries]


def test_dead_buffers_are_reused_when_space_is_short():
    """Five stages of 60 KiB: 300 KiB in total, two alive at a time."""
    memory_map = placed(stages([15360] * 5))
    assert memory_map.total(Space.UB) > CHIP.capacity_bytes(Space.UB) >= memory_map.peak(Space.UB)


def test_tiles_of_two_queues_share_with_nobody_while_there_is_room():
    """Two stores do not wait for each other because what only the vector unit uses found a place first."""
    z = K.gm("z", 1 << 16, "float32")
    tiles = [K.ub(f"t{i}", n) for i, n in enumerate((16384, 12288, 12288))]
    small = [K.ub(f"s{i}", 4000) for i in range(3)]
    fill = [intrin("duplicate", K.at(b), imm(0.0, "float32"), 1024) for b in (*tiles, *small)]
    use = [K.store_ub(K.at(z), K.at(b), 1024) for b in tiles]
    last = [intrin("exp", K.at(b), K.at(b), 1024) for b in small]
    body = seq(fill[0], use[0], fill[1], use[1], fill[2], use[2], *(x for pair in zip(fill[3:], last) for x in pair))
    memory_map = placed(K.kernel([z], [*tiles, *small], body))
    at = sorted((address(memory_map, name), 4 * n) for name, n in (("t0", 16384), ("t1", 12288), ("t2", 12288)))
    assert all(low + size <= high for (low, size), (high, _) in zip(at, at[1:]))


def test_small_buffers_do_not_share_while_there_is_room():
    """Two tiles of 100 KB in turn share; what is loaded beside the second one need not wait for what was used beside the first."""
    x, z = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32")
    large, small = ([K.ub(f"{name}{i}", n) for i in range(2)] for name, n in (("large", 25600), ("small", 2048)))
    body = []
    for a, b in zip(large, small):
        body += [K.load_ub(K.at(b), K.at(x), 2048), K.load_ub(K.at(a), K.at(x), 25600)]
        body += [intrin("add", K.at(a), K.at(a), K.at(b), 2048), K.store_ub(K.at(z), K.at(a), 25600)]
    memory_map = placed(K.kernel([x, z], [*large, *small], *body))
    assert address(memory_map, "large0") == address(memory_map, "large1")
    assert abs(address(memory_map, "small0") - address(memory_map, "small1")) >= 8192


@pytest.mark.parametrize("sizes", [[4096] * 3, [20480] * 4, [12288] * 8])
def test_packed_size_is_without_the_room_between_buffers(sizes):
    """What tells how many more copies of tiles would fit: no more than the addresses take, no less than what is alive at once."""
    memory_map = placed(stages(sizes))
    packed = memory_map.packed[Space.UB]
    assert 2 * F32 * sizes[0] <= packed <= min(memory_map.peak(Space.UB), memory_map.total(Space.UB))


def test_shared_addresses_are_synchronised():
    func, memory_map = plan_memory(stages([15360] * 5, trips=4), CHIP)
    entries = memory_map.entries
    assert any(a.address < b.end and b.address < a.end for i, a in enumerate(entries) for b in entries[:i])
    assert sync_covers(func, CHIP)
    assert sync_covers(insert_sync(func, CHIP), CHIP) == []
    program, plan = plan_sync(func, CHIP)
    for item in (*plan.edges, *plan.barriers):
        assert sync_covers(place_sync(func, program, plan.without(item)), CHIP)


def test_sharing_creates_dependences_the_checker_sees():
    """The synchronisation chosen without addresses is not enough once two buffers share one."""
    func = stages([15360] * 5, trips=4)
    without = insert_sync(func, CHIP)
    addresses = {s.buffer.name: s.annotations for s in statements(plan_memory(func, CHIP)[0].body) if isinstance(s, AllocBuffer)}

    class Annotate(StmtMutator):
        def visit_AllocBuffer(self, s):
            return AllocBuffer(s.buffer, annotations=dict(addresses[s.buffer.name]))

    assert sync_covers(without, CHIP) == []
    assert any("u0" in str(x) or "u2" in str(x) for x in sync_covers(without.with_body(Annotate()(without.body)), CHIP))


def test_versioned_buffers_live_through_their_loop():
    live = {b.buffer.name: b for b in live_buffers(build_program(K.vector_add(), CHIP))}
    assert live["a"].tight == live["b"].tight == live["c"].tight == ((0, 3),)


def test_single_version_buffers_live_within_an_iteration():
    live = {b.buffer.name: b for b in live_buffers(build_program(stages([1024] * 4, trips=4), CHIP))}
    assert [live[f"u{i}"].tight for i in range(4)] == [((0, 1),), ((1, 2),), ((2, 3),), ((3, 4),)]
    assert {b.wide for b in live.values()} == {((0, 4),)}


def test_an_accumulator_lives_through_its_loop():
    """It is read before it is written, so iterations hand it on."""
    x, z = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32")
    a, acc, t = K.ub("a", 1024), K.ub("acc", 1024), K.ub("t", 1024)
    k = K.var()
    body = seq(
        K.load_ub(K.at(a), K.at(x, k * 1024), 1024),
        intrin("exp", K.at(t), K.at(a), 1024),
        intrin("add", K.at(acc), K.at(acc), K.at(t), 1024),
    )
    func = K.kernel(
        [x, z],
        [a, acc, t],
        intrin("duplicate", K.at(acc), imm(0.0, "float32"), 1024),
        loop(k, 4, body),
        K.store_ub(K.at(z), K.at(acc), 1024),
    )
    live = {b.buffer.name: b for b in live_buffers(build_program(func, CHIP))}
    assert live["acc"].tight == ((0, 4),) and live["a"].tight == ((1, 2),) and live["t"].tight == ((2, 3),)


def test_partial_first_write_keeps_a_buffer_alive():
    """Only half of the buffer is overwritten at the start of an iteration: the other half comes from the last one."""
    x, z = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32")
    a, t = K.ub("a", 1024), K.ub("t", 1024)
    k = K.var()
    body = seq(
        K.load_ub(K.at(t), K.at(x, k * 1024), 1024),
        K.load_ub(K.at(a), K.at(x, k * 1024), 512),
        intrin("add", K.at(t), K.at(a), K.at(t), 1024),
        K.store_ub(K.at(z, k * 1024), K.at(t), 1024),
    )
    live = {b.buffer.name: b for b in live_buffers(build_program(K.kernel([x, z], [a, t], loop(k, 4, body)), CHIP))}
    assert live["a"].tight == ((0, 3),)


def products(*begins):
    """Loops of steps of K into one accumulator, each stored behind its loop; `begins(k)`: whether a step starts from zero. Behind each of
    them something else."""
    z, a, b = K.gm("z", 65536, "float32"), K.local("a", "local.l0a", 4096), K.local("b", "local.l0b", 4096)
    c, d = (K.local(name, "local.l0c", 4096, dtype="float32") for name in "cd")
    body = []
    for begin in begins:
        k = K.var()
        step = K.mmad(K.at(c), K.at(a), K.at(b), 64, 64, 64, tirx.Cast("int32", begin(k)))
        body += [loop(k, 4, step), K.fixpipe(K.at(z), K.at(c), 64, 64), K.fixpipe(K.at(z), K.at(d), 64, 64)]
    return K.kernel([z], [a, b, c, d], *body)


def live_range(func, name):
    return next(b.tight for b in live_buffers(build_program(func, CHIP)) if b.buffer.name == name)


def test_an_accumulator_is_dead_between_a_store_and_a_product_of_its_own():
    """The first step of K finds nothing it reads; later ones find what that left."""
    assert live_range(products(lambda k: tirx.EQ(k, imm(0)), lambda k: tirx.EQ(k, imm(0))), "c") == ((0, 1), (3, 4))


@pytest.mark.parametrize("second", [lambda k: tirx.EQ(k, imm(1)), lambda k: k < 1], ids=["another step", "unknown"])
def test_a_product_that_may_read_keeps_its_accumulator_alive(second):
    assert live_range(products(lambda k: tirx.EQ(k, imm(0)), second), "c") == ((0, 4),)


@pytest.mark.parametrize("trips, ranges", [(2, ((0, 1), (4, 5))), (None, ((0, 5),))])
def test_a_loop_that_may_not_run_leaves_what_is_there(trips, ranges):
    """`t` is written again in a loop, and read behind it."""
    x, z, n = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32"), tirx.Var("n", "int32")
    t, other = K.ub("t", 1024), K.ub("other", 1024)
    again = loop(K.var(), trips or n, K.load_ub(K.at(t), K.at(x), 1024))
    body = [K.load_ub(K.at(t), K.at(x), 1024), K.store_ub(K.at(z), K.at(t), 1024)]
    body += [K.load_ub(K.at(other), K.at(x), 1024), K.store_ub(K.at(z), K.at(other), 1024), again, K.store_ub(K.at(z), K.at(t), 1024)]
    assert live_range(K.kernel([x, z, n], [t, other], *body), "t") == ranges


def test_a_jump_over_a_write_leaves_what_is_there():
    x, z, n = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32"), tirx.Var("n", "int32")
    t, other, k = K.ub("t", 1024), K.ub("other", 1024), K.var()
    leave = tirx.IfThenElse(tirx.EQ(k, n), tirx.Break(), None)
    load, store = K.load_ub(K.at(t), K.at(x), 1024), K.store_ub(K.at(z), K.at(t), 1024)
    again = loop(k, 3, seq(leave, K.load_ub(K.at(t), K.at(x), 1024)))
    body = [load, store, K.load_ub(K.at(other), K.at(x), 1024), load, again, store]
    assert live_range(K.kernel([x, z, n], [t, other], *body), "t") == ((0, 1), (3, 5))


def test_sources_of_one_instruction_start_in_different_bank_halves():
    memory_map = placed(K.vector_add())
    assert (address(memory_map, "a") - address(memory_map, "b")) % 512 == 256


def test_a_write_keeps_away_from_the_bank_of_a_read_out_of_step():
    """a = a * b: a and b start in different halves, so the write of one repeat meets the read of b in the next."""
    x = K.gm("x", 1 << 16, "float32")
    a, b = K.ub("a", 1024), K.ub("b", 1024)
    body = seq(
        K.load_ub(K.at(a), K.at(x), 1024),
        K.load_ub(K.at(b), K.at(x), 1024),
        intrin("mul", K.at(a), K.at(a), K.at(b), 1024),
        K.store_ub(K.at(x), K.at(a), 1024),
    )
    memory_map = placed(K.kernel([x], [a, b], body))
    bank = CHIP.ub_banks.groups * CHIP.ub_banks.bank_bytes
    first, second = address(memory_map, "a"), address(memory_map, "b")
    assert (first - second) % 512 == 256 and first // bank != second // bank


def test_no_bank_rule_where_a_repeat_touches_all_groups():
    chip = get_chip("a5")
    memory_map = plan_memory(K.vector_add(), chip)[1]
    assert memory_map.peak(Space.UB) == memory_map.total(Space.UB)


def test_banks_never_cost_capacity():
    """Three buffers fill UB to the byte; there is no room to shift one by half a period."""
    x, z = K.gm("x", 1 << 20, "float32"), K.gm("z", 1 << 20, "float32")
    n = CHIP.capacity_bytes(Space.UB) // F32
    a, b, c = K.ub("a", 512), K.ub("b", 512), K.ub("c", n - 1024)
    body = seq(
        K.load_ub(K.at(a), K.at(x), 512), K.load_ub(K.at(b), K.at(x), 512), intrin("add", K.at(c), K.at(a), K.at(b),
        512), K.store_ub(K.at(z), K.at(c), 512),
    )  # fmt: skip
    assert placed(K.kernel([x, z], [a, b, c], body)).peak(Space.UB) == CHIP.capacity_bytes(Space.UB)


def test_reserved_ub_is_left_alone():
    assert CHIP.capacity_bytes(Space.UB) == 188416
    with pytest.raises(OutOfMemory):
        placed(stages([188416 // F32 + 8]))


def test_out_of_memory_names_buffers_numbers_and_the_table():
    func = K.vector_add()
    big = K.kernel(*_doubled(func))
    with pytest.raises(OutOfMemory) as error:
        plan_memory(big, CHIP)
    text = str(error.value)
    assert "UB overflow" in text and "188416" in text and str(error.value.fields["needed"]) in text
    assert all(f"'{name}'" in text or f"  {name} " in text for name in ("large_a", "large_b"))
    assert "kernel.py:7" in text
    assert "smaller tile" in text


def _doubled(func):
    x, z = K.gm("x", 1 << 20, "float32"), K.gm("z", 1 << 20, "float32")
    a, b = K.ub("large_a", 30000), K.ub("large_b", 30000)
    span = Span(SourceName("kernel.py"), 7, 7, 5, 9)
    load = K.load_ub(K.at(a), K.at(x), 30000)
    load = intrin("copy_gm_to_ub", *load.value.args, span=span)
    body = seq(load, intrin("exp", K.at(b), K.at(a), 30000, span=span), K.store_ub(K.at(z), K.at(b), 30000))
    return [x, z], [a, b], body


def test_map_text():
    text = placed(K.gemm(tiles=3, stages=3)).text()
    assert "L1: buffers 98304 B, peak 98304 B of" in text
    assert "a_l1" in text and "3 x 16384" in text
    assert placed(K.gemm()).text(Space.L0C).startswith("L0C: buffers 65536 B")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 24), min_size=2, max_size=9), st.booleans())
def test_live_buffers_never_overlap(sizes, looped):
    """Whatever the sizes: aligned, inside the memory, and disjoint while both are alive."""
    func = stages([n * 1024 for n in sizes], trips=3 if looped else None)
    try:
        memory_map = placed(func)
    except OutOfMemory as error:
        assert error.fields["needed"] > CHIP.capacity_bytes(Space.UB)
        assert sum(sizes) * 4096 > CHIP.capacity_bytes(Space.UB)
        return
    entries = memory_map.entries
    assert all(e.address % 32 == 0 and e.end <= CHIP.capacity_bytes(Space.UB) for e in entries)
    for i, a in enumerate(entries):
        for b in entries[:i]:
            if meet(a.live, b.live):
                assert a.end <= b.address or b.end <= a.address
