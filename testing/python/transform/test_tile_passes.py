"""The passes on Tile IR, each on the smallest program that shows what it decides."""

from textwrap import dedent

import pytest
import tile_samples as samples

import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import UnsupportedConstruct
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    PrimFunc,
    SourceName,
    Span,
    attrs_of,
    const_int,
    decl_buffer,
    exprs,
    free_vars,
    full_region,
    if_then,
    imm,
    loop,
    op_name,
    parse,
    region,
    scope_of,
    seq,
    statements,
    stmts_of,
    structural_equal,
    tirx,
)
from tilelang_ascend.tile import tile_op
from tilelang_ascend.transform.canonicalize.forward_copies import forward_copies
from tilelang_ascend.transform.canonicalize.merge_k_steps import merge_k_steps
from tilelang_ascend.transform.canonicalize.normalize_clears import normalize_clears
from tilelang_ascend.transform.lower.fold_clears import fold_clears
from tilelang_ascend.transform.memory.version_buffers import Sharing, version_buffers
from tilelang_ascend.transform.nests.map_grid import map_grid
from tilelang_ascend.transform.nests.split_rows import split_rows
from tilelang_ascend.transform.nests.stage_globals import stage_globals
from tilelang_ascend.transform.place.drop_dead_fills import drop_dead_fills
from tilelang_ascend.transform.place.place_buffers import place_buffers
from tilelang_ascend.transform.place.placement import find_placement

CHIP = get_chip("a2")


def calls(func, name):
    """All statements calling tile op `name`."""
    return [s for s in statements(func.body) if op_name(s) == "tl." + name]


def buffers(func):
    """name -> buffer of every declaration."""
    return {s.buffer.name: s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer)}


def shape(buffer):
    return [const_int(n) for n in buffer.ty.shape]


def loops(func):
    return {s.loop_var.name: s for s in statements(func.body) if isinstance(s, For)}


def placed(func):
    return place_buffers(normalize_clears(func))


# ---- forward_copies ------------------------------------------------------------------------------------------------


def staged_store(between=()):
    """copy(C_local, C_shared); …; copy(C_shared, C)."""
    c = decl_buffer((32, 32), "float16", "C")
    local = decl_buffer((32, 32), "float32", "C_local", scope="local.fragment")
    shared = decl_buffer((32, 32), "float16", "C_shared", scope="shared")
    body = seq(
        AllocBuffer(local), AllocBuffer(shared),
        tile_op("fill", full_region(local), imm(1.0, "float32")),
        tile_op("copy", full_region(local), full_region(shared)),
        [b(local, shared) for b in between],
        tile_op("copy", full_region(shared), full_region(c)),
    )  # fmt: skip
    return PrimFunc([c], body)


def test_forward_copies_removes_a_staging_buffer():
    out = forward_copies(staged_store())
    assert "C_shared" not in buffers(out)
    (copy,) = calls(out, "copy")
    assert [a.source.name for a in copy.value.args] == ["C_local", "C"]


@pytest.mark.parametrize(
    "between",
    [
        lambda local, shared: tile_op("fill", full_region(local), imm(2.0, "float32")),  # the source changes
        lambda local, shared: tile_op("fill", full_region(shared), imm(2.0, "float16")),  # the stage is written twice
    ],
)
def test_forward_copies_keeps_a_stage_that_holds_another_value(between):
    func = staged_store([between])
    assert structural_equal(forward_copies(func), func)


# ---- normalize_clears, fold_clears ---------------------------------------------------------------------------------


def gemm_with_clear(cond_of):

    a = decl_buffer((32, 32), "float16", "a", scope="shared")
    c = decl_buffer((32, 32), "float32", "c", scope="local.fragment")
    k = tirx.Var("k", "int32")
    step = tile_op("gemm", full_region(a), full_region(a), full_region(c), cond_of(k), transpose_A=0, transpose_B=0)
    return PrimFunc([], seq(AllocBuffer(a), AllocBuffer(c), loop(k, 4, step)))


@pytest.mark.parametrize("cond", [lambda k: tirx.EQ(k, imm(0)), lambda k: tirx.EQ(imm(0), k)])
def test_normalize_clears_hoists_a_first_iteration_test(cond):
    out = normalize_clears(gemm_with_clear(cond))
    assert len(calls(out, "fill")) == 1 and const_int(calls(out, "gemm")[0].value.args[3]) == 0


def test_normalize_clears_keeps_other_conditions():
    func = gemm_with_clear(lambda k: tirx.EQ(k, imm(1)))
    assert not calls(normalize_clears(func), "fill")


def accumulators(func):
    """Give `local.fragment` accumulators their final scope, as placement does."""
    return placed(func)


def test_fold_clears_makes_the_first_mmad_start_from_zero():
    out = fold_clears(version_buffers(map_grid(placed(samples.gemm(256, 256, 256)), CHIP), CHIP, Sharing(2)))
    assert not calls(out, "fill")
    cond = calls(out, "gemm")[0].value.args[3]
    assert isinstance(cond, tirx.EQ) and cond.a.name == "k"


def conditional_gemm(condition=lambda k: tirx.NE(k, tirx.Var("n", "int32"))):
    """fill(c); for k: if k != n: gemm — the first accumulation is not known statically."""
    a = decl_buffer((32, 32), "float16", "a", scope="shared.l1")
    c = decl_buffer((32, 32), "float32", "c", scope="local.l0c")
    k = tirx.Var("k", "int32")
    step = tile_op("gemm", full_region(a), full_region(a), full_region(c), imm(False, "bool"), transpose_A=0, transpose_B=0)
    body = seq(tile_op("fill", full_region(c), imm(0.0, "float32")), loop(k, 4, if_then(condition(k), step)))
    return PrimFunc([], seq(AllocBuffer(a), AllocBuffer(c), body))


def test_fold_clears_remembers_an_unknown_first_accumulation():
    out = fold_clears(conditional_gemm())
    assert "c_fresh" in buffers(out) and not calls(out, "fill")
    stores = [s for s in statements(out.body) if isinstance(s, BufferStore)]
    assert [const_int(s.value) for s in stores] == [1, 0]


@pytest.mark.parametrize("window, first", [(lambda k: k > 1, 2), (lambda k: k < 3, 0), (lambda k: tirx.IntImm("int32", 1) <= k, 1)])
def test_fold_clears_knows_where_windows_begin(window, first):
    func = conditional_gemm(window)
    out = fold_clears(func)
    (product,) = calls(out, "gemm")
    assert not any(isinstance(s, BufferStore) for s in statements(out.body))
    condition = product.value.args[3] if hasattr(product, "value") else product.args[3]
    assert isinstance(condition, tirx.EQ) and const_int(condition.b) == first


@pytest.mark.parametrize("leave", [tirx.Break, tirx.Continue])
def test_fold_clears_does_not_count_on_windows_of_loops_that_are_left(leave):
    """The branch that leaves is taken in all iterations but the first; what stands behind it is not."""
    func = conditional_gemm(lambda k: k < 3)
    fill, steps = stmts_of(func.body)[-2:]
    body = seq(if_then(steps.loop_var >= 1, leave()), steps.body)
    out = fold_clears(func.with_body(seq(*stmts_of(func.body)[:-2], fill, loop(steps.loop_var, 4, body))))
    (product,) = calls(out, "gemm")
    condition = product.value.args[3] if hasattr(product, "value") else product.args[3]
    assert const_int(condition) != 0


def test_fold_clears_guards_readers_of_an_unknown_first_accumulation_once():
    func = conditional_gemm()
    c = buffers(func)["c"]
    copy = tile_op("copy", full_region(c), full_region(decl_buffer((32, 32), "float32", "out")))
    again = stmts_of(func.body)[2:]
    out = fold_clears(func.with_body(seq(func.body, copy, *again, copy)))
    block = stmts_of(out.body)
    readers = [i for i, s in enumerate(block) if op_name(s) == "tl.copy"]
    assert len(readers) == 2 and len(calls(out, "zero_accumulator")) == 2
    for i in readers:
        assert [op_name(s) for s in stmts_of(block[i - 1].then_case)][0] == "tl.zero_accumulator"


def test_fold_clears_refuses_another_start_value():
    c = decl_buffer((32, 32), "float32", "c", scope="local.l0c")
    body = seq(AllocBuffer(c), tile_op("fill", full_region(c), imm(1.0, "float32")))
    with pytest.raises(UnsupportedConstruct, match="starts from"):
        fold_clears(PrimFunc([], seq(body, tile_op("fill", full_region(c), imm(0.0, "float32")))))


# ---- merge_k_steps -------------------------------------------------------------------------------------------------


def test_merge_k_steps_fills_lines_of_512_bytes():
    out = merge_k_steps(samples.gemm(256, 256, 1024, bk=32), CHIP)
    assert shape(buffers(out)["A_shared"]) == [128, 256] and shape(buffers(out)["B_shared"]) == [256, 128]
    assert const_int(loops(out)["k"].extent) == 4


@pytest.mark.parametrize("k,bk,trips", [(7 * 32, 32, 7), (32, 32, 1)])
def test_merge_k_steps_keeps_indivisible_and_short_loops(k, bk, trips):
    assert const_int(loops(merge_k_steps(samples.gemm(128, 128, k, bk=bk), CHIP))["k"].extent) == trips


def test_merge_k_steps_leaves_other_work_in_the_loop_alone():
    func = samples.gemm(128, 128, 128)

    def add_statement(body):
        return seq(body, tile_op("fill", full_region(decl_buffer((4,), "float32", "x", scope="shared")), imm(0.0, "float32")))

    inner = loops(func)["k"]
    new = For(inner.loop_var, inner.min, inner.extent, inner.kind, add_statement(inner.body), annotations=dict(inner.annotations))
    assert const_int(loops(merge_k_steps(PrimFunc(func.params, new), CHIP))["k"].extent) == 4


# ---- place_buffers -------------------------------------------------------------------------------------------------


def test_place_cube_only():
    out = placed(samples.gemm(128, 128, 128))
    assert {n: scope_of(b) for n, b in buffers(out).items()} == {
        "A_shared": "shared.l1", "B_shared": "shared.l1", "C_local": "local.l0c",
    }  # fmt: skip


def test_place_epilogue_moves_the_accumulator_to_the_vector_core():
    out = drop_dead_fills(placed(samples.gemm(128, 128, 128, epilogue=lambda c, i, j: c[i, j] + imm(1.0, "float32"))))
    scopes = {n: scope_of(b) for n, b in buffers(out).items()}
    assert scopes["C_local_l0c"] == "local.l0c" and scopes["C_local_ub"] == "shared.ub" and scopes["C_local_ws"] == "global"
    moves = [tuple(a.source.name for a in s.value.args) for s in calls(out, "copy")]
    assert moves[-3:] == [("C_local_l0c", "C_local_ws"), ("C_local_ws", "C_local_ub"), ("C_local_ub", "C")]
    assert [s.value.args[0].source.name for s in calls(out, "fill")] == ["C_local_l0c"]


def test_place_stores_the_accumulator_itself_when_it_is_current():
    out = placed(samples.minicv())
    stores = [s for s in calls(out, "copy") if s.value.args[1].source.name == "C"]
    assert stores[0].value.args[0].source.name == "C_BUF_l0c"


def attention_steps():
    """s = a @ a; p = s, by way of UB; o += p @ a: three times. Then o goes to GM by way of UB. One statement in a line."""

    def at(line):
        return Span(SourceName("kernel.py"), line, line, 1, 9)

    def tile(name, dtype, scope="local.fragment"):
        return decl_buffer((32, 32), dtype, name, scope=scope)

    def gemm(left, right, product, line):
        operands = map(full_region, (left, right, product))
        return tile_op("gemm", *operands, imm(False, "bool"), span=at(line), transpose_A=0, transpose_B=0)

    def copy(source, target, line):
        return tile_op("copy", full_region(source), full_region(target), span=at(line))

    x, y = decl_buffer((32, 32), "float16", "X"), decl_buffer((32, 32), "float32", "Y")
    a, p = tile("a", "float16", "shared"), tile("p", "float16", "shared")
    s, u, o, v = (tile(name, "float32") for name in "suov")
    step = seq(
        copy(x, a, 3), tile_op("fill", full_region(s), imm(0, "float32"), span=at(4)),
        gemm(a, a, s, 5), copy(s, u, 6), copy(u, p, 7), gemm(p, a, o, 8),
    )  # fmt: skip
    fill = tile_op("fill", full_region(o), imm(0, "float32"), span=at(1))
    body = seq([AllocBuffer(b) for b in (a, p, s, u, o, v)], fill, loop(tirx.Var("k", "int32"), 3, step), copy(o, v, 9), copy(v, y, 10))
    return PrimFunc([x, y], samples.grid([(tirx.Var("bx", "int32"), 1)], body))


def test_place_declares_the_workspaces_in_use():
    """The loop is looked at twice: `o` is on both sides in front of it, and in L0C at its end. `p` goes through GM in it."""
    out = place_buffers(attention_steps())
    workspaces = [s.buffer for s in statements(out.body) if isinstance(s, AllocBuffer) and "workspace" in s.annotations]
    used = [a.source for s in calls(out, "copy") for a in s.value.args]
    assert [b.name for b in workspaces] == ["s_ws", "p_ws", "o_ws"]
    assert all(b in used for b in workspaces)


def test_place_loads_of_an_accumulator_that_starts_anew():
    """Nothing loads L0C; what nobody reads is dropped behind."""
    a, c = decl_buffer((32, 32), "float16", "a", scope="shared"), decl_buffer((32, 32), "float32", "c", scope="local.fragment")
    x, y = decl_buffer((32, 32), "float16", "X"), decl_buffer((32, 32), "float32", "Y")
    body = seq(
        AllocBuffer(a), AllocBuffer(c),
        tile_op("copy", full_region(x), full_region(a)), tile_op("copy", full_region(y), full_region(c)),
        tile_op("gemm", *map(full_region, (a, a, c)), imm(True, "bool"), transpose_A=0, transpose_B=0),
        tile_op("copy", full_region(c), full_region(y)),
    )  # fmt: skip
    out = drop_dead_fills(placed(PrimFunc([x, y], samples.grid([(tirx.Var("bx", "int32"), 1)], body))))
    assert [tuple(a.source.name for a in s.value.args) for s in calls(out, "copy")] == [("X", "a"), ("c_l0c", "Y")]


def test_a_placement_can_be_read():
    func = attention_steps()
    assert str(find_placement(func.body.body, {})).splitlines() == [
        "a: l1",
        "p: l1",
        "s: acc, ub",
        "u: ub",
        "o: acc, ub",
        "v: ub",
        "line 6: s acc -> ub through GM",
        "line 9: o acc -> ub through GM",
    ]


# ---- stage_globals -------------------------------------------------------------------------------------------------


def test_stage_globals_gives_tiles_to_direct_nests():
    out = stage_globals(placed(samples.add(5000, staged=False)), CHIP)
    assert {"A_t", "B_t", "C_t"} <= set(buffers(out))
    assert [tuple(a.source.name for a in s.value.args) for s in calls(out, "copy")] == [("A", "A_t"), ("B", "B_t"), ("C_t", "C")]


def guarded_add(cond_of, step=256):
    """if cond: C[at] = A[at] + 1 on GM directly; blocks of 256 elements, `step` apart."""
    a, c = decl_buffer((1000,), "float32", "A"), decl_buffer((1000,), "float32", "C")
    bx, i = tirx.Var("bx", "int32"), tirx.Var("i", "int32")
    at = bx * step + i
    body = if_then(cond_of(at), BufferStore(c, a[at] + imm(1.0, "float32"), [at]))
    return PrimFunc([a, c], samples.grid([(bx, 4)], samples.parallel([(i, 256)], body)))


def test_stage_globals_drops_a_bounds_guard():
    out = stage_globals(placed(guarded_add(lambda at: at < 1000)), CHIP)
    assert [s.value.args[0].source.name for s in calls(out, "copy")] == ["A", "C_t"]


@pytest.mark.parametrize("condition, element_by_element", [(lambda at: at < 500, False), (lambda at: at % 3 == 1, True)])
def test_stage_globals_stores_what_other_conditions_select(condition, element_by_element):
    """The old values are not read where the elements between may belong to another block: here the tiles overlap."""
    out = stage_globals(placed(guarded_add(condition, step=200)), CHIP)
    moved = [(s.value.args[0].source.name, s.value.args[1].source.name) for s in calls(out, "copy")]
    assert [a for a, _ in moved if a in ("A", "C")] == ["A"] and {b for _, b in moved} == {"A_t", "C"}
    assert any("tl.slow" in s.annotations for s in statements(out.body) if isinstance(s, For)) == element_by_element


def test_stage_globals_writes_back_what_it_has_read_where_nobody_else_does():
    out = stage_globals(placed(guarded_add(lambda at: at % 3 == 1)), CHIP)
    moved = [(s.value.args[0].source.name, s.value.args[1].source.name) for s in calls(out, "copy")]
    assert moved == [("A", "A_t"), ("C", "C_t"), ("C_t", "C")]
    assert not any("tl.slow" in s.annotations for s in statements(out.body) if isinstance(s, For))


def test_stage_globals_cuts_large_nests():
    out = stage_globals(placed(samples.add(1 << 20, block=1 << 18, staged=False)), CHIP)
    assert "i_part" in loops(out)
    covered = sum(const_int(s.extent) for s in statements(out.body) if isinstance(s, For) and s.loop_var.name == "i")
    chunks = const_int(loops(out)["i_part"].extent)
    sizes = [const_int(s.extent) for s in statements(out.body) if isinstance(s, For) and s.loop_var.name == "i"]
    assert chunks * sizes[0] + (covered - sizes[0]) == 1 << 18


def test_a_tile_the_cube_core_gets_from_the_vector_cores_is_not_loaded_there():
    @T.prim_func
    def k(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(64, 64):
                a[i, j] = a[i, j] * T.float16(2.0)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, C)

    before = placed(k)
    loads = lambda f: [x for x in calls(f, "copy") if x.value.args[0].source.name == "A"]  # noqa: E731
    assert len(loads(before)) == 2 and len(loads(drop_dead_fills(before))) == 1


# ---- map_grid ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles,blocks", [(1, 1), (5, 5), (48, 48), (49, 48), (1000, 48)])
def test_map_grid_covers_every_tile_once(tiles, blocks):
    out = map_grid(placed(samples.add(tiles * 1024)), CHIP)
    assert int(out.attrs["ascend.block_dim"]) == blocks
    trips = loops(out)["t"].extent if "t" in loops(out) else imm(1)
    block = next(s.var for s in statements(out.body) if op_name(getattr(s, "value", None)) == "ascend.get_block_idx")
    from tilelang_ascend.ir import substitute_expr, sym

    per_block = [const_int(sym.Analyzer().simplify(substitute_expr(trips, {block: imm(b)}))) for b in range(blocks)]
    assert sum(per_block) == tiles and max(per_block) - min(per_block) <= 1


def test_map_grid_uses_cube_cores_for_cube_work():
    assert int(map_grid(placed(samples.gemm(4096, 4096, 64)), CHIP).attrs["ascend.block_dim"]) == CHIP.num_aic


def heads_of_sequences(batch: int, keys: int):
    """Blocks (sequence, head): each loads the 128 numbers of its head of every key, 256 bytes of a line of L2."""

    @T.prim_func
    def k(K: T.Tensor((batch, keys, 8, 128), "float16"), Y: T.Tensor((batch, 8, 64, 128), "float16")):
        with T.Kernel(batch, 8) as (sequence, head):
            k_shared = T.alloc_shared((64, 128), "float16")
            for step in T.serial(keys // 64):
                T.copy(K[sequence, step * 64 : step * 64 + 64, head, :], k_shared)
            T.copy(k_shared, Y[sequence, head, :, :])

    return k


@pytest.mark.parametrize("keys, fastest", [(8192, "head"), (64, "sequence")])
def test_blocks_that_share_lines_of_l2_have_neighbouring_numbers(keys, fastest):
    """Where L2 holds the tensor, the order stays what the source says."""
    out = map_grid(placed(heads_of_sequences(32, keys)), CHIP)
    axes = [s for s in statements(out.body) if isinstance(s, Bind) and s.var.name in ("sequence", "head")]
    assert axes[0].var.name == fastest
    ranges = {"sequence": 32, "head": 8}
    tile = next(s for s in statements(out.body) if isinstance(s, Bind) and s.var.name == "tile").var
    from tilelang_ascend.ir import substitute_expr, sym

    at = lambda s, n: const_int(sym.Analyzer().simplify(substitute_expr(s.value, {tile: imm(n)})))  # noqa: E731
    assert len({tuple(at(s, n) for s in axes) for n in range(256)}) == 256
    assert all(max(at(s, n) for n in range(256)) == ranges[s.var.name] - 1 for s in axes)


# ---- split_rows ----------------------------------------------------------------------------------------------------


def mixed(bm):
    func = samples.gemm(512, 512, 256, bm=bm, epilogue=lambda c, i, j: c[i, j] + tirx.Cast("float32", i))
    return split_rows(map_grid(drop_dead_fills(placed(func)), CHIP))


def test_split_rows_halves_tiles_and_shifts_indices():
    out = mixed(64)
    assert shape(buffers(out)["C_local_ub"]) == [32, 128]
    assert const_int(loops(out)["i"].extent) == 32
    store = next(s for s in statements(out.body) if isinstance(s, BufferStore))
    assert "sub_block * 32" in str(store.value)
    assert str(store.indices[0]) == "i"


def test_split_rows_is_exact_for_odd_sizes():
    out = mixed(33)
    assert shape(buffers(out)["C_local_ub"]) == [17, 128]
    store = [s for s in calls(out, "copy") if s.value.args[1].source.name == "C"][0]
    assert "T.min(17, 33 - sub_block * 17)" in str(store.value.args[0].region[0].extent)


def test_split_rows_leaves_vector_only_kernels_alone():
    func = map_grid(placed(samples.add(4096)), CHIP)
    assert structural_equal(split_rows(func), func)


# ---- version_buffers -----------------------------------------------------------------------------------------------


def test_version_buffers_numbers_each_loop_by_itself():
    """A tile that only the first of two loops needs several versions of: the second one uses one, and not by the variable of the first."""
    out = version_buffers(
        parse(
            dedent(
                """
                @T.prim_func
                def main(A: T.Buffer((16,), "float32")):
                    a = T.alloc_buffer((16,), "float32", scope="shared.ub")
                    b = T.alloc_buffer((16,), "float32", scope="shared.ub")
                    for k in T.serial(4, annotations={"tl.skew": "0 1"}):
                        T.tl.fill(a[0:16], T.float32(0))
                        T.tl.copy(a[0:16], b[0:16])
                    for r in range(3):
                        T.tl.fill(a[0:16], T.float32(0))
                        T.tl.copy(a[0:16], b[0:16])
                """
            ).strip()
        ),
        CHIP,
        Sharing(2),
    )
    first, second = (s for s in stmts_of(out.body) if isinstance(s, For))
    assert first.loop_var in _variables(first.body)
    assert not _variables(second.body) & {first.loop_var}


SLICES = """
@T.prim_func
def main(A: T.Buffer((64, 128), "float16")):
    a = T.alloc_buffer((64, 128), "float16", scope="shared.l1")
    b = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
    c = T.alloc_buffer((64, 32), "float32", scope="local.l0c")
    for t in range(4):
        for k in range(4):
            if t == 0:
                T.tl.copy(A[0:64, k * 32:k * 32 + 32], a[0:64, k * 32:k * 32 + 32])
            T.Call("tl.gemm", [a[0:64, {slice}], b[0:32, 0:32], c[0:64, 0:32], T.bool(False)], attrs={{"transpose_A": 0, "transpose_B": 0}}, ret_ty="void")
"""


@pytest.mark.parametrize("used, versions", [("k * 32:k * 32 + 32", 4), ("t * 32:t * 32 + 32", 1), ("32:64", 1), ("k * 16:k * 16 + 32", 1)])
def test_version_buffers_numbers_slices_that_iterations_keep_to(used, versions):
    """Slices of a loop are versions of a smaller tile, unless somebody looks at another one: of a loop inside of which the first one runs, of no
    loop, or at parts of two."""
    out = version_buffers(parse(SLICES.format(slice=used).strip()), CHIP, Sharing(2))
    a = buffers(out)["a"]
    assert shape(a) == ([4, 64, 32] if versions == 4 else [1, 64, 128])
    if versions == 4:
        load, product = calls(out, "copy")[0].value.args[1], calls(out, "gemm")[0].value.args[0]
        assert [str(r.min) for r in load.region] == [str(r.min) for r in product.region] == ["k % 4", "0", "0"]


def test_version_buffers_leaves_slices_of_parts_of_fractals_together():
    """Each of them would be padded to a whole one: sixteen slices of eight columns take twice the room."""
    narrow = (
        SLICES.format(slice="k * 8:k * 8 + 8").replace("k * 32:k * 32 + 32", "k * 8:k * 8 + 8").replace("k in range(4)", "k in range(16)")
    )
    assert shape(buffers(version_buffers(parse(narrow.strip()), CHIP, Sharing(2)))["a"]) == [1, 64, 128]


def _variables(body) -> set:
    return set().union(*(free_vars(e) for s in statements(body) for e in exprs(s)))


def test_version_buffers_double_buffers_what_each_iteration_overwrites():
    out = version_buffers(map_grid(placed(samples.gemm(1024, 1024, 1024)), CHIP), CHIP, Sharing(2))
    found = {n: shape(b)[0] for n, b in buffers(out).items()}
    assert found == {"A_shared": 2, "B_shared": 2, "C_local": 2}
    load = calls(out, "copy")[0].value.args[1]
    assert str(load.region[0].min) == "k % 2"


def test_version_buffers_respects_num_stages_and_the_limit():
    func = map_grid(placed(samples.gemm(1024, 1024, 768, stages=3)), CHIP)
    assert shape(buffers(version_buffers(func, CHIP, Sharing(4)))["A_shared"])[0] == 3
    assert shape(buffers(version_buffers(func, CHIP, Sharing(1)))["A_shared"])[0] == 1


def test_version_buffers_keeps_single_copies_that_exceed_the_memory():
    out = version_buffers(split_rows(map_grid(placed(samples.minicv()), CHIP)), CHIP, Sharing(2))
    found = {n: shape(b)[0] for n, b in buffers(out).items()}
    assert found["C_BUF_l0c"] == 1 and found["B_BUF"] == 1


def test_version_buffers_keeps_carried_tiles_single():
    x = decl_buffer((1024,), "float32", "x", scope="shared.ub")
    a = decl_buffer((4096,), "float32", "A")
    k, i = tirx.Var("k", "int32"), tirx.Var("i", "int32")
    step = seq(
        tile_op("copy", region(a, [k * 1024], [512]), region(x, [0], [512])),
        samples.parallel([(i, 1024)], BufferStore(x, x[i] + imm(1.0, "float32"), [i])),
    )
    out = version_buffers(PrimFunc([a], seq(AllocBuffer(x), loop(k, 4, step))), CHIP, Sharing(2))
    assert shape(buffers(out)["x"]) == [1, 1024]


@pytest.mark.parametrize("elements, trips, limit, versions", [
    (4096, 100, 6, 3), (4096, 10, 6, 2), (2048, 100, 6, 4), (1024, 100, 6, 6), (1024, 100, 4, 4), (512, 8, 6, 4), (512, 64, 6, 6), (512, 3, 6, 3),
])  # fmt: skip
def test_version_buffers_has_as_much_under_way_as_memory_takes(elements, trips, limit, versions):
    """Small tiles get more versions, of few trips a number that divides them: a loop that runs again begins with version 0."""
    a, x, k = (
        decl_buffer([elements * trips], "float32", "A"),
        decl_buffer([elements], "float32", "x", scope="shared.ub"),
        tirx.Var("k", "int32"),
    )
    step = seq(
        tile_op("copy", region(a, [k * elements], [elements]), full_region(x)),
        tile_op("copy", full_region(x), region(a, [k * elements], [elements])),
    )
    out = version_buffers(PrimFunc([a], seq(AllocBuffer(x), loop(k, trips, step))), CHIP, Sharing(limit))
    assert shape(buffers(out)["x"])[0] == versions


@pytest.mark.parametrize("second, versions", [(512, 2), (768, 1)])
def test_version_buffers_adds_up_partial_loads(second, versions):
    """Two halves overwrite a tile together; with a gap between them something is carried over."""
    x = decl_buffer((1024,), "float32", "x", scope="shared.ub")
    a = decl_buffer((4096,), "float32", "A")
    k = tirx.Var("k", "int32")
    step = seq(
        tile_op("copy", region(a, [k * 1024], [512]), region(x, [0], [512])),
        tile_op("copy", region(a, [k * 1024 + second], [1024 - second]), region(x, [second], [1024 - second])),
        tile_op("copy", region(x, [0], [1024]), region(a, [k * 1024], [1024])),
    )
    out = version_buffers(PrimFunc([a], seq(AllocBuffer(x), loop(k, 4, step))), CHIP, Sharing(2))
    assert shape(buffers(out)["x"]) == [versions, 1024]


def test_loads_nobody_reads_are_dropped():
    x, y = (decl_buffer((1024,), "float32", n, scope="shared.ub") for n in "xy")
    a, c = decl_buffer((1024,), "float32", "A"), decl_buffer((1024,), "float32", "C")
    load = [tile_op("copy", full_region(a), full_region(b)) for b in (x, y)]
    out = drop_dead_fills(PrimFunc([a, c], seq(AllocBuffer(x), AllocBuffer(y), load, tile_op("copy", full_region(x), full_region(c)))))
    assert [s.value.args[1].source.name for s in calls(out, "copy")] == ["x", "C"]


@pytest.mark.parametrize(
    "use, dropped", [("overwritten", 1), ("read behind the loop", 0), ("read at the start", 0), ("loop in a branch", 0)]
)
def test_fills_that_the_next_iteration_overwrites_are_dropped(use, dropped):
    x, k, bx = decl_buffer((1024,), "float32", "x", scope="shared.ub"), tirx.Var("k", "int32"), tirx.Var("bx", "int32")
    a, c = decl_buffer((1024,), "float32", "A"), decl_buffer((1024,), "float32", "C")
    load, store = (tile_op("copy", *map(full_region, pair)) for pair in ((a, x), (x, c)))
    body = [load, store, tile_op("fill", full_region(x), imm(0.0, "float32"))]
    each = loop(k, tirx.Var("n", "int32"), seq(*([store] if use == "read at the start" else []), *body))
    if use == "loop in a branch":
        each = if_then(bx > 1, each)  # what stands behind it is not looked up
    behind = [store] if use == "read behind the loop" else []
    func = PrimFunc([a, c], samples.grid([(bx, 4)], seq(AllocBuffer(x), each, *behind)))
    assert len(calls(drop_dead_fills(func), "fill")) == 1 - dropped


def test_attrs_survive():
    out = version_buffers(map_grid(placed(samples.gemm(256, 256, 256, trans_b=1)), CHIP), CHIP, Sharing(2))
    assert int(attrs_of(calls(out, "gemm")[0])["transpose_B"]) == 1


def test_stage_globals_clips_the_store_of_a_prefix():
    """`if i < n` with a run-time n writes n elements, and leaves what other programs own alone."""
    a, c, n = decl_buffer((1000,), "float32", "A"), decl_buffer((1000,), "float32", "C"), tirx.Var("n", "int32")
    bx, i = tirx.Var("bx", "int32"), tirx.Var("i", "int32")
    body = if_then(i < n, BufferStore(c, a[bx * 256 + i] + imm(1.0, "float32"), [bx * 256 + i]))
    func = PrimFunc([n, a, c], samples.grid([(bx, 4)], samples.parallel([(i, 256)], body)))
    out = stage_globals(placed(func), CHIP)
    assert [s.value.args[0].source.name for s in calls(out, "copy")] == ["A", "C_t"]
    assert str(calls(out, "copy")[1].value.args[1].region[0].extent) == "T.max(T.min(256, n), 0)"
