"""`emit`: the two texts of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import IRModule
from ..ir.functions import launches
from .forms import FORMS
from .host import emit_host
from .kernel import Signature, emit_kernels


@dataclass(frozen=True)
class AscendSource:
    """Ascend C of one kernel.

    kernel: the kernel file; host: the launcher, which follows it in the same translation unit; signatures: names and types of the
    parameters of each launch, in order.
    """

    kernel: str
    host: str
    signatures: tuple[Signature, ...]

    @property
    def signature(self) -> Signature:
        """That of a kernel with one launch."""
        (only,) = self.signatures
        return only

    @property
    def text(self) -> str:
        """The translation unit the device compiler is given."""
        return self.kernel + "\n" + self.host


def emit(ascend_ir: IRModule, cann: int = 8) -> AscendSource:
    """Ascend C of an Ascend IR module, in the form of a release of CANN (`forms.FORMS`). Pure and thread-safe."""
    kernel, signatures = emit_kernels(launches(ascend_ir), FORMS[cann])
    return AscendSource(kernel, emit_host(signatures), signatures)
