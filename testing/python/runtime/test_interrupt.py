"""Ctrl-C while the machine model computes, in a script that Python runs: within a second, as an exception like any other."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing import warm_python

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys, time
import torch
import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def vector(rounds):
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(1) as _:
            s = T.alloc_shared((1024,), "float32")
            T.copy(A, s)
            for r in T.serial(rounds):
                for i in T.Parallel(1024):
                    s[i] = s[i] + 1.0
            T.copy(s, B)
    return main


@tilelang.jit(out_idx=[-1])
def scalar(step):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1) as _:
            x = T.alloc_var("int32")
            x = A[0]
            while x % 2 != 0:
                x = x + step
            B[0] = x
    return main


ones = torch.ones(1024)
calls = {
    "call": lambda: vector(200_000_000)(ones),
    "simulate": lambda: vector(200_000_000).simulate(ones),
    "time": lambda: vector(200_000_000).simulate(ones, values=False, checks=False),
    "scalar": lambda: scalar(2)(torch.ones(8, dtype=torch.int32)),
}
small = vector(3)
small(ones)
print("start", flush=True)
try:
    calls[sys.argv[1]]()
    print("finished")
except KeyboardInterrupt:
    print("interrupted at", time.time())
assert torch.equal(small(ones), ones + 3)
print("goes on")
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", ["call", "simulate", "time", "scalar"])
def test_ctrl_c_ends_a_kernel(tmp_path, what):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = warm_python.Popen(
        [sys.executable, script, what], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "start\n"
        time.sleep(2.0)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    lines = out.splitlines()
    assert process.returncode == 0 and lines[-1] == "goes on", err
    assert float(lines[0].removeprefix("interrupted at ")) - sent < 5.0  # a tenth of it on a machine that does nothing else


def test_a_handler_that_raises_nothing_does_not_end_it(tmp_path):
    script = tmp_path / "script.py"
    text = SCRIPT.replace("200_000_000", "2_000_000").replace(
        "small = ", "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('asked', flush=True))\nsmall = "
    )
    script.write_text(text)
    process = warm_python.Popen([sys.executable, script, "call"], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "start\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[0].splitlines() == ["asked", "finished", "goes on"]
