"""What a session does: it builds, runs and times programs, one request after the other.

A session is a process of its own. A program that crashes, or runs longer than it may, takes only this process with it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import re
import signal
import time
import traceback
from typing import Any, Callable, Iterator, Mapping, Sequence

from .. import arch, env
from ..errors import TilelangAscendError
from ..log import get_logger
from ..runtime import executors
from ..runtime.artifact import Artifact
from ..runtime.npu.executor import NpuExecutor
from ..store import Store
from ..version import __version__
from . import failures, memory, protocol
from .failures import BuildError, ProtocolError, ServerFull, ServerRefused
from .plan import Plan

_CHECKS = ("off", "initcheck", "on")
_KEPT_IN_MEMORY = 16
_MAX_REPEATS = 10_000
_MORE_SECONDS = 2.0
"""A request is ended here so long after its client has given up, if nothing else has ended it."""


class Service:
    """Answers the requests of one client.

    Args:
        plan: what the server was told when it was started.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.busy = False
        self.last = time.monotonic()
        self._programs: dict[str, Artifact] = {}
        self._answers: dict[str, Callable[..., tuple[dict, Sequence]]] = {
            "hello": self._hello,
            "knows": self._knows,
            "build": self._build,
            "run": self._run,
            "time": self._time,
        }

    def answer(self, request: bytes) -> bytes:
        """One message for another. Never raises: what goes wrong is told to the client."""
        self.busy = True
        try:
            header, blobs = protocol.unpack(request)
            with _limited(_number(header, "limit", 0.001, self.plan.call_limit + _MORE_SECONDS)), _overheard() as heard:
                found, out = self._dispatch(header, blobs)
            return protocol.pack({"ok": True, **found, **heard()}, out)
        except TilelangAscendError as error:
            return protocol.pack({"ok": False, "error": failures.to_json(error)})
        except Exception as error:
            return protocol.pack({"ok": False, "error": failures.to_json(error, traceback.format_exc())})
        finally:
            self.busy, self.last = False, time.monotonic()

    def _dispatch(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        if header.get("version") != protocol.VERSION:
            raise ServerRefused(
                f"it speaks version {protocol.VERSION} of the protocol (tilelang_ascend {__version__}), the client version {header.get('version')}"
            )
        method = self._answers.get(str(header.get("do")))
        if method is None:
            raise ProtocolError(f"there is no request {header.get('do')!r}")
        return method(header, blobs)

    def _hello(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        return {
            "release": __version__,
            "device": self.plan.device,
            "chip": self.plan.chip,
            "clock": self.plan.clock,
            "machine": platform.node(),
            "call_limit": self.plan.call_limit,
        }, ()

    # -- programs ------------------------------------------------------------------------------------------------------

    def _build(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        """Keep a program and compile it. Known is one that was built before, by whichever session."""
        files = {name: str(bytes(blob), "utf-8") for name, blob in zip(header.get("files", ()), blobs)}
        artifact = protocol.load_program(files)
        name = protocol.digest(files)
        store = self._store()
        known = store.read(name) is not None
        start = time.perf_counter()
        self._compile(artifact)
        if not known:
            self._forget_old(store)
            with _disk_full(self.plan.folder):
                if not store.write(name, files):
                    raise ServerFull(f"its folder {self.plan.folder} cannot be written")
        self._remember(name, artifact)
        return {"digest": name, "known": known, "seconds": time.perf_counter() - start}, ()

    def _knows(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        return {"known": self._program(header) is not None}, ()

    def _program(self, header: dict) -> Artifact | None:
        """The program a request names; None when this server does not know it (any more)."""
        name = str(header.get("digest"))
        if name in self._programs:
            return self._programs[name]
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise ProtocolError("a program is named by 64 hexadecimal digits")
        files = self._store().read(name)
        if files is None:
            return None
        artifact = protocol.load_program(files)
        self._compile(artifact)
        self._remember(name, artifact)
        return artifact

    def _remember(self, name: str, artifact: Artifact) -> None:
        self._programs[name] = artifact
        while len(self._programs) > _KEPT_IN_MEMORY:
            del self._programs[next(iter(self._programs))]

    def _store(self) -> Store:
        return Store(env.CACHE_DIR.get(), "rpc")

    def _forget_old(self, store: Store) -> None:
        """A server that runs for months does not fill its disk: at the limit all builds go, and are made again when they are asked for."""
        from ..sim import twin

        if store.size()[0] >= self.plan.keep:
            store.clear()
            twin.libraries().clear()

    def _compile(self, artifact: Artifact) -> None:
        """Make the artifact ready to run here.

        Raises:
            ServerRefused: it is for another chip. BuildError: it does not compile. ServerFull: no space is left.
        """
        chip = arch.get_chip(artifact.chip).name
        if self.plan.chip is not None and chip != self.plan.chip:
            raise ServerRefused(f"the kernel {artifact.name} is compiled for {chip}, the board is {self.plan.chip}")
        if not self.plan.simulated:
            with _disk_full(self.plan.folder):
                self._board(artifact).prepare(artifact)  # it has the compiler of CANN, and keeps what that makes
            return
        from ..sim import twin

        with _disk_full(self.plan.folder):
            try:
                text = f"{artifact.kernel_source}\n{artifact.host_source}"
                artifact.programs = tuple(
                    twin.compile_text(text, name, chip, step.kernel_type) for name, step in zip(_kernels(artifact), artifact.steps)
                )
            except twin.TwinCompileError as error:
                raise _build_error(artifact.name, error.fields["diagnostics"]) from None

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _run(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        """Run once; outputs are returned unless the request wants none."""
        artifact = self._program(header)
        if artifact is None:
            return {"unknown": True}, ()
        launch, written = memory.prepare(artifact, header, blobs)
        checks = header.get("checks", "initcheck")
        if checks not in _CHECKS:
            raise ProtocolError(f"checks are {', '.join(_CHECKS)}, not {checks!r}")
        os.environ[env.SIM_CHECKS.name] = checks
        self._executor(artifact).launch(artifact, launch)
        launch.write_back()
        return (*written(),) if header.get("outputs", True) else ({}, ())

    def _time(self, header: dict, blobs: list) -> tuple[dict, Sequence]:
        """Microseconds of each of the repeated runs, and by which clock; simulated time does not vary: one run tells it."""
        artifact = self._program(header)
        if artifact is None:
            return {"unknown": True}, ()
        warmup, repeats = (int(_number(header, name, low, _MAX_REPEATS)) for name, low in (("warmup", 0), ("repeats", 1)))
        launch, _ = memory.prepare(artifact, header, blobs)
        times = self._simulated(artifact, launch) if self.plan.simulated else self._measured(artifact, launch, warmup, repeats)
        return {"microseconds": times, "clock": self.plan.clock}, ()

    def _simulated(self, artifact: Artifact, launch) -> list[float]:
        from ..errors import SimulationError
        from ..runtime.simulation import simulate

        report = simulate(artifact, launch, values=False, checks=False)
        if report.hazards or report.run.stuck:
            raise SimulationError(report.hazards[0].text() if report.hazards else f"{report.run.stuck} cannot finish")
        return [report.simulated_us]

    def _measured(self, artifact: Artifact, launch, warmup: int, repeats: int) -> list[float]:
        """Of each launch, between two events on the device; transfers do not count."""
        with self._board(artifact).measuring(artifact, launch) as measure:
            return list(measure(warmup, repeats)[0])

    def _board(self, artifact: Artifact) -> NpuExecutor:
        """What runs the kernel.

        Raises:
            ServerRefused: it does not fit the board.
        """
        executor = NpuExecutor()
        reason = executor.unavailable(artifact)
        if reason is not None:
            raise ServerRefused(reason)
        return executor

    def _executor(self, artifact: Artifact) -> executors.Executor:
        return executors.choose(self.plan.executor, artifact)


_KERNEL = re.compile(r"__global__\s+__aicore__\s+void\s+(\w+)\s*\(")


def _kernels(artifact: Artifact) -> list[str]:
    """Names of the kernel functions in the text, in the order in which they are launched."""
    names = _KERNEL.findall(artifact.kernel_source)
    if len(names) != len(artifact.steps):
        raise BuildError(f"{artifact.name} has {len(names)} kernels in its text, and launches {len(artifact.steps)}")
    return names


def _build_error(kernel: str, diagnostics: str) -> BuildError:
    if "No space left on device" in diagnostics:
        raise ServerFull(f"no space is left on its disk to build {kernel}")
    lines = diagnostics.splitlines()
    first = next((line for line in lines if "error" in line), lines[0] if lines else "the compiler says nothing")
    error = BuildError(f"{kernel} does not compile: {first.strip()}")
    error.details = diagnostics
    return error


@contextlib.contextmanager
def _disk_full(folder: Any) -> Iterator[None]:
    import errno

    try:
        yield
    except OSError as reason:
        if reason.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ServerFull(f"no space is left in its folder {folder}") from None


def _number(header: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = header.get(name, low)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= low:
        raise ProtocolError(f"{name} is a number from {low} on, not {value!r}")
    return min(value, high)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """A request that takes longer ends this process, native code or not: the alarm keeps its default action."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _overheard() -> Iterator[Callable[[], dict[str, Any]]]:
    """What the kernel prints and what the package warns of belongs to the client, not into the server's log."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger, printed = get_logger(), io.StringIO()
    before, logger.handlers = logger.handlers, [handler]
    try:
        with contextlib.redirect_stdout(printed):
            yield lambda: {"printed": printed.getvalue(), "warnings": lines}
    finally:
        logger.handlers = before
