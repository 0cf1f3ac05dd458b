"""split_cores: each core gets its own statements and nothing else."""

from __future__ import annotations

import sync_kernels as K

from tilelang_ascend.analysis.dependence.core_use import call_of, core_of_operands
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    decl_buffer,
    imm,
    intrin,
    loop,
    seq,
    statements,
)
from tilelang_ascend.transform.cores.split_cores import split_cores
from tilelang_ascend.transform.sync.insert_sync import insert_sync

CHIP = get_chip("a2")


def parts(func):
    return {str(f.attrs["ascend.core"]): f for f in split_cores(insert_sync(func, CHIP)).functions.values()}


def names(func):
    return [call_of(s).op.name.removeprefix("ascend.") for s in statements(func.body) if call_of(s) is not None]


def test_vector_kernel_is_vector_only():
    func = parts(K.vector_add())
    assert list(func) == ["aiv"]
    assert func["aiv"].attrs["ascend.kernel_type"] == "aiv_only"
    assert func["aiv"].attrs["global_symbol"] == "kernel_aiv"
    assert func["aiv"].attrs["ascend.kernel_name"] == "kernel"


def test_gemm_is_cube_only():
    func = parts(K.gemm(tiles=3))
    assert list(func) == ["aic"] and func["aic"].attrs["ascend.kernel_type"] == "aic_only"


def test_mix_parts_hold_their_own_instructions():
    func = parts(K.mix())
    assert sorted(func) == ["aic", "aiv"]
    for core, part in func.items():
        assert part.attrs["ascend.kernel_type"] == "mix_1_2"
        assert {core_of_operands(call_of(s)) for s in statements(part.body) if call_of(s) is not None} <= {core, None}
        assert {core} == {c for c in map(_core_of_alloc, statements(part.body)) if c}
        assert len(part.params) == 4
    assert "get_sub_block_idx" in names(func["aiv"]) and "get_sub_block_idx" not in names(func["aic"])
    assert "mmad" in names(func["aic"]) and "exp" in names(func["aiv"])


def test_synchronisation_loses_its_core_attr_and_stays_correct():
    for part in (*parts(K.gemm(tiles=3)).values(), *parts(K.vector_add("n")).values()):
        for s in statements(part.body):
            assert call_of(s) is None or call_of(s).attrs is None or "core" not in call_of(s).attrs
        assert sync_covers(part, CHIP) == []


def test_cross_core_counts_balance():
    for kernel in (K.mix(), K.mix(versions=3), K.flash()):
        func = parts(kernel)
        sets = {core: _counts(part, "cross_core_set_flag") for core, part in func.items()}
        waits = {core: _counts(part, "cross_core_wait_flag") for core, part in func.items()}
        assert sets["aic"] == waits["aiv"] and sets["aiv"] == waits["aic"]


def test_loops_and_scalars_stay_only_where_they_are_needed():
    """A counter only the vector core uses, and a loop with cube work only."""
    A, z = K.gm("A", 1 << 16), K.gm("z", 1 << 16, "float32")
    a1, a = K.local("a_l1", "shared.l1", 8192), K.ub("a", 1024)
    counter = decl_buffer([1], "int32", name="counter", scope="local.var")
    k, j, dead = K.var("k"), K.var("j"), K.var("dead")
    body = seq(
        Bind(dead, imm(3)),
        BufferStore(counter, imm(0), [0]),
        loop(j, 4, K.load_l1(K.at(a1), K.at(A, j * 8192), 128, 64)),
        loop(k, 4, seq(
            K.store_ub(K.at(z, BufferLoad(counter, [0])), K.at(a), 1024),
            BufferStore(counter, BufferLoad(counter, [0]) + 1024, [0]),
        )),
    )  # fmt: skip
    func = K.kernel([A, z], [a1, a, counter], intrin("duplicate", K.at(a), imm(0.0, "float32"), 1024), body)
    func = {str(f.attrs["ascend.core"]): f for f in split_cores(func).functions.values()}
    assert [str(s.loop_var) for s in statements(func["aic"].body) if isinstance(s, For)] == ["j"]
    assert [str(s.loop_var) for s in statements(func["aiv"].body) if isinstance(s, For)] == ["k"]
    assert not any(isinstance(s, BufferStore) for s in statements(func["aic"].body))
    assert sum(isinstance(s, BufferStore) for s in statements(func["aiv"].body)) == 2
    assert "dead" not in str(func["aic"].body) + str(func["aiv"].body)


def test_atomic_mode_goes_to_the_core_it_serves():
    A, z = K.gm("A", 1 << 16), K.gm("z", 1 << 16, "float32")
    a1, a = K.local("a_l1", "shared.l1", 8192), K.ub("a", 1024)
    body = seq(
        K.load_l1(K.at(a1), K.at(A), 128, 64),
        intrin("duplicate", K.at(a), imm(0.0, "float32"), 1024),
        intrin("set_atomic", op="add", dtype="float32"),
        K.store_ub(K.at(z), K.at(a), 1024),
        intrin("set_atomic", op="none", dtype="float32"),
    )
    func = {str(f.attrs["ascend.core"]): f for f in split_cores(K.kernel([A, z], [a1, a], body)).functions.values()}
    assert names(func["aiv"]).count("set_atomic") == 2 and names(func["aic"]).count("set_atomic") == 0


def _core_of_alloc(s):
    return ("aiv" if s.buffer.scope() == "shared.ub" else "aic") if isinstance(s, AllocBuffer) else None


def _counts(func, name) -> dict:
    """Executed flag statements by id, with the trip counts of the loops around them."""
    out: dict = {}

    def visit(s, times):
        if isinstance(s, For):
            times = times * int(s.extent.value)
        call = call_of(s)
        if call is not None and call.op.name == "ascend." + name:
            out[int(call.args[0].value)] = out.get(int(call.args[0].value), 0) + times
        from tilelang_ascend.ir import children

        for c in children(s):
            visit(c, times)

    visit(func.body, 1)
    return out
