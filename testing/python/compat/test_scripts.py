"""Scripts in the plain idiom of GPU TileLang, run as they are."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tilelang_ascend.tools.run import run

SCRIPTS = Path(__file__).parent / "scripts"
NAMES = sorted(p.stem for p in SCRIPTS.glob("*.py"))


@pytest.fixture(autouse=True)
def _all_checks(monkeypatch):
    monkeypatch.setenv("TILELANG_SIM_CHECKS", "on")
    for name in ("TILELANG_CACHE_DIR", "TILELANG_PRINT_ON_COMPILATION", "TILELANG_VERBOSE"):  # a script sets them
        monkeypatch.setenv(name, os.environ.get(name, ""))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "pytest_style"])
def test_script(name, capfd):
    code = run(SCRIPTS / f"{name}.py")
    out, err = capfd.readouterr()
    assert code == 0, err
    assert "all checks passed" in out


def test_a_script_that_runs_its_own_tests(capfd):
    code = run(SCRIPTS / "pytest_style.py", ("-p", "no:cacheprovider", "-p", "no:xdist"))
    out = capfd.readouterr().out
    assert code == 0 and "2 passed, 1 skipped" in out
    sys.modules.pop("pytest_style", None)


def test_sizes_come_from_the_command_line(capfd):
    assert run(SCRIPTS / "gemm_relu.py", ("--size", "192")) == 0
    assert "all checks passed" in capfd.readouterr().out


def test_attention_as_in_the_textbook(capfd):
    assert run(SCRIPTS / "attention.py", ("--textbook",)) == 0
    assert "passed" in capfd.readouterr().out


no_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="torch for CUDA brings triton along")


@pytest.mark.parametrize(
    "use, name, hint",
    [
        ("call", "flash_attn.flash_attn_func", "it computes on a GPU"),
        pytest.param("index", "triton_kernel", "triton is not installed", marks=no_triton),
        ("operand", "vllm._custom_ops.scale", "it computes on a GPU"),
        ("plain", "einops.rearrange", "pip install einops"),
        ("condition", "einops.repeat", "pip install einops"),
        ("class", "fla.ops.common.chunk.Base", "fla is not installed"),
        pytest.param("version", "triton.__version__", "triton is not installed", marks=no_triton),
    ],
)
def test_a_missing_library_is_named_where_it_is_used(use, name, hint, capfd):
    path = SCRIPTS / "optional_references.py"
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text.strip() == f'if what == "{use}":') + 1
    if use == "call":
        line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "return flash_attn" in text)
    assert run(path, (use,)) == 1
    err = capfd.readouterr().err
    (sentence,) = [text for text in err.splitlines() if ": error: " in text]
    assert sentence.startswith(f"{path}:{line}:") and f"this line uses {name}, " in sentence and hint in sentence
