"""How fast values are simulated. Prints numbers (run with -s); asserts nothing about time."""

import functools
import time

import numpy as np
from probe import Probe

FULL = 2**64 - 1


def seconds(run, repeats: int = 3) -> float:
    """Best time of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def ub(dtype="float32"):
    memory = np.zeros(192 * 1024, np.uint8)
    memory.view(dtype)[:] = 1.5
    return memory


def test_vector_speed(capsys):
    cases = {
        "add f32": ("add", [("UB", "float32", 0), ("UB", "float32", 65536), ("UB", "float32", 131072)], [16384], None),
        "add f16": ("add", [("UB", "float16", 0), ("UB", "float16", 65536), ("UB", "float16", 131072)], [32768], None),
        "exp f32": ("exp", [("UB", "float32", 0), ("UB", "float32", 65536)], [16384], None),
        "exp f16": ("exp", [("UB", "float16", 0), ("UB", "float16", 65536)], [32768], None),
        "cast f32->f16": ("cast", [("UB", "float16", 0), ("UB", "float32", 65536)], [16384], {"round": "rint"}),
        "cast f32->i32": ("cast", [("UB", "int32", 0), ("UB", "float32", 65536)], [16384], {"round": "trunc"}),
        "cast f32->i32 floor": ("cast", [("UB", "int32", 0), ("UB", "float32", 65536)], [16384], {"round": "floor"}),
        "compare f32": (
            "compare",
            [("UB", "uint8", 0), ("UB", "float32", 65536), ("UB", "float32", 131072)],
            [16384],
            {"mode": "gt"},
        ),
        "select f32": (
            "select_scalar",
            [("UB", "float32", 0), ("UB", "uint8", 65536), ("UB", "float32", 131072)],
            [0.0, 16384],
            {"mode": "tensor_scalar"},
        ),
        "add f32, row broadcast": (
            "add_mask",
            [("UB", "float32", 0), ("UB", "float32", 65536), ("UB", "float32", 131072)],
            [0, FULL, 255, 1, 1, 0, 8, 8, 1],
            None,
        ),
        "whole_reduce_sum f32": (
            "whole_reduce_sum",
            [("UB", "float32", 0), ("UB", "float32", 65536)],
            [64, 255, 1, 1, 8],
            None,
        ),
    }
    with capsys.disabled():
        print()
        for label, (name, operands, args, attrs) in cases.items():
            probe = Probe({"UB": ub(operands[-1][1] if operands[-1][1] != "uint8" else "float32")})
            lanes = 255 * 64 if "mask" in name or "reduce" in name else args[-1]
            time_ = seconds(functools.partial(probe.execute, name, operands, args, attrs)) / lanes
            print(f"  {label:24s} {1e9 * time_:6.3f} ns/element, 16 Mi elements in {16 * 2**20 * time_:5.2f} s")


def test_gemm_speed(capsys):
    """1024^3 as 128x256x64 blocks: loads of L0 and mmads, float16."""
    memories = {space: np.zeros(size, np.uint8) for space, size in {"L1": 1 << 17, "L0A": 1 << 16, "L0B": 1 << 16, "L0C": 1 << 17}.items()}
    memories["L1"].view(np.float16)[:] = 0.5
    probe = Probe(memories)
    loads_a = [("load_l0a", [("L0A", "float16", i * 2048), ("L1", "float16", 0)], [i, 4, 8, 0, 0]) for i in range(8)]
    loads_b = [("load_l0b", [("L0B", "float16", i * 8192), ("L1", "float16", 65536)], [i, 16, 4, 0, 1]) for i in range(4)]
    mmad = ("mmad", [("L0C", "float32", 0), ("L0A", "float16", 0), ("L0B", "float16", 0)], [128, 256, 64, 0, 0, 0])
    blocks = 8 * 4 * 16

    def one_block():
        for call in (*loads_a, *loads_b, mmad):
            probe.execute(*call)

    one = seconds(one_block, 10)
    only = seconds(lambda: probe.execute(*mmad), 10)
    with capsys.disabled():
        print(f"\n  gemm 1024^3 f16: {blocks * one:.3f} s with Python overhead, mmad alone {blocks * only:.3f} s")


def test_gemm_speed_with_initcheck(capsys):
    memories = {s: np.zeros(n, np.uint8) for s, n in {"L0A": 1 << 16, "L0B": 1 << 16, "L0C": 1 << 17}.items()}
    probe = Probe(memories, {s: m.copy() for s, m in memories.items()})
    mmad = ("mmad", [("L0C", "float32", 0), ("L0A", "float16", 0), ("L0B", "float16", 0)], [128, 256, 64, 0, 0, 0])
    time_ = seconds(lambda: probe.execute(*mmad), 10)
    with capsys.disabled():
        print(f"\n  mmad 128x256x64 f16 with shadows: {1e6 * time_:.0f} us, 1024^3: {512 * time_:.3f} s")
