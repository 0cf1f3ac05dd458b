"""Where a kernel call runs. An executor turns an artifact and a checked launch into written memory."""

from __future__ import annotations

from typing import Protocol

from .. import env
from ..errors import TargetError
from ..log import get_logger
from .arguments import Launch
from .artifact import Artifact


class Executor(Protocol):
    """What every executor offers."""

    name: str

    def unavailable(self) -> str | None:
        """Why it cannot be used on this machine, in one clause; None when it can."""

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        """Run the kernel on the launch's memory and return when it is done."""


class SimExecutor:
    """The machine model, always there."""

    name = "sim"

    def unavailable(self) -> str | None:
        return None

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        from . import simulation

        simulation.execute(artifact, launch)


class _Absent:
    """An executor this release does not contain."""

    def __init__(self, name: str, reason: str):
        self.name = name
        self._reason = reason

    def unavailable(self) -> str | None:
        return self._reason

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        raise AssertionError(f"executor {self.name} is never chosen")


UPSTREAM_BACKENDS = ("ctypes", "cython", "dlpack", "nvrtc", "torch", "tvm_ffi")
"""Ways in which a GPU script's host code calls a kernel; they say nothing about where it runs."""

_REGISTRY: dict[str, Executor] = {}
_told: set[str] = set()


def register_executor(executor: Executor) -> None:
    """Add an executor, or replace the one of the same name."""
    _REGISTRY[executor.name] = executor


register_executor(SimExecutor())
register_executor(_Absent("npu", "this release has no launcher for a local NPU"))


def choose(name: str | None) -> Executor:
    """The executor called `name`; None, ``auto`` or one of `UPSTREAM_BACKENDS` takes the NPU if there is one, else the simulator.

    Raises:
        errors.TargetError: no such executor, or it cannot be used here.
    """
    name = env.EXECUTION_BACKEND.get() if name in (None, "auto", *UPSTREAM_BACKENDS) else name
    if name == "auto":
        npu = _REGISTRY["npu"]
        if npu.unavailable() is None:
            return npu
        if "sim" not in _told:
            _told.add("sim")
            get_logger().info("kernels run on the simulator: %s", npu.unavailable())
        return _REGISTRY["sim"]
    if name not in _REGISTRY:
        raise TargetError(f"unknown execution_backend {name!r}; there are auto, {', '.join(_REGISTRY)}")
    reason = _REGISTRY[name].unavailable()
    if reason is not None:
        raise TargetError(f"execution_backend {name!r} cannot be used: {reason}; use 'sim'")
    return _REGISTRY[name]
