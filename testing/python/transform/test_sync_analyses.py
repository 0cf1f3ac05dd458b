"""The analyses under synchronisation: linear forms, accesses, dependences, happens-before."""

from __future__ import annotations

import pytest
import sync_kernels as K
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang_ascend.analysis.dependence.build_program import build_program
from tilelang_ascend.analysis.dependence.dependence import dependences
from tilelang_ascend.analysis.dependence.program import QUEUES
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.analysis.dependence.trace import traces
from tilelang_ascend.analysis.index.linear import INF, LinearForms, upper_bound
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Bind, call, if_then, imm, intrin, loop, op_name, seq, statements, tirx
from tilelang_ascend.transform.sync.insert_sync import insert_sync

CHIP = get_chip("a2")


# ---- linear forms


def test_linear_form_of_an_offset():
    forms, k, j = LinearForms(), K.var("k"), K.var("j")
    a, b = forms.loop(k), forms.loop(j)
    form = forms((k * 2 + j) * 64 - 3 + tirx.floormod(k, 2) * 4096)
    assert form.evaluate({a: 3, b: 1}) == (3 * 2 + 1) * 64 - 3 + 4096
    assert form.varies == {a, b}
    assert form.interval({a: 8, b: 2}) == (-3, 14 * 64 + 64 - 3 + 4096)


def test_equal_expressions_share_an_atom_and_memory_reads_do_not():
    forms, n = LinearForms(), K.var("n")
    buffer = K.gm("g", 16, "int32")
    product = lambda: n * n  # noqa: E731
    assert forms(product()) == forms(product())
    read = lambda: K.at(buffer, 0)  # noqa: E731
    assert forms(read()) != forms(read())


def test_conversions_that_may_wrap_are_numbers_of_their_own():
    forms, k = LinearForms(), K.var("k")
    forms.loop(k)
    bytes_, signed = tirx.Cast("uint8", k + 255), tirx.Cast("int8", k + 255)
    assert forms(tirx.Cast("int64", k)) == forms(k)
    assert forms(bytes_) != forms(k + 255) and forms(bytes_) != forms(signed)
    assert forms(tirx.Cast("int32", bytes_)) == forms(bytes_)
    assert forms(bytes_).varies == forms(k).varies
    assert forms(tirx.Cast("int16", bytes_)) == forms(tirx.Cast("uint16", bytes_)) == forms(bytes_)
    assert forms(tirx.Cast("int8", bytes_)) != forms(bytes_)
    assert all(forms(tirx.Cast(dtype, signed)) != forms(signed) for dtype in ("uint8", "uint16"))


def test_numbers_with_and_without_signs_are_different_numbers():
    forms, k, x, u = LinearForms(), K.var("k"), K.var("x"), tirx.Var("u", "uint32")
    forms.loop(k)
    half = tirx.Var("h", "float16")
    seen = lambda dtype: tirx.Cast("int32", call("ascend.reinterpret", [half], dtype=dtype))  # noqa: E731
    assert forms(seen("int16")) == forms(seen("int16")) != forms(seen("uint16"))
    unsigned, wide = tirx.Cast("uint32", x), lambda e: tirx.Cast("int64", e)
    assert forms(tirx.floormod(unsigned, imm(7, "uint32"))) != forms(tirx.floormod(x, 7))
    assert forms(unsigned < imm(7, "uint32")) != forms(x < 7) and forms(wide(unsigned)) != forms(wide(x))
    assert forms(tirx.Cast("uint32", k)) == forms(k)
    product = u * imm(2654435761, "uint32")
    assert forms(wide(product)) != forms(tirx.Cast("int64", u) * imm(2654435761, "int64"))
    assert forms(tirx.floordiv(product - imm(1, "uint32"), imm(1 << 24, "uint32"))).interval({}) == (0, 255)


def test_sums_of_bytes_are_numbers_of_their_own():
    forms, k = LinearForms(), K.var("k")
    forms.loop(k)
    byte, ten = tirx.Cast("uint8", k), imm(10, "uint8")
    number = tirx.Cast("int32", byte)
    for e, wide in ((byte + ten, number + 10), (byte - ten, number - 10), (byte * ten, number * 10)):
        assert forms(tirx.Cast("int32", e)) != forms(wide)


def test_lets_are_seen_through():
    forms, k, x = LinearForms(), K.var("k"), K.var("x")
    forms.loop(k)
    forms.bind(x, k * 4 + 1)
    assert forms(x * 2) == forms(k * 8 + 2)


def test_upper_bound_of_tails():
    forms, k = LinearForms(), K.var("k")
    atom = forms.loop(k)
    extents = {atom: 4}
    assert upper_bound(tirx.Min(imm(128), 1000 - k * 128), forms, extents) == 128
    assert upper_bound(tirx.Min(imm(128), 1000 - k * 128) * 4, forms, extents) == 512
    assert upper_bound(K.var("n"), forms, extents) is None
    assert forms(k).interval({}) == (0, INF)


@settings(max_examples=60, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 7), st.integers(1, 7), st.integers(0, 5), st.integers(0, 5))
def test_linear_forms_agree_with_python(a, b, m, d, x, y):
    forms, k, j = LinearForms(), K.var("k"), K.var("j")
    ka, ja = forms.loop(k), forms.loop(j)
    expr = (k * a + j * b - 5) * 3 + tirx.floormod(k * a + j, m) * 2 - tirx.floordiv(j * b + k, d)
    value = (x * a + y * b - 5) * 3 + (x * a + y) % m * 2 - (y * b + x) // d
    form = forms(expr)
    assert form.evaluate({ka: x, ja: y}) == value
    low, high = form.interval({ka: 6, ja: 6})
    assert low <= value <= high


# ---- dependences


def pairs(func):
    """(source, sink, kind, same iteration, distances) of all dependences."""
    return {(d.src.name, d.dst.name, d.kind, d.same_iteration, d.distances) for d in dependences(build_program(func, CHIP))}


def row_loop(offset, size=64, trips=8):
    """Store a part of a buffer in each iteration, after an instruction that writes the part."""
    z = K.gm("z", 65536, "float32")
    a, k = K.ub("a", 1024), K.var()
    body = seq(
        intrin("duplicate", K.at(a, 0, offset(k)), imm(0.0, "float32"), size),
        K.store_ub(K.at(z), K.at(a, 0, offset(k)), size),
    )
    return K.kernel([z], [a], loop(k, trips, body))


def test_disjoint_rows_depend_only_within_an_iteration():
    found = {p for p in pairs(row_loop(lambda k: k * 64)) if "duplicate" in p}
    assert found == {("duplicate", "copy_ub_to_gm", "RAW", True, (0,))}


def test_overlapping_rows_depend_across_iterations():
    found = {p for p in pairs(row_loop(lambda k: k * 32)) if p[:2] == ("copy_ub_to_gm", "duplicate")}
    assert found == {("copy_ub_to_gm", "duplicate", "WAR", False, (1,))}


def test_places_of_a_window_stay_inside_a_version():
    """Iteration p - 1 of p >= 1 is none in front of the version: versions of a workspace tell how far apart two iterations of `t` are."""
    ws, x, t, p = K.gm("ws", 3 * 512, "float32"), K.ub("x", 64), K.var("t"), K.var("p")
    place = K.at(ws, tirx.floormod(t, 3) * 512 + p * 64 - 64)
    body = loop(p, 9, if_then(p >= 1, seq(K.load_ub(K.at(x), place, 64), K.store_ub(place, K.at(x), 64))))
    found = dependences(build_program(K.kernel([ws], [x], loop(t, 12, body)), CHIP))
    assert {d.distances[0] for d in found if d.buffer.name == "ws" and d.kind == "RAW"} == {3}


def test_unknown_offsets_overlap():
    found = {p[:2] for p in pairs(row_loop(lambda k: tirx.floormod(k * k, 7) * 64))}
    assert ("copy_ub_to_gm", "duplicate") in found


def test_versions_give_the_distance():
    for versions in (2, 3):
        func = K.vector_add(versions=versions)
        found = {p for p in pairs(func) if p[:2] == ("add", "copy_gm_to_ub")}
        assert found == {("add", "copy_gm_to_ub", "WAR", False, (versions,))}


def test_arms_of_a_branch_do_not_depend_on_each_other_within_an_iteration():
    found = {p for p in pairs(K.branch_in_loop()) if p[:2] == ("exp", "abs") and p[2] == "WAW"}
    assert all(not same for *_, same, _ in found)


def test_persistent_iterations_share_workspaces_but_not_user_tensors():
    x, ws = K.gm("x", 1 << 16, "float32"), K.gm("ws", 1 << 16, "float32")
    # Versions of a and b tell their dependences from those of x and ws between the same two instructions.
    a, b, t = K.ub("a", 64, 2), K.ub("b", 64, 2), K.var("t")
    row, version = K.var("row"), tirx.floormod(t, 2)
    body = seq(
        Bind(row, tirx.floormod(t * t, 5)),
        K.load_ub(K.at(a, version), K.at(x, row * 64), 64),
        K.load_ub(K.at(b, version), K.at(ws, row * 64), 64),
        K.store_ub(K.at(x, row * 64), K.at(a, version), 64),
        K.store_ub(K.at(ws, row * 64), K.at(b, version), 64),
    )
    func = K.kernel([x, ws], [a, b], loop(t, 4, body, tl__persistent=1), ascend__num_workspaces=1)
    found = [d for d in dependences(build_program(func, CHIP)) if d.src.name == "copy_ub_to_gm" and any(d.distances)]
    assert {d.buffer.name for d in found if d.dst.name == "copy_gm_to_ub" and d.kind == "RAW"} == {"ws"}


def test_numbers_without_a_value_in_a_trace_are_no_versions():
    """`t * t % 5` may be told apart from other remainders in no trace, so no flag rotates with it."""
    x, t = K.gm("x", 1 << 16, "float32"), K.var("t")
    a = K.ub("a", 64)

    def accesses(row):
        body = seq(K.load_ub(K.at(a), K.at(x, row * 64), 64), K.store_ub(K.at(x, row * 64), K.at(a), 64))
        program = build_program(K.kernel([x], [a], loop(t, 4, body)), CHIP)
        return {access.version is None for i in program.instrs for access in i.accesses if access.space == "global"}

    assert accesses(tirx.floormod(t, 5)) == {False}
    assert accesses(tirx.floormod(t * t, 5)) == {True}


def test_a_write_in_the_middle_makes_the_outer_pair_redundant():
    x, z = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32")
    a = K.ub("a", 1024)
    func = K.kernel(
        [x, z],
        [a],
        K.load_ub(K.at(a), K.at(x), 1024),
        intrin("exp", K.at(a), K.at(a), 1024),
        K.store_ub(K.at(z), K.at(a), 1024),
    )
    assert {p[:2] for p in pairs(func)} == {("copy_gm_to_ub", "exp"), ("exp", "copy_ub_to_gm")}


def test_a_short_write_does_not_stand_for_a_longer_one_at_a_place_that_moves():
    """The bytes loaded in two iterations overlap, those of the fill and of the next load do not."""
    x, z, a, k = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32"), K.ub("a", 1024), K.var()
    body = seq(
        K.load_ub(K.at(a, 0, k * 8), K.at(x), 64),
        K.store_ub(K.at(z), K.at(a, 0, k * 8), 64),
        intrin("duplicate", K.at(a, 0, k * 8), imm(0.0, "float32"), 8),
    )
    found = {p[:2] for p in pairs(K.kernel([x, z], [a], loop(k, 8, body))) if p[4] == (1,)}
    assert {("copy_gm_to_ub", "copy_gm_to_ub"), ("copy_ub_to_gm", "copy_gm_to_ub")} <= found


@pytest.mark.parametrize("jump", [tirx.Break, tirx.Continue])
def test_a_write_behind_a_jump_does_not_stand_between_iterations(jump):
    """What is stored at the end may be left out: the first store of the next iteration waits for the load itself."""
    x, m, a, k, first = K.gm("x", 64, "float32"), K.gm("m", 64, "int32"), K.ub("a", 64), K.var(), K.var("first")
    stored = K.store_ub(K.at(x), K.at(a), 64)
    ends = [stored, K.load_ub(K.at(a), K.at(x), 64), Bind(first, call("ascend.get_value", [K.at(m, 0, k)], dtype="int32"))]
    between = {seq(*ends, stored): False, seq(*ends, if_then(first > 0, jump()), stored): True}
    for body, needed in between.items():
        program = build_program(K.kernel([x, m], [a], loop(k, 2, body)), CHIP)
        load = next(i for i in program.instrs if i.name == "copy_gm_to_ub")
        found = [d for d in dependences(program) if d.src is load and d.dst is program.instrs[0] and d.buffer.name == "x"]
        assert bool(found) == needed


def test_operands_of_one_instruction_that_walk_through_a_tile():
    """The next iteration stores what this one reads."""
    x, z, a, k = K.gm("x", 65536, "float32"), K.gm("z", 65536, "float32"), K.ub("a", 1024), K.var()
    row = lambda n: K.at(a, 0, k * 64 + n * 64)  # noqa: E731
    func = K.kernel(
        [x, z],
        [a],
        K.load_ub(K.at(a), K.at(x), 1024),
        loop(k, 8, intrin("add", row(0), row(0), row(1), 64)),
        K.store_ub(K.at(z), K.at(a), 1024),
    )
    assert ("add", "add", "WAR", False, (1,)) in pairs(func)


def test_lanes_of_instructions():
    program = build_program(K.mix(), CHIP)
    queues = {i.name: QUEUES[i.queue] for i in program.instrs}
    assert queues["mmad"] == ("aic", "M") and queues["fixpipe_to_gm"] == ("aic", "FIX")
    assert queues["copy_gm_to_ub"] == ("aiv", "MTE2") and queues["exp"] == ("aiv", "V")


# ---- the checker finds what is wrong


def edit(func, fn):
    """`func` with `fn(statement)` applied to synchronisation statements (None removes)."""
    from tilelang_ascend.ir import StmtMutator

    class Edit(StmtMutator):
        def visit_Evaluate(self, s):
            return fn(s) if op_name(s) in ("ascend.set_flag", "ascend.wait_flag") else s

    return func.with_body(Edit()(func.body))


def test_missing_set_is_reported():
    synced = insert_sync(K.vector_add(), CHIP)
    broken = edit(synced, lambda s: None if op_name(s) == "ascend.set_flag" and "MTE2_V" in str(s) else s)
    assert any("waited for but not set" in str(x) for x in sync_covers(broken, CHIP))


def test_wrong_id_is_reported():
    """Both buffers of a pair on one id: the flag is set again before it was taken."""
    synced = insert_sync(K.vector_add(), CHIP)

    def one_id(s):
        if "MTE2_V" not in str(s):
            return s
        return intrin(op_name(s).removeprefix("ascend."), 0, **{k: str(v) for k, v in dict(s.value.attrs).items()})

    assert any("may be set again" in str(x) for x in sync_covers(edit(synced, one_id), CHIP))


def test_flags_inside_a_branch_must_balance():
    synced = insert_sync(K.vector_add(4, 1), CHIP)
    first = next(s for s in statements(synced.body) if op_name(s) == "ascend.wait_flag")
    n = K.var("n")
    broken = edit(synced, lambda s: if_then(n > 0, s) if s.same_as(first) else s)
    assert any("differ between two paths" in str(x) for x in sync_covers(broken, CHIP))


def test_messages_name_both_instructions():
    text = "\n".join(map(str, sync_covers(K.vector_add(), CHIP)))
    assert "RAW on b: add (aiv.V) does not wait for copy_gm_to_ub (aiv.MTE2) in the same iteration" in text
    assert "WAR on c: add (aiv.V) does not wait for copy_ub_to_gm (aiv.MTE3) across iterations of loop k" in text


# ---- random kernels


@st.composite
def random_kernels(draw):
    """Loads, vector instructions and stores over a few buffers, in loops and branches of depth up to three."""
    x, z = K.gm("x", 1 << 18, "float32"), K.gm("z", 1 << 18, "float32")
    versions = [draw(st.sampled_from((1, 1, 2, 3))) for _ in range(draw(st.integers(2, 4)))]
    buffers = [K.ub(f"b{i}", 256, v) for i, v in enumerate(versions)]
    names = iter(range(100))
    n = K.var("n")

    def operand(loops):
        i = draw(st.integers(0, len(buffers) - 1))
        if versions[i] == 1 or not loops:
            return K.at(buffers[i])
        return K.at(buffers[i], tirx.floormod(draw(st.sampled_from(loops)) + draw(st.integers(0, 1)), versions[i]))

    def statement(loops, depth):
        kinds = ["load", "exp", "add", "store", "read"] + (["loop", "loop", "if"] if depth < 3 else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "load":
            return K.load_ub(operand(loops), K.at(x, 256 * draw(st.integers(0, 3))), 256)
        if kind == "exp":
            return intrin("exp", operand(loops), operand(loops), 256)
        if kind == "add":
            return intrin("add", operand(loops), operand(loops), operand(loops), 256)
        if kind == "store":
            return K.store_ub(K.at(z, 256 * draw(st.integers(0, 3))), operand(loops), 256)
        if kind == "read":
            name = tirx.Var(f"s{next(names)}", "float32")
            value = call("ascend.get_value", [operand(loops)], dtype="float32")
            return [Bind(name, value), intrin("adds", operand(loops), operand(loops), name, 256)]
        body = [statement(loops, depth + 1) for _ in range(draw(st.integers(1, 3)))]
        if kind == "if":
            other = [statement(loops, depth + 1)] if draw(st.booleans()) else None
            return if_then(n > draw(st.integers(0, 3)), seq(body), seq(other) if other else None)
        k = K.var(f"k{next(names)}")
        body = [*body, statement([*loops, k], depth + 1)]
        return loop(k, draw(st.sampled_from([1, 2, 3, 5, n])), seq(body))

    return K.kernel([n, x, z], buffers, *[statement([], 0) for _ in range(draw(st.integers(1, 4)))])


@settings(max_examples=60, deadline=None)
@given(random_kernels())
def test_random_kernels_are_ordered(func):
    assert sync_covers(insert_sync(func, CHIP), CHIP) == []


def test_loops_with_windows_run_through_all_versions():
    """Flags may share ids where that is safe in these traces: a rotating flag comes to each of its ids in some of them."""
    x, n, k = K.gm("x", 1 << 16, "float32"), K.var("n"), K.var("k")
    ring, out, version = K.ub("ring", 64, 6), K.ub("out", 64), tirx.floormod(k, 6)
    use = intrin("exp", K.at(out), K.at(ring, version), 64)
    body = seq(K.load_ub(K.at(ring, version), K.at(x, k * 64), 64), if_then(n > k, use), use)
    program = build_program(K.kernel([n, x], [ring, out], loop(k, n + 2, body)), CHIP)
    (found,) = program.loops
    trips = [len(t.gaps.get((id(found.body), 0), ())) for t in traces(program, dependences(program))]
    assert {*trips} == {*range(10)}
