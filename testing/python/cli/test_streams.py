"""Programs whose output nobody reads, and programs that are interrupted, end as others do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing import warm_python
from tilelang_ascend.tools import processes, streams

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = {"inspect": ["inspect"], "compile": ["compile"], "run": ["run"], "python": None}
SCRIPT = """
import sys
import numpy as np
import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def add_one(n, rounds=1):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1) as _:
            s = T.alloc_shared((n,), "float32")
            T.copy(A, s)
            for r in T.serial(rounds):
                for i in T.Parallel(n):
                    s[i] = s[i] + 1.0
            T.copy(s, B)
    return main


assert (add_one(128)(np.zeros(128, np.float32)) == 1).all()
"""


def command(how, script, tmp_path):
    words = COMMANDS[how]
    if words is None:
        return [sys.executable, str(script)]
    return [sys.executable, "-m", "tilelang_ascend", *words, *(["-o", str(tmp_path / "out")] if how != "run" else []), str(script)]


@pytest.fixture
def write(tmp_path):
    def write(extra=""):
        path = tmp_path / "script.py"
        path.write_text(SCRIPT + extra)
        return path

    return write


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}  # the buffer is part of the matter


@pytest.mark.parametrize("how, talkative, both", [
    ("inspect", False, False), ("inspect", True, True), ("compile", False, True), ("run", True, False),
])  # fmt: skip
def test_a_reader_that_ends_ends_the_program_quietly(write, tmp_path, how, talkative, both):
    """talkative: the script prints more than a buffer holds. both: standard error goes into the same pipe."""
    script = write("for i in range(100_000): print('line', i)\n" if talkative else "print('one line', flush=True)\n")
    reader, writer = os.pipe()
    errors = tmp_path / "stderr"
    with open(errors, "w") as file:
        process = warm_python.Popen(command(how, script, tmp_path), env=environment(), stdout=writer, stderr=writer if both else file)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    assert process.wait(60) == streams.UNREAD
    assert "Traceback" not in errors.read_text() and "Broken" not in errors.read_text() and "Exception" not in errors.read_text()


@pytest.mark.parametrize("how, closed", [("python", ">&-"), ("run", ">&- 2>&- <&-")])
def test_streams_may_be_closed_from_the_start(write, tmp_path, how, closed):
    script = write("print('said to nobody')\n")
    words = " ".join(f"'{w}'" for w in command(how, script, tmp_path))
    done = subprocess.run(["sh", "-c", f"{words} {closed}"], env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("how", ["inspect", "compile", "run"])
def test_standard_output_may_be_closed_from_the_start(write, tmp_path, how):
    script = write("print('said to nobody')\n")
    done = warm_python.run(command(how, script, tmp_path), env=environment(), timeout=120, closed=[1])
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    if how != "run":
        assert (tmp_path / "out/main/kernel.cpp").read_text().count("__global__") == 1


def test_a_broken_pipe_of_the_scripts_own_is_an_error(write, tmp_path):
    script = write("import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')\n")
    done = warm_python.run(command("run", script, tmp_path), env=environment(), timeout=120)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr


def test_the_exit_code_of_a_failed_script_counts_more_than_that_of_the_pipe(write, tmp_path):
    script = write("print('x' * 10, end='')\nsys.exit(3)\n")
    reader, writer = os.pipe()
    process = warm_python.Popen(command("run", script, tmp_path), env=environment(), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    os.close(reader)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3 and "Traceback" not in err


@pytest.mark.parametrize("how", ["inspect", "run"])
def test_ctrl_c_has_the_exit_code_of_an_interrupt(write, tmp_path, how):
    script = write("print('start', flush=True)\nadd_one(1024, 200_000_000)(np.zeros(1024, np.float32))\n")
    process = warm_python.Popen(
        command(how, script, tmp_path), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout.readline() == "start\n"
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == processes.INTERRUPTED and "interrupted" in err and "Traceback" not in err
