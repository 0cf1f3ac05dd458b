"""The 1024^3 GEMM on the machine model: wall time of a call (budget 0.25 s), cost of the checks, simulated time."""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "gemm"))

import torch
from example_gemm import matmul

BUDGET = 0.25


def median_seconds(fn, repeat: int) -> float:
    """Median wall time of `fn` after one call to warm up."""
    fn()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    n = args.size
    kernel = matmul(n, n, n, 128, 256, 64)
    a, b = torch.randn(n, n).half(), torch.randn(n, n).half()

    call = median_seconds(lambda: kernel(a, b), args.repeat)
    timing = median_seconds(lambda: kernel.simulate(a, b, values=False, checks=False), args.repeat)
    checked = median_seconds(lambda: kernel.simulate(a, b), 1)
    host = median_seconds(lambda: a @ b, args.repeat)
    report = kernel.simulate(a, b, values=False, checks=False)
    print(f"call with values        {call:7.3f} s  ({call / BUDGET:4.0%} of the budget, {call / host:.1f} x torch)")
    print(f"time only               {timing:7.3f} s  ({timing / call:5.2f} x a call)")
    print(f"values, checks, time    {checked:7.3f} s  ({checked / call:5.2f} x a call)")
    print(report.summary())


if __name__ == "__main__":
    main()
