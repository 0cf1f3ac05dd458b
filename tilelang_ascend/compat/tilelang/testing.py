"""`tilelang.testing`: seeds, conditions for tests, running a file's tests, and tables of latencies."""

from __future__ import annotations

import inspect
import random
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from .utils import torch_assert_close

__all__ = ["main", "process_func", "regression", "set_random_seed", "torch_assert_close"]


def set_random_seed(seed: int = 42) -> None:
    """Seed `random`, numpy and torch."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def main() -> None:
    """Run the tests of the calling file with pytest and leave with its exit code."""
    import pytest

    file = inspect.getsourcefile(sys._getframe(1))
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def _accepted(name: str) -> Callable:
    """A condition that holds: kernels for CUDA run here. Used bare, with arguments, or with nothing to decorate."""

    def decorator(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return args[0]
        return lambda func: func

    decorator.__name__ = name
    decorator.__doc__ = "Decorator for tests; the test runs."
    return decorator


def _refused(name: str) -> Callable:
    """A condition that does not hold."""

    def decorator(*args: Any, **kwargs: Any) -> Any:
        import pytest

        mark = pytest.mark.skip(reason=f"{name}: kernels run on Ascend")
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return mark(args[0])
        return mark

    decorator.__name__ = name
    decorator.__doc__ = "Decorator for tests; the test is skipped."
    return decorator


_CUDA = (
    "requires_cuda", "requires_gpu", "requires_cuda_or_cdna", "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq", "requires_cuda_compute_version_ge", "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le", "requires_cuda_compute_version_lt",
)  # fmt: skip
_OTHERS = ("requires_cdna", "requires_gfx950", "requires_llvm", "requires_metal", "requires_package", "requires_rocm")

globals().update({name: _accepted(name) for name in _CUDA})
globals().update({name: _refused(name) for name in _OTHERS})
__all__ += [*_CUDA, *_OTHERS]


@dataclass(frozen=True)
class PerfResult:
    """A measured function: its name and what it returned."""

    name: str
    latency: float


_results: list[PerfResult] = []


def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> None:
    """Call `func(**kwargs)` and record the latency it returns (any unit; milliseconds by custom)."""
    label = (name or getattr(func, "__module__", "?")).removeprefix("regression_")
    latency = func(**kwargs)
    if latency is None or not float(latency) > 0:
        warnings.warn(f"{label} returned {latency}, which is no latency; not recorded", RuntimeWarning, stacklevel=2)
        return
    _results.append(PerfResult(label, float(latency)))


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> None:
    """Run every function of the calling module whose name begins with one of `prefixes`, then print a table of the
    latencies."""
    _results.clear()
    module = dict(sys._getframe(1).f_globals)
    for name, value in module.items():
        if callable(value) and name.startswith(tuple(prefixes)):
            if verbose:
                print(f"running {name}")
            value()
    width = max((len(r.name) for r in _results), default=4)
    print(f"{'name':<{width}}  latency")
    for result in _results:
        print(f"{result.name:<{width}}  {result.latency:.6g}")
