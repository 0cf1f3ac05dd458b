"""Tuning on the board of this machine: what the time model likes best is measured there, in a process that may crash or hang."""

import numpy as np
import pytest
from board_farm import make_board

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import cache
from tilelang_ascend.autotune import records
from tilelang_ascend.runtime import executors
from tilelang_ascend.runtime.npu import board, cann

SPACE = [{"block": 64 * b} for b in range(1, 13)]
X = np.arange(2048, dtype=np.float32)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return make_board(tmp_path_factory.mktemp("board"))


def forget():
    cann._find.cache_clear()
    board._open.cache_clear()
    executors._told.clear()
    cache.clear_memory()


@pytest.fixture(autouse=True)
def surroundings(home, tmp_path, monkeypatch):
    import stand_in_cann

    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    monkeypatch.setenv("PYTHONPATH", str(home.parent))  # for worker processes
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "1")
    forget()
    stand_in_cann.adopt(home)
    yield
    (home / "fault").unlink(missing_ok=True)
    forget()


def tuned(measurements, timeout=60, **options):
    @tilelang.autotune(configs=SPACE, measurements=measurements, timeout=timeout, warmup=0, rep=0.02, **options)
    @tilelang.jit(out_idx=-1)
    def doubled(block=64):
        @T.prim_func
        def doubled(A: T.Tensor((2048,), "float32"), B: T.Tensor((2048,), "float32")):
            with T.Kernel(T.ceildiv(2048, block)) as bx:
                tile = T.alloc_shared((block,), "float32")
                T.copy(A[bx * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] * 2.0
                T.copy(tile, B[bx * block])

        return doubled

    with tilelang.autotuner.set_autotune_inputs(X):
        return doubled()


def measured():
    with records.Records(records.path_of_user()) as found:
        return [r for r in found.select() if r.place.startswith("npu")]


def test_the_most_promising_are_measured_on_the_board(capsys):
    kernel = tuned(3, ref_prog=lambda a: a * 2)
    found = measured()
    assert len(found) == 3 and {r.cann for r in found} == {"CANN 9.0.0"} and all(r.outcome.ok for r in found)
    assert kernel.latency == min(r.outcome.latency for r in found) and kernel.artifact.chip == "Ascend910B3"
    assert "measured time on Ascend910B3" in capsys.readouterr().err
    assert np.array_equal(kernel(X), X * 2)

    forget()
    assert tuned(3, ref_prog=lambda a: a * 2).config == kernel.config and len(measured()) == 3


@pytest.mark.parametrize("fault, seconds", [("hang", 8), ("exception", 60)])
def test_a_fault_costs_one_configuration(home, fault, seconds, capsys):
    (home / "fault").write_text(fault)
    kernel = tuned(3, timeout=seconds)
    shown = capsys.readouterr().err
    assert kernel.config in SPACE and ("timed out" in shown or "exception" in shown)
    assert sum(r.outcome.ok for r in measured()) == 2
