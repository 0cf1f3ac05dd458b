"""The command `run`: exit codes, errors, interrupts, the cache, the time before the first line."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilelang_ascend import cache, descendants
from tilelang_ascend.arch import get_chip
from tilelang_ascend.isa.base import Space
from tilelang_ascend.jit import build
from tilelang_ascend.log import set_log_level
from tilelang_ascend.tools import cli, processes
from tilelang_ascend.tools.run import run

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = Path(__file__).parent / "scripts"


def command(*args) -> list[str]:
    return [sys.executable, "-m", "tilelang_ascend", "run", *map(str, args)]


def test_arguments_and_exit_code(run_text):
    assert run_text("import sys\nassert sys.argv[1:] == ['-t', '--n=3', 'x']\nsys.exit(5)\n", "-t", "--n=3", "x") == 5


def test_the_command_line(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("import sys; sys.exit(int(sys.argv[2]))\n")
    assert CliRunner().invoke(cli.main, ["run", str(script), "--target", "7"]).exit_code == 7  # the script's own option
    result = CliRunner().invoke(cli.main, ["run", "--target", "Ascend910B9", str(script)])
    assert result.exit_code == 2 and "unknown chip 'Ascend910B9'" in result.stderr
    assert CliRunner().invoke(cli.main, ["run", str(tmp_path / "none.py")]).exit_code == 2


def test_the_target_option(run_text, tmp_path, capfd):
    script = tmp_path / "t.py"
    script.write_text("import tilelang\nfrom tilelang.carver.arch import CUDA\nprint(CUDA('cuda'))\n")
    assert run(script, (), "a3") == 0 and "CUDA(Ascend910_93" in capfd.readouterr().out


def test_an_error_shows_the_users_frames_only(run_text, capfd):
    code = run_text(
        """
import tilelang
import tilelang.language as T

@tilelang.jit
def make(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            tx = T.get_thread_binding()
            A[tx] = 1.0
    return main

make(128)
"""
    )
    err = capfd.readouterr().err
    assert code == 1 and "script.py:10:" in err and "T.Parallel" in err
    files = [line for line in err.splitlines() if line.strip().startswith("File ")]
    assert files and all("script.py" in line for line in files)


@pytest.mark.parametrize(
    "text, shown",
    [("raise KeyError('lost')", "KeyError: 'lost'"), ("x = (", "SyntaxError"), ("import sys; sys.exit('no')", "no")],
)
def test_other_ends_of_a_script(run_text, capfd, text, shown):
    assert run_text(text) == 1 and shown in capfd.readouterr().err


CHAINED = """
def inner():
    raise ValueError("cause")

try:
    inner()
except ValueError as error:
    raise {kind} {origin}
"""


@pytest.mark.parametrize(
    "kind, origin, shown, hidden",
    [
        ("RuntimeError('outer')", "from error", ["ValueError: cause", "direct cause", "RuntimeError: outer"], []),
        ("RuntimeError('outer')", "", ["ValueError: cause", "another exception"], []),
        ("RuntimeError('outer')", "from None", ["RuntimeError: outer"], ["cause"]),
        ("ExceptionGroup('all', [error])", "from None", ["all (1 sub-exception)", "ValueError: cause", "in inner"], []),
    ],
)
def test_errors_tell_what_they_come_from(run_text, capfd, kind, origin, shown, hidden):
    if "Group" in kind and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no groups")
    assert run_text(CHAINED.format(kind=kind, origin=origin)) == 1
    err = capfd.readouterr().err
    assert all(text in err for text in shown) and not any(text in err for text in hidden)
    assert err.count(", in ") == err.count("script.py")


def test_errors_inside_libraries_are_no_origin(run_text, capfd):
    assert run_text("import configparser\nconfigparser.ConfigParser()['lost']\n") == 1
    err = capfd.readouterr().err
    assert err.count("Traceback") == 1 and "KeyError: 'lost'" in err


WORKERS = """
import multiprocessing, sys

def look(n):
    import torch
    import tilelang
    return tilelang.__name__, torch.ones(n, device="cuda").is_cuda

if __name__ == "__main__":
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(look, [1]), flush=True)
"""


def test_worker_processes_see_what_the_script_sees(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(WORKERS)
    result = subprocess.run(command(script, "spawn", "forkserver"), cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr
    answer = "[('tilelang_ascend.compat.tilelang', True)]\n"
    assert result.stdout == f"spawn {answer}forkserver {answer}"


def test_hints_are_listed_when_debugging(capfd):
    set_log_level("debug")
    assert run(SCRIPTS / "gemm_relu.py") == 0
    err = capfd.readouterr().err
    assert "kernel: accepted without effect: T.annotate_layout, T.use_swizzle, T.disable_warp_group_reg_alloc" in err
    assert "T.gemm(policy=FullRow)" in err and "target cuda: compiled for ascend instead" in err


def test_a_second_run_compiles_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    compiled = []
    original = build._compile
    monkeypatch.setattr(build, "_compile", lambda *args: compiled.append(1) or original(*args))
    for expected in (1, 1):
        cache.clear_memory()
        assert run(SCRIPTS / "gemm_relu.py") == 0
        assert len(compiled) == expected


def test_nothing_slow_is_loaded_before_the_first_line(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("import sys\nsys.exit(bool({'tvm', 'torch', 'pytest', 'scipy'} & set(sys.modules)))\n")
    assert subprocess.run(command(script), cwd=ROOT).returncode == 0


SPAWNS = """
import subprocess, sys, time
grandparent = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", grandparent])
time.sleep(0.5)
print("started", flush=True)
{wait}
"""


NATIVE = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"


@pytest.mark.parametrize("wait", ["time.sleep(60)", NATIVE], ids=["sleeping", "in-native-code"])
def test_an_interrupt_stops_everything(tmp_path, wait):
    """The second case is busy in native code and never gets to Python's signal handler."""
    script = tmp_path / "s.py"
    script.write_text(SPAWNS.format(wait=wait))
    process = subprocess.Popen(command(script), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started\n"
        family = descendants.descendants(process.pid)
        assert len(family) == 2
        time.sleep(0.3)  # the script is past its print
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == processes.INTERRUPTED and "interrupted" in err and "Traceback" not in err
        assert not [pid for pid in family if descendants.is_running(pid)]
    finally:
        for pid in (*descendants.descendants(process.pid), process.pid):
            if descendants.is_running(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_script_may_handle_the_interrupt(run_text, capfd):
    code = run_text(
        textwrap.dedent(
            """
            import os, signal, time
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                raise SystemExit(4)
            """
        )
    )
    assert code == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_scripts_ask_of_the_driver(tmp_path, capfd):
    script = tmp_path / "d.py"
    script.write_text(
        "from tilelang.carver.arch import CUDA, driver\n"
        "import tilelang.carver.arch.driver as same\n"
        "from tilelang.carver.arch.driver import get_num_sms\n"
        "print(driver.get_num_sms(), same.get_num_sms(0), get_num_sms(device_id=0), CUDA('cuda').compute_max_core)\n"
        "print(driver.get_device_name(), driver.get_shared_memory_per_block(), driver.get_max_dynamic_shared_size_bytes(0, 'kb'))\n"
    )
    assert run(script, ()) == 0
    out = capfd.readouterr().out
    chip = get_chip("Ascend910B1")
    room = chip.capacity_bytes(Space.UB)
    assert out == " ".join([str(chip.num_aic)] * 4) + f"\n{chip.name} {room} {room // 1024}\n"
