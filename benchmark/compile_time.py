"""Processor time to trace, lower and emit a kernel after import, with no cache. Budgets: 1024^3 GEMM 0.10 s, 1024 x 1024 softmax 0.13 s, attention
forward 0.8 s and backward 1.2 s."""

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(p) for p in (ROOT / "examples").iterdir() if p.is_dir()] + [str(ROOT / "testing" / "python" / "catalogue")]

import example_add_2d
import example_gemm
import example_gemm_bias_leaky_relu
import example_minicv
import kernels_elementwise
import kernels_rows

from tilelang_ascend import cache, compat

with compat.session():
    import backward
    import forward

KERNELS = {
    "gemm 1024^3": (example_gemm.matmul, (1024, 1024, 1024, 128, 256, 64), 0.10),
    "softmax 1024x1024": (kernels_rows.softmax, (1024, 1024, "float32", 8), 0.13),
    "softmax_online 64x100003": (kernels_rows.softmax_online, (64, 100_003), None),
    "rms_norm 1024x1024": (kernels_rows.rms_norm, (1024, 1024), None),
    "adam 4096x1024": (kernels_elementwise.adam, (4096, 1024), None),
    "minicv 1024x1024x512": (example_minicv.minicv_parallel, (1024, 1024, 512, 128, 256, 64), None),
    "gemm_bias_leaky_relu 1024x640x256": (
        example_gemm_bias_leaky_relu.matmul_bias_leaky_relu,
        (1024, 640, 256, 128, 128, 64),
        None,
    ),
    "add 4096x4096": (example_add_2d.add, (4096, 4096, 32, 256), None),
    "attention forward 1024x128": (forward.flash_attention, (1, 3, 3, 1024, 128, False, 128, 128), 0.8),
    "attention backward 1024x128": (backward.backward, (1, 3, 1024, 128), 1.2),
}


def compile_seconds(factory, args) -> float:
    """One compilation from scratch."""
    cache.clear_memory()
    factory._kernels.clear()
    start = time.process_time()
    factory(*args)
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    cache.disable_cache()
    for name, (factory, args, budget) in KERNELS.items():
        first = compile_seconds(factory, args)
        median = statistics.median(compile_seconds(factory, args) for _ in range(repeat))
        share = f"  ({median / budget:4.0%} of the budget)" if budget else ""
        print(f"{name:36} first {first:6.3f} s   median {median:6.3f} s{share}")


if __name__ == "__main__":
    main()
