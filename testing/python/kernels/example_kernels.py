"""Kernels of the GPU scripts under examples/, to be tested on other sizes than the scripts' own."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

from tilelang_ascend import compat

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@lru_cache(maxsize=None)
def script(path: str):
    """The module of a script, such as "mla/decode.py"."""
    spec = importlib.util.spec_from_file_location(f"example_{path.removesuffix('.py').replace('/', '_')}", EXAMPLES / path)
    module = importlib.util.module_from_spec(spec)
    with compat.session():
        spec.loader.exec_module(module)
    return module


def kernel(path: str, name: str):
    """The function of sizes that traces the kernel `name` of a script."""
    return getattr(script(path), name).get_tir
