"""Processor time to simulate vector kernels with values and all checks. Budget: 10 s each."""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "testing" / "python" / "catalogue"))

import kernels_elementwise
import kernels_rows
import numpy as np

BUDGET_SECONDS = 10


def cases():
    """(name, kernel, inputs, expected output, tolerance)."""
    rng = np.random.default_rng(0)

    def normal(*shape, dtype="float32"):
        return rng.standard_normal(shape, dtype="float32").astype(dtype)

    def softmax(x):
        e = np.exp(x.astype("float32") - x.max(1, keepdims=True).astype("float32"))
        return e / e.sum(1, keepdims=True)

    x, y = normal(16 << 20), normal(16 << 20)
    yield "K24 add f32 16 M", kernels_elementwise.binary(lambda a, b: a + b), [x, y], x + y, 0
    half = x.astype("float16")
    yield "K06 abs f16 16 M", kernels_elementwise.unary(abs_of), [half], np.abs(half), 0
    x = normal(4096, 4096, dtype="float16")
    yield "K13 softmax f16 4096 x 4096", kernels_rows.softmax(4096, 4096), [x], softmax(x), 2**-10
    x, gain = normal(64, 100_003), normal(100_003)
    expected = x / np.sqrt((x.astype("float64") ** 2).mean(1, keepdims=True) + 1e-5) * gain
    yield "K16 rms_norm_split f32 64 x 100003", kernels_rows.rms_norm_split(64, 100_003), [x, gain], expected, 2**-16
    x = normal(64, 100_003)
    yield "    softmax_online f32 64 x 100003", kernels_rows.softmax_online(64, 100_003), [x], softmax(x), 2**-16


def abs_of(x):
    """|x|."""
    import tilelang_ascend.language as T

    return T.abs(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only kernels whose name contains this")
    pattern = parser.parse_args().pattern
    for name, kernel, inputs, expected, tolerance in cases():
        if pattern not in name:
            continue
        out = np.full(expected.shape, np.nan, inputs[0].dtype)
        start = time.process_time()
        report = kernel.simulate(*inputs, out)
        seconds = time.process_time() - start
        worst = np.max(np.abs(out - expected) - tolerance * np.abs(expected))
        state = "as the reference" if report.run.ok and worst <= tolerance else "WRONG"
        print(f"{name:36} {seconds:6.2f} s  ({seconds / BUDGET_SECONDS:4.0%} of the budget)  {state}")


if __name__ == "__main__":
    main()
