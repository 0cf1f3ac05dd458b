"""What this machine has, what it lacks, and what that means for the user."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

from .. import cache, env
from .doctor_npu import examine_npu
from .finding import Finding
from .finding import version as _version

PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""Versions that belong together; another one of either breaks saving and loading of IR."""


def examine() -> list[Finding]:
    """Look at everything; imports neither tvm nor torch. Where there is CANN, its driver is asked."""
    return [
        _python(),
        *(_pinned(name, want) for name, want in PINNED.items()),
        _native_library(),
        _torch(),
        _compiler(),
        *examine_npu(),
        _chips(),
        _cache(),
        *_variables(),
    ]


def _python() -> Finding:
    good = sys.version_info >= (3, 10)
    return Finding(
        "ok" if good else "broken",
        "Python",
        f"{platform.python_version()} ({sys.executable})",
        "" if good else "Python 3.10 or newer is needed",
    )


def _pinned(name: str, want: str) -> Finding:
    have = _version(name)
    if have is None:
        return Finding("broken", name, "not installed", f"run: pip install {name}=={want}")
    if have != want:
        return Finding("broken", name, f"{have}, expected {want}", f"run: pip install {name}=={want}")
    return Finding("ok", name, have)


def _native_library() -> Finding:
    from ..native import library_path

    path = library_path()
    if path is None:
        return Finding(
            "broken",
            "machine model",
            "native library not found",
            "kernels compile but do not run; install the package again, or build it: make build",
        )
    return Finding("ok", "machine model", str(path))


def _torch() -> Finding:
    have = _version("torch")
    if have is None:
        return Finding("missing", "torch", "not installed", "kernels take numpy arrays; the examples need torch")
    return Finding("ok", "torch", have)


def _compiler() -> Finding:
    path = shutil.which(os.environ.get("CXX", "g++"))
    if path is None:
        return Finding("missing", "C++ compiler", "not found", "emitted text cannot be compiled and run on this machine")
    line = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    return Finding("ok", "C++ compiler", f"{line} ({path})")


def _chips() -> Finding:
    from .. import arch

    return Finding("ok", "chips", f"{', '.join(arch.chips())}; default {arch.DEFAULT_CHIP}")


def _cache() -> Finding:
    try:
        folder, enabled = env.CACHE_DIR.get(), cache.is_cache_enabled()
    except ValueError as reason:
        return Finding("broken", "kernel cache", str(reason), "kernels cannot be compiled")
    if not enabled:
        return Finding("ok", "kernel cache", "switched off", "kernels are compiled anew in every process")
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        return Finding("missing", "kernel cache", f"{folder} cannot be written", "kernels are compiled anew in every process")
    entries, size = cache.store().size()
    return Finding("ok", "kernel cache", f"{cache.store().folder}: {entries} kernels, {size / 2**20:.1f} MiB")


def _variables() -> list[Finding]:
    found = []
    for knob in env.KNOBS:
        if not os.environ.get(knob.name, "").strip():
            continue
        try:
            found.append(Finding("ok", knob.name, f"{os.environ[knob.name]} ({knob.doc})", "" if knob.get() is not None else ""))
        except ValueError as reason:
            found.append(Finding("broken", knob.name, os.environ[knob.name], str(reason)))
    return found
