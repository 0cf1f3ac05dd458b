"""Libraries that are not installed."""

import importlib
import importlib.util
import sys

import pytest

from tilelang_ascend.compat import missing, packages, session


def test_a_guarded_import_fails_as_always(run_text, capfd):
    code = run_text(
        """
try:
    import absent_one
    raise SystemExit("a stand-in was given")
except (ImportError, AttributeError):
    pass

def load():
    import absent_two

try:
    load()
    raise SystemExit("a stand-in was given")
except ModuleNotFoundError as error:
    assert error.name == "absent_two"

import importlib, importlib.util
assert importlib.util.find_spec("absent_three") is None
"""
    )
    assert code == 0, capfd.readouterr().err


def test_a_general_handler_far_away_is_no_guard(run_text, capfd):
    code = run_text(
        """
def load():
    import absent_one
    return absent_one

try:
    module = load()
except Exception:
    raise SystemExit("the import failed")
"""
    )
    assert code == 0, capfd.readouterr().err


def test_stand_ins_never_reach_installed_code(run_text, capfd, tmp_path, monkeypatch):
    library = tmp_path / "library"
    library.mkdir()
    (library / "prober.py").write_text("import absent_one\n")
    monkeypatch.syspath_prepend(library)
    monkeypatch.setattr(missing, "is_internal", lambda file: str(library) in file)
    code = run_text("import sys\nimport absent_one\nassert 'absent_one' not in sys.modules\nimport prober\n")
    assert code == 1 and "No module named 'absent_one'" in capfd.readouterr().err


def test_a_broken_dependency_of_an_installed_library_is_an_error(run_text, capfd, tmp_path):
    (tmp_path / "wrapper.py").write_text("import importlib\nimportlib.import_module('absent_dependency')\n")
    assert run_text("import wrapper\n") == 1
    assert "No module named 'absent_dependency'" in capfd.readouterr().err


def test_a_missing_submodule_of_an_installed_library_is_an_error(run_text, capfd):
    assert run_text("import json.nothing\n") == 1
    assert "No module named 'json.nothing'" in capfd.readouterr().err


def test_parts_of_tilelang_without_counterpart(run_text, capfd):
    assert run_text("from tilelang.intrinsics import make_mma\nimport tilelang.quantize as q\n") == 0
    assert run_text("from tilelang.intrinsics import make_mma\nmake_mma(16)\n") == 1
    err = capfd.readouterr().err
    assert "this line uses tilelang.intrinsics.make_mma, which has no counterpart on Ascend" in err
    assert "hint: T.gemm multiplies tiles on the cube unit" in err


def test_a_result_on_module_level_is_not_swallowed(run_text, capfd):
    assert run_text("import torch, absent_one\nout = absent_one.attention(torch.ones(2))\n") == 1
    assert run_text("import absent_one\nabsent_one.attention(1)\n") == 1
    err = capfd.readouterr().err
    assert err.count("this line uses absent_one.attention, but absent_one is not installed") == 2


def test_a_deferred_value_fails_when_it_is_used(run_text, capfd):
    assert run_text("import absent_one\nconfig = absent_one.Config(1)\nprint(config)\n") == 0
    assert run_text("import absent_one\nconfig = absent_one.Config(1)\nfor c in config: pass\n") == 1
    assert "script.py:3:" in capfd.readouterr().err


TRACED = """
import tilelang.language as T
from tilelang.language import alloc_barrier, copy
from absent_one import scale_tile

def make():
    @T.prim_func
    def kernel(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((128,), "float32")
            copy(A, tile)
            {line}
    return kernel

make()
"""


@pytest.mark.parametrize(
    "line, shown",
    [
        ("scale_tile(tile)", "this line uses absent_one.scale_tile, but absent_one is not installed"),
        ("x = alloc_barrier(128)", "T.alloc_barrier is an asynchronous barrier"),
    ],
)
def test_a_kernel_drops_nothing(run_text, capfd, line, shown):
    assert run_text(TRACED.format(line=line)) == 1
    assert "script.py:12:" in (err := capfd.readouterr().err) and shown in err


def test_names_that_tilelang_has_elsewhere_are_missed_when_they_are_used(run_text, capfd):
    text = "from tilelang.cache import cached\nfrom tilelang import nothing\nfrom tilelang.language import im2colour\n"
    assert run_text(text) == 0
    assert run_text(text + "cached(1)\n") == 1
    assert "this line uses tilelang.cache.cached, which has no counterpart" in capfd.readouterr().err
    guarded = "try:\n    from tilelang import nothing\nexcept ImportError:\n    raise SystemExit(3)\n"
    assert run_text(guarded) == 3


def test_names_are_free(run_text, capfd):
    assert run_text("from absent_one.ops import attention\nprint(attention.__name__)\n") == 0
    assert capfd.readouterr().out == "attention\n"


def test_advice():
    assert packages.advice("cv2") == "install it with: pip install opencv-python-headless"
    assert "GPU" in packages.advice("flash_attn") and "next to the script" in packages.advice("my_module")
    assert not set(packages.PLAIN) & packages.GPU_ONLY


def test_import_is_put_back():
    before = __import__("builtins").__import__
    with session():
        assert __import__("builtins").__import__ is not before
    assert __import__("builtins").__import__ is before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("absent_one")
    assert "absent_one" not in sys.modules
