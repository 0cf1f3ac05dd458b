"""Facts that are written in more than one file agree."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilelang_ascend
from tilelang_ascend import env
from tilelang_ascend.tools import doctor

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_version():
    assert PROJECT["project"]["version"] == tilelang_ascend.__version__


def test_pins_of_tvm_are_the_same_everywhere():
    pinned = {f"{name}=={version}" for name, version in doctor.PINNED.items()}
    assert pinned <= set(PROJECT["project"]["dependencies"])
    ffi = f"apache-tvm-ffi=={doctor.PINNED['apache-tvm-ffi']}"
    assert ffi in PROJECT["build-system"]["requires"] and ffi in (ROOT / "Makefile").read_text()


def test_every_import_is_a_dependency():
    """Third-party modules the package imports, against the list in pyproject.toml."""
    modules = set()
    for path in (ROOT / "tilelang_ascend").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules.add(node.module.split(".")[0])
    optional = {"torch", "torch_npu", "pytest", "xgboost", "bokeh", "jinja2", "markupsafe"}
    third_party = modules - set(sys.stdlib_module_names) - {"tilelang_ascend"} - optional
    names = {re.split(r"[<>=;\[ ]", d)[0].replace("-", "_") for d in PROJECT["project"]["dependencies"]}
    provided = (names - {"apache_tvm", "apache_tvm_ffi"}) | {"tvm", "tvm_ffi"}
    assert third_party <= provided, f"not declared: {sorted(third_party - provided)}"


def test_the_installed_command():
    assert PROJECT["project"]["scripts"] == {"tilelang-ascend": "tilelang_ascend.tools.cli:main"}
    done = subprocess.run([sys.executable, "-m", "tilelang_ascend", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == f"tilelang-ascend, version {tilelang_ascend.__version__}"


def test_ci_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK) and "make test" in script.read_text()


@pytest.mark.parametrize("knob", env.KNOBS, ids=lambda k: k.name)
def test_knobs_have_a_default_that_parses_back(knob, monkeypatch):
    monkeypatch.delenv(knob.name, raising=False)
    default = knob.get()
    text = str(int(default)) if isinstance(default, bool) else str(default)
    monkeypatch.setenv(knob.name, text)
    assert knob.get() == default
