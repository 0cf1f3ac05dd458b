"""The second half of the work on a tile beside the first half of that on the next one: any number of tiles, tiles that end outside, what must stay."""

from __future__ import annotations

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from testing.fuzz.few_cores import few_cores
from tilelang_ascend.ir import same_program
from tilelang_ascend.jit import measure
from tilelang_ascend.jit.build import lower_stages
from tilelang_ascend.transform import pipeline

F32 = "float32"
TOLERANCE = {"float16": 2e-3, "float32": 2e-5}


def rms_norm(m, n, dtype, block=8):
    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), G: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
            x, squares = T.alloc_fragment((block, n), F32), T.alloc_fragment((block, n), F32)
            gain, scale = T.alloc_fragment((n,), F32), T.alloc_fragment((block,), F32)
            T.copy(G, gain)
            T.copy(X[bx * block, 0], x)
            for i, j in T.Parallel(block, n):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(block):
                scale[i] = T.rsqrt(scale[i] / n + 1e-5)
            for i, j in T.Parallel(block, n):
                x[i, j] = x[i, j] * scale[i] * gain[j]
            T.copy(x, Y[bx * block, 0])

    return kernel


def normalized(x, g):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * g


def softmax(m, n, dtype, block=8):
    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
            x, most, total = T.alloc_fragment((block, n), F32), T.alloc_fragment((block,), F32), T.alloc_fragment((block,), F32)
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block, 0])

    return kernel


def soft(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def in_place(m, n, dtype, block=8):
    """What is stored lies where it was loaded from: nothing of it may run beside another tile."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
            x, most = T.alloc_fragment((block, n), F32), T.alloc_fragment((block,), F32)
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.copy(x, X[bx * block, 0])

    return kernel


def lowered(func, chip="a2", cores=2, overlap=True):
    return pipeline.lower(func, few_cores(chip, cores), options=pipeline.Options(overlap_tiles=overlap, coarsen=False), keep_stages=True)


def late(found) -> bool:
    """True if a loop has a late half that stays."""
    (text,) = {str(ir) for name, ir in found.stages if name == "rotate_loops"} or {""}
    return " >= 1" in text


def rows(m, n, dtype):
    return np.random.default_rng(m).uniform(-2, 2, (m, n)).astype(dtype)


@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("m", [1, 8, 16, 61, 64, 73])
@pytest.mark.one_in(3)
def test_any_number_of_tiles(chip, m):
    """Two cores with up to five tiles each, some with none or one, the last one of which may end outside."""
    n, dtype = 256, "float16"
    x, g = rows(m, n, dtype), rows(1, n, dtype)[0]
    found = lowered(rms_norm(m, n, dtype), chip)
    out, _ = strict.once(rms_norm(m, n, dtype), chip, {"X": x, "G": g, "Y": np.zeros((m, n), dtype)}, found)
    np.testing.assert_allclose(out["Y"], normalized(x.astype(F32), g.astype(F32)), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_softmax(dtype):
    """Two reductions, of which one is of either half."""
    m, n = 73, 384
    x = rows(m, n, dtype)
    found = lowered(softmax(m, n, dtype))
    assert late(found)
    out, _ = strict.once(softmax(m, n, dtype), "a2", {"X": x, "Y": np.zeros((m, n), dtype)}, found)
    np.testing.assert_allclose(out["Y"], soft(x.astype(F32)), rtol=2e-3, atol=2e-3)


def test_tiles_of_any_length():
    """How many tiles there are is known at run time: none, one, an odd number."""
    m, n = T.dynamic("m"), 256
    func = rms_norm(m, n, "float16")
    found = lowered(func)
    assert late(found)
    for count in (1, 9, 30, 72):
        x, g = rows(count, n, "float16"), rows(1, n, "float16")[0]
        out, _ = strict.once(func, "a2", {"X": x, "G": g, "Y": np.zeros_like(x)}, found, {"m": count})
        np.testing.assert_allclose(out["Y"], normalized(x.astype(F32), g.astype(F32)), rtol=2e-3, atol=2e-3)


def test_every_flag_is_needed():
    """The text does the same, and fails without any one flag or barrier."""
    m, n = 48 * 8 * 4 - 3, 256
    options = {"tl.overlap_tiles": True, "tl.coarsen_blocks": False}
    kernel = tilelang.compile(rms_norm(m, n, "float16"), pass_configs=options)
    x, g = rows(m, n, "float16"), rows(1, n, "float16")[0]
    arrays = {"X": x, "G": g, "Y": np.zeros_like(x)}
    out = strict.run(kernel, arrays)
    np.testing.assert_allclose(out["Y"], normalized(x.astype(F32), g.astype(F32)), rtol=2e-3, atol=2e-3)
    assert not strict.surviving_mutants(kernel, arrays)


@pytest.mark.parametrize("m", [96, 93])
def test_half_as_many_barriers(m):
    """Of the steps of a tile, those of the half with more of them have a barrier, whether the last tile ends outside or not."""
    func = rms_norm(m, 256, "float16")
    apart, beside = (str(lowered(func, overlap=overlap).ascend_ir).count("pipe_barrier") for overlap in (False, True))
    assert beside <= apart - 6


def test_what_is_stored_where_it_was_loaded_stays():
    m, n = 64, 256
    x = rows(m, n, F32)
    found = lowered(in_place(m, n, F32))
    assert not late(found)
    out, _ = strict.once(in_place(m, n, F32), "a2", {"X": x}, found)
    np.testing.assert_allclose(out["X"], np.exp(x - x.max(1, keepdims=True)), rtol=2e-5, atol=2e-5)


def picked(m, n, block=8):
    """The row that is subtracted from a tile is chosen by what the tile holds."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), F32), P: T.Tensor((m,), "int32"), R: T.Tensor((16, n), F32), Y: T.Tensor((m, n), F32)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
            x, most, row = T.alloc_fragment((block, n), F32), T.alloc_fragment((block,), F32), T.alloc_shared((n,), F32)
            place = T.alloc_shared((block,), "int32")
            T.copy(X[bx * block, 0], x)
            T.copy(P[bx * block], place)
            T.copy(R[place[0], 0], row)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = T.exp(x[i, j] - most[i]) - row[j]
            T.copy(x, Y[bx * block, 0])

    return kernel


def test_tiles_that_say_where_their_rows_are_stay():
    m, n = 64, 256
    x, rest = rows(m, n, F32), rows(16, n, F32)
    places = np.random.default_rng(1).integers(0, 16, m).astype("int32")
    found = lowered(picked(m, n))
    assert not late(found)
    out, _ = strict.once(picked(m, n), "a2", {"X": x, "P": places, "R": rest, "Y": np.zeros_like(x)}, found)
    chosen = rest[places[::8]].repeat(8, axis=0)
    np.testing.assert_allclose(out["Y"], np.exp(x - x.max(1, keepdims=True)) - chosen, rtol=2e-5, atol=2e-5)


def test_the_machine_model_decides():
    """Work of the vector unit that takes longer than its transfers is faster so, work that waits for memory is not."""
    chip = few_cores("Ascend910B1", 48)
    for func, expected in ((rms_norm(16384, 256, "float16", 35), True), (softmax(4096, 1024, F32, 8), False)):
        ways = [pipeline.lower(func, chip, options=pipeline.Options(overlap_tiles=w), keep_stages=True) for w in (False, True)]
        apart, beside = (measure.cycles(way.ascend_ir, chip) for way in ways)
        decided = pipeline.lower(func, chip, keep_stages=True, measure=measure.cycles)
        assert (beside < apart) == expected == late(decided)
        assert measure.cycles(decided.ascend_ir, chip) == min(apart, beside)


def test_compiled_kernels_are_what_was_decided():
    """What is looked at later, stage by stage, is what was compiled."""
    kernel = tilelang.compile(rms_norm(16384, 256, "float16", 35), target="a2")
    assert any("beside the first half" in note for note in kernel.artifact.notes)
    stages = lower_stages(kernel.artifact)
    assert any(name == "rotate_loops" and " >= 1" in str(ir) for name, ir in stages)
    assert same_program(stages[-1][1], kernel.artifact.ascend_ir)
    apart = tilelang.compile(rms_norm(16384, 256, "float16", 35), target="a2", pass_configs={"tl.overlap_tiles": False})
    assert not any("beside" in note for note in apart.artifact.notes)


def test_nothing_is_measured_twice_that_is_the_same():
    """Tiles that UB has no room for two of stay as they are."""
    times = []
    decided = pipeline.lower(
        rms_norm(16384, 256, "float16", 57),
        few_cores("a2", 48),
        keep_stages=True,
        measure=lambda module, chip: times.append(module),
    )
    assert not late(decided) and not times


def test_nothing_is_measured_that_only_a_call_tells():
    chip, m = few_cores("a2", 2), T.dynamic("m")
    assert measure.cycles(lowered(rms_norm(m, 256, "float16")).ascend_ir, chip) is None
    assert not late(pipeline.lower(rms_norm(m, 256, "float16"), chip, keep_stages=True, measure=measure.cycles))


def test_large_tensors_are_not_measured(monkeypatch):
    found, chip = lowered(rms_norm(64, 256, "float16")), few_cores("a2", 2)
    assert measure.cycles(found.ascend_ir, chip) > 0
    monkeypatch.setattr(measure, "MOST_BYTES", 1 << 16)
    assert measure.cycles(found.ascend_ir, chip) is None
