"""Trackers and servers for tests: real processes, and the knowledge of all that they have started."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

from tilelang_ascend.rpc import tracker
from tilelang_ascend.rpc.settings import Timeouts, parse_address

ROOT = Path(__file__).resolve().parents[3]
QUICK = Timeouts(tracker=3, wait=20, connect=3, call=20)
_BOOT = (
    "from tilelang_ascend.rpc import supervisor; supervisor.HANG_SECONDS = 4.0; supervisor._GRACE_SECONDS = 0.5; "
    "supervisor._DELAYS = (0.2,); from tilelang_ascend.tools.cli import main; main()"
)
"""A command with less patience than that of a user."""


def free_port() -> int:
    """Of those the system gives to nobody by itself, so that it is free again when a process comes back."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(condition, seconds: float = 20.0):
    """The first true value of a condition."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not true after {seconds} s"
        time.sleep(0.05)
    return found


class Farm:
    """A tracker and its servers. All their processes carry a mark in their environment, by which they are found whatever their parent is."""

    def __init__(self, folder: Path):
        self.folder, self.mark = folder, f"farm-{uuid.uuid4().hex}"
        # Without torch, which simulated devices do not need, processes start in half the time.
        (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
        self.port = free_port()
        self.tracker = f"127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen] = []
        self.tracker_process = self.start_tracker()

    def start_tracker(self) -> subprocess.Popen:
        process = self.start("tracker", "--port", str(self.port))
        said(process, "tracker on")
        self.tracker_process = process
        return process

    def start(self, *words: str, env: dict | None = None, before: tuple[str, ...] = ()) -> subprocess.Popen:
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [*before, sys.executable, "-c", _BOOT, *words],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "FARM": self.mark, "TMPDIR": str(temporary), "PYTHONPATH": self.path(), **(env or {})},
        )  # fmt: skip
        self.processes.append(process)
        return process

    def path(self, *before) -> str:
        """What `PYTHONPATH` is in the farm."""
        return os.pathsep.join([*map(str, before), str(self.folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

    def servers(self, *options: tuple[str, ...]) -> list[SimpleNamespace]:
        """A server for each tuple of options, started together and ready: process, address."""
        return self.ready([self.start("server", "--tracker", self.tracker, *words) for words in options])

    def ready(self, started: list[subprocess.Popen]) -> list[SimpleNamespace]:
        found = []
        for process in started:
            line = said(process, "serving")
            found.append(SimpleNamespace(process=process, address=re.search(r" on (\S+),", line)[1]))
        wait_until(lambda: {s.address for s in found} <= self.known())
        return found

    def known(self, key: str | None = None) -> set[str]:
        """Addresses the tracker has."""
        servers = tracker.query(parse_address(self.tracker), QUICK).servers
        return {entry.address for entry in servers if key in (None, entry.key)}

    def free(self, key: str) -> int:
        """Servers that nobody uses."""
        return tracker.query(parse_address(self.tracker), QUICK).free.get(key, 0)

    def alive(self) -> list[int]:
        """Every process of the farm that runs."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
                if self.mark.encode() in path.read_bytes() and state not in "ZX":
                    found.append(int(path.parent.name))
        return found

    def stop(self, processes: list[subprocess.Popen]) -> None:
        """SIGTERM, which every command obeys with exit code 0."""
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            assert process.wait(10) in (0, -signal.SIGKILL), process.args
            process.stdout.close()
            self.processes.remove(process)

    def end(self) -> None:
        """Stop everything; then nothing is left, neither processes nor files."""
        try:
            self.stop(list(self.processes))
            wait_until(lambda: not self.alive(), 5)
        finally:
            for pid in self.alive():
                os.kill(pid, signal.SIGKILL)
        assert not list((self.folder / "tmp").iterdir())


def said(process: subprocess.Popen, words: str, seconds: float = 60.0) -> str:
    """The next line of a process with these words."""
    until, lines = time.monotonic() + seconds, []
    while time.monotonic() < until:
        if select.select([process.stdout], [], [], 0.5)[0]:
            line = process.stdout.readline()
            lines.append(line)
            if words in line:
                return line
            assert line or process.poll() is None, "".join(lines)
    raise AssertionError(f"no {words!r} in {seconds} s: {''.join(lines)}")


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    return [int(c) for task in Path(f"/proc/{pid}/task").glob("*") for c in (task / "children").read_text().split()]
