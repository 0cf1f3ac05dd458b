"""`import tilelang` and what it gives."""

import importlib
import os
import sys
from pathlib import Path

import pytest

import tilelang_ascend
from testing import warm_python
from tilelang_ascend.compat import aliases, session

ROOT = Path(__file__).resolve().parents[3]
MODULES = "language jit profiler testing layout utils cache carver transform engine env contrib.nvcc".split()


def test_every_module_a_script_imports():
    with session():
        for name in MODULES:
            importlib.import_module(f"tilelang.{name}")
        for name in aliases.TARGETS:
            importlib.import_module(name)


def test_they_are_the_modules_of_this_package():
    with session():
        import tilelang
        import tilelang.cache
        import tilelang.jit
        import tilelang.language as T
        from tilelang.jit import JITKernel
        from tilelang.profiler import do_bench

        from tilelang_ascend import cache, language, profiler

        assert T is language and tilelang.language is language and tilelang.cache is cache
        assert tilelang.jit is tilelang_ascend.jit and tilelang.compile is tilelang_ascend.compile  # functions, not modules
        assert tilelang.JITKernel is JITKernel and do_bench is profiler.do_bench
        assert tilelang.disable_cache is cache.disable_cache and tilelang.set_log_level is tilelang_ascend.set_log_level
        assert tilelang.tvm.__name__ == "tvm" and tilelang.dtypes is language.dtypes
    assert language.__spec__.name == language.__name__ == "tilelang_ascend.language"


def test_functions_with_the_name_of_a_submodule_stay_functions(run_text, capfd):
    code = run_text(
        """
import tilelang.engine
from tilelang.engine.lower import lower
from tilelang.math import next_power_of_2
assert callable(lower) and tilelang.engine.lower is lower and tilelang.lower is lower and next_power_of_2(5) == 8
import tilelang.profiler.do_bench
assert callable(tilelang.profiler.do_bench) and tilelang.is_cache_enabled() in (True, False)
assert tilelang.CompiledArtifact and tilelang.KernelParam
from tilelang.autotuner.param import AutotuneResult
"""
    )
    assert code == 0, capfd.readouterr().err


def test_outside_a_session_there_is_no_alias():
    before = list(sys.meta_path)
    with session():
        importlib.import_module("tilelang.layout")
    assert sys.meta_path == before and not [m for m in sys.modules if m.split(".")[0] == "tilelang"]
    assert "tilelang_ascend" not in (getattr(importlib.util.find_spec("tilelang"), "origin", None) or "")


def test_a_real_tilelang_does_not_matter(tmp_path, monkeypatch):
    package = tmp_path / "tilelang"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    (package / "quantize.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    real = importlib.import_module("tilelang")
    try:
        with session():
            import tilelang

            assert not hasattr(tilelang, "REAL")
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("tilelang.quantize")
        assert importlib.import_module("tilelang") is real
    finally:
        sys.modules.pop("tilelang", None)


def test_sessions_nest():
    with session():
        with session():
            import tilelang
        assert importlib.import_module("tilelang") is tilelang
    assert "tilelang" not in sys.modules


def test_unknown_names():
    with session():
        import tilelang
        import tilelang.transform

        for owner, name in ((tilelang, "jitt"), (tilelang.transform, "LayoutInference")):
            with pytest.raises(AttributeError, match=name):
                getattr(owner, name)
        with pytest.raises(ModuleNotFoundError, match="tilelang.layout.nothing"):
            importlib.import_module("tilelang.layout.nothing")


@pytest.mark.parametrize("target, ours", [("ascend", True), ("auto", True), (None, True), ("cuda -arch=sm_90", False)])
def test_a_script_may_ask_for_the_aliases_itself(target, ours):
    text = "import tilelang_ascend.compat.tilelang\nimport tilelang\nassert tilelang.cdiv(3, 2) == 2"
    variables = {k: v for k, v in os.environ.items() if k != "TILELANG_DEFAULT_TARGET"}
    variables |= {"TILELANG_DEFAULT_TARGET": target} if target else {}
    done = warm_python.run([sys.executable, "-c", text], cwd=ROOT, env=variables)
    assert (done.returncode == 0) is ours, done.stderr
    assert ours or "No module named 'tilelang'" in done.stderr


def test_environment_variables(monkeypatch):
    with session():
        from tilelang.env import env

        monkeypatch.setenv("TILELANG_CACHE_DIR", "/somewhere")
        assert env.TILELANG_CACHE_DIR == "/somewhere" and env.CUDA_HOME == os.environ.get("CUDA_HOME")
        assert env.COMPOSABLE_KERNEL_INCLUDE_DIR is None and not env.use_gemm_v1() and not env.get_default_verbose()
        assert str(tilelang_ascend.env.TILELANG_CACHE_DIR) == "/somewhere" and env.is_autotune_cache_disabled() is False
        monkeypatch.setenv("TILELANG_DISABLE_CACHE", "0")
        env.TILELANG_DISABLE_CACHE = True
        assert env.TILELANG_DISABLE_CACHE is True and not env.is_cache_enabled()
        with pytest.raises(AttributeError):
            env.unheard_of


def test_targets():
    from tilelang_ascend.compat.targets import replace_foreign
    from tilelang_ascend.targets import resolve_chip

    for target in ("cuda", "cuda -arch=sm_80", "hip", "auto", {"kind": "cuda", "arch": "sm_90"}, "llvm"):
        assert replace_foreign(target) == "ascend"
    for target in ("a3", "Ascend910B2", {"kind": "ascend", "chip": "a3"}, None):
        assert replace_foreign(target) == target
    with session():
        assert resolve_chip("cuda").name == resolve_chip(None).name
    with pytest.raises(tilelang_ascend.errors.TargetError):
        resolve_chip("cuda")


def test_the_target_of_the_run_wins_over_a_gpu(monkeypatch):
    from tilelang_ascend.targets import resolve_chip

    with session():
        monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "a3")
        assert resolve_chip("cuda").family == "a3"
        monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda")
        assert resolve_chip(None).family == "a2"


def test_a_target_object_of_tvm():
    from tilelang_ascend.compat.targets import kind_of
    from tilelang_ascend.ir.door import tvm

    assert kind_of(tvm.target.Target("llvm")) == "llvm"


def test_pass_configs():
    keys = list(tilelang_ascend.PassConfigKey)
    assert len(keys) > 50
    tilelang_ascend.jit(pass_configs={k: True for k in keys} | {"tir.disable_vectorize": 1, "tl.enable_fast_math": True})
    for wrong, near in (
        ("tl.enable_fast_mth", "tl.enable_fast_math"),
        ("fast_math", "tl.enable_fast_math"),
        ("TL_SIMPLFY", "tl.Simplify"),
    ):
        with pytest.raises(ValueError, match=f"unknown pass_configs key '{wrong}'; did you mean.* '{near}'"):
            tilelang_ascend.jit(pass_configs={wrong: True})


def test_conditions_for_tests():
    with session():
        from tilelang import testing

        def func():
            return 1

        assert testing.requires_cuda(func) is func and testing.requires_cuda()(func) is func
        assert testing.requires_cuda_compute_version(9, 0)(func) is func
        assert testing.requires_metal(func).pytestmark[0].name == "skip"


def test_torch_assert_close():
    import torch

    with session():
        from tilelang.utils.tensor import torch_assert_close

        a = torch.zeros(1000)
        b = a.clone()
        b[7] = 1
        assert torch_assert_close(a, b, max_mismatched_ratio=0.001)
        with pytest.raises(AssertionError, match=r"1 of 1000 elements .* first at \(7,\)"):
            torch_assert_close(a, b, max_mismatched_ratio=0.0001)
        with pytest.raises(AssertionError, match="shape"):
            torch_assert_close(a, b[:5])
