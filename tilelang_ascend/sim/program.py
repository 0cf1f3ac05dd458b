"""A program the machine can run: one entry for each kind of core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping


@dataclass(frozen=True)
class HostProgram:
    """Entries of a compiled program.

    entries: ``"aic"`` and/or ``"aiv"`` -> a `tvm_ffi.Function` of `num_args` int64 arguments (docs/ir.md section 4),
    or, for a program compiled from emitted text, the address of a C function ``void (const int64_t*, int32_t)``.
    Entries stay valid as long as the program object lives. Calling one issues instructions into the machine that runs
    on the calling thread; outside of a run it does nothing.
    """

    entries: Mapping[str, Any]
    num_args: int
    keep_alive: Any = field(default=None, repr=False, compare=False)
