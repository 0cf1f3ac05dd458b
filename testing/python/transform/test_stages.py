"""What each stage may contain: every rule is shown to fail once, and the driver names the pass."""

import gc

import pytest
from tile_samples import add, gemm

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import AllocBuffer, Bind, PrimFunc, Var, call, decl_buffer, full_region, imm, intrin, loop, seq
from tilelang_ascend.ir.wellformed import VerificationError
from tilelang_ascend.tile import tile_op
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.driver import Context, Pass, run
from tilelang_ascend.transform.stages import Stage, problems

SHARED, UB = (decl_buffer((16,), "float32", "x", scope=scope) for scope in ("shared", "shared.ub"))
TWO = decl_buffer((1, 16), "float32", "y", scope="shared.ub")


def looped(**annotations):
    return loop(Var("i", "int32"), 4, tile_op("fill", full_region(UB), imm(0.0, "float32")), **annotations)


ILLEGAL = {
    "a memory before buffers have one": (Stage.TILE, AllocBuffer(UB), "scope"),
    "no memory afterwards": (Stage.PLACED, AllocBuffer(SHARED), "scope"),
    "a view after views are gone": (Stage.PLACED, tile_op("view", full_region(UB), full_region(UB)), "op"),
    "an op of a later stage": (Stage.MAPPED, tile_op("zero_accumulator", full_region(UB)), "op"),
    "a tile op among instructions": (Stage.COMBINED, tile_op("fill", full_region(TWO), imm(0.0, "float32")), "op"),
    "an instruction among tile ops": (Stage.VERSIONED, intrin("pipe_barrier", pipe="V"), "op"),
    "a value of an instruction": (Stage.PLACED, Bind(Var("v", "float32"), call("ascend.get_value", [], dtype="float32")), "op"),
    "a grid after it is mapped": (Stage.MAPPED, looped(tl__grid=0), "annotation"),
    "nests among instructions": (Stage.COMBINED, looped(tl__parallel=1), "annotation"),
    "one dimension among instructions": (Stage.COMBINED, AllocBuffer(UB), "shape"),
}


@pytest.mark.parametrize("stage, statement, rule", ILLEGAL.values(), ids=list(ILLEGAL))
def test_every_rule_can_fail(stage, statement, rule):
    assert rule in {p.rule for p in problems(PrimFunc([], seq(statement)), stage)}


@pytest.mark.parametrize("func", [gemm(256, 256, 256), add(1000)], ids=["gemm", "add"])
def test_every_pass_leaves_its_stage(func):
    lowered = pipeline.lower(func, get_chip("a2"), keep_stages=True)
    stages = {p.name: p.stage for p in pipeline.PASSES}
    assert {name for name, _ in lowered.stages} <= set(stages)
    assert all(problems(ir, stages[name]) == [] for name, ir in lowered.stages)


def test_the_driver_names_the_pass():
    def spoil(func):
        return func.with_body(seq(AllocBuffer(UB), func.body))

    context = Context(get_chip("a2"), verify=True)
    with pytest.raises(VerificationError, match="tile IR after spoil"):
        run((Pass(spoil, Stage.TILE),), add(1000), context)
    run((Pass(spoil, Stage.TILE),), add(1000), Context(get_chip("a2"), verify=False))


def test_every_pass_says_what_it_does():
    for p in pipeline.PASSES:
        assert p.run.__module__.endswith(p.name) and len(p.doc) > 20 and not p.doc.startswith(p.name), p.name


def test_the_driver_takes_the_time_of_every_pass_that_runs():
    times = {}
    lowered = pipeline.lower(gemm(256, 256, 256), get_chip("a2"), keep_stages=True, times=times)
    kept = {name for name, _ in lowered.stages}
    checks = {p.name for p in pipeline.PASSES if not p.changes}
    assert kept | checks <= set(times) <= {p.name for p in pipeline.PASSES}
    assert all(seconds >= 0 for seconds in times.values())
    assert Context(get_chip("a2")).attempt().times is None


def test_the_search_for_cycles_rests_while_passes_run_and_comes_back(monkeypatch):
    seen = []
    watching = Pass(lambda func: seen.append(gc.isenabled()) or func, Stage.TILE)
    monkeypatch.setattr(pipeline, "BEGIN", (watching, *pipeline.BEGIN))
    pipeline.lower(add(64), get_chip("a2"))
    monkeypatch.setattr(pipeline, "BEGIN", (Pass(lambda func: 1 / 0, Stage.TILE),))
    with pytest.raises(ZeroDivisionError):
        pipeline.lower(add(64), get_chip("a2"))
    assert seen == [False] and gc.isenabled()
