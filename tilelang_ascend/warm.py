"""Processes that start warm: forks of a template, a process that has imported what they need and does nothing else.

Importing torch and tvm takes seconds of processor time; a fork of a process that has them is there in milliseconds. The template
is a fresh process (not a fork of this one, which may have threads) and ends with this process, its forks end with the template.
Nothing that it imports starts a thread of its own that a fork would lack.

The fork server of `multiprocessing` would import the user's script again in every child, and give all of them one environment and one set of streams.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe, connection
from typing import Any

from .descendants import die_with

_BOOT = (
    "import json, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = json.loads(sys.argv[3]); "
    "from tilelang_ascend.warm import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])"
)
"""Ctrl-C reaches the whole foreground group; forks that want to be interrupted say so themselves."""

_READ_WHEN_LOADED = ("GLIBC_", "GOMP_", "KMP_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH_")
"""Variables that libraries read as they are loaded: each setting of them has a template of its own."""

_PATIENCE_SECONDS = 120.0
"""For a template that imports and has too many requests to take another one."""

_OBEDIENCE_SECONDS = 30.0
"""For a template to kill a fork, or to get to it."""

_TICK_SECONDS = 1.0
_LONGEST_REQUEST = 1 << 20
_MOST_FILES = 16


class Fork:
    """A process that `Template.fork` has started. One thread at a time may use it."""

    def __init__(self, template: "Template", number: int, status: connection.Connection):
        self._template, self._number, self._status = template, number, status
        self._pid: int | None = None
        self._code: int | None = None

    @property
    def pid(self) -> int | None:
        """Its id, once the template has started it; None if it never does."""
        if self._pid is None and self._code is None:
            self._listen()
        return self._pid

    def poll(self) -> int | None:
        """The exit code as `subprocess` has it, None while it runs. What a template that is killed takes along was killed."""
        while self._code is None and self._status.poll():
            self._listen()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when there is one.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            if until is not None and not self._status.poll(max(0.0, until - time.monotonic())):
                raise subprocess.TimeoutExpired(f"fork {self._pid}", timeout or 0.0)
            self._listen()
        return self._code

    def kill(self) -> None:
        """The template does it, which knows whether the id still is that of this process."""
        with contextlib.suppress(OSError):
            self._template.send({"kill": self._number})

    def end(self) -> None:
        """Kill it and wait until it is gone."""
        self.kill()
        try:
            self.wait(_OBEDIENCE_SECONDS)
        except subprocess.TimeoutExpired:  # the template is stuck in what it imports
            self._template.process.kill()
            self.wait()

    def _listen(self) -> None:
        """The template tells the id, then the exit code."""
        try:
            told = self._status.recv()
        except (EOFError, OSError):
            self._code = -signal.SIGKILL
        else:
            if self._pid is None:
                self._pid = told
                return
            self._code = told
        self._status.close()


class Template:
    """The process that forks.

    Args:
        modules: what it imports. A module that cannot be imported is left to the forks, which can tell why.
        env: its environment variables.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]):
        self._env, self._lock, self._numbers = dict(env), threading.Lock(), itertools.count()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE_SECONDS)
        self._output = tempfile.TemporaryFile()
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), json.dumps(sys.path), *modules]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, *arguments],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, env=self._env,
            )  # fmt: skip

    def fork(
        self, entry: str, arguments: Sequence[Any], files: Sequence[int], streams: tuple[int, int, int], env: Mapping[str, str]
    ) -> Fork:
        """Start a process that calls ``entry(*arguments, *files)``.

        Args:
            entry: ``"module:name"``.
            arguments: what JSON can say.
            files: open file descriptors.
            streams: descriptors of its standard input, output and error.
            env: its environment variables.

        Raises:
            OSError: the template is gone, or has been busy for minutes.
        """
        status, theirs = Pipe(duplex=False)
        number = next(self._numbers)
        request = {
            "fork": number, "entry": entry, "arguments": list(arguments), "folder": _folder(), "path": sys.path,
            "set": {name: value for name, value in env.items() if self._env.get(name) != value},
            "unset": [name for name in self._env if name not in env],
        }  # fmt: skip
        with theirs:
            self.send(request, [theirs.fileno(), *streams, *files])
        return Fork(self, number, status)

    def send(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(files))

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def output(self) -> str:
        """What it has said, which it does only if something is wrong."""
        self._output.seek(0)
        return self._output.read().decode("utf-8", "replace")

    def close(self) -> None:
        """End it and all its forks."""
        self._socket.close()
        try:
            self.process.wait(2 * _TICK_SECONDS)
        except subprocess.TimeoutExpired:  # it is still importing
            self.process.kill()
            self.process.wait()
        self._output.close()


_templates: dict[tuple, Template] = {}
_lock = threading.Lock()


def template(modules: Sequence[str], env: Mapping[str, str]) -> Template:
    """The template of this process that has these modules; started when it is first asked for, and kept."""
    key = (*modules, *sorted((name, value) for name, value in env.items() if name.startswith(_READ_WHEN_LOADED)))
    with _lock:
        found = _templates.get(key)
        if found is not None and found.ended:
            found.close()
            found = None
        if found is None:
            found = _templates[key] = Template(modules, env)
        return found


@atexit.register
def _close() -> None:
    while _templates:
        _templates.popitem()[1].close()


def _forget() -> None:
    """A fork of this process has no templates: those of its parent answer to the parent."""
    global _lock
    _templates.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


# -- the template ------------------------------------------------------------------------------------------------------------


def main(channel: int, parent: int, modules: Sequence[str]) -> None:
    """Serve requests until the parent ends; returns in forks only, when they are done."""
    control = socket.socket(fileno=channel)
    for name in modules:
        with contextlib.suppress(Exception):  # forks that need it say why
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # pages that forks share stay shared
    request, files = _serve(control, parent)
    module, _, name = request["entry"].partition(":")
    getattr(importlib.import_module(module), name)(*request["arguments"], *files)


def _serve(control: socket.socket, parent: int) -> tuple[dict[str, Any], list[int]]:
    """Returns in forks, with their request and their files."""
    running: dict[int, tuple[int, connection.Connection]] = {}
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    while os.getppid() == parent:  # processes that the parent has forked may hold its end of the socket open for longer
        ready = connection.wait([control, reader], _TICK_SECONDS)
        if reader in ready:
            os.read(reader, 1 << 12)
            _reap(running)
        if control not in ready:
            continue
        data, files, *_ = socket.recv_fds(control, _LONGEST_REQUEST, _MOST_FILES)
        if not data:
            break
        request = json.loads(data)
        if "kill" in request:
            for pid, (number, _) in running.items():
                if number == request["kill"]:
                    os.kill(pid, signal.SIGKILL)
            continue
        status = connection.Connection(files[0], readable=False)
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with(own)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, before)
            for handle in (control, status, *(other for _, other in running.values())):
                handle.close()
            os.close(reader)
            os.close(writer)
            return request, _settle(request, files[1:])
        running[pid] = request["fork"], status
        _tell(status, pid)
        for descriptor in files[1:]:
            os.close(descriptor)
    os._exit(0)


def _reap(running: dict[int, tuple[int, connection.Connection]]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _, status = running.pop(ended[0])
            _tell(status, os.waitstatus_to_exitcode(ended[1]))
            status.close()


def _tell(status: connection.Connection, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody wants to know
        status.send(number)


def _settle(request: dict[str, Any], files: list[int]) -> list[int]:
    """Make a fork look like the process that was asked for. Returns its files."""
    for stream, descriptor in enumerate(files[:3]):
        os.dup2(descriptor, stream)
    for descriptor in files[:3]:
        os.close(descriptor)
    if request["folder"] is not None:
        with contextlib.suppress(OSError):
            os.chdir(request["folder"])
    for name in request["unset"]:
        os.environ.pop(name, None)
    os.environ.update(request["set"])
    sys.path[:] = request["path"]
    if numpy_random := sys.modules.get("numpy.random"):  # `random` does so by itself
        numpy_random.seed()
    return files[3:]
