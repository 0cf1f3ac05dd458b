"""The public API end to end, on kernels of a few lines."""

import copy
import hashlib
import inspect
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import cache
from tilelang_ascend.cache import key
from tilelang_ascend.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CompileError,
    InvalidKernel,
    TargetError,
    TilelangAscendError,
)
from tilelang_ascend.jit.hooks import on_build
from tilelang_ascend.profiler import bench, do_bench
from tilelang_ascend.store import Store

BLOCK = 128
ROOT = Path(__file__).resolve().parents[3]


@tilelang.jit(out_idx=[-1])
def make_scale(N, factor=2.0, dtype="float32"):
    @T.prim_func
    def scale(
        A: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK), threads=128) as bx:
            for i in T.Parallel(BLOCK):
                B[bx * BLOCK + i] = A[bx * BLOCK + i] * factor

    return scale


@tilelang.jit
def eager_scale(A, factor: float = 2.0, dtype=T.float32):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], dtype]
    B = T.empty((M, N), dtype)
    with T.Kernel(M, threads=128) as bx:
        row = T.alloc_shared((N,), dtype)
        T.copy(A[bx, 0], row)
        for i in T.Parallel(N):
            row[i] = row[i] * factor
        T.copy(row, B[bx, 0])
    return B


def make_in_place(dtype="float32"):
    n = T.dynamic("n")

    @T.prim_func
    def increment(A: T.Tensor((n,), dtype), s: T.float32):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as bx:
            for i in T.Parallel(BLOCK):
                A[bx * BLOCK + i] = A[bx * BLOCK + i] + s

    return increment


def test_lazy_call_gives_a_kernel():
    kernel = make_scale(300)
    assert isinstance(kernel, tilelang.JITKernel) and make_scale.mode == "lazy"
    x = torch.randn(300)
    assert torch.equal(kernel(x), x * 2)
    assert kernel.out_idx == [1] and [p.name for p in kernel.params] == ["A", "B"]
    assert repr(kernel) == "<JITKernel scale(A: float32[300], B: float32[300]) for Ascend910B1>"


def test_eager_call_runs_and_follows_the_shapes():
    assert eager_scale.mode == "eager"
    for shape in ((3, 40), (5, 64)):
        x = torch.randn(shape)
        assert torch.equal(eager_scale(x), x * 2)
    assert torch.equal(eager_scale(x, factor=3.0), x * 3)
    assert torch.equal(eager_scale(x, __return_kernel=True)(x), x * 2)
    kernel = eager_scale.compile(M=5, N=64)
    assert torch.equal(kernel(x), x * 2)
    assert "scale" in eager_scale.get_kernel_source(M=5, N=64)


ROWS = T.dynamic("ROWS")


@tilelang.jit
def annotated(A: T.Tensor((ROWS, 16), "float32"), s: T.float32, block: int = 8):
    K = T.const("K")
    B = T.empty((ROWS, 16), "float32")
    with T.Kernel(T.ceildiv(ROWS, block)) as bx:
        t = T.alloc_fragment((block, 16), "float32")
        T.copy(A[bx * block, 0], t)
        for i, j in T.Parallel(block, 16):
            t[i, j] = t[i, j] * s + K
        T.copy(t, B[bx * block, 0])
    return B


def test_numbers_of_run_time_make_no_kernels_of_their_own():
    rows = torch.ones(16, 16)
    kernel, named = annotated.compile(rows, 1.0, K=2), annotated.compile(rows, s=1.0, K=2)
    for s in (0.5, 2, np.float32(3)):
        assert annotated.compile(rows, s, K=2) is kernel and annotated.compile(rows, s=s, K=2) is named
    assert annotated.compile(rows, 2, 16, K=2) is not kernel


def test_an_eager_kernel_without_tensors():
    x = torch.randn(20, 16)
    kernels = [annotated.compile(K=3, ROWS=20), *annotated.par_compile([{"K": 3}, {"K": 3, "ROWS": 7, "block": 4}])]
    for kernel in kernels:
        assert torch.allclose(kernel(x, 2.0), x * 2 + 3)
    assert "annotated" in annotated.get_kernel_source(K=3)
    assert [p.name for p in annotated.get_tir(K=4, ROWS=20).params] == ["A", "s", "B"]
    with pytest.raises(ArgumentTypeError, match="missing argument 's'"):
        annotated(x, K=3)


def test_numpy_in_numpy_out():
    x = np.arange(300, dtype=np.float32)
    y = make_scale(300)(x)
    assert isinstance(y, np.ndarray) and (y == x * 2).all()
    assert (make_scale(300)(np.repeat(x, 2)[::2]) == x * 2).all()


def test_half_precision_of_both_libraries():
    kernel = make_scale(130, dtype="float16")
    x = np.linspace(-2, 2, 130).astype(np.float16)
    assert (kernel(x) == x * 2).all() and torch.equal(kernel(torch.from_numpy(x)), torch.from_numpy(x) * 2)


def test_bfloat16_passes_through_a_copy():
    @T.prim_func
    def copy(A: T.Tensor((64,), "bfloat16"), B: T.Tensor((64,), "bfloat16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((64,), "bfloat16")
            T.copy(A, tile)
            T.copy(tile, B)

    kernel = tilelang.compile(copy, out_idx=-1)
    x = torch.randn(64).bfloat16()
    assert torch.equal(kernel(x), x)
    y = x.float().numpy().astype(ml_dtypes.bfloat16)
    assert kernel(y).tobytes() == y.tobytes()


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1000])
def test_dynamic_extent_scalar_argument_and_write_in_place(n):
    kernel = tilelang.compile(make_in_place())
    x = torch.randn(2, 2 * n + 2)
    ref = x.clone()
    view, ref_view = x[1, : 2 * n : 2], ref[1, : 2 * n : 2]
    assert kernel(view, 1.5) is None
    ref_view += 1.5
    assert torch.equal(x, ref)


def test_an_eager_kernel_of_nothing():
    assert eager_scale(torch.randn(0, 8)).shape == (0, 8)


def test_a_kernel_that_has_run_can_be_copied_and_sent():
    kernel, a = make_scale(256, 3.0), torch.randn(256)
    assert torch.equal(kernel(a), a * 3)
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert torch.equal(other(a), a * 3)


def test_equal_calls_share_a_kernel_and_changed_globals_do_not(monkeypatch):
    first = make_scale(300)
    assert make_scale(300) is first and make_scale(N=300, factor=2.0) is first and make_scale(301) is not first
    monkeypatch.setitem(globals(), "BLOCK", 64)
    other = make_scale(300)
    assert other is not first and other.get_kernel_source() != first.get_kernel_source()


def test_a_missing_argument_never_reaches_the_function():
    @tilelang.jit
    def factory(block):
        pytest.fail("executed")

    with pytest.raises(TypeError, match="block"):
        factory()


def test_decorator_forms():
    def plain(N):
        return make_scale.get_tir(N)

    for decorated in (tilelang.jit(plain), tilelang.jit()(plain), tilelang.jit(out_idx=-1, target="a3")(plain)):
        assert decorated.__name__ == "plain" and inspect.signature(decorated) == inspect.signature(plain)
        assert decorated.get_tir(16).attrs["global_symbol"] == "scale"
    assert tilelang.jit(plain, out_idx=1, target="a3")(16).artifact.chip == "Ascend910_9391"
    assert isinstance(tilelang.jit(make_in_place()), tilelang.JITKernel)
    with pytest.raises(InvalidKernel):
        tilelang.jit(3)


def test_pass_configs_of_gpu_kernels_are_accepted():
    configs = {
        tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True,
        "tl.disable_tma_lower": True,
    }
    kernel = tilelang.compile(make_scale.get_tir(32), out_idx=[1], pass_configs=configs, target_host="c", verbose=True)
    assert torch.equal(kernel(torch.ones(32)), torch.full((32,), 2.0))
    with pytest.raises(ValueError, match="unknown pass_configs key 'fast_math'"):
        tilelang.jit(pass_configs={"fast_math": True})


def test_layout_hints_of_gpu_kernels_are_accepted():
    @T.prim_func
    def copy(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            T.use_swizzle(panel_size=10)
            tile = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: tilelang.layout.make_swizzled_layout(tile)})
            T.annotate_layout({tile: T.make_mma_swizzle_layout(tile, is_smooth=True)})
            T.copy(A, tile)
            T.copy(tile, B)

    x = torch.randn(64, 64).half()
    assert torch.equal(tilelang.compile(copy, out_idx=-1)(x), x)


def test_out_idx_conflicts_with_declared_outputs():
    with pytest.raises(ValueError, match="T.empty"):
        tilelang.compile(eager_scale.get_tir(M=2, N=32), out_idx=[1])
    with pytest.raises(InvalidKernel, match="out_idx"):
        tilelang.jit(out_idx=[1])(eager_scale.func)(torch.ones(2, 32))
    with pytest.raises(ValueError, match="out of range"):
        tilelang.compile(make_scale.get_tir(8), out_idx=[2])


def test_what_compile_takes():
    with pytest.raises(TypeError, match="@T.prim_func"):
        tilelang.compile(make_scale)


def test_sources_and_files(tmp_path, capsys):
    kernel = make_scale(300)
    source = kernel.get_kernel_source()
    assert "__global__" in source and "scale" in source and kernel.get_host_source() not in source
    assert kernel.get_kernel_source(kernel_only=False).endswith(kernel.get_host_source())
    kernel.export_sources(tmp_path / "a/k.cpp", tmp_path / "h.cpp")
    assert (tmp_path / "a/k.cpp").read_text() == source and (tmp_path / "h.cpp").read_text() == kernel.get_host_source()
    kernel.show_source("both")
    assert source in capsys.readouterr().out
    with pytest.raises(ValueError, match="'both'"):
        kernel.show_source("device")
    assert "UB" in kernel.memory_map()


def test_lower_returns_ir_and_text():
    artifact = tilelang.lower(make_scale.get_tir(300))
    assert artifact.kernel_source == make_scale(300).get_kernel_source() and len(artifact.params) == 2
    assert list(artifact.device_mod.functions.values())


def test_par_compile_keeps_order_and_skips_failures_on_request():
    kernels = make_scale.par_compile([{"N": 64}, (65, 3.0)], num_workers=2)
    assert [k.params[0].shape for k in kernels] == [(64,), (65,)]
    bad = [{"N": 64}, {"N": 64, "dtype": "no_such_dtype"}]
    with pytest.raises((TilelangAscendError, TypeError, ValueError)):
        make_scale.par_compile(bad)
    funcs = [make_scale.get_tir(n) for n in (8, 9)]
    assert [k.params[0].shape for k in tilelang.par_compile(funcs, out_idx=-1)] == [(8,), (9,)]


def test_threads_may_compile_and_run_the_same_kernel():
    x = torch.randn(777)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: make_scale(777, 5.0)(x), range(8)))
    assert all(torch.equal(r, x * 5) for r in results)


def test_errors_of_a_call_point_at_the_parameter():
    with pytest.raises(ArgumentValueError) as caught:
        make_scale(300)(torch.ones(300, dtype=torch.float16))
    text = str(caught.value)
    assert "Buffer dtype mismatch for parameter A: expected torch.float32, got torch.float16" in text
    assert __file__ in text and "A: T.Tensor((N,), dtype)," in text and "^" in text
    with pytest.raises(ArgumentValueError, match="scale expects 1 argument \\(A\\), got 2; B is allocated by the call"):
        make_scale(300)(torch.ones(300), torch.ones(300))
    with pytest.raises(ArgumentValueError):
        eager_scale(torch.ones(3))


def test_targets(monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "Ascend910B3")
    kernel = tilelang.compile(make_scale.get_tir(16), out_idx=-1)
    assert kernel.artifact.chip == "Ascend910B3" and kernel.artifact.steps[0].block_dim <= 40
    assert kernel.retarget("a2").artifact.chip == "Ascend910B1"
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", '{"kind": "ascend", "chip": "a3"}')
    assert tilelang.compile(make_scale.get_tir(16), out_idx=-1).artifact.chip == "Ascend910_9391"
    with pytest.raises(TargetError, match="unknown chip"):
        tilelang.compile(make_scale.get_tir(16), target="Ascend1")


@pytest.mark.parametrize(
    "backend, text", [("npu", "ASCEND_HOME_PATH"), ("rpc", "TILELANG_ASCEND_TRACKER does not name"), ("tpu", "unknown execution_backend")]
)
def test_executors_that_are_not_there_say_so(backend, text):
    kernel = tilelang.compile(make_scale.get_tir(16), out_idx=-1, execution_backend=backend)
    with pytest.raises(TargetError, match=text):
        kernel(torch.ones(16))


def test_simulation_report(tmp_path):
    x = torch.randn(5000)
    report = make_scale(5000).simulate(x)
    assert torch.equal(report.outputs[0], x * 2) and not report.hazards
    assert report.simulated_us > 0 and report.cycles > 0 and report.bound_pipe in report.occupancy
    assert all(0 <= share <= 1 for share in report.occupancy.values())
    assert "simulated" in report.summary() and report.bound_pipe in report.summary()
    report.save_trace(tmp_path / "t.json")
    assert "traceEvents" in (tmp_path / "t.json").read_text()
    timed = make_scale(5000).simulate(x, values=False, checks=False)
    assert timed.simulated_us == pytest.approx(report.simulated_us)
    other = make_scale(5000).simulate(x, arch="Ascend910B4")
    assert torch.equal(other.outputs[0], x * 2) and other.chip == "Ascend910B4"


def test_profiler():
    profiler = make_scale(3000).get_profiler()
    assert profiler.do_bench() > 0 and profiler.do_bench(backend="wall", n_warmup=1, n_repeat=2) > 0
    assert profiler.do_bench(func=lambda a: a * 2, n_warmup=1, n_repeat=2) > 0
    profiler.assert_allclose(lambda a: a * 2, atol=0, rtol=0)
    profiler.assert_consistent(2)
    assert torch.equal(profiler.run_once(), make_scale(3000).run_once())
    x = torch.ones(3000)
    assert torch.equal(profiler.func(x), x * 2) and torch.equal(profiler(x), x * 2)
    with pytest.raises(AssertionError, match="3000 of 3000|elements"):
        profiler.assert_allclose(lambda a: a * 2 + 1)
    with pytest.raises(AssertionError, match="shape"):
        profiler.assert_allclose(lambda a: a[:-1])


def test_every_spelling_of_a_backend_gives_simulated_time(capfd):
    kernel = make_scale(3000)
    profiler, x = kernel.get_profiler(), torch.ones(3000)
    bench._say_simulated.cache_clear()
    simulated = profiler.do_bench()
    for backend in ("event", "cupti", "cudagraph", "msprof"):
        assert profiler.do_bench(backend=backend, quantiles=[0.5, 0.2]) == [simulated] * 2
        assert do_bench(lambda: kernel(x) + 1, backend=backend) == pytest.approx(simulated)
    assert do_bench(lambda: (kernel(x), kernel(x)), quantiles=[0.5]) == pytest.approx([2 * simulated])
    assert profiler.do_bench(func=kernel) == pytest.approx(simulated)
    assert capfd.readouterr().err.count("simulated time") == 1
    assert do_bench(lambda: kernel(x), _n_warmup=1, _n_repeat=1, backend="wall") > simulated
    for wrong in ({"backend": "cuptii"}, {"return_mode": "middle"}):
        for measure in (profiler.do_bench, lambda **options: do_bench(lambda: kernel(x), **options)):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))} is one of .* not '{next(iter(wrong.values()))}'"):
                measure(**wrong)


def test_what_only_kernels_for_a_gpu_have():
    kernel = make_scale(16)
    assert not hasattr(kernel, "torch_function") and copy.copy(kernel).kernel_source == kernel.get_kernel_source()
    with pytest.raises(AttributeError, match="compiled to Ascend C"):
        kernel.export_ptx("kernel.ptx")
    with pytest.raises(ValueError, match="Please tune"):
        kernel.get_tuner_result()
    with pytest.raises(TypeError, match="out_idx is an index"):
        tilelang.compile(make_scale.get_tir(16), out_idx="B")


def test_profiler_of_a_dynamic_kernel_that_writes_its_argument():
    profiler = tilelang.compile(make_in_place()).get_profiler(tilelang.TensorSupplyType.Integer)
    with pytest.raises(ArgumentValueError, match="dynamic extent n"):
        profiler.do_bench()
    assert profiler.do_bench(dynamic_symbolic_constraints={"n": 100}) > 0

    def reference(a, s):
        a += s

    inputs = [torch.zeros(10), 2.0]
    profiler.assert_allclose(reference, input_tensors=inputs)
    assert (inputs[0] == 2).all()


@pytest.mark.parametrize("supply", list(tilelang.TensorSupplyType))
def test_supply_types(supply):
    x, s = tilelang.compile(make_in_place()).get_profiler(supply).get_inputs({"n": 50})
    assert x.shape == (50,) and x.dtype == torch.float32 and torch.isfinite(x).all() and s == 1
    if supply is tilelang.TensorSupplyType.Zero:
        assert (x == 0).all()


def test_a_kernel_comes_back_from_the_disk_and_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    func = make_scale.get_tir(999)
    cache.clear_memory()
    first = tilelang.compile(func, out_idx=-1)
    cache.clear_memory()
    with monkeypatch.context() as m:
        m.setattr("tilelang_ascend.transform.pipeline.lower", lambda *a, **k: pytest.fail("compiled again"))
        second = tilelang.compile(func, out_idx=-1)
    assert second.artifact is not first.artifact and second.artifact == first.artifact
    x = torch.randn(999)
    assert torch.equal(second(x), x * 2) and second.simulate(x).simulated_us == first.simulate(x).simulated_us


def test_an_edited_entry_calls_no_function_of_the_system(tmp_path, monkeypatch):
    """Its digest lies beside it, so it says nothing about who wrote it."""
    from tilelang_ascend import ir

    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    func, trace = make_scale.get_tir(998), tmp_path / "it ran"
    cache.clear_memory()
    module = tilelang.compile(func, out_idx=-1).artifact.ascend_ir
    call = ir.Evaluate(ir.tirx.call_extern("int32", "system", f"touch '{trace}'"))
    edited = ir.IRModule({name: f.with_body(ir.seq(call, f.body)) for name, f in module.functions.items()})
    (path,) = tmp_path.rglob("ascend_ir.json")
    path.write_text(ir.save_json(edited))
    manifest = json.loads((path.parent / "manifest.json").read_text())
    manifest["files"]["ascend_ir.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / "manifest.json").write_text(json.dumps(manifest))
    cache.clear_memory()
    kernel = tilelang.compile(func, out_idx=-1)
    with pytest.raises(CompileError, match="call_extern of .*system.*is no instruction(.|\n)*hint: .*clear_cache"):
        kernel(torch.ones(998))
    assert not trace.exists()


def test_on_build_sees_every_kernel():
    seen = []
    with on_build(seen.append):
        tilelang.compile(make_scale.get_tir(64), out_idx=-1)
        tilelang.compile(make_scale.get_tir(64), out_idx=-1)
    assert len(seen) == 2 and seen[0] is seen[1]


def test_a_compile_error_is_not_cached_and_has_a_place():
    @T.prim_func
    def too_big(A: T.Tensor((4096, 4096), "float32"), B: T.Tensor((4096, 4096), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((4096, 4096), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(4096, 4096):
                tile[i, j] = tile[i, j] + 1.0
            T.copy(tile, B)

    for _ in range(2):
        with pytest.raises(TilelangAscendError) as caught:
            tilelang.compile(too_big)
        assert __file__ in str(caught.value)


def test_a_second_process_reuses_what_the_first_compiled(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        "import torch, tilelang_ascend as tilelang, tilelang_ascend.language as T\n"
        + inspect.getsource(make_scale.func).replace("BLOCK", "128")
        + "print(float(make_scale(100)(torch.ones(100)).sum()))\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(tmp_path / "c")}
    command = [sys.executable, str(script)]
    code = key.code_digest.__wrapped__()
    runs = [subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment) for _ in range(2)]
    assert [r.stdout.strip() for r in runs] == ["200.0", "200.0"], runs[0].stderr
    if code != key.code_digest.__wrapped__():
        pytest.skip("the package was edited while the test ran")
    assert Store(tmp_path / "c").size()[0] == 1


def test_a_hazard_stops_a_checked_call(monkeypatch):
    from tilelang_ascend.errors import SimulationError
    from tilelang_ascend.runtime import simulation

    kernel = make_scale(300)
    monkeypatch.setenv("TILELANG_SIM_CHECKS", "on")
    kernel(torch.ones(300))
    racy = kernel.artifact.ascend_ir
    broken = without_flags(racy)
    monkeypatch.setattr(simulation, "programs_of", lambda artifact: simulation.build_programs(broken))
    with pytest.raises(SimulationError, match="racecheck|initcheck"):
        kernel(torch.ones(300))
    assert kernel.simulate(torch.ones(300)).hazards


def without_flags(module):
    """The program with every synchronisation removed."""
    from tilelang_ascend import ir

    class Drop(ir.StmtMutator):
        def visit_Evaluate(self, s):
            return None if ir.op_name(s) in ("ascend.set_flag", "ascend.wait_flag", "ascend.pipe_barrier") else s

    return ir.IRModule({name.name_hint: ir.PrimFunc(f.params, Drop()(f.body)).with_attr(dict(f.attrs))
                        for name, f in module.functions.items()})  # fmt: skip


@pytest.mark.parametrize("out_idx, hint", [([0], "it writes parameter 1 ('B')"), ([0, 1], "it writes parameter 1 ('B')"), (-2, "1 ('B')")])
def test_an_output_the_kernel_does_not_write_is_an_error(out_idx, hint):
    @T.prim_func
    def doubled(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = A[i] * 2.0

    with pytest.raises(InvalidKernel, match="parameter 0, 'A', which the kernel does not write") as error:
        tilelang.compile(doubled, out_idx=out_idx)
    assert hint in str(error.value) and error.value.location is not None


@pytest.mark.parametrize("value", ["yes", 2, None, 0.5, [], "False"])
def test_values_of_pass_configs_are_checked(value):
    with pytest.raises(ValueError, match=r"pass_configs\['tl.enable_fast_math'\] is .*, it takes True or False"):
        tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: value})
