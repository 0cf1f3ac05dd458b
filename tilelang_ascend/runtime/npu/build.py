"""From the emitted text to a library with the launcher `call`: command lines of bisheng by release, and the cache of what it made."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from ... import arch, env
from ...errors import DeviceCompileError, TargetError, first_lines
from ...store import Store
from ..artifact import Artifact
from .cann import Cann

NPU_ARCH = {"c220": "dav-2201", "3510": "dav-3510"}
"""Generation -> ``--npu-arch`` of 9.x."""

_CORE_ARCH = {"aic_only": "dav-c220-cube", "aiv_only": "dav-c220-vec", "mix_1_2": "dav-c220"}
"""Kind of kernel -> ``--cce-aicore-arch`` of 8.x. ``dav-c220`` builds both sides of a kernel; the names for one side are assumed."""

_COMMON = ("-O2", "-std=c++17", "-fPIC", "--shared", "-fwrapv", "-ffp-contract=off")
"""-fwrapv: integers wrap, as docs/numbers.md says; `a + b < a` is `b < 0` otherwise. -ffp-contract=off: scalar floats are rounded after every operation.
Both are options of clang, which bisheng is made of."""

NO_AUTO_SYNC = "--cce-auto-sync=off"
"""The compiler adds barriers between vector instructions by default. The text has those it needs, in an order that more would spoil; it stays
right with them (the option is known from documentation, its spelling is assumed)."""

_STACK = (
    "-mllvm", "-cce-aicore-stack-size=0x8000", "-mllvm", "-cce-aicore-function-stack-size=0x8000",
    "-mllvm", "-cce-aicore-record-overflow=true", "-mllvm", "-cce-aicore-addr-transform",
    "-mllvm", "-cce-aicore-dcci-insert-for-scalar=false",
)  # fmt: skip

INCLUDES = ("compiler/tikcpp", "compiler/tikcpp/tikcfw", "compiler/tikcpp/tikcfw/impl", "compiler/tikcpp/tikcfw/interface", "include")
"""Folders of the headers of 8.x below the home (assumed); 9.x knows its own."""

_LIBRARIES = ("runtime", "ascendcl")

_BINARY = "kernel.so"


def options(major: int, generation: str, kinds: Sequence[str]) -> list[str]:
    """What decides how a text is compiled, without paths.

    Args:
        major: release of CANN, 8 or 9.
        generation: of the chip.
        kinds: kernel types of all launches of the text.

    Raises:
        errors.TargetError: the release does not know the chip.
    """
    from ...isa.debug import SILENT

    silent = f"-D{SILENT}"
    if major >= 9:
        return ["-xasc", f"--npu-arch={NPU_ARCH[generation]}", *_COMMON, NO_AUTO_SYNC, silent]
    if generation != "c220":
        raise TargetError(f"CANN {major} has no compiler for chips of generation {generation}", hint="install CANN 9 or later")
    core = _CORE_ARCH[kinds[0]] if len(set(kinds)) == 1 else _CORE_ARCH["mix_1_2"]
    return ["-xcce", f"--cce-aicore-arch={core}", *_COMMON, *_STACK, NO_AUTO_SYNC, silent]


def build_line(major: int, generation: str, kinds: Sequence[str], source: str = "kernel.cpp", output: str = "kernel.so") -> str:
    """The command that compiles kernel and launcher, for a shell in which `set_env.sh` of CANN was sourced."""
    home = "$ASCEND_HOME_PATH"
    includes = [f"-I{home}/{folder}" for folder in INCLUDES] if major < 9 else []
    links = [f"-L{home}/lib64", *(f"-l{name}" for name in _LIBRARIES)]
    return " ".join(["bisheng", *options(major, generation, kinds), *includes, source, "-o", output, *links])


def build_script(artifact: Artifact) -> str:
    """A shell script that builds the exported texts of a kernel, with the command for every release."""
    kinds = [step.kernel_type for step in artifact.steps]
    generation, form = arch.get_chip(artifact.chip).generation, text_form(artifact)
    out = [
        "#!/bin/sh",
        "# Builds kernel.so with the C function `call` of host.cpp:  sh build.sh 9   (or 8: the release of CANN)",
        "# Source set_env.sh of CANN first. --cce-auto-sync=off: the text has its barriers; it is right with more of them, but slower.",
        "set -e",
        'cd "$(dirname "$0")"',
        "cat kernel.cpp host.cpp > unit.cpp",
        'case "$1" in',
    ]
    for major in sorted(arch.CANN_RELEASES, reverse=True):
        try:
            line = build_line(major, generation, kinds, "unit.cpp")
        except TargetError as error:
            line = _refusal(error.message)
        if major < form:
            line = _refusal(f"the text is in the form of CANN {form}; export it with pass_configs={{'tl.cann': {major}}}")
        out.append(f"{major}) {line} ;;")
    return "\n".join([*out, "*) " + _refusal("which release of CANN, 8 or 9?") + " ;;", "esac"]) + "\n"


def _refusal(why: str) -> str:
    return f'echo "{why}" >&2; exit 1'


def text_form(artifact: Artifact) -> int:
    """Release in whose form the text of a kernel is; later ones compile it, too."""
    return int(artifact.options.get("cann", 8))


def command(cann: Cann, generation: str, kinds: Sequence[str], source: Path, output: Path) -> list[str]:
    """The same for a program that starts bisheng itself."""
    includes = [f"-I{cann.home / folder}" for folder in INCLUDES if (cann.home / folder).is_dir()] if cann.major < 9 else []
    links = [
        *(f"-L{folder}" for folder in cann.library_folders),
        *(f"-Wl,-rpath,{folder}" for folder in cann.library_folders),
        *(f"-l{name}" for name in _LIBRARIES),
    ]
    return [str(cann.compiler), *options(cann.major, generation, kinds), *includes, str(source), "-o", str(output), *links]


def binary(artifact: Artifact, cann: Cann) -> Path:
    """Path of the library of a kernel, newly compiled or from the cache; a new release or another option compiles again.

    Raises:
        errors.DeviceCompileError: bisheng does not compile the text, or is not there, or the text is for a later release.
    """
    if cann.compiler is None:
        raise DeviceCompileError(
            f"{cann.label} in {cann.home} has no compiler bisheng, which kernel {artifact.name} needs to run on the NPU",
            hint="install the CANN toolkit: the runtime package has no compiler",
        )
    if text_form(artifact) > cann.major:
        raise DeviceCompileError(
            f"the text of kernel {artifact.name} is in the form of CANN {text_form(artifact)}, this is {cann.label}",
            hint=f"compile it with pass_configs={{'tl.cann': {cann.major}}}, or with target=\"ascend -cann={cann.major}\"",
        )
    kinds = [step.kernel_type for step in artifact.steps]
    text = f"{artifact.kernel_source}\n{artifact.host_source}"
    generation = arch.get_chip(artifact.chip).generation
    parts = (text, str(cann.home), cann.tool_version, *options(cann.major, generation, kinds))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Store(env.CACHE_DIR.get(), "npu").keep(key, _BINARY, lambda: _compile(artifact, cann, generation, kinds, text))


def _compile(artifact: Artifact, cann: Cann, generation: str, kinds: Sequence[str], text: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilelang-ascend-") as folder:
        source, output = Path(folder) / "kernel.cpp", Path(folder) / _BINARY
        source.write_text(text, encoding="utf-8")
        line = command(cann, generation, kinds, source, output)
        result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode == 0 and output.is_file():
            return output.read_bytes()
    said = first_lines(result.stderr or result.stdout)
    raise DeviceCompileError(
        f"bisheng of {cann.label} does not compile kernel {artifact.name} (exit status {result.returncode})",
        notes=[said or "the compiler said nothing", f"command: {' '.join(line)}"],
        hint="the text is kernel.get_kernel_source(); kernel.simulate(...) runs the same program without the compiler",
    )
