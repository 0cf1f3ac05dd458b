"""How often elements of tensors are written: the compiled kernel against the interpreted Tile IR."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from testing import mutants
from tilelang_ascend.ir import IRModule, op_name, statements
from tilelang_ascend.sim.machine import SimOptions
from tilelang_ascend.sim.reference import execute
from tilelang_ascend.sim.validate import write_difference

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))

import strict  # noqa: E402

UNTIMED = replace(strict.STRICT, time=False, record_stream=False)


@T.prim_func
def rows(X: T.Tensor((40, 24), "float16"), Y: T.Tensor((40, 24), "float16")):
    with T.Kernel(3) as bx:
        s = T.alloc_shared((16, 24), "float16")
        T.copy(X[bx * 16, 0], s)
        for i, j in T.Parallel(16, 24):
            s[i, j] = s[i, j] + 1
        T.copy(s, Y[bx * 16, 0])


@T.prim_func
def twice(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        s = T.alloc_shared((32,), "float32")
        for k in T.serial(3):
            T.copy(X[k * 16], s)
            T.copy(s, Y[k * 16])


def inputs(func):
    rng = np.random.default_rng(0)
    return {p.name: rng.integers(-8, 8, [int(n) for n in p.ty.shape]).astype(str(p.ty.dtype)) for p in func.params}


def test_compiled_kernels_write_as_often_as_they_say():
    for func in (rows, twice):
        strict.run(tilelang.compile(func), inputs(func), text=False)


def test_counts_of_the_machine_and_of_the_interpreter():
    arrays = inputs(twice)
    artifact = tilelang.compile(twice).artifact
    _, result = strict.launch(artifact, strict.entries_of(artifact), arrays, {}, UNTIMED)
    want = np.repeat([1, 2, 2, 1], 16)
    np.testing.assert_array_equal(result.writes["Y"].reshape(64, 4), np.repeat(want[:, None], 4, 1))
    assert not result.writes["X"].any()
    meaning = execute(artifact.tile_ir, list(arrays.values()))
    np.testing.assert_array_equal(meaning.tensors["Y"].writes, want)
    assert write_difference(meaning, result.writes) is None


@pytest.mark.parametrize("kind", ["dropped", "one less", "one element further"])
def test_a_wrong_store_is_noticed_without_its_values(kind):
    artifact, arrays = tilelang.compile(rows).artifact, inputs(rows)
    last = strict.assert_passes_agree(artifact, arrays, {})
    (name, core), *_ = artifact.ascend_ir.functions.items()
    stores = [n for n, s in enumerate(statements(core.body)) if op_name(s) == "ascend.copy_ub_to_gm"]
    place = next(p for p in mutants.places(core) if p[0] in stores and p[1] == kind and (kind != "one less" or p[2] == 3))
    module = IRModule({**dict(artifact.ascend_ir.functions.items()), name: mutants.mutant(core, place)})
    _, result = strict.launch(artifact, strict.module_entries(module), arrays, {}, UNTIMED)
    if kind == "one element further":
        assert result.hazards or "is written" in write_difference(last, result.writes)
    else:
        assert not result.hazards
        assert "is written" in write_difference(last, result.writes)


def test_what_is_taken_back_is_not_counted():
    """Iterations that turn out to depend on each other are run again, one after the other."""

    @T.prim_func
    def carried(X: T.Tensor((16,), "float32"), Y: T.Tensor((17,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(16):
                Y[i + 1] = Y[i] + X[i]

    meaning = execute(tilelang.compile(carried).artifact.tile_ir, list(inputs(carried).values()))
    assert meaning.tensors["Y"].writes.tolist() == [0] + [1] * 16


def test_counts_need_values():
    with pytest.raises(ValueError, match="count_writes"):
        SimOptions(values=False, checks=(), count_writes=True)


def test_mutants_of_a_seed():
    """Every mistake of a seed is judged."""
    rows = mutants.examine(100_015, random.Random(0))
    assert len(rows) == mutants.MUTANTS_OF_A_KERNEL
    assert {noticed for *_, noticed in rows} <= {"hazard", "writes", "writes, values the same", "values", "nothing"}
