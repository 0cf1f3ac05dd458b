"""The command line: what it writes, what it prints, how it fails."""

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilelang_ascend.tools import cli, doctor, script

ROOT = Path(__file__).resolve().parents[3]

ADD = """
import sys
import torch
import tilelang_ascend as tilelang
import tilelang_ascend.language as T

@tilelang.jit(out_idx=[-1])
def make(N):
    @T.prim_func
    def add_one(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] + 1.0
    return add_one

def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    x = torch.zeros(n)
    assert (make(n)(x) == 1).all()
    {extra}

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def add(tmp_path):
    def write(extra="pass"):
        path = tmp_path / "add.py"
        path.write_text(ADD.replace("{extra}", extra))
        return path

    return write


def invoke(*args):
    return CliRunner().invoke(cli.main, [str(a) for a in args])


def test_compile_writes_the_sources_of_every_kernel(add, tmp_path):
    result = invoke("compile", "-o", tmp_path / "o", add("make(400); make(300)"))
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["add_one", "add_one_1"]
    assert "__global__" in (tmp_path / "o/add_one/kernel.cpp").read_text()
    assert "add_one: aiv_only for Ascend910B1" in result.output


def test_target_and_arguments_are_passed_on(add, tmp_path):
    result = invoke("compile", "-o", tmp_path / "o", "--target", "a3", add(), 555)
    assert result.exit_code == 0, result.output
    assert "for Ascend910_9391" in result.output and "555" in (tmp_path / "o/add_one/kernel.cpp").read_text()


@pytest.mark.parametrize("command", ["compile", "inspect"])
def test_scripts_for_a_gpu_need_a_word(add, tmp_path, command):
    path = add()
    path.write_text(path.read_text().replace("tilelang_ascend", "tilelang").replace("zeros(n)", "zeros(n).cuda()"))
    result = invoke(command, "-o", tmp_path / "o", path)
    assert result.exit_code == 1 and "hint: add --gpu-script" in result.output
    result = invoke(command, "-o", tmp_path / "o", "--gpu-script", path)
    assert result.exit_code == 0 and "add_one" in result.output, result.output
    assert "tilelang" not in sys.modules


def test_inspect_writes_dumps_that_parse_back(add, tmp_path):
    from tilelang_ascend import ir
    from tilelang_ascend.jit.build import lower_stages
    from tilelang_ascend.tools.dump import parse

    path = add()
    result = invoke("inspect", "-o", tmp_path / "o", path)
    assert result.exit_code == 0, result.output
    dumps = sorted((tmp_path / "o/add_one").glob("[0-9][0-9]_*.py"))
    assert len(dumps) > 8 and dumps[0].name == "00_tile_ir.py"
    (artifact,) = script.run_script(path).kernels.values()
    stages = [("tile_ir", artifact.tile_ir), *lower_stages(artifact)]
    for dump, (name, node) in zip(dumps, stages, strict=True):
        assert dump.stem.endswith(name)
        again = parse(dump.read_text())
        assert again.script(show_meta=False) == node.script(show_meta=False), name
    assert ir.structural_equal(parse(dumps[-1].read_text()), stages[-1][1])


SECOND = """
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64,), "float32")
            T.copy(B[0:64], tile)
            T.copy(tile, B[64:128])
"""


def test_all_launches_of_a_kernel_are_shown(add, tmp_path):
    from tilelang_ascend.tools.dump import parse

    path = add()
    path.write_text(path.read_text().replace("    return add_one", SECOND.strip("\n") + "\n    return add_one"))
    result = invoke("compile", "-o", tmp_path / "c", path, 256)
    assert result.exit_code == 0, result.output
    assert "add_one: aiv_only for Ascend910B1, 2 blocks, then aiv_only for Ascend910B1, 1 blocks ->" in result.output
    assert (tmp_path / "c/add_one/kernel.cpp").read_text().count("__global__") == 2
    result = invoke("inspect", "--validate", "-o", tmp_path / "o", path, 256)
    assert result.exit_code == 0, result.output
    names = [p.name for p in sorted((tmp_path / "o/add_one").glob("[0-9]*_*.py"))]
    assert [name.lstrip("0").lstrip("1") for name in names[:2]] == ["_tile_ir.py", "_split_launches.py"]
    for launch in (1, 2):
        assert sum(f"_launch_{launch}_" in name for name in names) > 20
    assert parse((tmp_path / "o/add_one" / names[1]).read_text()).functions.items()
    assert "launch 2: map_grid" in result.output and "launch 2:" in (tmp_path / "o/add_one/memory_map.txt").read_text()


def test_an_error_shows_the_frames_of_the_user_only(add, tmp_path):
    result = invoke("compile", "-o", tmp_path / "o", add("make(7)(torch.zeros(8))"))
    assert result.exit_code == 1
    assert "Static shape mismatch for parameter A: expected 7 at index 0, got 8" in result.stderr
    assert 'add.py", line' in result.stderr and "in main" in result.stderr
    files = [line for line in result.stderr.splitlines() if line.strip().startswith("File ")]
    assert files and all("add.py" in line for line in files)


def test_a_python_error_keeps_its_message(add, tmp_path):
    result = invoke("inspect", "-o", tmp_path / "o", add("raise KeyError('lost')"))
    assert result.exit_code == 1 and result.stderr.rstrip().endswith("KeyError: 'lost'")


@pytest.mark.parametrize("extra, code, text", [("sys.exit(3)", 3, ""), ("sys.exit('no')", 1, "no"), ("sys.exit()", 0, "")])
def test_the_exit_code_of_the_script_is_kept(add, tmp_path, extra, code, text):
    result = invoke("compile", "-o", tmp_path / "o", add(extra))
    assert result.exit_code == code and text in result.stderr


def test_a_script_without_kernels_is_an_error(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    result = invoke("compile", path)
    assert result.exit_code == 1 and "compiled no kernel" in result.stderr


def test_an_unknown_chip_is_refused_before_the_script_runs(tmp_path):
    path = tmp_path / "boom.py"
    path.write_text("raise SystemExit(9)\n")
    result = invoke("compile", "--target", "Ascend910B9", path)
    assert result.exit_code == 2 and "unknown chip 'Ascend910B9'" in result.stderr


def test_the_process_is_left_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "s.py"
    path.write_text("import sys; sys.path.append('x'); assert sys.argv[1:] == ['a', '-b']\n")
    before = (list(sys.argv), list(sys.path))
    assert script.run_script(path, ["a", "-b"], "a3").exit_code == 0
    assert (sys.argv, sys.path) == before


def test_help_and_doctor_do_not_load_tvm_or_torch():
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tilelang_ascend.tools.cli import main\n"
        "for words in (['--help'], ['doctor'], ['compile', '--help']): CliRunner().invoke(main, words)\n"
        "sys.exit('tvm' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_importing_the_package_does_not_load_tvm():
    code = "import sys, tilelang_ascend as t; t.jit; sys.exit(bool({'tvm', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_doctor_finds_what_is_there():
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    for subject in ("Python", "apache-tvm", "machine model", "chips", "kernel cache"):
        assert subject in result.output


@pytest.mark.parametrize("name, text", [("TILELANG_CACHE_DIR", "~nobody-of-this-name/x"), ("TILELANG_DISABLE_CACHE", "maybe")])
def test_doctor_says_which_variable_of_the_cache_is_wrong(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    finding = doctor._cache()
    assert finding.status == "broken" and f"{name}='{text}'" in finding.detail


def test_doctor_says_what_a_missing_part_means(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "perhaps")
    findings = {f.subject: f for f in doctor._variables()} | {f.subject: f for f in [doctor._torch()]}
    assert findings["torch"].status == "missing" and "examples need torch" in findings["torch"].meaning
    assert findings["TILELANG_DISABLE_CACHE"].status == "broken"
    assert doctor._pinned("apache-tvm", "1").status == "broken"


def test_a_wrong_version_is_broken(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "0.0")
    assert doctor._pinned("apache-tvm-ffi", "0.1.14.post1") == doctor.Finding(
        "broken", "apache-tvm-ffi", "0.0, expected 0.1.14.post1", "run: pip install apache-tvm-ffi==0.1.14.post1"
    )


def test_inspect_prints_the_time_of_every_pass(add, tmp_path):
    assert "all passes" not in invoke("inspect", "-o", tmp_path / "o", add()).output
    result = invoke("inspect", "--times", "-o", tmp_path / "o", add())
    assert result.exit_code == 0 and {"insert_sync", "lower_tile_ops", "passes"} <= set(result.output.split()), result.output


def test_inspect_prints_notes(add, tmp_path):
    path = add()
    path.write_text(path.read_text().replace("            for i in", "            T.use_swizzle(panel_size=10)\n            for i in"))
    (artifact,) = script.run_script(path).kernels.values()
    notes = [f"note: {note}\n" for note in artifact.notes]
    result = invoke("inspect", "-o", tmp_path / "o", path)
    assert notes and result.exit_code == 0 and all(note in result.output for note in notes), result.output


def test_inspect_validates_every_pass_on_the_arguments_of_the_first_call(add, tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_VERIFY_PASSES", "0")  # as for users, who do not have the stages of the compilation
    result = invoke("inspect", "--validate", "-o", tmp_path / "o", add())
    assert result.exit_code == 0, result.output
    assert "add_one: validated: " in result.output and "stages agree (tile_ir, " in result.output
    result = invoke("inspect", "--validate", "-o", tmp_path / "o", add("make(400)"))
    assert "add_one_1: not validated: the script does not call it" in result.output

    from tilelang_ascend.transform import pipeline

    @functools.wraps(pipeline.map_grid)
    def forgetful(func, chip, real=pipeline.map_grid):
        return real(_without_stores(func), chip)

    wrong = tuple(dataclasses.replace(p, run=forgetful) if p.name == "map_grid" else p for p in pipeline.MAP)
    monkeypatch.setattr(pipeline, "MAP", wrong)
    result = invoke("inspect", "--validate", "-o", tmp_path / "o", add())
    assert result.exit_code == 1 and "after map_grid: B[0] is not written any more" in result.output


def _without_stores(func):
    from tilelang_ascend.ir import StmtMutator, op_name

    class Drop(StmtMutator):
        def visit_Evaluate(self, s):
            return None if op_name(s) == "tl.copy" and s.value.args[1].source.name == "B" else s

    return func.with_body(Drop()(func.body))
