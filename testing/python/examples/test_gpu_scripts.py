"""Every GPU script under examples/ runs unmodified through `tilelang-ascend run`, at small odd sizes, all checks on."""

import re
from pathlib import Path

import pytest
from gpu_scripts import KNOWN_FAILURES, KNOWN_FAILURES_AT_DEFAULT_SIZES, SCRIPTS

from tilelang_ascend.tools.run import run

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def scripts(known_failures):
    """Known gaps are strict: a script that starts to work makes the suite ask for the removal of its entry."""
    return [
        pytest.param(path, id=path, marks=[pytest.mark.xfail(strict=True, reason=known_failures[path])])
        if path in known_failures
        else pytest.param(path, id=path)
        for path in SCRIPTS
    ]


@pytest.fixture(autouse=True)
def _all_checks_on(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_SIM_CHECKS", "on")


def assert_runs(path, args, capsys):
    exit_code = run(EXAMPLES / path, tuple(args.split()))
    out, err = capsys.readouterr()
    assert exit_code == 0, err
    assert out.count("\n") == 1 and " torch" in out


@pytest.mark.one_in(6)
@pytest.mark.parametrize("path", scripts(KNOWN_FAILURES))
def test_small_odd_size(path, capsys):
    assert_runs(path, SCRIPTS[path], capsys)


@pytest.mark.slow
@pytest.mark.parametrize("path", scripts(KNOWN_FAILURES_AT_DEFAULT_SIZES))
def test_default_size(path, capsys):
    assert_runs(path, "", capsys)


def test_every_script_is_listed():
    found = {p for p in EXAMPLES.rglob("*.py") if not p.name.startswith("example_")}
    assert {str(p.relative_to(EXAMPLES)) for p in found} == set(SCRIPTS)


def test_every_folder_says_what_is_in_it():
    for folder in {path.parent for path in EXAMPLES.rglob("*.py")}:
        text = (folder / "README.md").read_text()
        named = set(re.findall(r"`(\w+\.py)`", text)) | set(re.findall(rf"examples/{folder.name}/(\w+\.py)", text))
        assert named == {path.name for path in folder.glob("*.py")}, folder.name


def test_known_failures_are_scripts():
    assert set(KNOWN_FAILURES) | set(KNOWN_FAILURES_AT_DEFAULT_SIZES) <= set(SCRIPTS)


LONG_SCRIPTS = {
    "flash_attention/backward.py": 150,  # two kernels
    "flash_attention/forward.py": 105,
    "flash_attention/varlen.py": 125,
    "flash_decoding/paged.py": 110,
    "flash_decoding/split_kv.py": 175,  # two launches
    "linear_attention/gated_delta_rule.py": 315,  # five kernels
    "mamba/chunk_scan.py": 255,  # two kernels and the recurrence they stand for
    "mla/decode.py": 100,
    "mla/paged.py": 116,
    "moe/fused.py": 135,  # two kernels
    "sparse_attention/gathered.py": 117,
    "sparse_attention/native_sparse.py": 115,
}
"""Lines a script may have where 90 do not hold its kernels."""


def test_scripts_are_plain_gpu_scripts():
    for path in SCRIPTS:
        text = (EXAMPLES / path).read_text()
        assert "tilelang_ascend" not in text and "import tilelang.language as T" in text, path
        assert len(text.splitlines()) < LONG_SCRIPTS.get(path, 90), path


def test_long_scripts_are_long():
    for path, limit in LONG_SCRIPTS.items():
        assert 90 <= len((EXAMPLES / path).read_text().splitlines()) > limit - 10, path


def test_a_wrong_result_fails(tmp_path, capsys):
    """The scripts' own comparison is what the suite relies on."""
    right = (EXAMPLES / "pointwise/add.py").read_text()
    script = tmp_path / "wrong.py"
    script.write_text(right.replace("A_shared[i, j] + B_shared", "A_shared[i, j] - B_shared"))
    assert run(script, ("--m", "9", "--n", "17")) != 0
    assert "not equal" in capsys.readouterr().err
