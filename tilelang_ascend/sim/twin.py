"""The host twin: emitted (or hand-written) Ascend C compiled by the host's C++ compiler and run on the machine model.

The text is compiled unchanged against the headers of ``src/twin``, whose functions issue the same stream of
instructions as a host program (docs/ir.md section 4)::

    program = compile_text(source.text, "vector_add_kernel", "Ascend910B1", "aiv_only")
    machine.run(chip, program.kernel_type, blocks, program.entries, ...)
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .. import env
from ..arch import ChipSpec, get_chip
from ..errors import TilelangAscendError, first_lines
from ..isa.base import KERNEL_TYPES
from ..store import Store, private_folder
from .twin_rules import isa_table_header, rules_header

FLAGS = (
    "-std=c++17", "-Og", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off", "-frounding-math", "-Wl,-Bsymbolic",
    "-nodefaultlibs", "-Wall", "-Wextra", "-Werror", "-Wno-type-limits", "-Wno-tautological-compare",
)  # fmt: skip
"""-Og: the work is the machine's, and a unit is compiled in half the time -O1 takes, with the warnings that follow values from statement to
statement. -fwrapv: integers wrap. -ffp-contract=off: scalar floats round as in the host program. -frounding-math: GCC makes `0.0f - float(n)`
a negation otherwise, which is -0 for n = 0. -Bsymbolic: a unit calls its own kernel, whatever else the process has loaded.
-nodefaultlibs: the native library brought what a unit may call of the C++ libraries, and looking through them takes longer than all else the
linker does. Warnings are errors: emitted text has none, except that users may compare an unsigned number with one it cannot pass, and bits with
others they cannot be."""

_PATIENCE = 3
"""Units of the same flags a process compiles before it precompiles the headers, which takes as long as reading them for three units."""


class TwinCompileError(TilelangAscendError):
    """The Ascend C text does not compile against the twin's headers."""

    template = "the Ascend C text does not compile for {chip}:\n{diagnostics}"


class NoCompilerError(TilelangAscendError):
    """There is no host C++ compiler."""

    template = "no C++ compiler found (tried {tried})"
    default_hint = "install g++ or clang++, or point the environment variable CXX at one"


@dataclass(frozen=True)
class TwinProgram:
    """A compiled translation unit; `entries` are addresses of C functions, see `HostProgram`."""

    entries: Mapping[str, int]
    kernel_type: str
    library: Path
    _handle: Any = field(repr=False, compare=False)

    def call(self, launcher: Callable[[str, int, list[int]], int], *arguments: Any) -> int:
        """Call the host launcher `call` of the text.

        `arguments` are ctypes values in the order of its parameters. When it launches a kernel,
        `launcher(kernel name, number of blocks, argument words)` runs it and returns 0 or an error. Returns what
        `call` returns.
        """
        signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int64), ctypes.c_int32)
        callback = signature(lambda kernel, blocks, words, n: launcher(kernel.decode(), blocks, words[:n]))
        self._handle.tla_twin_set_launcher(callback)
        try:
            return self._handle.call(*arguments)
        finally:
            self._handle.tla_twin_set_launcher(signature())

    def workspace_bytes(self, *block_dims: int) -> int:
        """Bytes of workspace the launcher asks for; it takes the number of blocks of each launch."""
        function = self._handle.workspace_bytes
        function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_uint32] * len(block_dims)
        return function(*block_dims)


def compile_text(
    text: str,
    kernel: str,
    chip: str | ChipSpec = "Ascend910B1",
    kernel_type: str = "mix_1_2",
    flags: Sequence[str] = FLAGS,
) -> TwinProgram:
    """Compile Ascend C text whose kernel function is called `kernel`. Compiled objects are kept by content.

    kernel_type: ``aic_only``, ``aiv_only`` or ``mix_1_2``: which cores run it.

    Raises:
        TwinCompileError: the text does not compile; the message has the compiler's diagnostics, in lines of the text.
        NoCompilerError: there is no C++ compiler.
    """
    from .. import native

    native.load()  # the object refers to its symbols
    spec = get_chip(chip)
    path = build_object(text, kernel, spec.generation, spec.name, tuple(flags))
    handle = ctypes.CDLL(str(path))
    address = ctypes.cast(handle.tla_twin_entry, ctypes.c_void_p).value
    return TwinProgram({core: address for core in KERNEL_TYPES[kernel_type]}, kernel_type, path, handle)


def libraries() -> Store:
    """Where compiled objects are kept."""
    return Store(env.CACHE_DIR.get(), "twin")


def build_object(text: str, kernel: str, generation: str, chip: str, flags: tuple[str, ...] = FLAGS) -> Path:
    """Shared object of a translation unit, from the cache or newly compiled. Safe for concurrent processes."""
    compiler = find_compiler()
    unit = f'#include "{_HEADER}"\n#line 1 "kernel.cpp"\n{text}\nTLA_TWIN_EXPORT({kernel})\n'
    headers = _generated_headers(generation)
    digest = hashlib.sha256("\0".join((unit, generation, compiler, *flags, _headers_digest(generation))).encode()).hexdigest()
    return libraries().keep(digest, _OBJECT, lambda: _compile(compiler, flags, unit, headers, chip))


_OBJECT, _HEADER = "unit.so", "kernel_operator.h"


def _compile(compiler: str, flags: Sequence[str], unit: str, generated: Mapping[str, str], chip: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilelang-ascend-") as folder:
        scratch = Path(folder)
        source, output = scratch / "unit.cpp", scratch / _OBJECT
        for path, content in ((source, unit), *((scratch / name, content) for name, content in generated.items())):
            path.write_text(content)
        includes = _includes(scratch)
        precompiled = _precompiled(compiler, tuple(flags), tuple(generated.items()))
        first = [f"-I{precompiled}"] if precompiled else []
        command = [compiler, *flags, *first, *includes, str(source), "-o", str(output), "-lgcc"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise TwinCompileError(chip=chip, diagnostics=first_lines(result.stderr))
        return output.read_bytes()


def _includes(generated: Path) -> list[str]:
    return [f"-I{path}" for path in (header_root() / "twin" / "include", header_root(), generated)]


_units: Counter = Counter()


def _precompiled(compiler: str, flags: tuple[str, ...], generated: tuple[tuple[str, str], ...]) -> Path | None:
    """A folder whose ``kernel_operator.h`` GCC has read before, once a process has compiled some units with these flags."""
    key = (compiler, flags, generated)
    _units[key] += 1
    return _precompile(*key) if _units[key] > _PATIENCE else None


@functools.cache
def _precompile(compiler: str, flags: tuple[str, ...], generated: tuple[tuple[str, str], ...]) -> Path | None:
    """None if the compiler is not GCC: others do not look for a precompiled header where they look for the header.

    The folder goes with the process. Its header lies beside what was made of it: GCC reads it when it cannot use that, and finds the real one.
    """
    macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True, check=False).stdout
    if "__GNUC__" not in macros or "__clang__" in macros:
        return None
    folder = Path(tempfile.mkdtemp(dir=private_folder(os.getpid())))
    for name, content in generated:
        (folder / name).write_text(content)
    header = folder / _HEADER
    header.write_text(f"#include_next <{_HEADER}>\n")
    command = [compiler, *flags, *_includes(folder), "-c", "-x", "c++-header", str(header_root() / "twin" / "include" / _HEADER)]
    done = subprocess.run([*command, "-o", f"{header}.gch"], capture_output=True, check=False)
    return None if done.returncode else folder


@functools.cache
def find_compiler() -> str:
    """Path of the host's C++ compiler: ``CXX``, then g++, clang++, c++."""
    configured = os.environ.get("CXX") or ""
    tried = [*(configured.split()[:1]), "g++", "clang++", "c++", *(sysconfig.get_config_var("CXX") or "").split()[:1]]
    for name in tried:
        path = shutil.which(name)
        if path:
            return path
    raise NoCompilerError(tried=", ".join(tried))


@functools.cache
def header_root() -> Path:
    """Folder that holds ``twin/`` and ``isa/``: the installed one, or ``src`` of a checkout."""
    package = Path(__file__).resolve().parents[1]
    candidates = (package / "include", package.parent / "src")
    found = next((path for path in candidates if (path / "twin" / "issue.h").is_file()), None)
    assert found, "the headers of the host twin are not installed"
    return found


@functools.cache
def _headers_digest(generation: str) -> str:
    """Fingerprint of everything a translation unit includes."""
    digest = hashlib.sha256("".join(_generated_headers(generation).values()).encode())
    for path in [*sorted((header_root() / "twin").rglob("*.h")), header_root() / "isa" / "dtype.h"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _generated_headers(generation: str) -> Mapping[str, str]:
    """Name -> text of the headers that are made from the instruction table and the chip's rules."""
    return {"isa_table.h": isa_table_header(), "twin_rules.h": rules_header(generation)}
