"""What `tilelang-ascend server` runs: it starts the listener, starts it again when it ends or hangs, and takes everything along at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from .failures import AddressError
from .plan import Plan

_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[4]); from tilelang_ascend.rpc.listener import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"

HANG_SECONDS = 15.0
"""A listener that gives no sign of life for so long is killed; sessions may run for longer."""

_START_SECONDS = 180.0
_DELAYS = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the next start, by the number of failures in a row."""

_HEALTHY_SECONDS = 30.0
_GRACE_SECONDS = 2.0


class Supervisor:
    """One server.

    Args:
        plan: its folder is ignored.
        folder: where builds are kept; None: a private folder that goes with the server.
        say: prints one line.
    """

    def __init__(self, plan: Plan, folder: Path | None, say: Callable[[str], None]):
        self._plan, self._given, self._say = plan, folder, say
        self._stop: int | None = None
        self._fatal: str | None = None
        self._served = False

    def run(self) -> int:
        """Serve until SIGTERM, Ctrl-C, or a reason why it never will. Returns the exit code.

        Raises:
            AddressError: the folder cannot be used.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            private = Path(tempfile.mkdtemp(prefix="tilelang-ascend-server-"))
        except OSError as reason:
            raise AddressError(f"no private folder can be made: {reason}") from None
        try:
            self._plan = replace(self._plan, folder=str(_usable(self._given or private)))
            self._keep_alive(private)
        finally:
            shutil.rmtree(private, ignore_errors=True)
        if self._fatal is not None:
            self._say(f"error: {self._fatal}")
            return 1
        return 128 + signal.SIGINT if self._stop == signal.SIGINT else 0

    def _on_signal(self, number: int, frame: Any) -> None:
        self._stop = number

    @property
    def _goes_on(self) -> bool:
        return self._stop is None and self._fatal is None

    def _keep_alive(self, private: Path) -> None:
        failures = 0
        while self._goes_on:
            start = time.monotonic()
            why = self._one_life(private)
            if not self._goes_on:
                return
            failures = 0 if time.monotonic() - start > _HEALTHY_SECONDS else failures + 1
            delay = _DELAYS[min(failures, len(_DELAYS) - 1)]
            self._say(f"the listener {why}; starting it again in {delay:g} s")
            until = time.monotonic() + delay
            while self._goes_on and time.monotonic() < until:
                time.sleep(0.05)

    def _one_life(self, private: Path) -> str:
        """Run a listener to its end. Returns how it ended."""
        scratch = private / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            scratch.mkdir(mode=0o700)
        except OSError as reason:
            return f"has no folder: {reason}"
        reader, writer = os.pipe()
        arguments = [str(writer), str(os.getpid()), self._plan.to_text(), json.dumps(sys.path)]
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, *arguments],
            pass_fds=[writer], stdin=subprocess.DEVNULL, start_new_session=True, env=self._environment(scratch),
        )  # fmt: skip
        os.close(writer)
        try:
            return self._watch(process, reader)
        finally:
            os.close(reader)
            _end_group(process)
            shutil.rmtree(scratch, ignore_errors=True)

    def _environment(self, scratch: Path) -> dict[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(scratch),
            "TILELANG_CACHE_DIR": self._plan.folder,
            "TILELANG_DISABLE_CACHE": "0",
            "TILELANG_PRINT_ON_COMPILATION": "0",
            "TILELANG_EXECUTION_BACKEND": "auto",
            "TVM_NUM_THREADS": "1",
        }

    def _watch(self, process: subprocess.Popen, reader: int) -> str:
        """Read signs of life until there are no more, or the server is to stop."""
        patience, last, rest = _START_SECONDS, time.monotonic(), b""
        while self._goes_on:
            if select.select([reader], [], [], 0.2)[0]:
                data = os.read(reader, 1 << 16)
                if not data:
                    return _ending(process)
                last = time.monotonic()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    sign = json.loads(line)
                    if "port" in sign:
                        patience = HANG_SECONDS
                        self._serving(int(sign["port"]))
                    if "fatal" in sign and not self._served:
                        self._fatal = sign["fatal"]
                    elif "fatal" in sign:  # it worked before, and may again
                        return f"cannot start: {sign['fatal']}"
            elif time.monotonic() - last > patience:
                return f"gave no sign of life for {patience:g} s"
        return "was told to stop"

    def _serving(self, port: int) -> None:
        """The port stays the same from now on, if it can: clients may reach it through a tunnel."""
        self._served = True
        self._plan = replace(self._plan, port=port)
        p = self._plan
        self._say(f"serving {p.device} as {p.key} on {p.host}:{port}, tracker {p.tracker_host}:{p.tracker_port}")


def _usable(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()
        status = folder.stat()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as reason:
        raise AddressError(f"the folder {folder} cannot be used: {reason.strerror}") from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise AddressError(f"the folder {folder} cannot be used: others can write to it, or it is not yours")
    return folder


def _ending(process: subprocess.Popen) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(_GRACE_SECONDS)
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return "closed its pipe"


def _end_group(process: subprocess.Popen) -> None:
    """End the listener, its sessions, and what those have started; one process group has them all."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
