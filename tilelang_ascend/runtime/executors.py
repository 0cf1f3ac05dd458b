"""Where a kernel call runs. An executor turns an artifact and a checked launch into written memory."""

from __future__ import annotations

from typing import Protocol

from .. import env
from ..errors import TargetError
from ..log import get_logger
from .arguments import Launch
from .artifact import Artifact
from .npu.executor import NpuExecutor


class Executor(Protocol):
    """What every executor offers."""

    name: str
    devices: tuple[str, ...]
    """Where tensors may be that it uses in place; those on the host always may."""

    def unavailable(self, artifact: Artifact | None = None) -> str | None:
        """Why it cannot be used on this machine (for this kernel), in one clause; None when it can."""

    def label(self) -> str:
        """What runs kernels there, for messages."""

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        """Run the kernel on the launch's memory and return when it is done."""


class SimExecutor:
    """The machine model, always there."""

    name = "sim"
    devices: tuple[str, ...] = ("cpu",)

    def unavailable(self, artifact: Artifact | None = None) -> str | None:
        return None

    def label(self) -> str:
        return "the simulator"

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        from . import simulation

        simulation.execute(artifact, launch)


UPSTREAM_BACKENDS = ("ctypes", "cython", "dlpack", "nvrtc", "torch", "tvm_ffi")
"""Ways in which a GPU script's host code calls a kernel; they say nothing about where it runs."""

_REGISTRY: dict[str, Executor] = {}
_told: set[str] = set()


def register_executor(executor: Executor) -> None:
    """Add an executor, or replace the one of the same name."""
    _REGISTRY[executor.name] = executor


register_executor(SimExecutor())
register_executor(NpuExecutor())


def choose(name: str | None, artifact: Artifact | None = None) -> Executor:
    """The executor called `name`; None, ``auto`` or one of `UPSTREAM_BACKENDS` takes the NPU if there is one, else the simulator, and says
    which in one line. `artifact`: the kernel.

    Raises:
        errors.TargetError: no such executor, or it cannot be used here.
    """
    name = env.EXECUTION_BACKEND.get() if name in (None, "auto", *UPSTREAM_BACKENDS) else name
    if name == "auto":
        reason = _REGISTRY["npu"].unavailable(artifact)
        chosen = _REGISTRY["sim" if reason else "npu"]
        line = f"kernels run on {chosen.label()}" + (f": {reason}" if reason else "")
        if line not in _told:
            _told.add(line)
            get_logger().info("%s", line)
        return chosen
    if name not in _REGISTRY:
        raise TargetError(f"unknown execution_backend {name!r}; there are auto, {', '.join(_REGISTRY)}")
    reason = _REGISTRY[name].unavailable(artifact)
    if reason is not None:
        raise TargetError(f"execution_backend {name!r} cannot be used: {reason}; use 'sim'")
    return _REGISTRY[name]
