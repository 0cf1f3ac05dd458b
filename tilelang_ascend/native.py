"""The native library: found once, loaded once, with its symbols visible to generated code.

`tla_issue` and friends are called by programs compiled at run time (TVM's LLVM code, emitted text compiled by g++), so
the library is loaded with RTLD_GLOBAL.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from .collector import PAUSED_COLLECTOR

LIBRARY = "libtilelang_ascend.so"


class NativeLibraryError(RuntimeError):
    """The native library is missing, or was built from a different instruction table."""


def library_path() -> Path | None:
    """Path of the native library: the installed one, or the one in the build folder of a checkout; else None."""
    package = Path(__file__).resolve().parent
    candidates = (package / "lib" / LIBRARY, package.parent / "build" / LIBRARY)
    return next((path for path in candidates if path.is_file()), None)


@functools.cache
def load() -> ctypes.CDLL:
    """Load the native library (once per process).

    Raises:
        NativeLibraryError: not found, or out of date with the Python side of the package.
    """
    with PAUSED_COLLECTOR:
        import tvm_ffi  # the library links against libtvm_ffi, which this loads

    path = library_path()
    if path is None:
        raise NativeLibraryError(f"{LIBRARY} was not found; install the package again, or build it in the checkout: make build")
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)

    from .isa.table import table_hash

    built = int(tvm_ffi.get_global_func("tilelang_ascend.machine.table_hash")())
    if built != table_hash():
        raise NativeLibraryError(f"{path} was built from another version of the instruction table; build it again: make build")
    return library


@functools.cache
def function(name: str) -> Any:
    """The `tvm_ffi.Function` registered by the native library as ``tilelang_ascend.<name>``."""
    import tvm_ffi

    load()
    return tvm_ffi.get_global_func(f"tilelang_ascend.{name}")
