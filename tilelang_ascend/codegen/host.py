"""The host launcher: a plain C function `call` that starts the kernels on a stream, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..isa import CTYPES
from .kernel import Signature
from .names import Names
from .writer import Writer

_ALIGN = 512
"""Workspaces start on lines of the L2 cache (512 bytes; doc: hardware section 1.3)."""

_ERROR_SYNC_BLOCK = 1

BITS = {"float16": "uint16_t", "bfloat16": "uint16_t", "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t"}
"""dtype of a kernel's scalar -> type of its bits in the C interface. How a C function takes a narrow float depends on the compiler; how it
takes an integer does not. That the host has the types, so that a launch can pass their values, is assumed."""

_BITS = {CTYPES[dtype]: bits for dtype, bits in BITS.items()}


@dataclass(frozen=True)
class _Workspace:
    """A part of the workspace: its name in `call`, bytes, and the name of the number of blocks they are multiplied by, if they are."""

    name: str
    nbytes: int
    blocks: str = ""


class _Host:
    """What the launcher calls things. `values`: scalar that arrives as bits -> variable with its value. `spaces`: for each launch, the names
    of the workspaces it is passed."""

    def __init__(self, signatures: Sequence[Signature]):
        first, self.signatures = signatures[0], signatures
        names = Names()
        self.blocks = ["block_dim"] if len(signatures) == 1 else [names.fresh(f"block_dim_{k + 1}") for k in range(len(signatures))]
        self.buffers = [names.fresh(name) for _, name in first.buffers]
        self.scalars = [(ctype, names.fresh(name)) for ctype, name in first.scalars]
        self.values = {name: names.fresh(f"{name}_value") for ctype, name in self.scalars if ctype in _BITS}
        shared = [_Workspace(names.fresh(name), size) for (_, name), size in zip(first.shared, first.shared_bytes)]
        self.layout, self.spaces = [], []
        for s, blocks in zip(signatures, self.blocks):
            own = [_Workspace(names.fresh(name), size, blocks) for (_, name), size in zip(s.workspaces, s.workspace_bytes)]
            self.layout += own
            self.spaces.append([w.name for w in (*shared, *own)])
        self.layout += shared

    def offset(self, count: int) -> str:
        """Bytes of the first `count` workspaces, each rounded up to whole lines."""
        sizes: dict[str, int] = {}
        for w in self.layout[:count]:
            sizes[w.blocks] = sizes.get(w.blocks, 0) + -(-w.nbytes // _ALIGN) * _ALIGN
        terms = [f"static_cast<uint64_t>({blocks}) * {size}" if blocks else str(size) for blocks, size in sizes.items()]
        return " + ".join(terms) or "0"


def emit_host(signatures: Sequence[Signature]) -> str:
    """Text of the launcher; it follows the kernels in one translation unit.

    ``call(<GM pointers>, <scalars>, [workspace], block_dim, stream)`` returns 0, or non-zero when a launch was not possible. Floats narrower
    than float32 are passed as their bits (``uint16_t``, ``uint8_t``). Where there are several launches, each has a number of blocks: ``block_dim_1, block_dim_2``. ``workspace_bytes`` of these numbers is the size of the workspace.
    """
    host = _Host(signatures)
    mix = any(s.mix for s in signatures)
    out = Writer()
    out.lines(f"// Host launcher of {' and '.join(s.kernel for s in signatures)}.", "#include <cstdint>", "")
    out.directive("#ifdef ASCENDC_CPU_DEBUG")
    out.line('#include "tikicpulib.h"')
    if mix:
        out.directive("#else")
        out.line('extern "C" int32_t rtGetC2cCtrlAddr(uint64_t* addr, uint32_t* len);')
    out.directive("#endif")
    out.line()
    _write_workspace_size(out, host)
    _write_call(out, host, mix)
    return out.text()


def _write_workspace_size(out: Writer, host: _Host) -> None:
    used = {w.blocks for w in host.layout}
    out.line("// Bytes of device memory `call` needs as workspace.")
    arguments = ", ".join(f"uint32_t {name}" if name in used else "uint32_t" for name in host.blocks)
    with out.block(f'extern "C" uint64_t workspace_bytes({arguments}) {{'):
        out.line(f"return {host.offset(len(host.layout))};")
    out.line()


def _write_call(out: Writer, host: _Host, mix: bool) -> None:
    params = [f"void* {name}" for name in host.buffers]
    params += [f"{_BITS.get(ctype, ctype)} {name}" for ctype, name in host.scalars]
    params += ["void* workspace"] if host.layout else []
    params += [*(f"uint32_t {name}" for name in host.blocks), "void* stream"]
    if len(host.signatures) == 1:
        out.line("// Starts the kernel on `block_dim` blocks; returns before it has finished.")
    else:
        out.line("// Starts the kernels, each when the one before has finished; returns before the last has.")
    with out.block(f'extern "C" int call({", ".join(params)}) {{'):
        for index, w in enumerate(host.layout):
            offset = f" + {host.offset(index)}" if index else ""
            out.line(f"uint8_t* {w.name} = static_cast<uint8_t*>(workspace){offset};")
        for ctype, name in host.scalars:
            if name in host.values:
                value = host.values[name]
                out.lines(f"{ctype} {value};", f"__builtin_memcpy(&{value}, &{name}, sizeof({value}));")
        _write_launches(out, host, mix)


def _write_launches(out: Writer, host: _Host, mix: bool) -> None:
    args = [host.values.get(name, name) for _, name in host.scalars] + [f"static_cast<uint8_t*>({name})" for name in host.buffers]
    launches = [(s, [*args, *spaces], blocks) for s, spaces, blocks in zip(host.signatures, host.spaces, host.blocks)]
    out.directive("#ifdef ASCENDC_CPU_DEBUG")
    out.line("(void)stream;")
    for s, given, blocks in launches:
        cpu = ", ".join([s.kernel, blocks, *given, *(["0"] if s.mix else [])])
        out.lines(f"AscendC::SetKernelMode(KernelMode::{s.cpu_mode});", f"ICPU_RUN_KF({cpu});")
    out.directive("#else")
    if mix:
        out.lines("uint64_t ffts_addr = 0;", "uint32_t ffts_len = 0;")
        out.line(f"if (rtGetC2cCtrlAddr(&ffts_addr, &ffts_len) != 0) return {_ERROR_SYNC_BLOCK};")
    for s, given, blocks in launches:
        out.line(f"{s.kernel}<<<{blocks}, nullptr, stream>>>({', '.join([*given, *(['ffts_addr'] if s.mix else [])])});")
    out.directive("#endif")
    out.line("return 0;")
