"""Tuning over servers: the most promising configurations are measured there, what fails costs one configuration, and nothing is measured twice."""

import numpy as np
import pytest
import rpc_programs

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import cache
from tilelang_ascend.autotune import places, records
from tilelang_ascend.autotune.outcome import Status
from tilelang_ascend.autotune.report import TuningFailed
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.rpc.failures import NoServer

SPACE = [{"block": 32 * b} for b in range(1, 25)]


def scaled(n, block=64, wrong=False):
    @T.prim_func
    def scaled(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            tile = T.alloc_shared((block,), "float32")
            T.copy(A[bx * block], tile)
            if not wrong:
                for i in T.Parallel(block):
                    tile[i] = tile[i] * 2.0
            T.copy(tile, B[bx * block])

    return scaled


def tuned(configs, **options):
    jitted = tilelang.jit(scaled, out_idx=-1, execution_backend="rpc")
    return tilelang.autotune(jitted, configs=configs, ref_prog=lambda a: a * 2, timeout=30, **options)


@pytest.fixture(scope="module")
def servers(farm):
    return farm.servers(("--key", "a2"), ("--key", "a2"))


@pytest.fixture(autouse=True)
def surroundings(farm, servers, tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_ASCEND_TRACKER", farm.tracker)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "1")
    cache.clear_memory()
    yield
    cache.clear_memory()


def remote_records():
    with records.Records(records.path_of_user()) as found:
        return [r for r in found.select() if r.place.startswith("rpc") and "compared" not in r.place]


def test_the_most_promising_are_measured_there(capsys):
    kernel = tuned(SPACE, measurements=4)(4096)
    found = remote_records()
    assert len(found) == 4 and all(r.outcome.ok and r.outcome.predicted and r.outcome.features for r in found)
    assert kernel.config in SPACE and kernel.latency == min(r.outcome.latency for r in found)
    simulated = {r.outcome.predicted for r in found}
    with records.Records(records.path_of_user()) as every:
        all_simulated = sorted(r.outcome.latency for r in every.select(place="machine model"))
    assert min(simulated) == all_simulated[0], "what the time model likes best is measured"
    shown = capsys.readouterr().err
    assert "not measured" in shown and "ms simulated" in shown
    x = np.arange(4096, dtype=np.float32)
    assert np.array_equal(kernel(x), x * 2)

    cache.clear_memory()
    again = tuned(SPACE, measurements=4)(4096)
    assert again.config == kernel.config and "measured earlier" in capsys.readouterr().err
    assert len(remote_records()) == 4


def test_inputs_of_the_user_travel():
    x = np.arange(4096, dtype=np.float32)
    with tilelang.autotuner.set_autotune_inputs(x):
        assert tuned(SPACE[:3], measurements=2)(4096).config in SPACE[:3]
    assert len(remote_records()) == 2


def test_crashes_cost_one_configuration_each(monkeypatch):
    """A text that ends the server's process: the server comes back, the next configuration runs."""
    real = places._artifact

    def artifact(program):
        made = real(program)
        return rpc_programs.crashing(type("Kernel", (), {"artifact": made})) if "(96,)" in str(program.func) else made

    monkeypatch.setattr(places, "_artifact", artifact)
    kernel = tuned(SPACE[:4], measurements=4)(4096)
    assert kernel.config != {"block": 96} and len(remote_records()) == 3


def test_wrong_results_are_recorded_and_do_not_win(caplog):
    kernel = tuned([{"block": 128}, {"block": 128, "wrong": True}], measurements=2)(4096)
    assert kernel.config == {"block": 128}
    with records.Records(records.path_of_user()) as found:
        verdicts = [r for r in found.select() if r.outcome.status is Status.WRONG]
    assert len(verdicts) == 1 and "wrong: True" in verdicts[0].config and "elements" in verdicts[0].outcome.error
    with pytest.raises(TuningFailed, match="elements"):
        tuned([{"block": 128, "wrong": True}])(4096)


def test_more_is_measured_when_all_of_the_best_fail(monkeypatch):
    real, refused = places._artifact, []

    def artifact(program):
        if len(refused) < 3:
            refused.append(program)
            raise InvalidArgument("the board does not like it")
        return real(program)

    monkeypatch.setattr(places, "_artifact", artifact)
    kernel = tuned(SPACE, measurements=2)(4096)
    found = remote_records()
    assert kernel.config in SPACE and len(refused) == 3
    assert [r.outcome.status for r in found].count(Status.ERROR) == 3 and sum(r.outcome.ok for r in found) >= 1


def test_no_server_with_the_key(monkeypatch):
    monkeypatch.setenv("TILELANG_ASCEND_KEY", "a5-of-somebody")
    with pytest.raises(NoServer, match="a5-of-somebody"):
        tuned(SPACE[:2])(4096)
    assert not remote_records()
