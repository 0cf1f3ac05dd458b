"""`emit`: the two texts of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import IRModule
from ..ir.functions import core_functions
from .host import emit_host
from .kernel import Signature, emit_kernel


@dataclass(frozen=True)
class AscendSource:
    """Ascend C of one kernel.

    kernel: the kernel file; host: the launcher, which follows it in the same translation unit; signature: names and
    types of the parameters.
    """

    kernel: str
    host: str
    signature: Signature

    @property
    def text(self) -> str:
        """The translation unit the device compiler is given."""
        return self.kernel + "\n" + self.host


def emit(ascend_ir: IRModule) -> AscendSource:
    """Ascend C of an Ascend IR module. Pure and thread-safe."""
    first = next(iter(core_functions(ascend_ir).values()))
    title = f"Kernel {first.attrs['ascend.kernel_name']} for {first.attrs['ascend.chip']}."
    kernel, signature = emit_kernel(ascend_ir, title)
    return AscendSource(kernel, emit_host(signature), signature)
