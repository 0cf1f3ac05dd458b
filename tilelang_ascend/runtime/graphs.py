"""Kernels inside functions that torch.compile traces: a call is a graph break, and nothing below it is traced."""

from __future__ import annotations

import functools
import sys
from typing import Callable

_COMPILER = "torch._dynamo"


def outside_of_graphs(function: Callable) -> Callable:
    """`function` as one that `torch.compile` calls and does not look into. torch is not imported for it."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return _hidden(function)(*args, **kwargs) if _COMPILER in sys.modules else function(*args, **kwargs)

    setattr(call, "_torchdynamo_disable", True)
    return call


@functools.cache
def _hidden(function: Callable) -> Callable:
    import torch

    return torch.compiler.disable(function)
