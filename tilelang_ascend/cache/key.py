"""The key of a compiled kernel."""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def kernel_key(tile_ir_json: str, chip: str, options: dict[str, Any], out_idx: tuple[int, ...]) -> str:
    """Digest of all that decides what the compiler emits for a traced kernel."""
    parts = {"chip": chip, "options": sorted(options.items()), "out_idx": list(out_idx), "tools": tool_versions()}
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode())
    digest.update(tile_ir_json.encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=None)
def tool_versions() -> tuple[str, ...]:
    """Versions of the packages and a digest of this package's own code and data.

    The digest covers the compiler, the instruction table and the chip files, so an editable install that changed never
    reuses what an older state of it built.
    """
    versions = tuple(f"{name}=={_version(name)}" for name in ("tilelang-ascend", "apache-tvm", "apache-tvm-ffi"))
    return (*versions, code_digest())


@functools.lru_cache(maxsize=None)
def code_digest() -> str:
    """Digest over name, size and modification time of every source and data file of the package."""
    digest = hashlib.sha256()
    for path in sorted(p for p in _ROOT.rglob("*") if p.suffix in (".py", ".toml")):
        status = path.stat()
        digest.update(f"{path.relative_to(_ROOT)}:{status.st_size}:{status.st_mtime_ns};".encode())
    return digest.hexdigest()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
