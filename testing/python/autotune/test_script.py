"""A script for a GPU that tunes at its top level, without a `main` guard, with a kernel in a closure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing import warm_python
from tilelang_ascend import descendants
from tilelang_ascend.autotune.records import Records, RecordsError
from tilelang_ascend.store import Store
from tilelang_ascend.tools import processes

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import torch
import tilelang
import tilelang.language as T
from tilelang.autotuner import *

print("running", flush=True)
bias = 1.0


def make(n):
    @autotune(configs=[{"block": 64}, {"block": 256}], ref_prog=lambda a: a + bias, warmup=3, rep=20)
    @tilelang.jit(out_idx=[-1])
    def kernel(block=None):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
                tile = T.alloc_fragment((block,), "float32")
                T.copy(A[bx * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] + bias
                T.copy(tile, B[bx * block])

        return main

    return kernel


best = make(4096)()
x = torch.randn(4096, device="cuda")
with set_autotune_inputs(x):
    assert torch.equal(best(x), x + bias)
assert tilelang.autotune is autotune and AutoTuner.from_kernel
print(best.config, best.latency > 0, best.ref_latency > 0)
"""


def test_it_runs_once_and_unchanged(tmp_path):
    script = tmp_path / "tuned.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tilelang_ascend", "run", str(script)]
    result = warm_python.run(command, env=env, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("running") == 1 and "True True" in result.stdout
    assert "simulated time on" in result.stderr and "Traceback" not in result.stderr


MANY = """
import tilelang
import tilelang.language as T


@tilelang.autotune(configs=[{"block": 64 * b} for b in range(1, 200)])
@tilelang.jit(out_idx=[-1])
def kernel(n, block=None):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1.0

    return main


kernel(100000)
print("tuned all of them")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_what_was_measured_survives_the_end_of_the_process(tmp_path, how):
    """In the middle of the measurements. Ctrl-C in a terminal reaches the whole process group, SIGKILL the process alone."""
    script, folder = tmp_path / "many.py", tmp_path / "cache"
    script.write_text(MANY)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "tilelang_ascend", "run", str(script)]
    process = warm_python.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    path = Store(folder, "measurements").section / "records.sqlite"
    try:
        wait_until(lambda: measured(path) >= 3 or process.poll() is not None, seconds=120)
        family = descendants.descendants(process.pid)
        os.killpg(process.pid, how) if how == signal.SIGINT else process.kill()
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert "tuned" not in out and "Traceback" not in err
    assert process.returncode == (processes.INTERRUPTED if how == signal.SIGINT else -how)
    assert family, "there were no workers to end"
    wait_until(lambda: not any(descendants.is_running(pid) for pid in family), seconds=5)
    known = measured(path)
    assert 3 <= known < 199
    if how == signal.SIGKILL:  # it goes on where it stopped
        script.write_text(MANY.replace("200", str(known)))
        again = warm_python.run(command, env=env, timeout=300)
        assert again.returncode == 0 and "tuned all of them" in again.stdout, again.stderr
        assert measured(path) < known + 3, "what was known has not been measured again"


def measured(path) -> int:
    """Records in a file that others may be writing."""
    if not path.exists():
        return 0
    try:
        with Records(path) as records:
            return len(records)
    except RecordsError:  # it is just being made
        return 0


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
