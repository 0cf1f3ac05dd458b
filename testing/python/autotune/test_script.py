"""A script for a GPU that tunes at its top level, without a `main` guard, with a kernel in a closure."""

import os
import subprocess
import sys
from pathlib import Path

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
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("running") == 1 and "True True" in result.stdout
    assert "simulated time on" in result.stderr and "Traceback" not in result.stderr
