"""Attention with steps of more keys than L0C and UB hold: products in parts, vector work in slices of rows, early and late products in one loop."""

import attention_cases as cases
import merging
import numpy as np
import pytest
import strict
from test_merge_steps import check, merged, tensors

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Var,
    const_int,
    decl_buffer,
    imm,
    op_name,
    scope_of,
    statements,
    stmts_of,
)
from tilelang_ascend.sim.validate import validate
from tilelang_ascend.tile import COPY, GEMM, is_op
from tilelang_ascend.tile.uses import uses_of
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.nests.gathered import gathered


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Long steps are worth it where there are eight of them; four are tested in half of the time."""
    monkeypatch.setattr("tilelang_ascend.transform.nests.merge_steps.LONG_STEPS", ((512, 4, 4),))


FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


def compile(variant="", steps=32, rows=64, block=64, dtype="float16", **how):
    return tilelang.compile(merging.forward(variant, keys=steps * block, dtype=dtype, rows=rows, block=block), **how)


def given(steps=32, rows=64, block=64, dtype="float16"):
    return tensors(steps * block, dtype, rows, block)


def stage(compiled, name: str):
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), keep_stages=True)
    return [ir for found, ir in lowered.stages if found == name][-1]


def loops_inside(body):
    """Loops of one kind of core in another loop: (of the cube core, of the vector cores)."""
    found = [
        s
        for loop in statements(body)
        if isinstance(loop, For)
        for s in statements(loop.body)
        if isinstance(s, For) and s.kind == ForKind.SERIAL
    ]
    scopes = [{scope_of(b) for b in uses_of(s).all} for s in dict.fromkeys(found)]
    return sum("local.l0c" in x and "shared.ub" not in x for x in scopes), sum("shared.ub" in x and "local.l0c" not in x for x in scopes)


def test_products_have_parts_and_rows_have_slices():
    compiled = compile()
    assert merged(compiled)
    cube, vector = loops_inside(stage(compiled, "slice_rows").body)
    assert cube >= 2 and vector == 1
    # Side by side: one loop has products of both iterations.
    rotated = stage(compiled, "rotate_loops").body
    both = [s for s in statements(rotated) if isinstance(s, For) and sum(is_op(x, GEMM) for x in statements(s.body)) == 2]
    assert both and "shared.ub" not in {scope_of(b) for b in uses_of(both[-1]).all}
    check(compiled, given(), "", text=True)


@pytest.mark.parametrize("variant", ["natural", "two outputs"])
def test_variants(variant):
    check(compile(variant), given(), variant)


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_other_chips(chip):
    check(compile(target=chip), given(), "")


@pytest.mark.parametrize("steps, rows, block", [(35, 64, 64), (16, 128, 128)], ids=["steps left over", "128 rows"])
def test_shapes(steps, rows, block):
    compiled = compile("", steps, rows, block)
    assert merged(compiled)
    check(compiled, given(steps, rows, block), "")


def test_numbers_of_steps_of_run_time():
    """The steps left over take turns with the long ones, in the same memory."""
    compiled = compile("lengths", 32, 128, 128)
    assert any("512 keys" in note for note in compiled.artifact.notes)
    for n in (0, 1664, 2047):
        check(compiled, given(32, 128, 128) | {"n": n}, "lengths", text=n == 1664)


def test_flags_of_a_number_of_steps_of_run_time():
    compiled, arrays = compile("lengths", 32, 128, 128), given(32, 128, 128) | {"n": 1664}
    survivors = strict.surviving_mutants(compiled, {n: x for n, x in arrays.items() if n != "n"}, {"n": arrays["n"]})
    assert [x for x in survivors if "flag" in x] == []


def test_bfloat16():
    check(compile(dtype="bfloat16"), given(dtype="bfloat16"), "", dtype="bfloat16")


def test_maxima_of_what_crosses_as_float16():
    """With fast math scores cross as float16, and their maxima are found before they are converted."""
    compiled, arrays = compile(pass_configs=FAST), given()
    arrays["Q"] /= 8
    got, expected = strict.run(compiled, {n: x for n, x in arrays.items() if n != "n"}, {"n": arrays["n"]}), merging.reference(arrays, "")
    assert (abs(got["O"] - expected["O"]) <= 2**-8 * expected["size"]).all()
    np.testing.assert_allclose(got["X"], expected["X"], rtol=2**-10)


def test_no_flag_can_be_left_out():
    compiled, arrays = compile("", 32), given(32)
    survivors = strict.surviving_mutants(compiled, {n: x for n, x in arrays.items() if n != "n"}, {"n": arrays["n"]})
    assert [x for x in survivors if "flag" in x] == []


def long_tiles(steps, rows=64, block=512, dim=32, masked=False):
    """Attention whose own tiles are that long; names of an iteration say where its keys are. `masked`: row i sees keys up to 8 * i."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, dim), "float16"),
        K: T.Tensor((steps * block, dim), "float16"),
        V: T.Tensor((steps * block, dim), "float16"),
        O: T.Tensor((rows, dim), "float32"),
        first: T.int32,
    ):
        with T.Kernel(1, threads=128) as _:
            q, k_s = T.alloc_shared((rows, dim), "float16"), T.alloc_shared((block, dim), "float16")
            v_s, p = T.alloc_shared((block, dim), "float16"), T.alloc_fragment((rows, block), "float16")
            s, o = T.alloc_fragment((rows, block), "float32"), T.alloc_fragment((rows, dim), "float32")
            m, before = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            total, length = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(Q, q)
            T.clear(o)
            T.clear(length)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(steps, num_stages=2):
                place = (k + first) % steps
                row = place * block
                T.copy(K[row, 0], k_s)
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                if masked:
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(row + j <= 8 * i, s[i, j], -T.infinity("float32"))
                T.copy(m, before)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(rows, block):
                    s[i, j] = T.exp(s[i, j] - m[i])
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(rows):
                    length[i] = length[i] * T.exp(before[i] - m[i]) + total[i]
                T.copy(s, p)
                for i, j in T.Parallel(rows, dim):
                    o[i, j] *= T.exp(before[i] - m[i])
                T.copy(V[row, 0], v_s)
                T.gemm(p, v_s, o)
            for i, j in T.Parallel(rows, dim):
                o[i, j] = o[i, j] / length[i]
            T.copy(o, O)

    return kernel


def test_slices_share_barriers():
    """A slice is added up beside the search for maxima of the next one: each step of both waits behind one barrier, between their windows."""
    lowered = pipeline.lower(long_tiles(4), get_chip("a2"), options=pipeline.Options(fast_math=True), keep_stages=True)
    body = next(ir.body for name, ir in lowered.stages if name == "insert_sync")
    (slices,) = [s for s in statements(body) if isinstance(s, For) and sum(isinstance(x, IfThenElse) for x in stmts_of(s.body)) > 4]
    barriers = [s for s in statements(slices.body) if op_name(s) == "ascend.pipe_barrier"]
    assert len(barriers) == 5 and all(s in stmts_of(slices.body) for s in barriers)


def test_slices_share_barriers_behind_masks():
    """A mask works on float16 scores in front of their maximum, and nobody waits for it beside sums of the slice before."""
    steps, rows = 4, 128
    func = long_tiles(steps, rows, masked=True)
    lowered = pipeline.lower(func, get_chip("a2"), options=pipeline.Options(fast_math=True), keep_stages=True)
    body = next(ir.body for name, ir in lowered.stages if name == "insert_sync")
    assert any(isinstance(s, For) and sum(isinstance(x, IfThenElse) for x in stmts_of(s.body)) > 4 for s in statements(body))
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(n, 32)).astype(np.float16) for n in (rows, 512 * steps, 512 * steps))
    compiled = tilelang.compile(func, pass_configs=FAST)
    got = strict.run(compiled, {"Q": q, "K": k, "V": v, "O": np.zeros((rows, 32), np.float32)}, {"first": 0})["O"]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.where(np.arange(512 * steps) <= 8 * np.arange(rows)[:, None], q @ k.T, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    # Scores of up to 32 are off by 2^-7 when they cross.
    np.testing.assert_allclose(got, p @ v / p.sum(axis=1, keepdims=True), atol=2.0**-6)


def test_slices_of_what_is_changed_in_place_stay_in_step():
    """The next slice would be loaded when this one is stored, and early work with it wait for that."""
    body = stage(compile(), "insert_sync").body
    assert not any(isinstance(s, For) and sum(isinstance(x, IfThenElse) for x in stmts_of(s.body)) > 4 for s in statements(body))


def test_outputs_are_added_in_quarters_and_parts_have_four_places():
    """What stands beside slices leaves them room, and loads go on while they are added, as loads of parts while a product leaves L0C."""
    func = long_tiles(8, rows=128, block=1024, dim=128)
    lowered = pipeline.lower(func, get_chip("Ascend910B1"), keep_stages=True)
    shapes = {
        name: {s.buffer.name: [int(n) for n in s.buffer.ty.shape] for s in statements(ir.body) if isinstance(s, AllocBuffer)}
        for name, ir in lowered.stages
        if name in ("slice_rows", "version_buffers")
    }
    assert shapes["slice_rows"]["o"] == [64, 128] and shapes["slice_rows"]["o_product_ub"] == [16, 128]
    assert shapes["version_buffers"]["o_product_ub"] == [4, 16, 128]
    assert shapes["version_buffers"]["k_s"][0] == shapes["version_buffers"]["v_s"][0] == 4


@pytest.mark.parametrize("chip, heads", [("a2", 32), ("a5", 16)])
def test_keys_that_are_values_are_loaded_for_either_product(chip, heads):
    """Latent attention: 512 keys of 512 numbers do not fit L1, parts of them for scores, and other parts for the output, do."""
    case = cases.mla(1, heads, 2048, 512, 64, bN=64, bH=heads)

    def run(kernel, arrays):
        compiled = tilelang.compile(kernel, target=chip)
        assert any("512 keys" in note for note in compiled.artifact.notes)
        loads = [s for s in statements(stage(compiled, "part_products").body) if is_op(s, COPY) and s.value.args[0].source.name == "KV"]
        assert [[const_int(r.extent) for r in s.value.args[1].region] for s in loads] == [[64, 512], [512, 64]]
        return strict.run(compiled, arrays)

    cases.check(case, run)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["a2", "a3"])
def test_steps_are_shorter_where_parts_of_long_ones_were_narrow(chip):
    """128 rows of 512 numbers fill most of UB: what is stored behind the loop goes through it in slices. L1 would hold parts of 32 keys of a step of
    512."""

    def run(kernel, arrays):
        compiled = tilelang.compile(kernel, target=chip)
        assert any("256 keys" in note for note in compiled.artifact.notes) and not any("parts" in note for note in compiled.artifact.notes)
        return strict.run(compiled, arrays)

    cases.check(cases.mla(1, 128, 2048, 512, 64, bN=64, bH=128), run)


def test_names_of_an_iteration_are_known_in_all_its_parts():
    steps, rng = 5, np.random.default_rng(2)
    compiled = tilelang.compile(long_tiles(steps))
    q, k, v = (rng.standard_normal((n, 32)).astype(np.float16) for n in (64, steps * 512, steps * 512))
    got = strict.run(compiled, {"Q": q, "K": k, "V": v, "O": np.zeros((64, 32), np.float32)}, {"first": 3}, text=False)["O"]
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    assert (abs(got - weights @ v) <= 2**-9 * (weights @ abs(v.astype(np.float64))) + 1e-6).all()


def decayed(rows=128, block=256, dim=256, steps=2):
    """O = sum over k of 2^(k + 1 - steps) (Q @ K_k^T * exp(D_k) / 16) @ V_k: the outputs decay whatever the scores are."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, dim), "float16"),
        K: T.Tensor((steps * block, dim), "float16"),
        V: T.Tensor((steps * block, dim), "float16"),
        D: T.Tensor((rows, steps * block), "float32"),
        O: T.Tensor((rows, dim), "float32"),
    ):
        with T.Kernel(1):
            q, k_s = T.alloc_shared((rows, dim), "float16"), T.alloc_shared((block, dim), "float16")
            v_s, p = T.alloc_shared((block, dim), "float16"), T.alloc_fragment((rows, block), "float16")
            s, d = T.alloc_fragment((rows, block), "float32"), T.alloc_fragment((rows, block), "float32")
            o = T.alloc_fragment((rows, dim), "float32")
            T.copy(Q, q)
            T.clear(o)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(K[k * block, 0], k_s)
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                T.copy(D[0, k * block], d)
                for i, j in T.Parallel(rows, block):
                    d[i, j] = T.exp(d[i, j])
                for i, j in T.Parallel(rows, dim):
                    o[i, j] *= 0.5
                for i, j in T.Parallel(rows, block):
                    p[i, j] = s[i, j] * d[i, j] * 0.0625
                T.copy(V[k * block, 0], v_s)
                T.gemm(p, v_s, o)
            T.copy(o, O)

    return kernel


def test_each_slice_works_on_rows_of_its_own():
    """Outputs have nothing to do with the rows of weights that are loaded beside them: in slices of these they would decay once for each slice."""
    func, rng = decayed(), np.random.default_rng(4)
    lowered = pipeline.lower(func, get_chip("Ascend910B1"), keep_stages=True)
    (sliced,) = [ir for name, ir in lowered.stages if name == "slice_rows"]
    assert loops_inside(sliced.body)[1] >= 3
    arrays = [(rng.standard_normal([int(n) for n in p.ty.shape]) / 2).astype(str(p.ty.dtype)) for p in func.params]
    found = validate([("tile_ir", func), *lowered.stages], arrays)
    assert found.finding is None, found.finding.text()


def test_parts_of_a_tile_multiplied_with_itself():
    """A part of its rows needs all of the others: they are had twice."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 256, 64), "float16"), Y: T.Tensor((4, 256, 256), "float32")):
        with T.Kernel(1):
            a, s = T.alloc_shared((256, 64), "float16"), T.alloc_fragment((256, 256), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, s, transpose_B=True, clear_accum=True)
                T.copy(s, Y[k, 0, 0])

    a = np.random.default_rng(0).integers(-3, 4, (4, 256, 64)).astype(np.float16)
    got = strict.run(tilelang.compile(kernel), dict(A=a, Y=np.zeros((4, 256, 256), np.float32)), {}, text=False)["Y"]
    wide = a.astype(np.float32)
    np.testing.assert_array_equal(got, wide @ wide.swapaxes(1, 2))


def test_statements_put_together_keep_names_in_order():
    """A name that reads what one of them writes, and that another one asks for, cannot stand behind both."""
    x, y = (decl_buffer([8], "int32", n, scope="shared.ub") for n in "xy")
    n = Var("n", "int32")
    first, name, last = BufferStore(x, imm(1), [imm(0)]), Bind(n, BufferLoad(x, [imm(0)])), BufferStore(y, n, [imm(0)])
    assert gathered([first, name, last], {0, 2}) is None
    assert gathered([first, name, last], {0, 1, 2}) == ([], [])
