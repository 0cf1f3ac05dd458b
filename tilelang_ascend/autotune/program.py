"""A configuration traced: all a worker needs to compile and measure it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Sequence

from .. import ir, native
from ..cache.key import kernel_key
from ..jit.compile import declared_out_idx
from ..jit.pass_config import normalize_pass_configs
from ..jit.signature import read_signature
from ..runtime.params import Signature, normalize_out_idx
from ..targets import resolve_target
from .inputs import InputSet, InputSupply
from .settings import CompileArgs

_WITHOUT_EFFECT = ("tl.threads", "tl.hints")
"""Attributes no pass reads: configurations that differ in them alone are one program."""


@dataclass(frozen=True)
class Subject:
    """What is tuned.

    Attributes:
        name: for messages.
        trace: from the arguments a configuration sets to Tile IR.
        compile_args: settings shared by all configurations.
    """

    name: str
    trace: Callable[[dict[str, Any]], Any]
    compile_args: CompileArgs


@dataclass(frozen=True)
class TracedProgram:
    """A traced configuration.

    Attributes:
        func: Tile IR.
        chip: SKU.
        out_idx, options: as the compiler takes them.
        inputs: what it is measured with.
        signature: of the kernel.
    """

    func: Any
    chip: str
    out_idx: tuple[int, ...]
    options: dict[str, Any]
    inputs: InputSet
    signature: Signature

    @cached_property
    def key(self) -> str:
        """Digest of all that decides the simulated time."""
        plain = self.func
        for name in _WITHOUT_EFFECT:
            plain = plain.without_attr(name)
        parts = {**self.options, "inputs": self.inputs.key, "machine": _machine_stamp()}
        return kernel_key(ir.save_json(plain), self.chip, parts, self.out_idx)

    def key_of_text(self, text: str) -> str:
        """Digest of what a board does: the emitted `text`, and the inputs. It outlives a release that emits the same."""
        return hashlib.sha256(f"{text};{self.inputs.key}".encode()).hexdigest()

    def payload(self) -> dict[str, Any]:
        """For the jobs of `jobs.work`: plain data."""
        return {
            "tile_ir": ir.save_json(self.func),
            "chip": self.chip,
            "out_idx": self.out_idx,
            "options": self.options,
            "inputs": self.inputs.records,
            "file": self.inputs.name,
        }


def trace_program(subject: Subject, arguments: dict, pass_configs: dict | None, supply: InputSupply) -> TracedProgram:
    """Trace one configuration.

    Raises:
        whatever the user's function raises; errors.TilelangAscendError: it is no legal kernel.
    """
    func = subject.trace(arguments)
    settings = subject.compile_args
    out_idx = declared_out_idx(func) or normalize_out_idx(settings.out_idx, len(func.params))
    chip, options = resolve_target(settings.target, {**settings.options, **normalize_pass_configs(pass_configs)})
    parameters = read_signature(func, out_idx)
    return TracedProgram(func, chip.name, out_idx, options, supply.inputs_for(parameters), parameters)


def call_frontend(fn: Callable, args: Sequence[Any], kwargs: dict[str, Any]):
    """Tile IR of a function that returns a `@T.prim_func`."""
    from ..frontend import trace

    return trace(fn, tuple(args), kwargs)


def _machine_stamp() -> str:
    """Identity of the native library: measurements of another build of the machine model do not count."""
    path = native.library_path()
    if path is None:
        return "none"
    status = os.stat(path)
    return f"{status.st_size}:{status.st_mtime_ns}"
