"""Time-outs for TVM's client, which has none: its connection goes through a local socket that is closed when time is over.

TVM's client connects by itself and waits in native code. So it is given a port of this machine, behind which a thread passes the bytes on to
the server; when the thread ends both connections, TVM finds its own closed and raises.
"""

from __future__ import annotations

import select
import socket
import threading
import time

from .settings import SLOWEST, Address

_CHUNK = 1 << 20
_TICK_SECONDS = 0.05


class Relay:
    """One connection to a server that can be given a deadline. Use `address` once.

    Raises:
        OSError: the server cannot be reached.
    """

    def __init__(self, server: Address, seconds: float):
        self._far = socket.create_connection((server.host, server.port), timeout=seconds)
        self._far.settimeout(None)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1)
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        self.expired = False
        self._deadline = time.monotonic() + seconds
        self._stop = False
        self._near: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="tilelang-rpc-relay", daemon=True)
        self._thread.start()

    def limit(self, seconds: float | None) -> None:
        """The time from now until the connection is closed, to which `SLOWEST` adds for every byte that moves. None: no limit."""
        self._deadline = float("inf") if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        """End both connections."""
        self._stop = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._near = self._accept()
            if self._near is not None:
                self._pass_on(self._near)
        except OSError:
            pass  # either side has ended; closing tells the other
        finally:
            for sock in (self._listening, self._near, self._far):
                if sock is not None:
                    sock.close()

    def _accept(self) -> socket.socket | None:
        while self._goes_on():
            if select.select([self._listening], [], [], _TICK_SECONDS)[0]:
                return self._listening.accept()[0]
        return None

    def _pass_on(self, near: socket.socket) -> None:
        """Bytes go as they come. A side that takes none counts as hung like one that sends none."""
        self._listening.close()
        other = {near: self._far, self._far: near}
        for sock in other:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
        waiting: dict[socket.socket, memoryview] = {}  # bytes that their destination has not taken yet
        while self._goes_on():
            sources = [s for s in other if other[s] not in waiting]
            ready, free, _ = select.select(sources, list(waiting), [], _TICK_SECONDS)
            for source in ready:
                data = source.recv(_CHUNK)
                if not data:
                    return
                waiting[other[source]] = memoryview(data)
                self._deadline += len(data) / SLOWEST
            for sink in list(waiting) if ready else free:  # what just came can mostly leave at once
                try:
                    rest = waiting[sink][sink.send(waiting[sink]) :]
                except BlockingIOError:
                    continue
                if rest:
                    waiting[sink] = rest
                else:
                    del waiting[sink]

    def _goes_on(self) -> bool:
        self.expired = self.expired or time.monotonic() > self._deadline
        return not (self.expired or self._stop)
