"""Every example's main runs, with its own sizes or small odd ones, and checks itself against torch."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

RUNS = [
    ("gemm/example_gemm.py", ["--m", "129", "--n", "200", "--k", "100"]),
    ("gemm/example_gemm_eager.py", ["--m", "130", "--n", "257", "--k", "65"]),
    ("gemm/example_gemm_npu.py", ["--m", "129", "--n", "17", "--k", "100"]),
    ("elementwise/example_add_1d.py", ["--n", "10007"]),
    ("elementwise/example_add_2d.py", ["--m", "33", "--n", "257"]),
    ("minicv/example_minicv.py", ["--m", "130", "--n", "300", "--k", "128"]),
    ("gemm_bias_leaky_relu/example_gemm_bias_leaky_relu.py", ["--m", "129", "--n", "100", "--k", "65"]),
]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path, args", RUNS, ids=[Path(p).stem for p, _ in RUNS])
def test_small_odd_sizes(path, args, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load(EXAMPLES / path).main(args)
    out = capsys.readouterr().out
    assert "check against torch: passed" in out and "simulated" in out


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p, _ in RUNS], ids=[Path(p).stem for p, _ in RUNS])
def test_full_sizes(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load(EXAMPLES / path).main([])
    assert "check against torch: passed" in capsys.readouterr().out


def test_every_example_is_listed():
    found = {str(p.relative_to(EXAMPLES)) for p in EXAMPLES.rglob("example_*.py")}
    assert found == {path for path, _ in RUNS}


@pytest.mark.parametrize("folder", [p for p in EXAMPLES.iterdir() if p.is_dir()], ids=lambda p: p.name)
def test_every_folder_has_a_readme(folder):
    assert (folder / "README.md").exists()
