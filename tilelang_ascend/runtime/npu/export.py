"""A kernel as a folder that builds without this package: texts, C interface, CMake project, op of torch."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ... import arch
from ...codegen.host import BITS
from ...codegen.names import Names, identifier
from ...errors import TargetError
from ..artifact import Artifact
from ..dtypes import NIBBLES
from ..params import Dim, Parameter
from . import build, export_texts

_C_TYPES = (
    BITS
    | {"bool": "bool", "float32": "float", "float64": "double", "int4": "int8_t", "uint4": "int8_t", "float4_e2m1fn": BITS["float16"]}
    | {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""dtype of a scalar -> its type in C."""
ROWS_TOO_FAR_APART = 2
"""What `NAME_launch` returns where rows that are an int32 of elements apart are 2^31 bytes apart or more."""
_FUNCTIONS = {"min": "std::min", "max": "std::max"}


def export(artifact: Artifact, folder: Path, op: str) -> None:
    """Write the folder; what it has under the same names is replaced. `op`: name under which it registers with torch."""
    name = identifier(artifact.name)
    package = Path(__file__).resolve().parents[2]
    modules = (package / "cmake" / "FindCANN.cmake", package.parent / "cmake" / "FindCANN.cmake")
    find_cann = next((path for path in modules if path.is_file()), None)
    assert find_cann, "FindCANN.cmake is not installed"
    interface = _Interface(artifact, name)
    signature = artifact.signature.to_json()
    for p in signature["parameters"]:
        del p["location"]  # a place on the machine that compiled it
    described = {"name": name, "op": op, "chip": artifact.chip, "signature": signature}
    texts = {
        "kernel.cpp": artifact.kernel_source,
        "launcher.cpp": f"{artifact.host_source}\n{interface.definitions()}",
        f"{name}_kernel.h": interface.header(),
        "CMakeLists.txt": _cmake(artifact, name),
        "cmake/FindCANN.cmake": find_cann.read_text(encoding="utf-8"),
        "kernel.json": json.dumps(described, indent=1) + "\n",
        f"{name}_op.py": (package / "runtime" / "torch_op.py").read_text(encoding="utf-8") + export_texts.LOAD,
        "README.md": export_texts.README.format(
            name=name, title=artifact.name, chip=artifact.chip, op=op, path=op.replace("::", "."), folder=folder.name,
            silent=export_texts.SILENT if any(step.shows for step in artifact.steps) else "", parameters="\n".join(interface.rows()), call=", ".join(p.name for p in artifact.signature.inputs),
        ),
    }  # fmt: skip
    for file, text in texts.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class _Interface:
    """The two C functions, whose parameters are the kernel's in the user's order, shape variables, workspace and stream."""

    def __init__(self, artifact: Artifact, name: str):
        self._artifact, self._name = artifact, name
        names = Names()
        names.fresh("restrict")  # a word of C, not of C++
        self._parameters = artifact.signature.parameters
        symbols = [s for s in artifact.signature.symbols if s[0] not in {p.name for p in self._parameters}]
        self._names = {n: names.fresh(n) for n in [*(p.name for p in self._parameters), *(n for n, _ in symbols)]}
        types = {p.name: _pointer(p) if p.is_buffer else f"{_C_TYPES[p.dtype]} " for p in self._parameters}
        types |= {n: f"{_C_TYPES[dtype]} " for n, dtype in symbols}
        self._declared = [f"{types[n]}{self._names[n]}" for n in self._names]

    def header(self) -> str:
        """Text of the C header."""
        blocks = " and ".join(str(step.block_dim) for step in self._artifact.steps)
        lines = [f" *   {self._names[p.name]}: {_meaning(p)}" for p in self._parameters]
        lines += [f" *   {self._names[n]}: an extent of the tensors" for n in self._names if n not in {p.name for p in self._parameters}]
        return export_texts.HEADER.format(
            name=self._name, guard=f"{self._name.upper()}_KERNEL_H_", chip=self._artifact.chip, blocks=blocks,
            lines="\n".join(lines), launch=self._launch(), title=self._artifact.name,
            refusals=export_texts.REFUSALS.format(code=ROWS_TOO_FAR_APART) if self._too_far_apart() else "",
        )  # fmt: skip

    def rows(self) -> list[str]:
        """Lines of a table of the parameters."""
        return [f"| `{p.name}` | {_meaning(p)} |" for p in self._parameters]

    def definitions(self) -> str:
        """Text of both functions, to stand behind the launcher they call."""
        steps = self._artifact.steps
        buffers = [s.name for s in steps[0].abi if s.kind == "buffer"]
        scalars = [s.name for s in steps[0].abi if s.kind == "scalar"]
        blocks = [str(step.block_dim) for step in steps]
        space = ["workspace"] if any(s.kind in ("workspace", "shared") for step in steps for s in step.abi) else []
        given = [f"const_cast<void*>(static_cast<const void*>({self._names[n]}))" for n in buffers]
        given += [*(self._names[n] for n in scalars), *space, *blocks, "stream"]
        unused = [self._names[n] for n in self._names if n not in (*buffers, *scalars)] + ([] if space else ["workspace"])
        refused = self._too_far_apart()
        return "\n".join([
            *(["#include <algorithm>"] if any("std::" in condition for condition in refused) else []),
            f"// The interface of {self._name}_kernel.h.",
            f'extern "C" uint64_t {self._name}_workspace_bytes() {{ return workspace_bytes({", ".join(blocks)}); }}',
            f'extern "C" {self._launch()} {{',
            *(f"  (void){n};" for n in unused),
            *(f"  if ({condition}) return {ROWS_TOO_FAR_APART};" for condition in refused),
            f"  return call({', '.join(given)});",
            "}",
            "",
        ])  # fmt: skip

    def _too_far_apart(self) -> list[str]:
        """Conditions in C++ under which transfers of several rows cannot say how far apart these are."""
        return [
            f"{self._expression(rows)} > 1 && {self._expression(pitch)} * {size} >= INT64_C(2147483648)"
            for p in self._parameters
            for rows, pitch, size in p.pitches
        ]

    def _expression(self, dim: Dim) -> str:
        """An extent in C++."""

        def in_c(name: re.Match) -> str:
            return _FUNCTIONS.get(name[0]) or f"static_cast<int64_t>({self._names[name[0]]})"

        return (
            f"INT64_C({dim})"
            if isinstance(dim, int)
            else re.sub(r"\b\d+\b", r"INT64_C(\g<0>)", re.sub(r"[A-Za-z_]\w*", in_c, dim)).replace("//", "/")
        )

    def _launch(self) -> str:
        return f"int {self._name}_launch({', '.join([*self._declared, 'void *workspace', 'void *stream'])})"


def _pointer(p: Parameter) -> str:
    return "void *" if p.writes else "const void *"


def _meaning(p: Parameter) -> str:
    """A parameter in words, such as ``float16[32, n], written``."""
    if not p.is_buffer:
        bits = {**dict.fromkeys(BITS, "its bits"), "float4_e2m1fn": "the bits of a float16"}.get(p.dtype)
        return f"{p.dtype}, as {bits}" if bits else p.dtype
    strides = f" with strides [{', '.join(map(str, p.strides))}]" if p.strides is not None else ""
    halves = ", two in each byte" if p.dtype in NIBBLES else ""
    return f"{p.dtype}[{', '.join(map(str, p.extents))}]{strides}{halves}{', written' if p.writes else ''}"


def _cmake(artifact: Artifact, name: str) -> str:
    generation, form = arch.get_chip(artifact.chip).generation, build.text_form(artifact)
    kinds = [step.kernel_type for step in artifact.steps]
    cases = {}
    for major in (8, 9):
        try:
            if major < form:
                raise TargetError(f"the text is in the form of CANN {form}")
            cases[f"options_{major}"] = f"set(options {' '.join(build.options(major, generation, kinds))})"
        except TargetError as error:
            cases[f"options_{major}"] = f'message(FATAL_ERROR "{error.message}")'
    includes = " ".join(f'"-I${{CANN_HOME}}/{folder}"' for folder in build.INCLUDES)
    return export_texts.CMAKE.format(name=name, title=artifact.name, chip=artifact.chip, includes=includes, **cases)
