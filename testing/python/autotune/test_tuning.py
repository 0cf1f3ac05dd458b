"""Ranking, checking, caching and the forms of the tuner; measured in this process, except where workers matter."""

import logging
import math

import pytest
import torch
from kernels import GEMM_SPACE, K, M, N, add_one, add_one_dynamic, add_one_eager, gemm, tuned

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import autotuner, cache
from tilelang_ascend.autotune import jobs, measure, records
from tilelang_ascend.autotune.outcome import Outcome, Status
from tilelang_ascend.autotune.program import TracedProgram
from tilelang_ascend.autotune.report import TuningFailed
from tilelang_ascend.errors import InvalidArgument, InvalidKernel, OutOfMemory, TilelangAscendError
from tilelang_ascend.log import get_logger

BLOCKS = [{"block": 64}, {"block": 128}, {"block": 256}]


def reference(a):
    return a + 1


@pytest.fixture
def log():
    """Messages of the package's logger."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = get_logger()
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def test_workers_find_what_brute_force_finds(capsys, own_cache, monkeypatch):
    times = {}
    for i, config in enumerate(GEMM_SPACE):
        try:
            kernel = tilelang.jit(out_idx=[-1])(gemm)(M, N, K, **config)
            times[i] = kernel.get_profiler().do_bench()
        except (OutOfMemory, InvalidArgument):
            pass
    assert sorted(times) == [0, 1, 2, 3, 6]
    cache.clear_memory()

    kernel = tuned(gemm, GEMM_SPACE, ref_prog=lambda a, b: a @ b)(M, N, K)
    assert kernel.latency == min(times.values())
    assert kernel.config == GEMM_SPACE[min(times, key=times.get)] and kernel.ref_latency > 0
    table = capsys.readouterr().err
    assert "does not fit: kernels.py:" in table and "L0C overflow" in table
    assert "is divided by zero" in table
    assert not list(own_cache.rglob(".stage-*"))

    def no_pool(*_):
        raise AssertionError("everything is known already")

    monkeypatch.setattr(measure.Workers, "run", no_pool)
    cache.clear_memory()
    again = tuned(gemm, GEMM_SPACE, ref_prog=lambda a, b: a @ b)(M, N, K)
    assert (again.config, again.latency) == (kernel.config, kernel.latency)
    assert "measured earlier" in capsys.readouterr().err


def test_a_crash_and_a_hang_cost_one_configuration_each(monkeypatch, capsys):
    space = [{"block": b} for b in (64, 128, 256)]
    faults = {"64": "crash", "128": "hang"}
    real = TracedProgram.payload

    def payload(self):
        fault = next((f for size, f in faults.items() if f"({size},)" in str(self.func)), None)
        return {**real(self), "fault": fault}

    monkeypatch.setattr(TracedProgram, "payload", payload)
    monkeypatch.setattr(measure, "WORK", "faulty_jobs:work")
    kernel = tuned(add_one, space, ref_prog=reference, timeout=12)(1024)
    assert kernel.config == {"block": 256}
    shown = capsys.readouterr().err
    assert "crashed: killed by SIGSEGV" in shown and "timed out: not done after 12 s" in shown
    with records.Records(records.path_of_user()) as known:
        assert [r.outcome.status for r in known.select()] == [Status.OK], "what may end differently next time is not remembered"


def test_equal_programs_are_measured_once(inline):
    result = (
        tilelang.AutoTuner.from_kernel(lambda **c: gemm(M, N, K, **c), GEMM_SPACE[:2])
        .set_compile_args(out_idx=[-1])
        .set_profile_args(skip_check=True)
        .run(warmup=1, rep=1)
    )
    assert inline.jobs_run == 1 and result.config == GEMM_SPACE[0]
    assert "GM_ADDR" in result.libcode and result.kernel.latency == result.latency > 0 and result.ref_latency is None
    assert result.func.attrs["global_symbol"] == "main"


def test_autotuner_object_on_a_decorated_kernel(inline):
    jitted = tilelang.jit(out_idx=[-1])(lambda block: add_one(256, block))
    result = tilelang.AutoTuner.from_kernel(kernel=jitted, configs=BLOCKS).set_profile_args(ref_prog=reference).run()
    x = torch.randn(256)
    assert torch.allclose(result.kernel(x), x + 1) and result.config in BLOCKS and result.ref_latency > 0


def test_the_fastest_but_wrong_one_does_not_win(inline, log):
    space = [{"block": 256, "skip": False}, {"block": 256, "skip": True}]
    assert tuned(add_one, space)(1024).config == space[1], "the wrong one is faster"
    kernel = tuned(add_one, space, ref_prog=reference)(1024)
    assert kernel.config == space[0]
    assert any("is wrong: AssertionError: output 0: 1024 of 1024 elements" in m for m in log)
    assert tuned(add_one, space, ref_prog=reference, skip_check=True)(1024).config == space[1]


def test_manual_check_gets_both_lists(inline):
    seen = []
    tuned(add_one, BLOCKS, ref_prog=reference, manual_check_prog=lambda ours, ref: seen.append((ours, ref)))(256)
    ((ours, ref),) = seen
    assert torch.equal(ours[0], ref[0])


def test_outputs_that_the_caller_passes_are_compared_too(inline):
    def into(a, b):
        b.copy_(a + 1)

    assert tuned(add_one, BLOCKS, out_idx=None, ref_prog=into)(256).config in BLOCKS
    with pytest.raises(TuningFailed, match="elements"):
        tuned(add_one, BLOCKS, out_idx=None, ref_prog=lambda a, b: into(a + 1, b))(256)


def test_a_broken_reference_is_the_users_error(inline):
    with pytest.raises(KeyError):
        tuned(add_one, BLOCKS, ref_prog=lambda a: {}["x"])(256)


def test_passing_a_tunable_skips_tuning(inline):
    kernel = tuned(add_one, BLOCKS)
    for explicit in (kernel(256, block=64), kernel(256, 64)):
        assert explicit.config is None and explicit.latency is None
    assert inline.jobs_run == 0


def test_every_call_has_tunables_of_its_own(inline):
    """A value that the caller gives is never replaced by one of a configuration."""

    def with_defaults(n, block=64, skip=False):
        return add_one(n, block, skip)

    kernel = tuned(with_defaults, lambda n: BLOCKS if n == 256 else [{"skip": True}])
    assert kernel(256).config is not None
    x = torch.randn(128)
    torch.testing.assert_close(kernel(128, skip=False)(x), x + 1)


def test_results_are_remembered(inline):
    kernel = tuned(add_one, lambda n: BLOCKS)
    first = kernel(256)
    count = inline.jobs_run
    assert kernel(256) is first and kernel(n=256) is first and inline.jobs_run == count
    assert kernel(512) is not first and inline.jobs_run > count


def test_disk_remembers_measurements_unless_told_otherwise(inline, monkeypatch):
    tuned(add_one, BLOCKS[:2])(256)
    count = inline.jobs_run
    tuned(add_one, BLOCKS)(256)
    assert count + 1 <= inline.jobs_run <= count + 2, "one new configuration, and its check if it wins"
    count = inline.jobs_run
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    tuned(add_one, BLOCKS)(256)
    assert inline.jobs_run == count + 4


def test_do_not_specialize_keeps_the_configuration(inline):
    kernel = tuned(add_one, BLOCKS, do_not_specialize=["n"])
    first = kernel(256)
    count = inline.jobs_run
    second = kernel(512)
    assert second.config == first.config and second.params[0].shape == (512,)
    assert inline.jobs_run - count == 2, "the one configuration is measured and checked"
    with pytest.raises(InvalidArgument, match="do_not_specialize names 'm'"):
        tuned(add_one, BLOCKS, do_not_specialize=["m"])


def test_a_first_configuration_that_cannot_be_traced_costs_itself(inline):
    kernel = tuned(add_one_eager, [{"block": 0}, *BLOCKS], out_idx=None)
    x = torch.randn(256)
    assert torch.equal(kernel(x), x + 1)


def test_eager_kernels_tune_with_the_tensors_of_the_call(inline):
    kernel = tuned(add_one_eager, BLOCKS, out_idx=None, ref_prog=reference)
    x = torch.randn(512)
    assert torch.equal(kernel(x), x + 1) and kernel.mode == "eager"
    assert torch.equal(kernel(x, __return_kernel=True)(x), x + 1)
    count = inline.jobs_run
    assert torch.equal(kernel(-x), 1 - x) and inline.jobs_run == count
    assert kernel.compile(n=512).config in BLOCKS
    assert torch.equal(kernel(x, block=64), x + 1)


def test_dynamic_extents_take_the_given_inputs(inline):
    kernel = tuned(add_one_dynamic, BLOCKS, ref_prog=reference)
    with pytest.raises(TilelangAscendError, match="the extent n is dynamic"):
        kernel()
    x = torch.randn(700)
    with autotuner.set_autotune_inputs(x):
        assert torch.equal(kernel()(x), x + 1)


def test_every_failure_is_told(inline):
    space = [{"block": 1 << 24}, {"block": 0}]
    with pytest.raises(TuningFailed) as caught:
        tuned(add_one, space)(1 << 21)
    text = str(caught.value)
    assert text.startswith("Auto-tuning failed: No configuration successfully compiled")
    assert "{block: 16777216}: kernels.py:" in text and "{block: 0}: kernels.py:" in text
    with pytest.raises(TuningFailed, match="hint:"):
        tuned(add_one, space[:1])(1 << 21)


def test_a_winner_of_a_derived_space_computes_what_the_default_does(inline, log, monkeypatch):
    """Also where other values of a parameter change a few elements only."""
    from tilelang_ascend.autotune import derive

    @tilelang.jit(out_idx=-1)
    def leaves_a_bit(n, block=64):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                tile = T.alloc_fragment((block,), "float32")
                T.copy(A[bx * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] + T.if_then_else(bx * block + i == 1000 + block, 1.0, 0.0)
                T.copy(tile, B[bx * block])

        return main

    monkeypatch.setattr(derive, "derive", lambda *_: [{"block": 64}, {"block": 256}, {"block": 512}])
    kernel = tilelang.autotune(leaves_a_bit)(4096)
    assert kernel.config == {"block": 64}
    assert sum("2 of 4096 elements are not what the default configuration computes, first at (1064,)" in m for m in log) == 2


def test_tensors_that_change_are_compared_beside_what_is_returned(inline, log, monkeypatch):
    from tilelang_ascend.autotune import derive

    @tilelang.jit(out_idx=-1)
    def counts_tiles(n, block=64):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), Places: T.Tensor((n,), "int32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                tile, places = T.alloc_fragment((block,), "float32"), T.alloc_fragment((block,), "int32")
                T.copy(A[bx * block], tile)
                for i in T.Parallel(block):
                    places[i] = i
                T.copy(places, Places[bx * block])
                T.copy(tile, B[bx * block])

        return main

    monkeypatch.setattr(derive, "derive", lambda *_: [{"block": 64}, {"block": 256}])
    assert tilelang.autotune(counts_tiles)(4096).config == {"block": 64}
    assert any("output 1" in m for m in log)


def test_a_kept_configuration_of_a_derived_space_is_compared_too(inline, log, monkeypatch):
    from tilelang_ascend.autotune import derive

    @tilelang.jit(out_idx=-1)
    def leaves_the_tail(n, block=64):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                tile = T.alloc_fragment((block,), "float32")
                T.copy(A[bx * block], tile)
                for again in T.serial(4096 // block):  # time
                    for i in T.Parallel(block):
                        tile[i] = tile[i] + 0.5
                for i in T.Parallel(block):
                    tile[i] = tile[i] - 2048.0 / block
                if (bx + 1) * block > n:
                    T.fill(tile, 0.0)
                T.copy(tile, B[bx * block])

        return main

    monkeypatch.setattr(derive, "derive", lambda *_: [{"block": 64}, {"block": 256}])
    kernel = tilelang.autotune(leaves_the_tail, do_not_specialize=["n"])
    assert kernel(4096).config == {"block": 256} and kernel(4096 + 64).config == {"block": 64}
    assert any("64 of 4160 elements" in m for m in log)


def test_tensors_of_a_device_are_tuned_with_on_the_host(inline):
    class Away(torch.Tensor):
        device = "npu:0"

        def cpu(self):
            return torch.tensor(self.tolist())

    x = torch.arange(512.0).as_subclass(Away)
    with autotuner.set_autotune_inputs(x):
        assert tuned(add_one, BLOCKS, ref_prog=reference)(512).config in BLOCKS


def test_decorators_in_the_wrong_order():
    with pytest.raises(InvalidKernel, match="line above @tilelang.jit"):
        tilelang.autotune(configs=BLOCKS)(add_one)
    with pytest.raises(InvalidKernel, match="takes arguments"):
        tilelang.autotune(add_one, configs=BLOCKS)


def test_hazards_of_the_winner_are_found(inline, monkeypatch):
    real = jobs._DO["check"]
    bad = Outcome(Status.WRONG, error="racecheck: …", details="racecheck: …").to_json()
    checked = []

    def check(artifact, inputs, payload):
        checked.append(artifact)
        return {"outcome": bad} if len(checked) == 1 else real(artifact, inputs, payload)

    monkeypatch.setitem(jobs._DO, "check", check)
    kernel = tuned(add_one, BLOCKS)(256)
    assert len(checked) == 2 and kernel.artifact.memory_map != checked[0].memory_map
    assert tuned(add_one, BLOCKS)(256).config == kernel.config and len(checked) == 2, "both verdicts are remembered"


@pytest.mark.parametrize("variables, expected", [
    ({"CPU_COUNTS": "3"}, 3), ({"CPU_COUNTS": "3", "MAX_CPU_COUNT": "2"}, 2),
    ({"CPU_COUNTS": "-1"}, 9), ({"CPU_COUNTS": "-1", "CPU_UTILITIES": "0.5"}, 5),
    ({"CPU_COUNTS": "-1", "CPU_UTILITIES": "0.01"}, 1),
])  # fmt: skip
def test_number_of_workers(monkeypatch, variables, expected):
    monkeypatch.setattr(measure, "_available_cpus", lambda: 10)
    for name, value in variables.items():
        monkeypatch.setenv(f"TILELANG_AUTO_TUNING_{name}", value)
    assert measure.worker_count() == expected


def test_features_mean_the_same_for_every_kernel(inline):
    """The same names, and finite numbers: what was measured of one kernel is used for another one."""
    tuned(add_one, BLOCKS)(256)
    tuned(gemm, GEMM_SPACE[:1])(M, N, K)
    with records.Records(records.path_of_user()) as found:
        features = [r.outcome.features for r in found.select() if r.outcome.ok]
    assert len(features) == 4 and len({tuple(f) for f in features}) == 1
    assert all(math.isfinite(value) for f in features for value in f.values())
