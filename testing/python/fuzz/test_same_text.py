"""The emitted text of a kernel depends on the kernel alone: not on the process, its hash seed, or what was compiled before."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SEEDS = (25, 31, 104, 309)
"""Kernels of the fuzzer: mixed ones, many statements, versions, conditional stores."""

SCRIPT = """
import json, sys
import tilelang_ascend
from testing.fuzz.check import trace
from testing.fuzz.generate import generate
cases = [(seed, generate(seed)) for seed in map(int, sys.argv[1:])]
texts = {seed: tilelang_ascend.compile(trace(case.kernel()), target=case.chip).artifact.kernel_source for seed, case in cases}
print(json.dumps(texts))
"""


def start(hash_seed: str, seeds) -> subprocess.Popen:
    """A process that prints the texts of `seeds`, compiled in this order."""
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "TILELANG_DISABLE_CACHE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, *map(str, seeds)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_every_process_emits_the_same_text():
    processes = [start("0", SEEDS), start("1", SEEDS[::-1])]
    outputs = [p.communicate(timeout=300)[0] for p in processes]
    # The name of a fuzzed kernel's source counts the kernels of the process.
    first, *others = [json.loads(re.sub(r"<fuzz \d+>", "<fuzz>", out.splitlines()[-1])) for out in outputs]
    assert set(first) == {str(s) for s in SEEDS}
    for other in others:
        different = [seed for seed in first if other[seed] != first[seed]]
        assert not different, f"the text of seeds {different} depends on the process"
