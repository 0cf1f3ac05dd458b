"""`tilelang-ascend tune`: kernels of a script are tuned as they are called, and the script goes on with the best."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilelang_ascend.tools import cli

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


@pytest.fixture
def tune(tmp_path, capfd):
    """Write the script and call the command in this process; gives its exit code and what was printed."""

    def tune(decorator="", arguments="256, 3.0", words=(), change=lambda text: text):
        script = tmp_path / "script.py"
        script.write_text(change(HEAD).format(decorator=decorator, arguments=arguments))
        with pytest.raises(SystemExit) as ended:
            cli.main(["tune", *words, str(script)])
        return SimpleNamespace(returncode=ended.value.code, **capfd.readouterr()._asdict())

    return tune


def test_what_a_call_leaves_open_is_tuned(tmp_path, tune):
    script = tmp_path / "script.py"
    script.write_text(HEAD.format(decorator="", arguments="256, 3.0"))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done, listed = (
        subprocess.run([sys.executable, "-m", "tilelang_ascend", *words], capture_output=True, text=True, env=env, timeout=300)
        for words in (["tune", script], ["records", "list"])
    )
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout and "scaled" in done.stdout and "{rows:" in done.stdout and "simulated" in done.stdout
    assert "A 256x64 float32" in listed.stdout and "machine model" in listed.stdout
    again = tune()
    assert again.returncode == 0 and "measured earlier" in again.err


def test_only_decorated_ones(tune):
    done = tune(words=["--decorated"])
    assert done.returncode == 1 and "tuned no kernel" in done.err and "right" in done.out
    done = tune("@tilelang.autotune(configs=[{'rows': 16}, {'rows': 64}])", words=["--decorated"])
    assert done.returncode == 0 and ("{rows: 16}" in done.out or "{rows: 64}" in done.out)


@pytest.mark.parametrize("words, told", [
    (["--backend", "rpc"], "TILELANG_ASCEND_TRACKER does not name a tracker"),
    (["--backend", "npu"], "execution_backend 'npu' cannot be used"),
    (["--measurements", "0"], "not in the range"),
    (["--target", "h100"], "--target"),
])  # fmt: skip
def test_mistakes_are_one_sentence(tune, monkeypatch, words, told):
    monkeypatch.setenv("TILELANG_ASCEND_TRACKER", "")
    done = tune(words=words)
    assert done.returncode != 0 and told in done.err and "in _tune" not in done.err


def test_a_winner_computes_what_the_defaults_do(tune):
    """A parameter that looks like a tile size and is more than that: no other value of it may win."""
    added = "* factor + T.cast(i + bx * 0, 'float32') * 0.0 + T.cast(T.floordiv(i, 8), 'float32')"
    done = tune(change=lambda text: text.replace("* factor", added))
    assert "right" in done.out, done.err
