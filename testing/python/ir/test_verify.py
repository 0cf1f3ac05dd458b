"""Every rule of the verifier, shown to fail once; legal programs pass."""

import sys
from pathlib import Path

import pytest

from tilelang_ascend import ir
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IRModule,
    PrimFunc,
    Var,
    call,
    decl_buffer,
    full_region,
    imm,
    intrin,
    loop,
    region,
    seq,
    tirx,
)
from tilelang_ascend.tile import tile_op
from tilelang_ascend.tile.verify import check_tile, verify_tile

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING), str(_TESTING / "transform")]

import ascend_ir_samples  # noqa: E402
import tile_samples  # noqa: E402

CHIP = get_chip("a2")


@pytest.mark.parametrize("name", ascend_ir_samples.SAMPLES)
def test_legal_ascend_ir(name):
    assert ir.verify_ascend(ascend_ir_samples.SAMPLES[name]().module, CHIP) == []


def test_legal_tile_ir():
    assert verify_tile(tile_samples.gemm(1024, 1000, 512)) == []
    assert verify_tile(tile_samples.add(1000)) == []


# ---- Ascend IR -----------------------------------------------------------------------------------------------------


def buf(name="u", elements=128, dtype="float32", scope="shared.ub", versions=1):
    return decl_buffer((versions, elements), dtype, name, scope=scope)


def at(buffer, offset=0, version=0):
    return BufferLoad(buffer, [version, offset])


def function(*stmts, core="aiv", kernel_type="aiv_only", params=(), **attrs):
    func = PrimFunc(list(params), seq(*stmts))
    named = {
        "global_symbol": f"k_{core}", "ascend.core": core, "ascend.kernel_type": kernel_type, "ascend.chip": CHIP.name,
        "ascend.kernel_name": "k", "ascend.workspace_bytes": [], **attrs,
    }  # fmt: skip
    return func.with_attr({k: v for k, v in named.items() if v is not None})


def alloc(buffer, address=0):
    return AllocBuffer(buffer, annotations={} if address is None else {"address": address})


U = buf()
X = Var("x", "int32")
GM = decl_buffer((1000,), "float32", "A")
SCALAR = decl_buffer((1,), "int32", "v", scope="local.var")
GOOD = [alloc(U), intrin("add", at(U), at(U), at(U), 128)]
DUP = loop(Var("i", "int32"), 4, GOOD[1])
FLAG = lambda kind, event, n=0: intrin(f"{kind}_flag", n, event=event)  # noqa: E731
L0C = buf("c", 256, "float32", "local.l0c")

BAD_ASCEND = {
    "undefined": [alloc(U), intrin("add", at(U), at(U), at(U), X)],
    "undefined buffer": [intrin("add", at(U), at(U), at(U), 128)],
    "redefinition": [alloc(U), alloc(U)],
    "loop": [alloc(U), For(Var("i", "int32"), imm(0), imm(4), ForKind.PARALLEL, GOOD[1])],
    "loop start": [alloc(U), For(Var("i", "int32"), imm(1), imm(4), ForKind.SERIAL, GOOD[1])],
    "scope": [alloc(buf(scope="shared.l1"))],
    "scope of another kind": [alloc(buf(scope="shared"))],
    "shape": [AllocBuffer(decl_buffer((128,), "float32", "u", scope="shared.ub"), annotations={"address": 0})],
    "address": [alloc(U, None)],
    "alignment": [alloc(U, 16)],
    "alignment of a head": [alloc(U), intrin("add", at(U, 4), at(U), at(U), 64)],
    "capacity": [alloc(buf(elements=1 << 16))],
    "op": [alloc(U), Evaluate(call("ascend.addd", [at(U)]))],
    "op of Tile IR": [alloc(U), tile_op("fill", region(U, [0, 0], [1, 128]), 0.0)],
    "core": [intrin("mmad", *(at(U),) * 3, 16, 16, 16, 0, 0, 1), alloc(U)],
    "arguments": [alloc(U), intrin("add", at(U), at(U), at(U))],
    "operand": [alloc(U), intrin("add", imm(0), at(U), at(U), 128)],
    "value": [Evaluate(call("ascend.get_block_idx", [], dtype="int32"))],
    "value bound": [alloc(U), Bind(X, call("ascend.add", [at(U), at(U), at(U), 128], dtype="int32"))],
    "check": [alloc(U), intrin("exp_mask", at(U), at(U), 0, 1, 256, 1, 1, 8, 8)],
    "check dtype": [
        alloc(buf(dtype="bfloat16")),
        *(lambda b: [alloc(b), intrin("exp", at(b), at(b), 16)])(buf("b", dtype="bfloat16")),
    ],
    "space": [alloc(U), intrin("copy_ub_to_ub", at(U), BufferLoad(GM, [0]), 1, 1, 0, 0)],
    "extent": [alloc(U), intrin("add", at(U), at(U), at(U, 8), 128)],
    "store": [alloc(U), BufferStore(U, tirx.const(1.0, "float32"), [0, 0])],
    "load": [alloc(U), AllocBuffer(SCALAR), BufferStore(SCALAR, tirx.Cast("int32", at(U)), [0])],
    "nested": [AllocBuffer(SCALAR), BufferStore(SCALAR, call("ascend.get_block_idx", [], dtype="int32"), [0])],
    "event": [FLAG("set", "MTE1_M"), FLAG("wait", "MTE1_M")],
    "event-pair": [FLAG("set", "MTE2_V")],
    "event-pair wait": [FLAG("wait", "V_MTE2")],
    "pipe": [intrin("pipe_barrier", pipe="M")],
    "cross-core": [intrin("cross_core_set_flag", 0, mode="2", pipe="MTE3")],
    "check id": [FLAG("set", "MTE2_V", 8), FLAG("wait", "MTE2_V", 8)],
}


@pytest.mark.parametrize("case", BAD_ASCEND)
def test_ascend_rule(case):
    problems = ir.verify_ascend(function(*BAD_ASCEND[case], params=[GM]), CHIP)
    assert case.split()[0] in {p.rule for p in problems}, [str(p) for p in problems]


def test_the_base_of_those_cases_is_legal():
    assert ir.verify_ascend(function(*GOOD, params=[GM]), CHIP) == []
    assert ir.verify_ascend(function(alloc(U, None), GOOD[1]), CHIP, addresses=False) == []


def test_names_end_with_their_block():
    inner = Bind(X, call("ascend.get_block_idx", [], dtype="int32"))
    i = Var("i", "int32")
    body = [alloc(U), loop(i, 2, seq(inner, GOOD[1])), intrin("add", at(U), at(U), at(U), X)]
    assert "undefined" in {p.rule for p in ir.verify_ascend(function(*body), CHIP)}


def test_instructions_of_another_generation():
    a, b = buf("a", 256, "float16", "local.l0a"), buf("l", 256, "float16", "shared.l1")
    func = function(alloc(a), alloc(b), intrin("load_l0a", at(a), at(b), 0, 1, 1, 0, 0), core="aic", kernel_type="aic_only")
    assert ir.verify_ascend(func, CHIP) == []
    assert "does not exist on generation 3510" in str(ir.verify_ascend(func, get_chip("a5"))[0])


def mix(aic=(), aiv=(), params=((), ())):
    kinds = {"kernel_type": "mix_1_2"}
    return IRModule({
        "k_aic": function(*aic, core="aic", params=params[0], **kinds),
        "k_aiv": function(*aiv, core="aiv", params=params[1], **kinds),
    })  # fmt: skip


SET = intrin("cross_core_set_flag", 3, mode="2", pipe="FIX")
WAIT = intrin("cross_core_wait_flag", 3)


def test_cross_core_flags_come_in_pairs():
    assert ir.verify_ascend(mix([SET], [WAIT]), CHIP) == []
    assert {p.rule for p in ir.verify_ascend(mix([SET], []), CHIP)} == {"cross-pair"}
    assert {p.rule for p in ir.verify_ascend(mix([], [WAIT]), CHIP)} == {"cross-pair"}


def test_functions_of_a_kernel():
    assert {p.rule for p in ir.verify_ascend(IRModule({"k": function(kernel_type="mix_1_2")}), CHIP)} == {"functions"}
    different = mix(params=([GM], []))
    assert {p.rule for p in ir.verify_ascend(different, CHIP)} == {"parameters"}
    assert {p.rule for p in ir.verify_ascend(function(kernel_type=None), CHIP)} == {"attributes"}
    assert {p.rule for p in ir.verify_ascend(function(kernel_type="aic_only"), CHIP)} == {"attributes"}


def test_launches_of_a_kernel():
    def module(*launches):
        return IRModule(
            {f"k_{n}_{f.attrs['ascend.core']}": f.with_attr("ascend.launch", n) for n, parts in enumerate(launches) for f in parts}
        )

    vector, cube = function(params=[GM, X]), function(core="aic", kernel_type="aic_only", params=[GM, X])
    assert ir.verify_ascend(module([vector], [cube], [vector]), CHIP) == []
    own = function(params=[GM, X, decl_buffer((8,), "float32", "w")], **{"ascend.num_workspaces": 1, "ascend.workspace_bytes": [32]})
    assert ir.verify_ascend(module([vector], [own]), CHIP) == []
    assert {p.rule for p in ir.verify_ascend(module([vector], [function(params=[X])]), CHIP)} == {"parameters"}
    assert {p.rule for p in ir.verify_ascend(module([vector], [vector.with_attr("ascend.kernel_type", "mix_1_2")]), CHIP)} == {"functions"}


def test_check_ascend_raises_with_every_problem():
    func = function(*BAD_ASCEND["alignment"], *BAD_ASCEND["event-pair"])
    with pytest.raises(ir.VerificationError, match="2 problem") as caught:
        ir.check_ascend(func, CHIP, after="a pass")
    assert {p.rule for p in caught.value.problems} == {"alignment", "event-pair"}
    good = function(*GOOD)
    assert ir.check_ascend(good, CHIP) is good


# ---- Tile IR -------------------------------------------------------------------------------------------------------

S = decl_buffer((16, 16), "float32", "s", scope="shared")
F = decl_buffer((16, 16), "float32", "f", scope="local.fragment")
ALLOCS = [AllocBuffer(S), AllocBuffer(F)]
I = Var("i", "int32")  # noqa: E741
STORE = BufferStore(F, tirx.const(0.0, "float32"), [I, I])

BAD_TILE = {
    "scope": [AllocBuffer(decl_buffer((4,), "float32", "z", scope="shared.ub"))],
    "static-shape": [AllocBuffer(decl_buffer((Var("n", "int32"),), "float32", "z", scope="shared"))],
    "scalar-shape": [AllocBuffer(decl_buffer((2,), "int32", "z", scope="local.var"))],
    "loop": [*ALLOCS, For(I, imm(0), imm(4), ForKind.UNROLLED, STORE)],
    "grid": [*ALLOCS, For(I, imm(0), imm(4), ForKind.PARALLEL, STORE, annotations={"tl.grid": 0})],
    "parallel": [*ALLOCS, For(I, imm(0), imm(4), ForKind.PARALLEL, STORE, annotations={"tl.parallel": 2})],
    "op": [*ALLOCS, Evaluate(call("tl.mystery", [full_region(S)]))],
    "op of Ascend IR": [*ALLOCS, intrin("add", BufferLoad(S, [0, 0]), BufferLoad(S, [0, 0]), BufferLoad(S, [0, 0]), 4)],
    "arguments": [*ALLOCS, tile_op("copy", full_region(S))],
    "arguments value": [*ALLOCS, tile_op("fill", full_region(S))],
    "attributes": [*ALLOCS, tile_op("reduce", full_region(S), full_region(F), kind="sum", dim=0)],
    "attributes value": [*ALLOCS, tile_op("reduce", full_region(S), full_region(F), kind="mean", dim=0, clear=1)],
    "operands of a copy": [*ALLOCS, tile_op("copy", full_region(S), region(F, [0, 0], [8, 16]))],
    "operands of a product": [
        *ALLOCS,
        tile_op("gemm", full_region(S), region(S, [0, 0], [8, 16]), full_region(F), imm(True, "bool"), transpose_A=0, transpose_B=0),
    ],
    "operands of a reduction": [*ALLOCS, tile_op("reduce", full_region(S), full_region(F), kind="sum", dim=0, clear=1)],
    "operands of a scan": [*ALLOCS, tile_op("cumsum", full_region(S), region(F, [0, 0], [8, 16]), dim=0, reverse=0)],
    "operands of a scan along nothing": [*ALLOCS, tile_op("cummax", full_region(S), full_region(F), dim=2, reverse=0)],
    "operands of a sort": [*ALLOCS, tile_op("argsort", full_region(S), full_region(F))],
    "operands of an update": [*ALLOCS, tile_op("atomic_add", full_region(S), region(F, [0, 0], [8, 16]))],
    "operands of a view": [*ALLOCS, tile_op("view", full_region(F), region(S, [0, 0], [8, 16]))],
    "operands of patches": [
        *ALLOCS,
        tile_op("im2col", full_region(S), full_region(F), imm(0), imm(0), kernel=1, stride=1, dilation=1, pad=0),
    ],
    "undefined": [AllocBuffer(S), tile_op("copy", full_region(S), full_region(F))],
    "undefined index": [*ALLOCS, STORE],
}


@pytest.mark.parametrize("case", BAD_TILE)
def test_tile_rule(case):
    func = PrimFunc([], seq(*BAD_TILE[case])).with_attr("global_symbol", "k")
    problems = verify_tile(func)
    assert case.split()[0] in {p.rule for p in problems}, [str(p) for p in problems]


def test_tile_functions_have_a_name():
    assert {p.rule for p in verify_tile(PrimFunc([], seq(*ALLOCS)))} == {"attributes"}


def test_check_tile_raises():
    with pytest.raises(ir.VerificationError, match=r"\[op\] tl.mystery"):
        check_tile(PrimFunc([], seq(*BAD_TILE["op"])).with_attr("global_symbol", "k"))
