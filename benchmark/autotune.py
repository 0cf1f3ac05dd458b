"""What tuning a GEMM costs: cold, with all measurements on disk, and remembered by the process; and what it gains."""

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "gemm"))

from example_gemm import matmul

import tilelang_ascend as tilelang
from tilelang_ascend import cache
from tilelang_ascend.autotune.measure import worker_count


def space() -> list[dict]:
    """A small grid in the style of GPU scripts; a third of it does not fit."""
    return [{"block_M": m, "block_N": n, "block_K": k} for m, n, k in itertools.product((64, 128, 256), (64, 128, 256), (32, 64))]


def timed(fn):
    """(result, wall seconds)."""
    start = time.perf_counter()
    return fn(), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    n = parser.parse_args().size
    configs = space()

    def tuned():
        return tilelang.autotune(configs=configs)(matmul)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILELANG_CACHE_DIR"] = folder
        tuner = tuned()
        kernel, cold = timed(lambda: tuner(n, n, n))
        _, remembered = timed(lambda: tuner(n, n, n))
        cache.clear_memory()
        _, disk = timed(lambda: tuned()(n, n, n))
        latencies = []
        for config in configs:
            try:
                latencies.append(matmul(n, n, n, **config).get_profiler().do_bench())
            except tilelang.errors.OutOfMemory:
                pass
    print(f"{len(configs)} configurations, {worker_count()} worker processes")
    print(f"cold                    {cold:8.3f} s  ({cold / len(configs):.3f} s for each configuration)")
    print(f"measurements on disk    {disk:8.3f} s")
    print(f"remembered              {remembered * 1e3:8.3f} ms")
    print(f"best {kernel.latency:.4f} ms, worst {max(latencies):.4f} ms simulated: {kernel.config}")


if __name__ == "__main__":
    main()
