"""`tilelang-ascend tune`: kernels of a script are tuned as they are called, and the script goes on with the best."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAD = """
import numpy as np
import tilelang_ascend as tilelang
import tilelang_ascend.language as T


{decorator}
@tilelang.jit(out_idx=-1)
def scaled(n, factor, rows=8, threads=128):
    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, 64), "float32")):
        with T.Kernel(T.ceildiv(n, rows), threads=threads) as bx:
            tile = T.alloc_fragment((rows, 64), "float32")
            T.copy(A[bx * rows, 0], tile)
            for i, j in T.Parallel(rows, 64):
                tile[i, j] = tile[i, j] * factor
            T.copy(tile, B[bx * rows, 0])

    return main


kernel = scaled({arguments})
x = np.ones((256, 64), np.float32)
print("right" if (kernel(x) == 3).all() else "wrong")
"""


def tune(tmp_path, decorator="", arguments="256, 3.0", words=(), **env):
    script = tmp_path / "script.py"
    script.write_text(HEAD.format(decorator=decorator, arguments=arguments))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(tmp_path / "cache"), **env}
    command = [sys.executable, "-m", "tilelang_ascend", "tune", *words, str(script)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)


def test_what_a_call_leaves_open_is_tuned(tmp_path):
    done = tune(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout and "scaled" in done.stdout and "{rows:" in done.stdout and "simulated" in done.stdout
    again = tune(tmp_path)
    assert again.returncode == 0 and "measured earlier" in again.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "tilelang_ascend", "records", "list"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert "A 256x64 float32" in listed.stdout and "machine model" in listed.stdout


def test_only_decorated_ones(tmp_path):
    done = tune(tmp_path, words=["--decorated"])
    assert done.returncode == 1 and "tuned no kernel" in done.stderr and "right" in done.stdout
    done = tune(tmp_path, "@tilelang.autotune(configs=[{'rows': 16}, {'rows': 64}])", words=["--decorated"])
    assert done.returncode == 0 and ("{rows: 16}" in done.stdout or "{rows: 64}" in done.stdout)


@pytest.mark.parametrize("words, told", [
    (["--backend", "rpc"], "TILELANG_ASCEND_TRACKER does not name a tracker"),
    (["--backend", "npu"], "execution_backend 'npu' cannot be used"),
    (["--measurements", "0"], "not in the range"),
    (["--target", "h100"], "--target"),
])  # fmt: skip
def test_mistakes_are_one_sentence(tmp_path, words, told):
    done = tune(tmp_path, words=words, TILELANG_ASCEND_TRACKER="")
    assert done.returncode != 0 and told in done.stderr and "in _tune" not in done.stderr


def test_a_winner_computes_what_the_defaults_do(tmp_path):
    """A parameter that looks like a tile size and is more than that: no other value of it may win."""
    source = HEAD.replace("* factor", "* factor + T.cast(i + bx * 0, 'float32') * 0.0 + T.cast(T.floordiv(i, 8), 'float32')")
    script = tmp_path / "script.py"
    script.write_text(source.format(decorator="", arguments="256, 3.0"))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "tilelang_ascend", "tune", str(script)], capture_output=True, text=True, env=env, timeout=300
    )
    assert "right" in done.stdout, done.stderr
