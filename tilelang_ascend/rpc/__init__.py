"""Kernels on other machines: TVM's tracker and RPC servers, kept alive and given time-outs (docs/rpc.md).

>>> from tilelang_ascend import rpc
>>> with rpc.connect("127.0.0.1:9190", key="a2") as session:
...     session.time(kernel, seed=0)

Names are loaded on first use: nothing here loads tvm before there is something to connect to.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "Session": "client",
    "connect": "client",
    "Timeouts": "settings",
    "RpcError": "failures",
    "Job": "fleet",
    "Reply": "fleet",
    "run_jobs": "fleet",
    "Results": "results",
}

__all__ = [*_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
