"""The one door to TVM's RPC: its tracker, its server and its client, with what they lack to be left alone.

Known faults of this release, and what is done about them:

* The tracker's client waits without end for answers, and 60 s for a tracker that is not there: `TrackerSession` has a time-out.
* The thread that listens ends with the first session that crashes, and a connection that says nothing blocks it: `serve` guards both.
* A lost tracker is tried again every 5 s for a minute, without time-outs: `serve` tries for ever, every second.
* Server and tracker classes start another Python process through cloudpickle, which outlives a killed parent: neither is used.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path
from shutil import rmtree
from typing import Any, Callable, Sequence

from ..collector import PAUSED_COLLECTOR
from ..descendants import reap, stop_descendants
from ..log import get_logger
from .settings import Address

with PAUSED_COLLECTOR:
    import tvm_ffi
    from tvm.rpc import base, client
    from tvm.rpc import server as tvm_server

RemoteErrors = (RuntimeError, AttributeError, OSError)
"""What TVM raises for a connection that breaks: RPCError and InternalError are RuntimeErrors."""

_SOCKET_SECONDS = 5.0
_LAST_SECONDS = 1.0


class TrackerSession(client.TrackerSession):
    """TVM's client of a tracker; every answer has to come within `seconds`.

    Raises:
        OSError: no connection, or no answer in time. RuntimeError: what answers is no tracker.
    """

    def __init__(self, address: Address, seconds: float):
        self._seconds = seconds
        self._sock: socket.socket | None = None
        super().__init__((address.host, address.port))

    def _connect(self):
        self._sock = socket.create_connection(self._addr, timeout=self._seconds)
        self._sock.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        if struct.unpack("<i", base.recvall(self._sock, 4))[0] != base.RPC_TRACKER_MAGIC:
            raise RuntimeError("it greets as something else")

    def ask(self, *request: Any, seconds: float | None = None) -> Any:
        """The tracker's answer to a request of its protocol."""
        assert self._sock is not None, "the session is closed"
        self._sock.settimeout(self._seconds if seconds is None else seconds)
        base.sendjson(self._sock, list(request))
        return base.recvjson(self._sock)

    def take(self, key: str, seconds: float) -> tuple[str, int, str]:
        """Host, port and one-time key of a server that is free now, or becomes so in time."""
        code, found = self.ask(base.TrackerCode.REQUEST, key, "", 1, seconds=seconds)
        if code != base.TrackerCode.SUCCESS:
            raise RuntimeError(f"the tracker answered {code}")
        return str(found[0]), int(found[1]), str(found[2])


def connect(host: str, port: int, one_time_key: str, function: str) -> tuple[Any, Callable[[bytes], bytes]]:
    """A session with a server and one of its functions. The session lasts as long as the object does."""
    session = client.connect(host, port, one_time_key)
    return session, session.get_function(function)


def run_tracker(listening: socket.socket, stop_key: str) -> None:
    """TVM's tracker on a socket that listens; returns when it is stopped with the key."""
    from tvm.rpc import tracker

    tracker.logger.setLevel(logging.WARNING)
    tracker._tracker_server(listening, stop_key)


def have_tornado() -> bool:
    """Whether what TVM's tracker needs besides is installed."""
    import importlib.util

    return importlib.util.find_spec("tornado") is not None


def serve(
    host: str, ports: Sequence[int], tracker: Address, key: str, advertised: str | None, scratch: Path, begin: Callable[[], None]
) -> tuple[int, Any]:
    """Start TVM's server in a thread of this process.

    Args:
        advertised: the address clients are told; None: the one the tracker sees.
        scratch: a folder for what sessions write; emptied after each.
        begin: called in the process of every session, which is a fork of this one.

    Returns:
        The port, and the thread, which ends only by mistake.

    Raises:
        OSError: no port is free.
    """
    # Sessions get what is loaded and registered here. Fork is what TVM's own server uses, too.
    multiprocessing.set_start_method("fork", force=True)
    # Nobody may block the listening thread: neither a connection that says nothing, nor a tracker that hangs.
    socket.setdefaulttimeout(_SOCKET_SECONDS)
    base.connect_with_retry = _connect_for_ever
    session, loop = tvm_server._serving, tvm_server._serve_loop

    def start(sock, load_library, work_path):
        begin()
        loop(sock, load_library, work_path)

    def guarded(sock, address, options, load_library):
        sock.settimeout(None)
        home, done = os.getcwd(), threading.Event()
        threading.Thread(target=_end_abandoned, args=(sock.dup(), done), daemon=True).start()
        try:
            session(sock, address, options, load_library)
        except Exception as reason:
            get_logger().warning("a session ended early: %s", reason)
        finally:
            done.set()
            os.chdir(home)
            sock.close()
            stop_descendants()
            reap()
            for rest in scratch.iterdir():
                rmtree(rest, ignore_errors=True) if rest.is_dir() else rest.unlink(missing_ok=True)

    tvm_server._serve_loop, tvm_server._serving = start, guarded
    state = _bind(host, ports, tracker, key, advertised)
    return state.port, state.thread


def _end_abandoned(connection: socket.socket, done: threading.Event) -> None:
    """End a session whose client is gone: TVM notices that only when it reads, which it does not while a program runs."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    with connection:
        while not done.wait(0.5):
            if poll.poll(0) and not done.wait(_LAST_SECONDS):
                stop_descendants()


def _bind(host: str, ports: Sequence[int], tracker: Address, key: str, advertised: str | None) -> Any:
    last: Exception | None = None
    for port in ports:
        try:
            return tvm_server.PopenRPCServerState(
                host, port, port + 1, False, (tracker.host, tracker.port), key, custom_addr=advertised, silent=True
            )
        except (ValueError, OSError) as reason:  # another process has it, or got it between bind and listen
            last = reason
    raise OSError(f"cannot listen on {host}, port {ports[0] if len(ports) == 1 else f'{min(ports)} to {max(ports)}'}: {last}")


def _connect_for_ever(address, timeout=None, retry_period=1.0):
    told = False
    while True:
        try:
            return socket.create_connection(address, timeout=_SOCKET_SECONDS)
        except OSError as reason:
            if not told:
                told = True
                get_logger().warning("the tracker %s cannot be reached (%s); trying again every second", Address(*address), reason)
            time.sleep(retry_period)


def register(name: str, function: Callable[[bytes], bytes]) -> None:
    """Let sessions of this process's server call a function."""
    tvm_ffi.register_global_func(name, lambda request: function(bytes(request)), override=True)
