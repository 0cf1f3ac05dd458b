"""The host launcher: a plain C function `call` that starts the kernel on a stream."""

from __future__ import annotations

from .kernel import Signature
from .writer import Writer

_ALIGN = 512
"""Workspaces start on lines of the L2 cache (512 bytes; doc: hardware section 1.3)."""

_ERROR_SYNC_BLOCK = 1


def emit_host(signature: Signature) -> str:
    """Text of the launcher; it follows the kernel in one translation unit.

    ``call(<GM pointers>, <scalars>, [workspace], block_dim, stream)`` returns 0, or non-zero when the launch was not
    possible. ``workspace_bytes(block_dim)`` is the size of the workspace.
    """
    out = Writer()
    out.lines(f"// Host launcher of {signature.kernel}.", "#include <cstdint>", "")
    out.directive("#ifdef ASCENDC_CPU_DEBUG")
    out.line('#include "tikicpulib.h"')
    if signature.mix:
        out.directive("#else")
        out.line('extern "C" int32_t rtGetC2cCtrlAddr(uint64_t* addr, uint32_t* len);')
    out.directive("#endif")
    out.line()
    _write_workspace_size(out, signature)
    _write_call(out, signature)
    return out.text()


def _write_workspace_size(out: Writer, signature: Signature) -> None:
    out.line("// Bytes of device memory `call` needs as workspace.")
    argument = "uint32_t block_dim" if signature.workspaces else "uint32_t"
    with out.block(f'extern "C" uint64_t workspace_bytes({argument}) {{'):
        out.line(f"return {_offset(signature, len(signature.workspaces))};")
    out.line()


def _offset(signature: Signature, index: int) -> str:
    """Byte offset of workspace `index`: the sizes before it, each rounded up to whole lines."""
    sizes = [-(-size // _ALIGN) * _ALIGN for size in signature.workspace_bytes[:index]]
    return f"static_cast<uint64_t>(block_dim) * {sum(sizes)}" if sizes else "0"


def _write_call(out: Writer, signature: Signature) -> None:
    params = [f"void* {name}" for _, name in signature.buffers]
    params += [f"{ctype} {name}" for ctype, name in signature.scalars]
    params += ["void* workspace"] if signature.workspaces else []
    params += ["uint32_t block_dim", "void* stream"]
    out.line("// Starts the kernel on `block_dim` blocks; returns before it has finished.")
    with out.block(f'extern "C" int call({", ".join(params)}) {{'):
        for index, (_, name) in enumerate(signature.workspaces):
            offset = f" + {_offset(signature, index)}" if index else ""
            out.line(f"uint8_t* {name} = static_cast<uint8_t*>(workspace){offset};")
        _write_launch(out, signature)


def _write_launch(out: Writer, signature: Signature) -> None:
    args = [name for _, name in signature.scalars]
    args += [f"static_cast<uint8_t*>({name})" for _, name in signature.buffers] + [name for _, name in signature.workspaces]
    cpu = ", ".join([signature.kernel, "block_dim", *args, *(["0"] if signature.mix else [])])
    npu = ", ".join([*args, *(["ffts_addr"] if signature.mix else [])])
    out.directive("#ifdef ASCENDC_CPU_DEBUG")
    out.lines("(void)stream;", f"AscendC::SetKernelMode(KernelMode::{signature.cpu_mode});", f"ICPU_RUN_KF({cpu});")
    out.directive("#else")
    if signature.mix:
        out.lines("uint64_t ffts_addr = 0;", "uint32_t ffts_len = 0;")
        out.line(f"if (rtGetC2cCtrlAddr(&ffts_addr, &ffts_len) != 0) return {_ERROR_SYNC_BLOCK};")
    out.line(f"{signature.kernel}<<<block_dim, nullptr, stream>>>({npu});")
    out.directive("#endif")
    out.line("return 0;")
