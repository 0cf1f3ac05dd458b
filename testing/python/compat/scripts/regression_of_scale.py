"""A table of latencies, as performance regressions of examples collect them."""

import pytest_style

import tilelang.testing
import tilelang


def latency(n):
    kernel = tilelang.compile(pytest_style.scale(n, 3.0), out_idx=[1])
    return kernel.get_profiler().do_bench()


def regression_scale():
    tilelang.testing.process_func(latency, "scale_small", n=128)
    tilelang.testing.process_func(latency, "scale_large", n=1024)


if __name__ == "__main__":
    tilelang.testing.regression()
    print("all checks passed")
